package sql

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Trust decides which servers may receive a password.
type Trust struct {
	// Authorities contains the CAs that may sign the server's certificate. Name is the name that the certificate must
	// contain. AnyName accepts any name, because a server that creates its own CA signs a certificate without a
	// useful name (MySQL manual, VERIFY_CA).
	Authorities *x509.CertPool
	Name        string
	AnyName     bool
	// AnyServer is true if any server is accepted. It is used for a socket of this container, or if the platform
	// allows plaintext connections. TLS is used if the server offers it. This protects against eavesdropping, but not
	// against a server that impersonates the instance.
	AnyServer bool
}

// The following errors mean that the server is not trusted. Nothing was sent to it, not even the user name.
var (
	// ErrUntrusted means that the server's certificate is not the expected one.
	ErrUntrusted = errors.New("the server presented a certificate that does not belong to this instance")
	// ErrNoTLS means that the server offered no TLS.
	ErrNoTLS = errors.New("the server does not offer TLS, so it is not the server of this instance")
)

// errNoTrust is a programming error of the caller.
var errNoTrust = errors.New("no trusted server is configured")

// IsUntrusted reports whether an error means that the server is not the expected one.
func IsUntrusted(err error) bool { return isOneOf(err, ErrUntrusted, ErrNoTLS) }

func (t Trust) check() error {
	if t.AnyServer || t.Authorities != nil && (t.Name != "" || t.AnyName) {
		return nil
	}
	return errNoTrust
}

// config returns the TLS configuration for the connection to the server.
func (t Trust) config() *tls.Config {
	if t.AnyServer {
		return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // AnyServer accepts any server.
	}
	c := &tls.Config{RootCAs: t.Authorities, ServerName: t.Name, MinVersion: tls.VersionTLS12}
	if t.AnyName {
		c.InsecureSkipVerify, c.VerifyConnection = true, t.verifyAnyName
	}
	return c
}

// verifyAnyName verifies a certificate as package crypto/tls does, except for the name.
func (t Trust) verifyAnyName(s tls.ConnectionState) error {
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: t.Authorities,
		Intermediates: between}); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// explain returns ErrUntrusted for an invalid certificate in a handshake.
func (t Trust) explain(err error) error {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w (%w)", ErrUntrusted, e.Err)
	}
	return err
}

// offsetOfCapabilities is the offset of the lower half of the capabilities in a greeting, after the server's version.
// capabilityTLS is the flag for TLS in it
// (https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html).
const (
	offsetOfCapabilities = 4 + 8 + 1
	capabilityTLS        = 1 << 11
)

// checkOffer returns an error if the server must be verified, but its greeting offers no TLS. A server may also send
// an error instead of a greeting, for example if it has too many connections. That error is returned.
func (t Trust) checkOffer(greeting packet) error {
	switch {
	case t.AnyServer:
		return nil
	case greeting.kind() == kindError:
		if number := binary.LittleEndian.Uint16(greeting.payload()[1:]); number == accessDenied ||
			number == accessDeniedNoPassword {
			return ErrNonsense // No password was sent.
		}
		return nil
	case greeting.capabilities()&capabilityTLS == 0:
		return ErrNoTLS
	}
	return nil
}
