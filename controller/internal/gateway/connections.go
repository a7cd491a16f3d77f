package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
)

const (
	// maxConns is the maximum number of open connections. maxConnsOfAddress is the maximum for one address.
	// maxConnsOfNamespace is the maximum for one namespace, which is known from the token. A Job has three or four
	// connections.
	maxConns            = 1024
	maxConnsOfAddress   = 128
	maxConnsOfNamespace = 96
)

// connections counts the open connections by address. It also counts them by namespace, which is known from the first
// token on a connection.
type connections struct {
	mu          sync.Mutex
	all         int
	ofAddress   map[string]int
	ofNamespace map[string]int
}

func newConnections() *connections {
	return &connections{ofAddress: map[string]int{}, ofNamespace: map[string]int{}}
}

// A connection is an open connection, which is counted until Close.
type connection struct {
	net.Conn

	owner   *connections
	address string
	closed  sync.Once
	// namespace is the namespace of the token on this connection. It is empty before the first token.
	namespace string
}

type connectionKey struct{}

// Listen returns a listener that limits the number of connections. It closes excess connections immediately, so that
// they do not block other clients.
func (s *Server) Listen(l net.Listener) net.Listener { return &listener{l, s.conns} }

// ConnContext must be set as the ConnContext of the http.Server that uses the listener from Listen. With it, the
// Server can determine the connection of each request.
func (s *Server) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn() // The connection below TLS is counted.
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

type listener struct {
	net.Listener

	conns *connections
}

// Accept returns the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if out := l.conns.open(c); out != nil {
			return out, nil
		}
		_ = c.Close() // A limit is reached.
	}
}

// open counts a connection. It returns nil if there are too many connections.
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
	return &connection{Conn: c, owner: cs, address: address}
}

// Close closes the connection and stops counting it.
func (c *connection) Close() error {
	c.closed.Do(func() {
		c.owner.mu.Lock()
		defer c.owner.mu.Unlock()
		c.owner.all--
		countDown(c.owner.ofAddress, c.address)
		if c.namespace != "" {
			countDown(c.owner.ofNamespace, c.namespace)
		}
	})
	return c.Conn.Close()
}

// claim assigns the connection of a request to a namespace. If the namespace has too many connections, it returns an
// error, and the connection is closed.
func (cs *connections) claim(ctx context.Context, namespace string) error {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return nil // The connection does not come from Listen.
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
