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

// These constants limit the data that a server can send in one session. The largest expected response is the list of
// root accounts, with a few kilobytes.
const (
	maxBytes   = 1 << 20
	maxPackets = 10_000
)

// A guard protects the driver from a malicious server. The driver trusts the server: it allocates up to 16 MiB for a
// packet before the packet arrives, and memory for any number of columns. The process could run out of memory. The
// guard forwards only valid responses, and forwards nothing after its deadline. The driver has no hook between TLS
// and its parser, so the guard terminates TLS on both sides.
//
//	driver ⇄ a pipe ⇄ guard ⇄ the network ⇄ server
type guard struct {
	// raw is the connection to the server, and pipe the connection to the driver, both without TLS. When they are
	// closed, all operations stop.
	raw, pipe      net.Conn
	server, driver net.Conn
	trust          Trust

	working sync.WaitGroup
	mu      sync.Mutex
	cause   error
	// shown is the certificate that the server presents, or nil.
	shown *x509.Certificate
}

// startGuard starts a guard for a connection to a server. It returns the connection for the driver.
func startGuard(raw net.Conn, trust Trust, until time.Time) (g *guard, forDriver net.Conn) {
	forDriver, ours := net.Pipe()
	g = &guard{raw: raw, pipe: ours, server: LimitBytes(raw, maxBytes), driver: ours, trust: trust}
	g.extendDeadline(until)
	g.working.Go(func() { g.endSession(g.run()) })
	return g, forDriver
}

// extendDeadline sets the deadline of the session. The deadline is for all traffic, so a server cannot extend it by
// sending single bytes.
func (g *guard) extendDeadline(until time.Time) {
	_ = g.raw.SetDeadline(until) // A closed connection needs no deadline.
}

// run forwards packets until the server or the driver closes its connection, or the server violates the protocol.
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
			check = checkAnswer // The login is complete.
		}
	}
	return ErrTooMuch
}

// pass forwards a packet of the server to the driver if it is valid.
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

// lengthOfTLSRequest is the length of the packet with which a client requests TLS. The packet is identical to the
// beginning of a login packet
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_ssl_request.html).
const lengthOfTLSRequest = headerLength + 32

// introduce forwards the greeting. If the server must be verified, nothing is sent to it before the verification.
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
	case g.trust.AnyServer:
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

// encrypt starts TLS on both sides of the guard: with the server and with the driver.
func (g *guard) encrypt() error {
	certificate, err := ownCertificate()
	if err != nil {
		return err
	}
	server := tls.Client(g.server, g.trust.config())
	if err := server.Handshake(); err != nil { //nolint:noctx // The connection has the session's deadline.
		return g.trust.explain(err)
	}
	g.mu.Lock()
	if chain := server.ConnectionState().PeerCertificates; len(chain) > 0 {
		g.shown = chain[0]
	}
	g.mu.Unlock()
	driver := tls.Server(g.driver, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err := driver.Handshake(); err != nil { //nolint:noctx // The driver is in the same process, and its connection is closed with the session.
		return err
	}
	g.server, g.driver = server, driver
	return nil
}

// ownCertificate returns the certificate of the guard. The driver does not verify it, because both are in the same
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

// endSession closes the session. Only the first cause is kept.
func (g *guard) endSession(cause error) {
	g.mu.Lock()
	if g.cause == nil {
		g.cause = cause
	}
	g.mu.Unlock()
	_ = g.raw.Close()  // A close of the TLS connection would wait for the server.
	_ = g.pipe.Close() // The driver no longer needs the data.
}

// endCause returns why the session was closed, or nil while it is open.
func (g *guard) endCause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// A limitedConn limits how many bytes can be read from a connection.
type limitedConn struct {
	net.Conn

	left int
}

// LimitBytes limits how many bytes can be read from a connection. Further reads return an error.
func LimitBytes(c net.Conn, most int) net.Conn { return &limitedConn{Conn: c, left: most} }

// Read reads from the connection. It returns an error once the limit is reached.
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, ErrTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
