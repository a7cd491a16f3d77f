package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// TestGateway runs the gateway with settings from the controller. They are written after the gateway starts, and
// change later.
func TestGateway(t *testing.T) {
	state := &stores.GatewayState{Namespace: "system", Address: net.IPv4(127, 0, 0, 1), Now: time.Now()}
	var err error
	if state.Signer, err = stores.NextSigner(state); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	give := func() *corev1.Secret {
		t.Helper()
		s, err := stores.NextGateway(state, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, raw := range s.Data {
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	address := freeport.Address(freeport.Find(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "gateway", "--settings", dir, "--address", address)
	c.Env = append(os.Environ(), mainVariable+"=1")
	c.Stdout, c.Stderr = t.Output(), t.Output()
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGKILL) }
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	state.Gateway = give()
	ask := func(path string) (status int, err error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(state.Signer.Data["ca.crt"])
		h := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, DisableKeepAlives: true}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := h.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if status, err := ask("/healthz"); err == nil && status == http.StatusOK {
			break
		} else if within.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if status, err := ask("/v1/objects/x.tar.zst"); err != nil || status != http.StatusUnauthorized {
		t.Errorf("want that nobody without a token gets anything, got %d, %v", status, err)
	}
	// After the CA is replaced, a client that trusts only the old CA can no longer connect.
	state.Signer = nil
	if state.Signer, err = stores.NextSigner(state); err != nil {
		t.Fatal(err)
	}
	if _, err := ask("/healthz"); err == nil {
		t.Error("the new authority has signed nothing yet")
	}
	give()
	if _, err := ask("/healthz"); err != nil {
		t.Errorf("want the new certificate, got %v", err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("want that it ends well, got %v", err)
	}
}

// TestGatewayLog checks that durations are in seconds, as in the log of the controller, and that debug lines
// require the flag.
func TestGatewayLog(t *testing.T) {
	for debug, want := range map[bool]int{false: 1, true: 2} {
		var out strings.Builder
		log := (&gatewayCommand{Debug: debug}).newLogger(&out)
		log.LogAttrs(t.Context(), slog.LevelInfo, "A line", slog.Duration("took", 1500*time.Millisecond))
		logr.FromSlogHandler(log.Handler()).V(1).Info("A line")
		if got := out.String(); strings.Count(got, "A line") != want || strings.Contains(got, `"level":"DEBUG"`) != debug ||
			!strings.Contains(got, `"took":1.5`) {
			t.Errorf("with debug lines %t: want %d lines, got %s", debug, want, got)
		}
	}
}
