package sql

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

// A heard is a connection that records what the client sends.
type heard struct {
	net.Conn

	mu     *sync.Mutex
	output *bytes.Buffer
}

func (h heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	h.output.Write(p)
	h.mu.Unlock()
	return h.Conn.Write(p)
}

const host = "db.default.svc"

// made returns a new server certificate, and a pool with the CA that signed it.
func made(t *testing.T, timestamp time.Time, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	authority, err := certificate.NewAuthority(timestamp, "test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Sign(timestamp, certificate.Names{DNS: names})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Certificate)
	return out, pool
}

// TestTrust checks that the user name and the password are sent only to a server with the expected certificate.
func TestTrust(t *testing.T) {
	own, pool := made(t, time.Now(), host)
	other, _ := made(t, time.Now(), host)
	_, anothers := made(t, time.Now(), host)
	old, oldPool := made(t, time.Now().Add(-2*certificate.Instance), host)
	trusted := Trust{Authorities: pool, Name: host}
	cases := map[string]struct {
		reason string
		trust  Trust
		trick  hostile.Trick
		want   error
		says   string
		told   bool
	}{
		"Own": {reason: "The server presents the expected certificate, so it must receive the password.",
			trust: trusted, trick: hostile.Echo(own), told: true},
		"Other": {reason: "Another authority signed the certificate of the server.",
			trust: trusted, trick: hostile.Echo(other), want: ErrUntrusted,
			says: "unknown authority"},
		"OtherPool": {reason: "The authority of another instance must not be trusted.", trust: Trust{Authorities: anothers, Name: host},
			trick: hostile.Echo(own), want: ErrUntrusted},
		"OtherName": {reason: "The certificate is valid for another host name only.",
			trust: Trust{Authorities: pool, Name: "other.default.svc"},
			trick: hostile.Echo(own), want: ErrUntrusted, says: host},
		"Expired": {reason: "The certificate has expired.", trust: Trust{Authorities: oldPool, Name: host}, trick: hostile.Echo(old),
			want: ErrUntrusted, says: "expired"},
		"Stripped": {reason: "The server offers no TLS and requests the password in plain text.", trust: trusted, trick: trickOf("clear"),
			want: ErrNoTLS},
		"Key": {reason: "The server offers no TLS and requests the password encrypted with its own key.", trust: trusted,
			trick: hostile.Key(), want: ErrNoTLS},
		"Turned": {reason: "The server reports a wrong password before it has received one.", trust: trusted,
			trick: hostile.Refusal(accessDenied), want: ErrNonsense},
		"Full": {reason: "The server reports too many connections, which is possible before TLS starts.", trust: trusted,
			trick: hostile.Refusal(tooManyConnections)},
		"Nobody": {reason: "No trusted server is specified.", trick: hostile.Echo(own), want: errNoTrust},
		"NoName": {reason: "A certificate authority without a host name must not be enough.", trust: Trust{Authorities: pool},
			trick: hostile.Echo(own), want: errNoTrust},
		"AnyServer": {reason: "The platform allows this server without a trusted certificate.",
			trust: Trust{AnyServer: true}, trick: hostile.Echo(other), told: true},
		"AnybodyKey": {reason: "If any server is trusted, the password must also be sent to one that offers only its own key.",
			trust: Trust{AnyServer: true}, trick: hostile.Key(), told: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			learned := make(chan string, 1)
			s, _ := stage(t, hostile.Server{Trick: tc.trick, Learned: func(p string) { learned <- p }}.Play)
			output, mu := &bytes.Buffer{}, &sync.Mutex{}
			dial := s.Dial
			s.Trust, s.User, s.Dial = tc.trust, "who-asks", func(ctx context.Context, network, address string) (net.Conn,
				error) {
				c, err := dial(ctx, network, address)
				return heard{c, mu, output}, err
			}
			err := s.Ping(t.Context(), secret)
			if tc.want != nil && !errors.Is(err, tc.want) || tc.says != "" && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s want %v, got %v", tc.reason, tc.want, err)
			}
			if untrusted := errors.Is(err, ErrUntrusted) || errors.Is(err, ErrNoTLS); IsUntrusted(err) != untrusted ||
				untrusted && !IsMisbehaviour(err) {
				t.Errorf("%s want it said, got %v", tc.reason, err)
			}
			select {
			case p := <-learned:
				if !tc.told || p != string(secret) {
					t.Errorf("%s it was told %q", tc.reason, p)
				}
			default:
				if tc.told {
					t.Errorf("%s it was told nothing, got %v", tc.reason, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if bytes.Contains(output.Bytes(), []byte(secret)) || !tc.trust.AnyServer &&
				bytes.Contains(output.Bytes(), []byte("who-asks")) {
				t.Errorf("%s it was said so that all can read it: %q", tc.reason, output)
			}
		})
	}
}

// trickOf returns the simulated misbehavior of a server with this name.
func trickOf(name string) hostile.Trick {
	for _, trick := range hostile.Tricks() {
		if trick.Name == name {
			return trick
		}
	}
	panic("there is no trick " + name)
}
