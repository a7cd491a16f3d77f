//go:build store

package store_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/ststest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/workload"
)

func open(t *testing.T, s store.Settings) *store.Bucket {
	t.Helper()
	b, err := store.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keys(t *testing.T, b *store.Bucket, dir string) []string {
	t.Helper()
	os, err := b.List(t.Context(), dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(os))
	for _, o := range os {
		out = append(out, fmt.Sprintf("%s %d", o.Key, o.Size))
	}
	return out
}

func TestRealBucket(t *testing.T) {
	_, s := storetest.Start(t)
	b := open(t, s)
	other := s
	other.Prefix += "-2"
	if err := open(t, other).Put(t.Context(), "v1/a/x", []byte("another's")); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := b.Put(t.Context(), fmt.Sprintf("v1/a/%d", i), bytes.Repeat([]byte{'x'}, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(t.Context(), "v1/ab/x", nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1/a/0 0", "v1/a/1 1", "v1/a/2 2"}, keys(t, b, "v1/a")); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if err := b.PutOnce(t.Context(), "v1/a/2", []byte("other")); !store.Is(err, store.Exists) {
		t.Errorf("want that it is there, got %v", err)
	}
	if raw, err := b.ReadSmall(t.Context(), "v1/a/2", 2); err != nil || string(raw) != "xx" {
		t.Errorf("want what was written first, got %q, %v", raw, err)
	}
	if _, err := b.ReadSmall(t.Context(), "v1/a/2", 1); err == nil {
		t.Error("it is larger than that")
	}
	if _, err := b.Stat(t.Context(), "v1/a/3"); !store.Is(err, store.NotFound) {
		t.Errorf("want that there is none, got %v", err)
	}
	if _, err := b.Read(t.Context(), "v1/a/3", 0); !store.Is(err, store.NotFound) {
		t.Errorf("want that there is none, got %v", err)
	}
	for range 2 {
		if err := b.Delete(t.Context(), "v1/a/2"); err != nil {
			t.Error(err)
		}
	}
	if got := keys(t, b, "v1/a"); len(got) != 2 {
		t.Errorf("want two left, got %q", got)
	}
}

func TestRealUpload(t *testing.T) {
	_, s := storetest.Start(t)
	b := open(t, s)
	first, second := bytes.Repeat([]byte("1"), store.MinPart), []byte("two")
	id, err := b.BeginUpload(t.Context(), "v1/a/x")
	if err != nil {
		t.Fatal(err)
	}
	parts := []store.Part{}
	for i, raw := range [][]byte{first, second, second} { // The last part is sent twice.
		p, err := b.PutPart(t.Context(), "v1/a/x", id, min(i, 1)+1, bytes.NewReader(raw), int64(len(raw)),
			store.ContentMD5(raw))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts[:min(i, 1)], p)
	}
	if got := keys(t, b, "v1/a"); len(got) != 0 {
		t.Errorf("nobody may see it yet, got %q", got)
	}
	if uploads, err := b.Uploads(t.Context(), "v1/a", 10); err != nil || len(uploads) != 1 || uploads[0].ID != id ||
		uploads[0].Key != "v1/a/x" {
		t.Errorf("want one that is under way, got %v, %v", uploads, err)
	}
	if err := b.CompleteUpload(t.Context(), "v1/a/x", id, parts); err != nil {
		t.Fatal(err)
	}
	if err := b.CompleteUpload(t.Context(), "v1/a/x", id, parts); err != nil && !store.Is(err, store.NoUpload) &&
		!store.Is(err, store.Exists) {
		t.Errorf("want that it is complete already, got %v", err)
	}
	r, err := b.Read(t.Context(), "v1/a/x", store.MinPart-2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	if raw, err := io.ReadAll(r); err != nil || string(raw) != "11two" {
		t.Errorf("want its end, got %q, %v", raw, err)
	}
	ended, err := b.BeginUpload(t.Context(), "v1/a/y")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.AbortUpload(t.Context(), "v1/a/y", ended); err != nil {
			t.Error(err)
		}
	}
	if uploads, err := b.Uploads(t.Context(), "v1/a", 10); err != nil || len(uploads) != 0 {
		t.Errorf("want none left, got %v, %v", uploads, err)
	}
}

func TestRealProbe(t *testing.T) {
	p, s := storetest.Start(t)
	b := open(t, s)
	probe := func() (store.Finding, error) { return b.Probe(t.Context(), "v1/probe/x", []byte("canary")) }
	if f, err := probe(); err != nil || f != (store.Finding{WritesOnce: true, Deletes: true}) {
		t.Errorf("want a store that does all, got %+v, %v", f, err)
	}
	if got := keys(t, b, "v1/probe"); len(got) != 0 {
		t.Errorf("it leaves nothing, got %q", got)
	}
	conditional := func(r *http.Request) bool { return r.Header.Get("If-None-Match") != "" }
	isDelete := func(r *http.Request) bool { return r.Method == http.MethodDelete && !r.URL.Query().Has("uploadId") }
	for name, c := range map[string]struct {
		fault func(r *http.Request) storetest.Fault
		want  store.Finding
		kind  store.Kind
	}{
		"NoCondition": {func(r *http.Request) (f storetest.Fault) {
			if conditional(r) {
				f.Status, f.Code = http.StatusNotImplemented, "NotImplemented"
			}
			return f
		}, store.Finding{}, store.Unsupported},
		"WritesOver": {func(r *http.Request) (f storetest.Fault) {
			if conditional(r) && r.Method == http.MethodPut {
				f.Status = http.StatusOK
			}
			return f
		}, store.Finding{Deletes: true}, ""},
		"KeepsAll": {func(r *http.Request) (f storetest.Fault) {
			if isDelete(r) {
				f.Status, f.Code = http.StatusForbidden, "AccessDenied"
			}
			return f
		}, store.Finding{WritesOnce: true}, ""},
		"ReadOnly": {func(r *http.Request) (f storetest.Fault) {
			if r.Method == http.MethodPut {
				f.Status, f.Code = http.StatusForbidden, "AccessDenied"
			}
			return f
		}, store.Finding{}, store.Denied},
		"NoMissing": {func(r *http.Request) (f storetest.Fault) {
			if strings.HasSuffix(r.URL.Path, "_absent") {
				f.Status, f.Code = http.StatusForbidden, "AccessDenied"
			}
			return f
		}, store.Finding{}, store.Denied},
		"OtherBytes": {func(r *http.Request) (f storetest.Fault) {
			if r.Method == http.MethodGet && !r.URL.Query().Has("list-type") {
				f.Change = bytes.ToUpper
			}
			return f
		}, store.Finding{}, store.Failed},
		"ListsNothing": {func(r *http.Request) (f storetest.Fault) {
			if r.URL.Query().Has("list-type") {
				f.Change = func([]byte) []byte { return []byte("<ListBucketResult></ListBucketResult>") }
			}
			return f
		}, store.Finding{}, store.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			p.Break(c.fault)
			defer p.Break(nil)
			got, err := probe()
			if c.kind != "" && (err == nil || store.KindOf(err) != c.kind) || c.kind == "" && (err != nil || got != c.want) {
				t.Errorf("want %+v, %q, got %+v, %v", c.want, c.kind, got, err)
			}
		})
	}
}

// TestRealFaults simulates each fault at each request of each operation, and checks the kind of the error. Temporary
// failures must be retried until the operation has succeeded exactly once.
func TestRealFaults(t *testing.T) {
	p, s := storetest.Start(t)
	b := open(t, s)
	if err := b.Put(t.Context(), "v1/a/there", []byte("there")); err != nil {
		t.Fatal(err)
	}
	ops := map[string]func(t *testing.T) error{
		"Put":  func(t *testing.T) error { t.Helper(); return b.Put(t.Context(), "v1/a/put", []byte("x")) },
		"Stat": func(t *testing.T) error { t.Helper(); _, err := b.Stat(t.Context(), "v1/a/there"); return err },
		"Read": func(t *testing.T) error {
			t.Helper()
			raw, err := b.ReadSmall(t.Context(), "v1/a/there", 100)
			if err == nil && string(raw) != "there" {
				t.Errorf("got %q", raw)
			}
			return err
		},
		"List":   func(t *testing.T) error { t.Helper(); _, err := b.List(t.Context(), "v1/a", 100); return err },
		"Delete": func(t *testing.T) error { t.Helper(); return b.Delete(t.Context(), "v1/a/gone") },
		"Begin":  func(t *testing.T) error { t.Helper(); _, err := b.BeginUpload(t.Context(), "v1/a/u"); return err },
	}
	for fault, c := range map[string]struct {
		storetest.Fault

		want store.Kind
		all  bool
	}{
		"Once500":   {storetest.Fault{Status: http.StatusInternalServerError, Code: "InternalError"}, "", false},
		"OnceSlow":  {storetest.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}, "", false},
		"OnceReset": {storetest.Fault{Reset: true}, "", false},
		"OnceLost":  {storetest.Fault{Forget: true}, "", false},
		"Twice":     {storetest.Fault{Twice: true}, "", true},
		"500":       {storetest.Fault{Status: http.StatusInternalServerError, Code: "InternalError"}, store.Busy, true},
		"Revoked":   {storetest.Fault{Status: http.StatusForbidden, Code: "InvalidAccessKeyId"}, store.Unknown, true},
		"Clock":     {storetest.Fault{Status: http.StatusForbidden, Code: "RequestTimeTooSkewed"}, store.WrongClock, true},
		"Full":      {storetest.Fault{Status: http.StatusInsufficientStorage, Code: "QuotaExceeded"}, store.Full, true},
	} {
		for name, op := range ops {
			t.Run(fault+"/"+name, func(t *testing.T) {
				n := 0
				p.Break(func(*http.Request) storetest.Fault {
					if n++; n > 1 && !c.all {
						return storetest.Fault{}
					}
					return c.Fault
				})
				defer p.Break(nil)
				err := op(t)
				if c.want == "" && err != nil || c.want != "" && name != "Stat" && !store.Is(err, c.want) {
					t.Errorf("want %q, got %v after %q", c.want, err, p.Seen())
				}
				if name == "Stat" && c.want != "" && err == nil { // A response to HEAD has a status and no code.
					t.Error("want an error")
				}
			})
		}
	}
	t.Run("Down", func(t *testing.T) {
		p.Stop()
		for name, op := range ops {
			if err := op(t); !store.Is(err, store.Unreachable) || !strings.Contains(err.Error(), "cannot be reached") {
				t.Errorf("%s: want that it cannot be reached, got %v", name, err)
			}
		}
	})
}

// TestRealFind checks that objects for which isWanted returns false do not count towards the limit.
func TestRealFind(t *testing.T) {
	_, s := storetest.Start(t)
	b := open(t, s)
	for _, key := range []string{"f/a", "f/b", "f/c/wanted", "f/d", "f/e/wanted", "g/wanted"} {
		if err := b.Put(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	wanted := func(key string) bool { return strings.HasSuffix(key, "/wanted") }
	for limit, hasMore := range map[int]bool{1: true, 2: false} {
		got, isMore, err := b.Find(t.Context(), "f", limit, wanted)
		if err != nil || len(got) != limit || isMore != hasMore || got[0].Key != "f/c/wanted" {
			t.Errorf("of two at most %d: got %v, more: %t, %v", limit, got, isMore, err)
		}
	}
	if _, err := b.List(t.Context(), "f", 4); err == nil {
		t.Error("a list of five is given as one of four")
	}
}

// TestRealRegion finds the region of a bucket with one request, which needs no permission.
func TestRealRegion(t *testing.T) {
	p, s := storetest.Start(t)
	s.Region = ""
	p.Break(nil)
	for range 2 {
		if err := open(t, s).Put(t.Context(), "v1/a", nil); err != nil {
			t.Error(err)
		}
	}
	if seen := p.Seen(); len(seen) != 3 || seen[0] != "HEAD /"+s.Bucket {
		t.Errorf("want one request for the region, got %q", seen)
	}
}

// TestRealWorkloadIdentity sends the credentials of a token service to the store. versitygw refuses every session token
// with InvalidToken, so only the S3 server in memory accepts them (TestWorkloadIdentity). SeaweedFS may accept them.
func TestRealWorkloadIdentity(t *testing.T) {
	_, s := storetest.Start(t)
	ststest.SetPod(t, "arn:aws:iam::123456789012:role/backups")
	sts := ststest.New(t)
	sts.AccessKey, sts.SecretKey = storetest.Access, storetest.Secret
	s.AccessKey, s.SecretKey, s.CA = "", "", s.CA+sts.CA()
	s.WorkloadIdentity = &workload.Identity{STSEndpoint: sts.URL()}
	err := open(t, s).Put(t.Context(), "v1/a", nil)
	if err != nil && (!store.Is(err, store.Unknown) || !strings.Contains(err.Error(), "the role of workloadIdentity")) {
		t.Errorf("want a refusal of the session token, got %v", err)
	}
	if len(sts.Seen()) != 1 {
		t.Errorf("want one request for credentials, got %q", sts.Seen())
	}
}
