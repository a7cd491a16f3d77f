// Package main plays all tricks of hostile MySQL servers, each on a port of its
// own, or the one that is named, on that of a server. It says on each connection
// what it did, and which password it has learned.
package main

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

const (
	// firstPort is that of the first trick; the others follow.
	firstPort = 13306
	// serverPort is that of one alone.
	serverPort = 3306
)

func main() {
	open := &atomic.Int64{}
	for i, trick := range hostile.Tricks() {
		port := firstPort + i
		if len(os.Args) > 1 {
			if port = serverPort; trick.Name != os.Args[1] {
				continue
			}
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) //nolint:noctx // It listens until it is killed.
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("port", port, trick.Name)
		go serve(l, trick, open)
	}
	select {}
}

func serve(l net.Listener, trick hostile.Trick, open *atomic.Int64) {
	server := hostile.Server{Trick: trick, Learned: func(password string) { fmt.Println("learned", trick.Name, password) }}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Println("client", trick.Name, open.Add(1))
		go func() {
			defer open.Add(-1)
			server.Play(c)
		}()
	}
}
