package store_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/ststest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/workload"
)

// newIdentitySettings returns the settings of a bucket that accepts only the credentials of a token service.
func newIdentitySettings(t *testing.T) (*s3memory.Server, *ststest.Server, store.Settings) {
	t.Helper()
	m, sts := s3memory.New(t), ststest.New(t)
	m.Token = sts.SessionToken
	s := m.Settings()
	s.AccessKey, s.SecretKey, s.CA = "", "", m.CA()+sts.CA()
	s.WorkloadIdentity = &workload.Identity{STSEndpoint: sts.URL()}
	return m, sts, s
}

// TestWorkloadIdentity checks that all requests to a store are signed with the credentials of the pod's identity, and
// that the credentials are shared by all Buckets of a process.
func TestWorkloadIdentity(t *testing.T) {
	ststest.SetPod(t, "arn:aws:iam::123456789012:role/backups")
	m, sts, settings := newIdentitySettings(t)
	m.Seen = func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=ASIAACCESS/") {
			t.Errorf("want a signed request, got %q", r.Header.Get("Authorization"))
		}
		return false
	}
	for range 3 {
		b, err := store.Open(settings)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := b.Probe(t.Context(), "v1/probe/x/y", []byte("canary")); err != nil || !f.Deletes {
			t.Errorf("want a store that works, got %+v, %v", f, err)
		}
	}
	if len(sts.Seen()) != 1 {
		t.Errorf("want one request for credentials, got %q", sts.Seen())
	}
}

// TestNoWorkloadIdentity checks the kind and the message of each operation without credentials, and that the store gets
// no request.
func TestNoWorkloadIdentity(t *testing.T) {
	ststest.SetPod(t, "arn:aws:iam::123456789012:role/backups")
	for name, c := range map[string]struct {
		status int
		code   string
		want   store.Kind
		says   string
	}{
		"Denied": {http.StatusForbidden, "AccessDenied", store.NoCredentials, "its trust policy must allow"},
		"Down":   {http.StatusServiceUnavailable, "InternalFailure", store.Busy, "the token service has an error"},
	} {
		t.Run(name, func(t *testing.T) {
			m, sts, settings := newIdentitySettings(t)
			sts.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
				ststest.Refuse(w, c.status, c.code)
				return true
			}
			m.Seen = func(_ http.ResponseWriter, r *http.Request) bool {
				t.Errorf("the store gets %s %s without credentials", r.Method, r.URL)
				return false
			}
			b, err := store.Open(settings)
			if err != nil {
				t.Fatal(err)
			}
			for name, err := range operations(t.Context(), b) {
				e := new(store.Error)
				if !errors.As(err, &e) || e.Kind != c.want || !strings.Contains(err.Error(), c.says) ||
					strings.Contains(err.Error(), "credentialsSecretRef") {
					t.Errorf("%s: want %s, %q, got %v", name, c.want, c.says, err)
				}
			}
		})
	}
}

// operations calls each operation of a bucket, and returns the errors by the name of the operation.
func operations(ctx context.Context, b *store.Bucket) map[string]error {
	out := map[string]error{
		"Put": b.Put(ctx, "k", []byte("x")), "PutOnce": b.PutOnce(ctx, "k", nil), "Delete": b.Delete(ctx, "k"),
		"PutIf": b.PutIf(ctx, "k", nil, "a"), "Abort": b.AbortUpload(ctx, "k", "id"),
		"Complete": b.CompleteUpload(ctx, "k", "id", []store.Part{{Number: 1, ETag: "a"}}), "MakeBucket": b.MakeBucket(ctx),
	}
	_, out["Stat"] = b.Stat(ctx, "k")
	_, out["Read"] = b.Read(ctx, "k", 0)
	_, _, out["ReadTagged"] = b.ReadTagged(ctx, "k", 1)
	_, out["List"] = b.List(ctx, "f", 1)
	_, out["Begin"] = b.BeginUpload(ctx, "k")
	_, out["PutPart"] = b.PutPart(ctx, "k", "id", 1, strings.NewReader("x"), 1, "")
	_, out["Uploads"] = b.Uploads(ctx, "f", 1)
	return out
}

// TestRegion checks that a region that is not set is found once, with a request that contains no credentials.
func TestRegion(t *testing.T) {
	answers := func(status int, region string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if region != "" {
				w.Header().Set("X-Amz-Bucket-Region", region)
			}
			w.WriteHeader(status)
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
		asked  int32
		kind   store.Kind
	}{
		"Reported":  {answer: answers(http.StatusOK, "eu-central-1"), want: "eu-central-1", asked: 1},
		"Forbidden": {answer: answers(http.StatusForbidden, "eu-central-1"), want: "eu-central-1", asked: 1},
		"Moved":     {answer: answers(http.StatusMovedPermanently, "eu-central-1"), want: "eu-central-1", asked: 1},
		"NoRegions": {answer: answers(http.StatusForbidden, ""), want: "us-east-1", asked: 1},
		"NoBucket":  {answer: answers(http.StatusNotFound, ""), want: "us-east-1", asked: 6},
		"Busy":      {answer: answers(http.StatusServiceUnavailable, ""), asked: 6, kind: store.Busy},
		"Closed":    {answer: func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, asked: 6, kind: store.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			m := s3memory.New(t)
			settings := m.Settings()
			settings.Region = ""
			var asked atomic.Int32
			m.Seen = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodHead && r.URL.Path == "/bucket" {
					if r.Header.Get("Authorization") != "" {
						t.Error("the request for the region is signed")
					}
					asked.Add(1)
					c.answer(w)
					return true
				}
				if !strings.Contains(r.Header.Get("Authorization"), "/"+c.want+"/s3/") {
					t.Errorf("want a signature for %s, got %q", c.want, r.Header.Get("Authorization"))
				}
				return false
			}
			for range 3 {
				b, err := store.Open(settings)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					err := b.Put(t.Context(), "k", []byte("x"))
					if c.kind == "" && err != nil || c.kind != "" && !store.Is(err, c.kind) {
						t.Errorf("want %q, got %v", c.kind, err)
					}
				}
			}
			if asked.Load() != c.asked {
				t.Errorf("want %d requests for the region, got %d", c.asked, asked.Load())
			}
		})
	}
}
