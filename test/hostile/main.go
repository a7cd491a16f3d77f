// Package main plays the tricks of hostile MySQL servers, each on its own port. If a trick is named, only that trick
// is played, on MySQL's port. For each connection, the program prints the trick and the password that it has learned.
package main

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

const (
	// firstPort is the port of the first trick. The others use the next ports.
	firstPort = 13306
	// serverPort is the port that is used if only one trick is played.
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
