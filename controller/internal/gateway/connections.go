package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
)

const (
	// maxConns that are open at the same time, and those of one address, and of one namespace once a token has said which it is of. A
	// Job has three or four.
	maxConns            = 1024
	maxConnsOfAddress   = 128
	maxConnsOfNamespace = 96
)

// connections that are open, by their address and by the namespace whose token came first over them.
type connections struct {
	mu          sync.Mutex
	all         int
	ofAddress   map[string]int
	ofNamespace map[string]int
}

func newConnections() *connections {
	return &connections{ofAddress: map[string]int{}, ofNamespace: map[string]int{}}
}

// A connection is counted until it is closed.
type connection struct {
	net.Conn

	of      *connections
	address string
	closed  sync.Once
	// namespace whose token came over it; empty before the first one.
	namespace string
}

type connectionKey struct{}

// Listen accepts no more connections than the gateway may have: one too many is closed at once, so that those of others are accepted.
func (s *Server) Listen(l net.Listener) net.Listener { return &listener{l, s.conns} }

// ConnContext of an http.Server that serves what Listen returns: it tells the Server over which connection a request came.
func (s *Server) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn() // Below TLS.
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

type listener struct {
	net.Listener

	conns *connections
}

// Accept a connection that may be open.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if out := l.conns.open(c); out != nil {
			return out, nil
		}
		_ = c.Close() // There are too many.
	}
}

// open counts a connection, and is nil where there are too many.
func (cs *connections) open(c net.Conn) net.Conn {
	address, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		address = c.RemoteAddr().String()
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all >= maxConns || cs.ofAddress[address] >= maxConnsOfAddress {
		return nil
	}
	cs.all++
	cs.ofAddress[address]++
	return &connection{Conn: c, of: cs, address: address}
}

// Close it, once.
func (c *connection) Close() error {
	c.closed.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.all--
		countDown(c.of.ofAddress, c.address)
		if c.namespace != "" {
			countDown(c.of.ofNamespace, c.namespace)
		}
	})
	return c.Conn.Close()
}

// claim the connection of a request for a namespace. A refusal closes it, as each does.
func (cs *connections) claim(ctx context.Context, namespace string) error {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return nil // It is not ours to count.
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case c.namespace != "":
		return nil
	case cs.ofNamespace[namespace] >= maxConnsOfNamespace:
		return errManyConnections
	}
	c.namespace = namespace
	cs.ofNamespace[namespace]++
	return nil
}

var _ http.Handler = (*Server)(nil)
