//go:build store

// Package storetest runs a real S3 server behind a proxy that can break requests.
package storetest

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A Fault describes how one request fails.
type Fault struct {
	// Status and Code are sent instead of the store's response, unless they are 0 and "".
	Status int
	Code   string
	// Reset closes the connection before the store gets the request.
	Reset bool
	// Forget closes the connection after the store has performed the request.
	Forget bool
	// CutOff closes the connection after half of the response.
	CutOff bool
	// Twice sends the request to the store twice.
	Twice bool
	// Change modifies the body of the response.
	Change func([]byte) []byte
}

// A Proxy forwards requests to a store and terminates TLS.
type Proxy struct {
	server *httptest.Server

	mu     sync.Mutex
	faults func(r *http.Request) Fault
	seen   []string
}

// startProxy starts a proxy for a server without TLS at an address.
func startProxy(t *testing.T, backend string) *Proxy {
	t.Helper()
	p := &Proxy{}
	backendProxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
	backendProxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p.server = httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.pass(w, r, backendProxy) }))
	p.server.Config.ErrorLog = nil
	t.Cleanup(p.server.Close)
	return p
}

// Break sets the function that returns the fault for each later request. If the function is nil, no request fails.
func (p *Proxy) Break(faults func(r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.seen = faults, nil
}

// Seen returns the method and path of all requests since the last Break.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

// Endpoint returns the URL of the proxy and the CA of its certificate.
func (p *Proxy) Endpoint() (endpoint, ca string) {
	return p.server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}))
}

// Stop stops the proxy.
func (p *Proxy) Stop() { p.server.Close() }

// Settings returns the settings of a bucket behind the proxy, with a prefix that no other test uses.
func (p *Proxy) Settings(t *testing.T, access, secret string) store.Settings {
	t.Helper()
	endpoint, ca := p.Endpoint()
	return store.Settings{
		Endpoint: endpoint, CA: ca, Region: "us-east-1", Bucket: bucket, PathStyle: true, AccessKey: access, SecretKey: secret,
		Prefix: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())),
	}
}

func (p *Proxy) faultOf(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Method+" "+r.URL.RequestURI())
	if p.faults == nil {
		return Fault{}
	}
	return p.faults(r)
}

func record(r *http.Request, body []byte, handler http.Handler) *httptest.ResponseRecorder {
	clone := r.Clone(context.WithoutCancel(r.Context()))
	clone.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, clone)
	return answer
}

func sendAnswer(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder, f Fault) {
	raw := answer.Body.Bytes()
	if f.Change != nil {
		raw = f.Change(raw)
	}
	maps.Copy(w.Header(), answer.Header())
	if r.Method != http.MethodHead { // The response to HEAD keeps its length.
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	}
	w.WriteHeader(answer.Code)
	if f.CutOff {
		_, _ = w.Write(raw[:len(raw)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(raw)
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	f := p.faultOf(r)
	switch {
	case f.Status != 0:
		// Real stores read the whole request as well.
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(f.Status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>a fault of the test</Message></Error>", f.Code) //nolint:errcheck // The client may have disconnected.
	case f.Reset:
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	case f.Forget, f.CutOff, f.Twice, f.Change != nil:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		answer := record(r, body, handler)
		if f.Twice {
			answer = record(r, body, handler)
		}
		if f.Forget {
			panic(http.ErrAbortHandler)
		}
		sendAnswer(w, r, answer, f)
	default:
		handler.ServeHTTP(w, r)
	}
}

// bucket is the bucket of the tests.
const bucket = "backups"
