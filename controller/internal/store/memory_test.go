package store_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

func openMemory(t *testing.T, m *s3memory.Server) *store.Bucket {
	t.Helper()
	b, err := store.Open(m.Settings())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestObjectLock checks that a bucket with Object Lock accepts all uploads, because each has a checksum.
func TestObjectLock(t *testing.T) {
	m := s3memory.New(t)
	m.Locked = true
	b := openMemory(t, m)
	if found, err := b.Probe(t.Context(), "v1/probe/x/y", []byte("canary")); err != nil || !found.WritesOnce ||
		!found.Deletes {
		t.Errorf("want a store that works, got %+v, %v", found, err)
	}
	id, err := b.BeginUpload(t.Context(), "v1/a")
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte("abc")
	if _, err := b.PutPart(t.Context(), "v1/a", id, 1, bytes.NewReader(raw), 3,
		store.ContentMD5([]byte("another"))); err == nil {
		t.Error("the store takes a part that was changed on its way")
	}
	if _, err := b.PutPart(t.Context(), "v1/a", id, 1, bytes.NewReader(raw), 3, store.ContentMD5(raw)); err != nil {
		t.Error(err)
	}
}

// TestSessionToken checks that each request contains the session token.
func TestSessionToken(t *testing.T) {
	m := s3memory.New(t)
	m.Token = "token-of-the-session"
	if _, err := openMemory(t, m).Probe(t.Context(), "v1/probe/x/y", []byte("canary")); !store.Is(err, store.Unknown) {
		t.Errorf("without it want a refusal, got %v", err)
	}
	settings := m.Settings()
	settings.SessionToken = m.Token
	b, err := store.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(t.Context(), "v1/probe/x/y", []byte("canary")); err != nil {
		t.Error(err)
	}
}

// TestRequestsAreLogged checks that the log contains each request but no credentials.
func TestRequestsAreLogged(t *testing.T) {
	m := s3memory.New(t)
	m.Token = "token-of-the-session"
	settings := m.Settings()
	settings.AccessKey, settings.SecretKey, settings.SessionToken = "correct-access", "correct-horse", m.Token
	b, err := store.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	ctx := log.IntoContext(t.Context(),
		funcr.New(func(_, line string) { got.WriteString(line + "\n") }, funcr.Options{Verbosity: 1}))
	if err := b.Put(ctx, "v1/a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if want := `"level"=1 "msg"="Sent a request to the store" "method"="PUT" `; !strings.HasPrefix(got.String(), want) ||
		!strings.Contains(got.String(), `"path"="/bucket/v1/a" "status"=200`) {
		t.Errorf("want %s, got %s", want, got.String())
	}
	for _, secret := range []string{settings.SecretKey, settings.SessionToken, "Signature"} {
		if strings.Contains(got.String(), secret) {
			t.Errorf("%s is in the log: %s", secret, got.String())
		}
	}
}

// TestPutIf checks that an object is replaced only if it has not changed since it was read. This must also work with
// a store that does not support conditional writes.
func TestPutIf(t *testing.T) {
	for name, unconditional := range map[string]bool{"Conditional": false, "NotImplemented": true} {
		t.Run(name, func(t *testing.T) {
			m := s3memory.New(t)
			m.Unconditional = unconditional
			b, ctx := openMemory(t, m), t.Context()
			if err := b.PutIf(ctx, "v1/x", []byte("one"), "0123456789abcdef0123456789abcdef"); !store.Is(err, store.Exists) &&
				!store.Is(err, store.NotFound) {
				t.Errorf("want that there is none, got %v", err)
			}
			if err := b.PutIf(ctx, "v1/x", []byte("one"), ""); err != nil {
				t.Fatal(err)
			}
			if err := b.PutIf(ctx, "v1/x", []byte("two"), ""); !store.Is(err, store.Exists) {
				t.Errorf("want that it is there, got %v", err)
			}
			_, etag, err := b.ReadTagged(ctx, "v1/x", 10)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.PutIf(ctx, "v1/x", []byte("two"), etag); err != nil {
				t.Fatal(err)
			}
			if err := b.PutIf(ctx, "v1/x", []byte("three"), etag); !store.Is(err, store.Exists) {
				t.Errorf("want that it is another one, got %v", err)
			}
			if raw, _, err := b.ReadTagged(ctx, "v1/x", 10); err != nil || string(raw) != "two" {
				t.Errorf("want what was written last, got %q, %v", raw, err)
			}
		})
	}
}

// TestPathStyleIsNamed checks that the error mentions the field pathStyle if the endpoint does not serve buckets
// under their own host names.
func TestPathStyleIsNamed(t *testing.T) {
	m := s3memory.New(t)
	settings := m.Settings()
	settings.Endpoint, settings.PathStyle = strings.Replace(settings.Endpoint, "127.0.0.1", "localhost", 1), false
	check := func(settings store.Settings) error {
		t.Helper()
		b, err := store.Open(settings)
		if err != nil {
			t.Fatal(err)
		}
		return b.Put(t.Context(), "x", []byte("abc"))
	}
	// Some machines resolve bucket.localhost and others do not, but the certificate never contains that name.
	if err := check(settings); !store.Is(err, store.PathStyle) || !strings.Contains(err.Error(), "set pathStyle: true") {
		t.Errorf("want the field, got %v", err)
	}
	settings = m.Settings()
	for status, code := range map[int]string{http.StatusMovedPermanently: "", http.StatusBadRequest: "",
		http.StatusMisdirectedRequest: ""} {
		m.Seen = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		}
		if err := check(settings); store.Is(err, store.PathStyle) {
			t.Errorf("%d %s: it has the bucket in the path already, got %v", status, code, err)
		}
	}
}
