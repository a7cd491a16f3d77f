//go:build mysqld

package rotate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/issuertest"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// A keptCertificate is a certificate in a directory, as in the server's pod.
type keptCertificate struct {
	dir   string
	state servercert.State
}

func newKeptCertificate(t *testing.T) *keptCertificate {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") //nolint:usetesting // Another user reads it.
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := &keptCertificate{dir: dir,
		state: servercert.State{Instance: testInstance(), Namespace: "system", Now: time.Now()}}
	k.renew(t, v1.CAKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	return k
}

func (k *keptCertificate) options() []string {
	pathOf := func(name string) string { return filepath.Join(k.dir, name) }
	return []string{"--ssl-ca=" + pathOf(v1.CAKey), "--ssl-cert=" + pathOf(corev1.TLSCertKey),
		"--ssl-key=" + pathOf(corev1.TLSPrivateKeyKey)}
}

// renew creates a new certificate and writes the given files.
func (k *keptCertificate) renew(t *testing.T, files ...string) {
	t.Helper()
	k.state.Server = nil
	p, err := servercert.Next(&k.state)
	must(t, err)
	if p.Authority != nil {
		k.state.Authorities = append(k.state.Authorities, p.Authority)
	}
	k.state.Server = p.Server
	k.bring(t, files...)
}

func (k *keptCertificate) bring(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		must(t, os.WriteFile(filepath.Join(k.dir, f), k.state.Server.Data[f], 0o644))
	}
	rootfs.Own(t, k.dir)
}

// describe sets the expected certificate and the CA of the server in the input of a pass.
func (k *keptCertificate) describe(t *testing.T, in *Input) {
	t.Helper()
	in.Authorities = k.state.Server.Data[v1.CAKey]
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(in.Authorities)
	in.Trust = sql.Trust{Authorities: pool, Name: "shop.team.svc"}
	var err error
	in.Certificate, err = certificate.Parse(k.state.Server.Data[corev1.TLSCertKey])
	must(t, err)
}

// TestRealCertificate checks that a server presents its certificate and reloads a new one while it runs. If the files
// do not match, it keeps the old one. Existing sessions must stay open.
func TestRealCertificate(t *testing.T) {
	k := newKeptCertificate(t)
	s := newServer(t, "p", k.options()...)
	c := newCluster(t, "", "")
	r, in := s.rotator(c), c.input("p")
	check := func(reason, message string) {
		t.Helper()
		k.describe(t, &in)
		out, err := r.Reconcile(t.Context(), in)
		must(t, err)
		if out.Credentials.State != v1.CredentialsInSync || !strings.Contains(out.ServedMessage, message) || message == "" &&
			(out.ServedMessage != "" || !out.ServedNotAfter.Time.Equal(in.Certificate.NotAfter)) {
			t.Errorf("%s: %+v, %q, served until %s, want %s", reason, out.Credentials, out.ServedMessage, out.ServedNotAfter,
				in.Certificate.NotAfter)
		}
	}
	check("as it started", "")
	early := s.login(t, "p")
	k.state.Now = k.state.Now.Add(time.Hour)
	k.renew(t, corev1.TLSCertKey)
	if s.mariadb {
		k.bring(t, corev1.TLSPrivateKeyKey)
	} else {
		check("half of it is there", "3888")
		k.bring(t, corev1.TLSPrivateKeyKey)
	}
	check("all of it is there", "")
	if _, err := early.RootAccounts(t.Context()); err != nil {
		t.Errorf("who was in: %v", err)
	}
	other := newKeptCertificate(t)
	other.describe(t, &in)
	in.VerifyPassword = true
	out, err := r.Reconcile(t.Context(), in)
	if err != nil || out.Credentials.State != v1.CredentialsFailed ||
		!strings.Contains(out.Credentials.Message, "did not present the certificate of this instance") {
		t.Errorf("by the authority of another instance: %+v, %v", out.Credentials, err)
	}
	files, err := os.ReadDir(filepath.Join(s.dir, "d"))
	must(t, err)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "-key.pem") && f.Name() != "private_key.pem" {
			t.Errorf("%s is in the data directory", f.Name())
		}
	}
}

// A relay forwards connections between a client and the server, and records what it can read from the client.
type relay struct {
	dial func() (net.Conn, error)
	// own is the certificate that the relay presents. If it is nil, the relay removes TLS from the greeting.
	own *tls.Certificate

	mu     sync.Mutex
	output bytes.Buffer
}

func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output.Write(p)
}

// listen accepts clients until the test finishes.
func (r *relay) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // The listener is closed when the test finishes.
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return l.Addr().String()
}

// serve serves one client.
func (r *relay) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // The connection may be closed.
	server, err := r.dial()
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // The connection may be closed.
	greeting := make([]byte, 4096)
	n, err := server.Read(greeting)
	if err != nil {
		return
	}
	greeting = greeting[:n]
	if r.own == nil {
		capabilities := bytes.IndexByte(greeting[5:], 0) + 5 + 1 + 4 + 8 + 1
		greeting[capabilities+1] &^= 1 << 3
	}
	if _, err := client.Write(greeting); err != nil {
		return
	}
	if r.own != nil {
		request := make([]byte, 36)
		if _, err := io.ReadFull(client, request); err != nil {
			return
		}
		_, _ = r.Write(request)
		if _, err := server.Write(request); err != nil {
			return
		}
		client = tls.Server(client, &tls.Config{Certificates: []tls.Certificate{*r.own}, MinVersion: tls.VersionTLS12})
		server = tls.Client(server, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It trusts every server.
	}
	go func() { _, _ = io.Copy(client, server) }()
	_, _ = io.Copy(io.MultiWriter(r, server), client)
}

// TestRealManInTheMiddle places a relay between a client and a real server, with its own certificate or without TLS.
// The relay must receive the password only from a client that trusts it. It must not even receive the user name of
// other clients.
func TestRealManInTheMiddle(t *testing.T) {
	k := newKeptCertificate(t)
	s := newServer(t, "hunter2", k.options()...)
	// The relay connects to the server's socket. On a socket, the server requests the password of a new client in
	// clear text. Over a network, the client would encrypt it.
	s.login(t, "hunter2").Close()
	stolen := newKeptCertificate(t).state.Server // The certificate of another instance.
	pair, err := tls.X509KeyPair(stolen.Data[corev1.TLSCertKey], stolen.Data[corev1.TLSPrivateKeyKey])
	must(t, err)
	in := Input{}
	k.describe(t, &in)
	for name, tc := range map[string]struct {
		own  *tls.Certificate
		want error
	}{
		"Certificate": {&pair, sql.ErrUntrusted},
		"Stripped":    {nil, sql.ErrNoTLS},
	} {
		t.Run(name, func(t *testing.T) {
			r := &relay{own: tc.own, dial: func() (net.Conn, error) { return s.address().Dial(context.Background(), "", "") }}
			server := sql.Server{Address: r.listen(t), User: "root", Trust: in.Trust}
			if err := server.Ping(t.Context(), "hunter2"); !errors.Is(err, tc.want) {
				t.Errorf("want %v, got %v", tc.want, err)
			}
			r.mu.Lock()
			for _, word := range []string{"root", "hunter2"} {
				if bytes.Contains(r.output.Bytes(), []byte(word)) {
					t.Errorf("it has heard %q", word)
				}
			}
			r.mu.Unlock()
			server.Trust = sql.Trust{AnyServer: true}
			if err := server.Ping(t.Context(), "hunter2"); err != nil {
				t.Fatalf("who believes it is not led to the server: %v", err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if heard := r.output.Bytes(); !bytes.Contains(heard, []byte("root")) {
				t.Errorf("it has heard nothing of who believes it: %q", heard)
			}
		})
	}
}

// TestRealChain checks that a server presents and reloads a certificate from an intermediate CA. Clients know only
// the root CA.
func TestRealChain(t *testing.T) {
	k := newKeptCertificate(t)
	begun := time.Now().Add(-time.Minute)
	issuer := issuertest.New(t, "root", begun).Below(t, "between", begun)
	k.state.Issuer = &v1.IssuerReference{Name: "between"}
	next := func() {
		k.state.Server, k.state.Request = nil, nil
		p, err := servercert.Next(&k.state)
		must(t, err)
		k.state.Server = p.Server
		k.state.Request = &servercert.Request{Issuer: *k.state.Issuer, CSR: p.Request, MadeAt: begun,
			Certificate: issuer.Answer(t, p.Request, begun), CA: issuer.CA()}
		p, err = servercert.Next(&k.state)
		must(t, err)
		k.state.Server = p.Server
		k.bring(t, v1.CAKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	next()
	s, c := newServer(t, "p", k.options()...), newCluster(t, "", "")
	r, in := s.rotator(c), c.input("p")
	for _, reason := range []string{"as it started", "with another one"} {
		k.describe(t, &in)
		out, err := r.Reconcile(t.Context(), in)
		must(t, err)
		if out.Credentials.State != v1.CredentialsInSync || out.ServedMessage != "" || out.ServedNotAfter == nil ||
			!out.ServedNotAfter.Time.Equal(in.Certificate.NotAfter) {
			t.Errorf("%s: %+v, %q, served until %s, want %s", reason, out.Credentials, out.ServedMessage, out.ServedNotAfter,
				in.Certificate.NotAfter)
		}
		issuer.Instance += time.Hour
		next()
	}
}
