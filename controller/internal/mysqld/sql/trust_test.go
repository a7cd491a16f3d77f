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

// made returns a server certificate and a pool with its CA.
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
		"Own": {reason: "It is the server.", trust: trusted, trick: hostile.Echo(own), told: true},
		"Other": {reason: "Somebody else signed it.", trust: trusted, trick: hostile.Echo(other), want: ErrUntrusted,
			says: "unknown authority"},
		"OtherPool": {reason: "An instance's authority is another's.", trust: Trust{Authorities: anothers, Name: host},
			trick: hostile.Echo(own), want: ErrUntrusted},
		"OtherName": {reason: "It is another server.", trust: Trust{Authorities: pool, Name: "other.default.svc"},
			trick: hostile.Echo(own), want: ErrUntrusted, says: host},
		"Expired": {reason: "It has ended.", trust: Trust{Authorities: oldPool, Name: host}, trick: hostile.Echo(old),
			want: ErrUntrusted, says: "expired"},
		"Stripped": {reason: "It offers no TLS, and wants the password.", trust: trusted, trick: trickOf("clear"),
			want: ErrNoTLS},
		"Key": {reason: "It would offer the key of its own that the password is encrypted with.", trust: trusted,
			trick: hostile.Key(), want: ErrNoTLS},
		"Turned": {reason: "It says that the password is wrong, before it heard one.", trust: trusted,
			trick: hostile.Refusal(accessDenied), want: ErrNonsense},
		"Full": {reason: "It says that it has no connection left, as servers do before TLS.", trust: trusted,
			trick: hostile.Refusal(tooManyConnections)},
		"Nobody": {reason: "Nobody said who is trusted.", trick: hostile.Echo(own), want: errNoTrust},
		"NoName": {reason: "That of an authority is not enough.", trust: Trust{Authorities: pool},
			trick: hostile.Echo(own), want: errNoTrust},
		"AnyServer":  {reason: "The platform says so.", trust: Trust{AnyServer: true}, trick: hostile.Echo(other), told: true},
		"AnybodyKey": {reason: "And that is what it means.", trust: Trust{AnyServer: true}, trick: hostile.Key(), told: true},
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
