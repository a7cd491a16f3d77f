// Package ststest provides a fake token service of AWS for tests.
package ststest

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

// A Server is a fake token service. It accepts each token and returns the same keys.
type Server struct {
	redact.All

	// AccessKey, SecretKey and SessionToken are the returned credentials. Instance is their lifetime.
	AccessKey, SecretKey, SessionToken string
	Instance                           time.Duration
	// Answer is called with each request. It returns true if it has sent the response itself.
	Answer func(http.ResponseWriter, *http.Request) bool

	http *httptest.Server
	mu   sync.Mutex
	seen []string
}

// New returns a server over TLS. It is stopped when the test finishes.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{AccessKey: "ASIAACCESS", SecretKey: "secret", SessionToken: "session", Instance: time.Hour}
	s.http = httptest.NewTLSServer(s)
	s.http.Config.ErrorLog = nil
	t.Cleanup(s.http.Close)
	return s
}

// URL returns the URL of the server.
func (s *Server) URL() string { return s.http.URL }

// CA returns the CA of the server's certificate as PEM.
func (s *Server) CA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}))
}

// Seen returns the role and the token of each request.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// ServeHTTP serves AssumeRoleWithWebIdentity.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil || r.PostForm.Get("Action") != "AssumeRoleWithWebIdentity" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, r.PostForm.Get("RoleArn")+" "+r.PostForm.Get("WebIdentityToken"))
	s.mu.Unlock()
	if s.Answer != nil && s.Answer(w, r) {
		return
	}
	_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">`+
		`<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>`+
		`<SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult>`+
		`</AssumeRoleWithWebIdentityResponse>`, s.AccessKey, s.SecretKey, s.SessionToken,
		time.Now().Add(s.Instance).UTC().Format(time.RFC3339))
}

// Refuse sends an error of the token service.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>`+
		`<Code>%s</Code><Message>said by the token service</Message></Error><RequestId>1</RequestId></ErrorResponse>`, code)
}

// SetPod sets the environment of a pod whose service account has a role. It returns the path of the token.
func SetPod(t *testing.T, role string) (token string) {
	t.Helper()
	for _, name := range os.Environ() {
		if name, _, _ := strings.Cut(name, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	token = filepath.Join(t.TempDir(), "token")
	WriteToken(t, token, "first")
	t.Setenv("AWS_ROLE_ARN", role)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
	return token
}

// WriteToken replaces a token atomically, as the kubelet does.
func WriteToken(t *testing.T, path, token string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
