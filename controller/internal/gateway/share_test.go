package gateway

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

func grantOf(namespace string, claim int) Grant {
	return Grant{Store: "offsite", Prefix: fmt.Sprintf("v1/%s/xr-%d/record", namespace, claim)}
}

// TestPlacesAreShared checks that a namespace can send requests even if other namespaces use as many places as they
// can get.
func TestPlacesAreShared(t *testing.T) {
	p, ctx := newPlaces(64), t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel() // No request waits for a place.
	take := func(namespace string) (n int) {
		for claim := range 200 {
			for range maxOfGrant {
				if _, err := p.take(ended, grantOf(namespace, claim)); err == nil {
					n++
				}
			}
		}
		return n
	}
	if got := take("evil"); got != 32 {
		t.Errorf("one namespace has half of them at most, got %d", got)
	}
	if got := take("more-evil"); got != 16 {
		t.Errorf("two namespaces leave a quarter, got %d", got)
	}
	free, err := p.take(ctx, grantOf("victim", 0))
	if err != nil {
		t.Fatal(err)
	}
	free()
	for range maxOfGrant {
		if _, err := p.take(ctx, grantOf("victim", 0)); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.take(ctx, grantOf("victim", 0)); !errors.Is(err, errManyOfGrant) {
		t.Errorf("want that one token has its share, got %v", err)
	}
}

// TestPlaceIsWaitedFor checks that a request waits until another one is finished, and that only a limited number of
// requests may wait.
func TestPlaceIsWaitedFor(t *testing.T) {
	p, ctx := newPlaces(2), t.Context()
	free, err := p.take(ctx, grantOf("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() {
		_, err := p.take(ctx, grantOf("a", 2))
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Fatalf("want that it waits, got %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	free()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	p.waiting["v1/a"] = maxWaiting
	p.mu.Unlock()
	if _, err := p.take(ctx, grantOf("a", 3)); !errors.Is(err, errManyOfNamespace) {
		t.Errorf("want that no more wait, got %v", err)
	}
}

// TestPace checks that a body may pause for a while, but must reach the minimum rate.
func TestPace(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes  int64
		waited time.Duration
		want   time.Duration
	}{
		"Begin":     {0, 0, 30 * time.Second},
		"Trickle":   {30, 30 * time.Second, 0},
		"Fast":      {64 << 20, 10 * time.Second, idle},
		"AtLeast":   {64 << 10, 30 * time.Second, time.Second},
		"TooLittle": {64 << 10, 40 * time.Second, -9 * time.Second},
	} {
		p := pace{grace: grace, rate: leastRate, bytes: tc.bytes, waited: tc.waited}
		if got := p.left(); got.Round(time.Second) != tc.want {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}

// A testGateway is a running backup gateway, whose store is in memory.
type testGateway struct {
	*Server

	signer Signer
	http   *httptest.Server
}

func newTestGateway(t *testing.T) *testGateway {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	settings := s3memory.New(t).Settings()
	raw, err := json.Marshal(File{Signers: []ed25519.PublicKey{public},
		Stores: map[string]StoreFile{"offsite": {Settings: settings}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stores.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := ReadStores(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &testGateway{Server: NewServer(known, slog.New(slog.DiscardHandler)), signer: Signer(private)}
	g.http = httptest.NewUnstartedServer(g.Server)
	g.http.Config.ConnContext = g.ConnContext
	g.http.Listener = g.Listen(g.http.Listener)
	g.http.StartTLS()
	t.Cleanup(func() {
		g.http.CloseClientConnections()
		g.http.Close()
	})
	return g
}

// put uploads a part. The size is the Content-Length of the request.
func (g *testGateway) put(ctx context.Context, t *testing.T, grant Grant, body io.Reader, size int64) error {
	t.Helper()
	token, err := g.signer.Sign(grant, time.Now().Add(time.Hour))
	if err != nil {
		t.Error(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, g.http.URL+"/v1/objects/"+grant.Prefix+
		"/k7v2m9xw4q.tar.zst?upload=upload-1&part=1", body)
	if err != nil {
		t.Error(err)
	}
	r.ContentLength = size
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := g.http.Client().Do(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// slowly returns a reader that returns one byte and then blocks.
func slowly(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("x"))
		<-ctx.Done()
		_ = w.CloseWithError(ctx.Err())
	}()
	return r
}

// TestSlowUploadsOfOneNamespace checks that slow uploads of one namespace do not delay Jobs of another namespace. The
// gateway must interrupt the slow uploads.
func TestSlowUploadsOfOneNamespace(t *testing.T) {
	g := newTestGateway(t)
	g.sending.grace = 3 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for claim := range 12 {
		for range 8 {
			all.Go(func() { _ = g.put(ctx, t, grantOf("evil", claim), slowly(ctx), 64<<20) })
		}
	}
	time.Sleep(time.Second)
	for range 3 {
		uploadCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
		if err := g.put(uploadCtx, t, grantOf("victim", 0), http.NoBody, 0); err != nil {
			t.Errorf("an upload from another namespace did not complete within 10 seconds: %v", err)
		}
		cancel()
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(90 * time.Second):
		t.Error("slow uploads do not end")
	}
	g.places.mu.Lock()
	defer g.places.mu.Unlock()
	if g.places.used != 0 || len(g.places.byStore) != 0 || len(g.places.grants) != 0 {
		t.Errorf("places are left: %+v", g.places)
	}
}

// TestConnectionsAreBounded checks the limits for one address and for one namespace.
func TestConnectionsAreBounded(t *testing.T) {
	cs := newConnections()
	var open []net.Conn
	from := func(address string) net.Conn { return addressed{address: address} }
	for i := range 2 * maxConnsOfAddress {
		if c := cs.open(from("10.0.0.1:1")); c != nil {
			open = append(open, c)
		} else if i < maxConnsOfAddress {
			t.Fatalf("connection %d is refused", i)
		}
	}
	if len(open) != maxConnsOfAddress {
		t.Errorf("want %d of an address, got %d", maxConnsOfAddress, len(open))
	}
	n := 0
	for i := range 2 * maxConnsOfNamespace {
		c := cs.open(from(fmt.Sprintf("10.0.1.%d:1", i)))
		ctx := (&Server{}).ConnContext(t.Context(), c)
		first, second := cs.claim(ctx, "v1/evil"), cs.claim(ctx, "v1/evil")
		if first == nil && second == nil {
			n++
		}
		open = append(open, c)
	}
	if n != maxConnsOfNamespace {
		t.Errorf("want %d of a namespace, got %d", maxConnsOfNamespace, n)
	}
	for range 2 * maxConns {
		if c := cs.open(from(fmt.Sprintf("10.1.%d.1:1", len(open)))); c != nil {
			open = append(open, c)
		}
	}
	if len(open) != maxConns {
		t.Errorf("want %d in all, got %d", maxConns, len(open))
	}
	for _, c := range open {
		_ = c.Close()
		_ = c.Close()
	}
	if cs.all != 0 || len(cs.ofAddress) != 0 || len(cs.ofNamespace) != 0 {
		t.Errorf("connections are left: %+v", cs)
	}
}

// addressed is a fake connection with a remote address.
type addressed struct {
	net.Conn

	address string
}

func (a addressed) RemoteAddr() net.Addr { return textAddress(a.address) }
func (a addressed) Close() error         { return nil }

type textAddress string

func (a textAddress) Network() string { return "tcp" }
func (a textAddress) String() string  { return string(a) }
