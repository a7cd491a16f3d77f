package store_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// TestHostileStores checks that a hostile store cannot use more memory or time than allowed, or return objects
// outside of the prefix.
func TestHostileStores(t *testing.T) {
	endless := func(begin, repeat, end string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(w, begin) //nolint:errcheck // The client disconnects at its limit.
			for repeat != "" {
				if _, err := fmt.Fprint(w, strings.Repeat(repeat, 1000)); err != nil {
					return
				}
			}
			fmt.Fprint(w, end) //nolint:errcheck // As above.
		}
	}
	const list = `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>`
	one := func(key string) string { return "<Contents><Key>" + key + "</Key><Size>1</Size></Contents>" }
	lists := func(ctx context.Context, b *store.Bucket) error {
		_, err := b.List(ctx, "f", 100)
		return err
	}
	reads := func(ctx context.Context, b *store.Bucket) error {
		_, err := b.ReadSmall(ctx, "f/k", 100)
		return err
	}
	for name, c := range map[string]struct {
		server http.HandlerFunc
		run    func(context.Context, *store.Bucket) error
		says   string
	}{
		"EndlessList":  {endless(list, one("p/f/a"), ""), lists, ""},
		"EndlessPages": {endless(list, "", one("p/f/a")+"</ListBucketResult>"), lists, "more than 100"},
		"EndlessName":  {endless(list+"<Contents><Key>", "a", ""), lists, ""},
		"Others":       {endless(list, "", one("p2/f/a")+"</ListBucketResult>"), lists, "listed"},
		"EndlessError": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			endless("<Error><Code>", "a", "")(w, r)
		}, lists, ""},
		"EndlessObject": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("ETag", `"a"`)
			endless("", "a", "")(w, r)
		}, reads, "larger than"},
		"NoXML": {endless("<html>", "", "</html>"), lists, "is not a list of objects"},
		"Elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.test/", http.StatusTemporaryRedirect)
		}, lists, "another region"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewTLSServer(c.server)
			defer s.Close()
			b, err := store.Open(store.Settings{
				Endpoint: s.URL, CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
				Bucket: "backups", Region: "us-east-1", Prefix: "p", PathStyle: true, AccessKey: "a", SecretKey: "s",
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = c.run(ctx, b)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("want %q, got %v", c.says, err)
			}
			if ctx.Err() != nil {
				t.Error("it was the test that ended it")
			}
			if len(err.Error()) > 2000 {
				t.Errorf("that is no message for a person, with %d bytes", len(err.Error()))
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 512<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
		})
	}
}

// TestStalled checks that a transfer without progress is canceled.
func TestStalled(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	b, err := store.Open(store.Settings{
		Endpoint: s.URL, CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
		Bucket: "backups", Region: "us-east-1", PathStyle: true, AccessKey: "a", SecretKey: "s",
	})
	if err != nil {
		t.Fatal(err)
	}
	b.StallAfter(100 * time.Millisecond)
	r, err := b.Read(t.Context(), "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	if _, err := io.ReadAll(r); !store.Is(err, store.Unreachable) || !strings.Contains(err.Error(), "no data was transferred") {
		t.Errorf("want that nothing has moved, got %v", err)
	}
}
