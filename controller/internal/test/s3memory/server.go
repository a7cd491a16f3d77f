// Package s3memory provides an S3 server in memory for tests.
package s3memory

import (
	"cmp"
	"crypto/md5" //nolint:gosec // S3 uses MD5 for the ETag and Content-MD5.
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A Server is an S3 server with one bucket in memory. Unlike a real server, it can simulate special rules of a
// bucket, and tests can inspect each request.
type Server struct {
	http *httptest.Server

	// Locked simulates a bucket with Object Lock, which refuses an upload without a checksum like AWS.
	Locked bool
	// Unconditional makes the server refuse conditional writes with status 501. Careless makes it ignore their
	// condition.
	Unconditional, Careless bool
	// Token is the session token that each request must contain, or "" for none.
	Token string
	// Seen is called with each request before it is served. It returns true if it has sent the response itself.
	Seen func(http.ResponseWriter, *http.Request) (answered bool)

	mu      sync.Mutex
	objects map[string][]byte
	parts   map[string]map[int][]byte
	uploads int
}

// New returns a server over TLS. It is stopped when the test finishes.
func New(t *testing.T) *Server {
	t.Helper()
	m := &Server{objects: map[string][]byte{}, parts: map[string]map[int][]byte{}}
	m.http = httptest.NewTLSServer(m)
	t.Cleanup(m.http.Close)
	return m
}

// Clone returns another server with a copy of all objects.
func (m *Server) Clone(t *testing.T) *Server {
	t.Helper()
	out := New(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	out.objects = maps.Clone(m.objects)
	return out
}

// CA returns the CA of the server's certificate as PEM.
func (m *Server) CA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.http.Certificate().Raw}))
}

// Settings returns the settings with which package store opens the bucket of this server.
func (m *Server) Settings() store.Settings {
	return store.Settings{Endpoint: m.http.URL, Bucket: "bucket", Region: "us-east-1", PathStyle: true, CA: m.CA(), AccessKey: "access",
		SecretKey: "secret"}
}

// Keys returns the keys of all objects.
func (m *Server) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// ServeHTTP serves one request.
func (m *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.Seen != nil && m.Seen(w, r) {
		return
	}
	if m.Token != "" && r.Header.Get("X-Amz-Security-Token") != m.Token {
		refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
		return
	}
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch q := r.URL.Query(); {
	case key == "" && q.Has("list-type"):
		m.list(w, q.Get("prefix"), q.Get("delimiter"))
	case key == "" && q.Has("uploads"):
		_, _ = io.WriteString(w, `<ListMultipartUploadsResult></ListMultipartUploadsResult>`)
	case r.Method == http.MethodPut:
		m.put(w, r, key, content(r, body))
	case r.Method == http.MethodPost && q.Has("uploads"):
		m.uploads++
		id := "upload-" + strconv.Itoa(m.uploads)
		m.parts[id] = map[int][]byte{}
		_, _ = fmt.Fprintf(w, `<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>`, id)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		m.complete(w, r, key, q.Get("uploadId"))
	case r.Method == http.MethodDelete:
		delete(m.parts, q.Get("uploadId"))
		if !q.Has("uploadId") {
			delete(m.objects, key)
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		m.get(w, r, key)
	}
}

// content returns the content of a request. Chunks may be signed individually, and their signatures are removed.
func content(r *http.Request, body []byte) []byte {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return body
	}
	var out []byte
	for {
		head, rest, ok := strings.Cut(string(body), "\r\n")
		size, _, _ := strings.Cut(head, ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if !ok || err != nil || n == 0 || int64(len(rest)) < n {
			return out
		}
		out = append(out, rest[:n]...)
		body = []byte(strings.TrimPrefix(rest[n:], "\r\n"))
	}
}

func etagOf(raw []byte) string {
	sum := md5.Sum(raw) //nolint:gosec // As above.
	return hex.EncodeToString(sum[:])
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<Error><Code>%[1]s</Code><Message>%[1]s</Message></Error>`, code)
}

// put stores an object or a part.
func (m *Server) put(w http.ResponseWriter, r *http.Request, key string, raw []byte) {
	sum := md5.Sum(raw) //nolint:gosec // As above.
	given := r.Header.Get("Content-Md5")
	switch {
	case m.Locked && given == "":
		refuse(w, http.StatusBadRequest, "InvalidRequest")
		return
	case given != "" && given != base64.StdEncoding.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "BadDigest")
		return
	}
	w.Header().Set("ETag", strconv.Quote(etagOf(raw)))
	if id := r.URL.Query().Get("uploadId"); id != "" {
		n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		m.parts[id][n] = raw
		return
	}
	if m.mayWrite(w, r, key) {
		m.objects[key] = raw
	}
}

// mayWrite reports whether the condition of a write is met. If not, it sends the error response.
func (m *Server) mayWrite(w http.ResponseWriter, r *http.Request, key string) bool {
	existing, ok := m.objects[key]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match == "" && none == "" || m.Careless:
		return true
	case m.Unconditional:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	case none != "" && ok, match != "" && (!ok || strings.Trim(match, `"`) != etagOf(existing)):
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	default:
		return true
	}
	return false
}

func (m *Server) complete(w http.ResponseWriter, r *http.Request, key, id string) {
	var raw []byte
	for n := 1; n <= len(m.parts[id]); n++ {
		raw = append(raw, m.parts[id][n]...)
	}
	if !m.mayWrite(w, r, key) {
		return
	}
	m.objects[key] = raw
	delete(m.parts, id)
	_, _ = fmt.Fprintf(w, `<CompleteMultipartUploadResult><ETag>"%s"</ETag></CompleteMultipartUploadResult>`, etagOf(raw))
}

func (m *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	raw, ok := m.objects[key]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", strconv.Quote(etagOf(raw)))
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
	if r.Method == http.MethodGet {
		_, _ = w.Write(raw)
	}
}

func (m *Server) list(w http.ResponseWriter, prefix, delimiter string) {
	type dir struct {
		Prefix string `xml:"Prefix"`
	}
	type object struct {
		Key  string `xml:"Key"`
		Size int    `xml:"Size"`
		ETag string `xml:"ETag"`
	}
	out := struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []object `xml:"Contents"`
		Prefixes []dir    `xml:"CommonPrefixes"`
	}{}
	dirs := map[string]bool{}
	for key, raw := range m.objects {
		rest, isBelow := strings.CutPrefix(key, prefix)
		first, _, isDeeper := strings.Cut(rest, "/")
		switch {
		case !isBelow:
		case isDeeper && delimiter == "/":
			dirs[prefix+first+"/"] = true
		default:
			out.Contents = append(out.Contents, object{key, len(raw), etagOf(raw)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		out.Prefixes = append(out.Prefixes, dir{name})
	}
	slices.SortFunc(out.Contents, func(a, b object) int { return cmp.Compare(a.Key, b.Key) })
	_ = xml.NewEncoder(w).Encode(out)
}
