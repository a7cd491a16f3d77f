package sql

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// Limits on what a server may send in one session. The largest answer that is
// asked for, the accounts of root, is a few kilobytes.
const (
	maxBytes   = 1 << 20
	maxPackets = 10_000
)

// A guard stands between the driver and a server that means harm, perhaps. The
// driver believes what it is told: it makes room for a packet of 16 MiB before
// it comes, and for any number of columns, which the program does not survive.
// The guard lets nothing through that is no answer of ours, and after its
// deadline nothing at all. As the driver leaves no place between its TLS and its
// reading, the guard speaks TLS with both.
//
//	driver ⇄ a pipe ⇄ guard ⇄ the network ⇄ server
type guard struct {
	// raw is the connection to the server, and pipe the one to the driver, below
	// their TLS. They end what is done with server and driver.
	raw, pipe      net.Conn
	server, driver net.Conn
	trust          Trust

	working sync.WaitGroup
	mu      sync.Mutex
	cause   error
	// shown certificate of the server; nil where there is none.
	shown *x509.Certificate
}

// startGuard on a connection to a server, if that is trusted. The driver gets the other end.
func startGuard(raw net.Conn, trust Trust, until time.Time) (g *guard, forDriver net.Conn) {
	forDriver, ours := net.Pipe()
	g = &guard{raw: raw, pipe: ours, server: LimitBytes(raw, maxBytes), driver: ours, trust: trust}
	g.extendDeadline(until)
	g.working.Go(func() { g.endSession(g.run()) })
	return g, forDriver
}

// extendDeadline of the session. It is one deadline for all that is sent and
// read: a server that sends a byte now and then does not put it off.
func (g *guard) extendDeadline(until time.Time) {
	_ = g.raw.SetDeadline(until) // On a connection that is closed there is nothing to end.
}

// run until one of the two hangs up, or the server does what it must not.
func (g *guard) run() error {
	if err := g.introduce(); err != nil {
		return err
	}
	g.working.Go(func() {
		_, err := io.Copy(g.server, g.driver)
		g.endSession(errors.Join(err, net.ErrClosed))
	})
	check := checkLogin
	for range maxPackets {
		packet, err := g.pass(check)
		if err != nil {
			return err
		}
		if packet.kind() == kindOK {
			check = checkAnswer // From the end of the login on.
		}
	}
	return ErrTooMuch
}

// pass a packet of the server on that has nothing wrong with it.
func (g *guard) pass(check func(packet) error) (packet, error) {
	p, err := readPacket(g.server)
	if err == nil {
		err = check(p)
	}
	if err == nil {
		_, err = g.driver.Write(p)
	}
	return p, err
}

// lengthOfTLSRequest is that of the packet by which a client asks for TLS, which
// is the beginning of the one that it would send otherwise
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_ssl_request.html).
const lengthOfTLSRequest = headerLength + 32

// introduce the driver to the server. A server that must be seen is told nothing before it was.
func (g *guard) introduce() error {
	_, err := g.pass(func(greeting packet) error {
		if err := checkGreeting(greeting); err != nil {
			return err
		}
		return g.trust.checkOffer(greeting)
	})
	if err != nil {
		return err
	}
	response, err := readPacket(g.driver)
	switch {
	case err != nil:
		return err
	case len(response) == lengthOfTLSRequest:
	case g.trust.Anybody:
		_, err = g.server.Write(response)
		return err
	default:
		return ErrNoTLS
	}
	if _, err := g.server.Write(response); err != nil {
		return err
	}
	return g.encrypt()
}

// encrypt both ways.
func (g *guard) encrypt() error {
	certificate, err := ownCertificate()
	if err != nil {
		return err
	}
	server := tls.Client(g.server, g.trust.config())
	if err := server.Handshake(); err != nil { //nolint:noctx // It has the session's deadline.
		return g.trust.explain(err)
	}
	g.mu.Lock()
	if chain := server.ConnectionState().PeerCertificates; len(chain) > 0 {
		g.shown = chain[0]
	}
	g.mu.Unlock()
	driver := tls.Server(g.driver, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err := driver.Handshake(); err != nil { //nolint:noctx // The driver is in the same process, and ends with the session.
		return err
	}
	g.server, g.driver = server, driver
	return nil
}

// ownCertificate of the guard, which nobody verifies: the driver is in the same
// process.
var ownCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, err
})

// endSession for a reason, the first of which counts.
func (g *guard) endSession(cause error) {
	g.mu.Lock()
	if g.cause == nil {
		g.cause = cause
	}
	g.mu.Unlock()
	_ = g.raw.Close()  // Not TLS, which would say goodbye to a server that does not listen.
	_ = g.pipe.Close() // Nothing is lost: what the driver did not read is of no use.
}

// endCause is why the session has ended; nil while it goes on.
func (g *guard) endCause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// A limitedConn ends after so many bytes of the other side.
type limitedConn struct {
	net.Conn

	left int
}

// LimitBytes that are read from a connection. What comes after them is an error.
func LimitBytes(c net.Conn, most int) net.Conn { return &limitedConn{Conn: c, left: most} }

// Read some of what is left.
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, ErrTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
