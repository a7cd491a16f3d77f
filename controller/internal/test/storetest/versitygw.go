//go:build store

package storetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// Access and Secret are the keys of the server's only account.
const (
	Access = "access"
	Secret = "secret-of-the-test"
)

// Start starts a versitygw on loopback with one bucket, behind a Proxy. VERSITYGW is the path of the program: `go run
// ./test/tools versitygw`. It is stopped when the test finishes. If S3_SERVER is set, the server at that address is
// used instead. That server must use the same credentials and no TLS.
func Start(t *testing.T) (*Proxy, store.Settings) {
	t.Helper()
	if address := os.Getenv("S3_SERVER"); address != "" {
		return front(t, address)
	}
	program := os.Getenv("VERSITYGW")
	if program == "" {
		t.Fatal("these tests need the S3 server versitygw: make store-test builds it, and sets VERSITYGW")
	}
	dir := t.TempDir()
	address := freeport.Address(freeport.Find(t))
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program, "--access", Access, "--secret", Secret, "--port", address, "--quiet", "posix", "--sidecar", t.TempDir(), dir) //nolint:gosec // The test chooses the program.
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // It was killed.
		if t.Failed() {
			t.Logf("the S3 server has said:\n%s", log.String())
		}
	})
	return front(t, address)
}

// front returns a proxy for a server, and the settings of a bucket.
func front(t *testing.T, address string) (*Proxy, store.Settings) {
	t.Helper()
	p := startProxy(t, address)
	s := p.Settings(t, Access, Secret)
	makeBucket(t, s)
	return p, s
}

// makeBucket creates the bucket as soon as the server answers.
func makeBucket(t *testing.T, s store.Settings) {
	t.Helper()
	b, err := store.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := b.MakeBucket(t.Context())
		if err == nil || store.Is(err, store.Exists) {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
