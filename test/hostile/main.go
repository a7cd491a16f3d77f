// Package main plays all tricks of hostile MySQL servers, each on a port of its
// own, and says on each connection what it did.
package main

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/hostile"
)

// firstPort is that of the first trick; the others follow.
const firstPort = 13306

func main() {
	open := &atomic.Int64{}
	for i, trick := range hostile.Tricks() {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", firstPort+i)) //nolint:noctx // It listens until it is killed.
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("port", firstPort+i, trick.Name)
		go serve(l, trick, open)
	}
	select {}
}

func serve(l net.Listener, trick hostile.Trick, open *atomic.Int64) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Println("client", trick.Name, open.Add(1))
		go func() {
			defer open.Add(-1)
			hostile.Server{Trick: trick}.Play(c)
		}()
	}
}
