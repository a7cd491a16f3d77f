// Package main runs malicious MySQL servers, which attack their clients in different ways (tricks). It runs a server
// for each trick, on different ports. If a trick is given as an argument, it runs only this server, on MySQL's port.
// For each connection, the program prints the trick and the password that it has learned.
package main

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

const (
	// firstPort is the port of the first malicious server. The other servers use the following ports.
	firstPort = 13306
	// serverPort is the port of the only malicious server, if the argument selects a trick.
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
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) //nolint:noctx // It listens until the process is killed.
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
