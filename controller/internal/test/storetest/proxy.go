//go:build store

// Package storetest runs a real S3 server, and breaks the way to it.
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

// A Fault happens to one request.
type Fault struct {
	// Status and Code that the store answers with, instead of doing anything; 0 and empty for none.
	Status int
	Code   string
	// Reset breaks the connection before the store hears of the request.
	Reset bool
	// Forget breaks it after the store has done all of it.
	Forget bool
	// CutOff breaks it in the middle of the answer.
	CutOff bool
	// Twice sends the request to the store two times.
	Twice bool
	// Change the answer's body.
	Change func([]byte) []byte
}

// A Proxy before a store, with TLS.
type Proxy struct {
	server *httptest.Server

	mu     sync.Mutex
	faults func(r *http.Request) Fault
	seen   []string
}

// startProxy before the server at an address without TLS.
func startProxy(t *testing.T, backend string) *Proxy {
	t.Helper()
	p := &Proxy{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
	to.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.pass(w, r, to) }))
	p.server.Config.ErrorLog = nil
	t.Cleanup(p.server.Close)
	return p
}

// Break requests from now on; nil breaks none.
func (p *Proxy) Break(faults func(r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.seen = faults, nil
}

// Seen requests since the last Break, as method and path.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

// Endpoint of the proxy, and the CA that has signed it.
func (p *Proxy) Endpoint() (endpoint, ca string) {
	return p.server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}))
}

// Stop the proxy: nobody answers any more.
func (p *Proxy) Stop() { p.server.Close() }

// Settings of a bucket behind the proxy, below a prefix that no other test has.
func (p *Proxy) Settings(t *testing.T, access, secret string) store.Settings {
	t.Helper()
	endpoint, ca := p.Endpoint()
	return store.Settings{
		Endpoint: endpoint, CA: ca, Bucket: bucket, PathStyle: true, AccessKey: access, SecretKey: secret,
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

func record(r *http.Request, body []byte, to http.Handler) *httptest.ResponseRecorder {
	again := r.Clone(context.WithoutCancel(r.Context()))
	again.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, again)
	return answer
}

func sendAnswer(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder, f Fault) {
	raw := answer.Body.Bytes()
	if f.Change != nil {
		raw = f.Change(raw)
	}
	maps.Copy(w.Header(), answer.Header())
	if r.Method != http.MethodHead { // Which says how long a body would be.
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	}
	w.WriteHeader(answer.Code)
	if f.CutOff {
		_, _ = w.Write(raw[:len(raw)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(raw)
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, to http.Handler) {
	f := p.faultOf(r)
	switch {
	case f.Status != 0:
		// What was sent is read, as real stores do.
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(f.Status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>a fault of the test</Message></Error>", f.Code) //nolint:errcheck // The client may be gone.
	case f.Reset:
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	case f.Forget, f.CutOff, f.Twice, f.Change != nil:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		answer := record(r, body, to)
		if f.Twice {
			answer = record(r, body, to)
		}
		if f.Forget {
			panic(http.ErrAbortHandler)
		}
		sendAnswer(w, r, answer, f)
	default:
		to.ServeHTTP(w, r)
	}
}

// bucket that tests have.
const bucket = "backups"
