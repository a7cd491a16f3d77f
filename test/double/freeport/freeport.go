// Package freeport finds free ports for servers that tests start. These servers open the ports themselves.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// lowest and end limit the ports. Linux assigns ports from 32768 on to outgoing connections, and to listeners that do
// not specify a port (net.ipv4.ip_local_port_range). Such a port could be taken while a server is still starting.
const (
	lowest = 20000
	end    = 32768
)

// Find returns a free port of 127.0.0.1 that Linux does not assign to any other program. Another test can get the
// same port only if it happens to choose the same random number at the same time.
func Find(tb testing.TB) int {
	tb.Helper()
	var err error
	for range 100 {
		port := lowest + rand.IntN(end-lowest) //nolint:gosec // The port is no secret.
		var l net.Listener
		if l, err = net.Listen("tcp", Address(port)); err == nil { //nolint:noctx // It is closed immediately.
			if err = l.Close(); err == nil {
				return port
			}
		}
	}
	tb.Fatalf("cannot find a free port from %d to %d: %v", lowest, end-1, err)
	return 0
}

// Address returns the address of a port on 127.0.0.1.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
