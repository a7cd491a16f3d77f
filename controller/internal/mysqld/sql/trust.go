package sql

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Trust says which servers are told a password.
type Trust struct {
	// Authorities, one of which has signed the server's certificate, and the Name that it is of; with AnyName
	// of whatever name, as that of an authority which a server has made for itself (MySQL manual, VERIFY_CA).
	Authorities *x509.CertPool
	Name        string
	AnyName     bool
	// Anybody who answers is told it: at a socket of this container's own, or where the platform allows plain text. TLS is
	// spoken where it is offered, which keeps listeners out, and nobody who pretends to be the server.
	Anybody bool
}

// Errors of a server that is not trusted. It was told nothing, not even who asks.
var (
	// ErrUntrusted: it showed a certificate that is not the server's.
	ErrUntrusted = errors.New("what answers there has shown another certificate than this instance's server has")
	// ErrNoTLS: it offered none.
	ErrNoTLS = errors.New("what answers there does not offer TLS, as this instance's server does")
)

// errNoTrust is a mistake of whoever calls.
var errNoTrust = errors.New("nobody said which server is trusted")

// IsUntrusted is true if what answers is not the server, as far as one can tell.
func IsUntrusted(err error) bool { return isOneOf(err, ErrUntrusted, ErrNoTLS) }

func (t Trust) check() error {
	if t.Anybody || t.Authorities != nil && (t.Name != "" || t.AnyName) {
		return nil
	}
	return errNoTrust
}

// config of TLS with the server.
func (t Trust) config() *tls.Config {
	if t.Anybody {
		return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // That is what it says.
	}
	c := &tls.Config{RootCAs: t.Authorities, ServerName: t.Name, MinVersion: tls.VersionTLS12}
	if t.AnyName {
		c.InsecureSkipVerify, c.VerifyConnection = true, t.verifyAnyName
	}
	return c
}

// verifyAnyName is what the package crypto/tls does, but for the name.
func (t Trust) verifyAnyName(s tls.ConnectionState) error {
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: t.Authorities, Intermediates: between}); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// explain an error of a handshake.
func (t Trust) explain(err error) error {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w (%w)", ErrUntrusted, e.Err)
	}
	return err
}

// Where in a greeting, after the server's version, the lower half of its capabilities is, and the one of TLS among them
// (https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html).
const (
	offsetOfCapabilities = 4 + 8 + 1
	capabilityTLS        = 1 << 11
)

// checkOffer of a greeting to whom TLS is to be spoken. Who is turned away before that, for other reasons than a password,
// learns it without.
func (t Trust) checkOffer(greeting packet) error {
	switch {
	case t.Anybody:
		return nil
	case greeting.kind() == kindError:
		if number := binary.LittleEndian.Uint16(greeting.payload()[1:]); number == accessDenied || number == accessDeniedNoPassword {
			return ErrNonsense // It was told none.
		}
		return nil
	case greeting.capabilities()&capabilityTLS == 0:
		return ErrNoTLS
	}
	return nil
}
