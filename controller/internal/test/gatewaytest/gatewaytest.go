//go:build store

// Package gatewaytest runs a gateway for a real S3 server, and creates the directories of Jobs.
package gatewaytest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

// StoreName is the name of the BackupStore in the settings of the gateway.
const StoreName = "offsite"

// A Gateway is a running gateway for a store.
type Gateway struct {
	// Store is the proxy between the gateway and the S3 server. Jobs is the proxy between Jobs and the gateway.
	Store  *storetest.Proxy
	Bucket *store.Bucket
	Signer gateway.Signer

	settings store.Settings
	public   ed25519.PublicKey
	server   *httptest.Server
	file     string
	log      *bytes.Buffer
}

// Start starts a gateway. The identity decrypts objects. It may be empty.
func Start(t *testing.T, identity string) *Gateway {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{Signer: gateway.Signer(private), public: public, file: filepath.Join(t.TempDir(), "stores.json"),
		log: &bytes.Buffer{}}
	g.Store, g.settings = storetest.Start(t)
	if g.Bucket, err = store.Open(g.settings); err != nil {
		t.Fatal(err)
	}
	g.Serve(t, identity)
	stores, err := gateway.ReadStores(g.file)
	if err != nil {
		t.Fatal(err)
	}
	g.server = httptest.NewUnstartedServer(gateway.NewServer(stores,
		slog.New(slog.NewTextHandler(&locked{writer: g.log}, nil))))
	g.server.StartTLS()
	t.Cleanup(func() {
		g.server.Close()
		if t.Failed() {
			t.Logf("the gateway has said:\n%s", g.log)
		}
	})
	return g
}

// Serve changes the settings of the gateway: it serves the store with this identity.
func (g *Gateway) Serve(t *testing.T, identity string) {
	t.Helper()
	g.serve(t, StoreName, identity)
}

// ServeAs changes the settings of the gateway: it serves the store under this name.
func (g *Gateway) ServeAs(t *testing.T, name string) {
	t.Helper()
	g.serve(t, name, "")
}

// MountDir creates the directory that a Job mounts to access the gateway. It contains a token for the grant.
func (g *Gateway) MountDir(t *testing.T, grant gateway.Grant) string {
	t.Helper()
	grant.Store = StoreName
	token, err := g.Signer.Sign(grant, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return PrefixOf(t, g.server, token)
}

// Client returns the client of a Job with a grant.
func (g *Gateway) Client(t *testing.T, grant gateway.Grant) *gateway.Client {
	t.Helper()
	c, err := gateway.NewClient(g.MountDir(t, grant), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// PrefixOf creates the directory that a Job mounts to access a gateway: the URL and the CA of the server, and the
// token.
func PrefixOf(t *testing.T, s *httptest.Server, token string) string {
	t.Helper()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, raw := range map[string][]byte{gateway.URLFile: []byte(s.URL), gateway.CAFile: ca,
		gateway.TokenFile: []byte(token)} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Kill interrupts all requests, as if the pod had stopped. The gateway continues to serve new requests.
func (g *Gateway) Kill() { g.server.CloseClientConnections() }

// URL returns the URL of the gateway and an HTTP client for requests that a Client never sends.
func (g *Gateway) URL() (string, *http.Client) { return g.server.URL, g.server.Client() }

func (g *Gateway) serve(t *testing.T, name, identity string) {
	t.Helper()
	raw, err := json.Marshal(gateway.File{
		Signers: []ed25519.PublicKey{g.public},
		Stores:  map[string]gateway.StoreFile{name: {Settings: g.settings, Identity: identity}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
