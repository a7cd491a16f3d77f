//go:build store

package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/gatewaytest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

const (
	recordPrefix = "v1/ns/xr/record"
	key          = recordPrefix + "/1.tar.zst.age"
)

func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(out) // It never fails.
	return out
}

func write(t *testing.T, c *gateway.Client, key string, raw []byte) error {
	t.Helper()
	w, err := c.Create(t.Context(), key, int64(len(raw)))
	if err != nil {
		return err
	}
	if _, err = io.Copy(w, bytes.NewReader(raw)); err == nil {
		err = w.Close()
	}
	return errors.Join(err, w.Abort(t.Context()))
}

func read(t *testing.T, c *gateway.Client, key string) ([]byte, error) {
	t.Helper()
	r, err := c.Open(t.Context(), key)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	return io.ReadAll(r)
}

// TestRealFaults runs an upload and simulates each fault at each of the first requests to the store, or kills the
// gateway there. The object must nevertheless be complete, and no upload may be left.
func TestRealFaults(t *testing.T) {
	g := gatewaytest.Start(t, "")
	raw := noise(20 << 20)
	for name, f := range map[string]storetest.Fault{
		"500":      {Status: http.StatusInternalServerError, Code: "InternalError"},
		"SlowDown": {Status: http.StatusServiceUnavailable, Code: "SlowDown"},
		"Reset":    {Reset: true},
		"Lost":     {Forget: true},
		"Twice":    {Twice: true},
		"CutOff":   {CutOff: true},
		"Killed":   {},
	} {
		for n := 1; n < 100; n++ {
			key := fmt.Sprintf("%s-%d", strings.ToLower(name), n)
			c := g.Client(t, gateway.Grant{Prefix: "v1/ns/xr/" + key})
			seen := 0
			g.Store.Break(func(*http.Request) storetest.Fault {
				if seen++; seen != n {
					return storetest.Fault{}
				}
				if name == "Killed" {
					g.Kill()
				}
				return f
			})
			object := "v1/ns/xr/" + key + "/1.tar.zst"
			if err := write(t, c, object, raw); err != nil {
				t.Fatalf("%s: %v, after %q", key, err, g.Store.Seen())
			}
			got, err := read(t, c, object)
			if err != nil || !bytes.Equal(got, raw) {
				t.Fatalf("%s: want what was written, got %d bytes, %v, after %q", key, len(got), err, g.Store.Seen())
			}
			g.Store.Break(nil)
			leavesOnly(t, g.Bucket, "v1/ns/xr/"+key, object)
			if seen < n {
				break
			}
		}
	}
}

// leavesOnly checks that only one object exists. If the response to the creation of an upload was lost, this upload
// may be left, because no client knows its ID.
func leavesOnly(t *testing.T, b *store.Bucket, recordPrefix, object string) {
	t.Helper()
	os, err := b.List(t.Context(), recordPrefix, 10)
	if err != nil || len(os) != 1 || os[0].Key != object {
		t.Errorf("want %s, got %v, %v", object, os, err)
	}
	uploads, err := b.Uploads(t.Context(), recordPrefix, 10)
	if err != nil || len(uploads) > 1 {
		t.Errorf("want no uploads, got %v, %v", uploads, err)
	}
	for _, u := range uploads {
		if p := filepath.Base(recordPrefix); !strings.HasPrefix(p, "lost") && !strings.HasPrefix(p, "twice") &&
			!strings.HasPrefix(p, "cutoff") && !strings.HasPrefix(p, "killed") {
			t.Errorf("%s: want no upload left, got %v", p, u)
		}
		if err := b.AbortUpload(t.Context(), u.Key, u.ID); err != nil {
			t.Error(err)
		}
	}
}

// TestRealRefused checks that the gateway refuses requests that a grant does not allow.
func TestRealRefused(t *testing.T) {
	g := gatewaytest.Start(t, "")
	if err := g.Bucket.Put(t.Context(), "v1/ns/other/record/1.tar.zst", []byte("another's")); err != nil {
		t.Fatal(err)
	}
	if err := g.Bucket.Put(t.Context(), "v1/ns/xr/done/manifest.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	c := g.Client(t, gateway.Grant{Prefix: recordPrefix})
	if err := write(t, c, key, []byte("mine")); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(g.MountDir(t, gateway.Grant{Prefix: recordPrefix}), gateway.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.ReadFile(filepath.Join(g.MountDir(t, gateway.Grant{Object: key}), gateway.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	done, err := os.ReadFile(filepath.Join(g.MountDir(t, gateway.Grant{Prefix: "v1/ns/xr/done"}), gateway.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	url, h := g.URL()
	for name, c := range map[string]struct {
		token        []byte
		method, path string
		body         string
		want         int
	}{
		"NoToken":          {nil, "GET", "objects/" + key, "", 401},
		"ReadOwn":          {token, "GET", "objects/" + key, "", 200},
		"ReadByReader":     {reader, "GET", "objects/" + key, "", 200},
		"ReadOthers":       {token, "GET", "objects/v1/ns/other/record/1.tar.zst", "", 403},
		"ReadAnother":      {reader, "GET", "objects/" + recordPrefix + "/2.tar.zst", "", 403},
		"Escape":           {token, "GET", "objects/" + recordPrefix + "/%2e%2e/%2e%2e/other/record/1.tar.zst", "", 403},
		"EscapeSlash":      {token, "GET", "objects/" + recordPrefix + "%2f..%2f..%2fother/record/1.tar.zst", "", 403},
		"Dots":             {token, "GET", "objects/" + recordPrefix + "/../../other/record/1.tar.zst", "", 403},
		"List":             {token, "GET", "objects/" + recordPrefix, "", 403},
		"ListAll":          {token, "GET", "objects/", "", 403},
		"Overwrite":        {token, "POST", "objects/" + key + "?uploads", "", 409},
		"WriteOthers":      {token, "POST", "objects/v1/ns/other/record/2.tar.zst?uploads", "", 403},
		"WriteManifest":    {token, "POST", "objects/" + recordPrefix + "/manifest.json?uploads", "", 403},
		"WriteByReader":    {reader, "POST", "objects/" + recordPrefix + "/2.tar.zst?uploads", "", 403},
		"WriteBesideProof": {done, "POST", "objects/v1/ns/xr/done/2.tar.zst?uploads", "", 409},
		"Delete":           {token, "DELETE", "objects/" + key, "", 403},
		"DeleteByReader":   {reader, "DELETE", "objects/" + key + "?upload=x", "", 403},
		"Put":              {token, "PUT", "objects/" + key, "x", 403},
		"PartZero":         {token, "PUT", "objects/" + key + "?upload=x&part=0", "x", 400},
		"PartTooMany":      {token, "PUT", "objects/" + key + "?upload=x&part=10001", "x", 400},
		"NoSuchUpload":     {token, "PUT", "objects/" + key + "?upload=x&part=1", "x", 410},
		"UploadAbove": {token, "DELETE", "objects/" + recordPrefix + "/new.tar.zst?upload=..%2F..%2F..%2F" +
			strings.ToLower(t.Name()) + "%2Fv1", "", 400},
		"UploadAll":       {token, "DELETE", "objects/" + recordPrefix + "/new.tar.zst?upload=..%2F..%2F..", "", 400},
		"UploadOfOthers":  {token, "PUT", "objects/" + recordPrefix + "/new.tar.zst?upload=..%2Fx&part=1", "x", 400},
		"UploadBackslash": {token, "POST", "objects/" + recordPrefix + "/new.tar.zst?upload=..%5Cx", "{}", 400},
		"UploadHere":      {token, "DELETE", "objects/" + recordPrefix + "/new.tar.zst?upload=.", "", 400},
		"UploadRoot":      {token, "DELETE", "objects/" + recordPrefix + "/new.tar.zst?upload=%2Fx", "", 400},
		"ManyParts": {token, "POST", "objects/" + recordPrefix + "/new.tar.zst?upload=x",
			`{"parts":[{}` + strings.Repeat(",{}", 10_000) + "]}", 400},
		"KeyToWriter": {token, "GET", "keys/" + key, "", 403},
		"KeyOfOthers": {reader, "GET", "keys/v1/ns/other/record/1.tar.zst", "", 403},
		"KeyWithout":  {reader, "GET", "keys/" + key, "", 409},
		"Elsewhere":   {token, "GET", "settings/" + key, "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, url+"/v1/"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.token != nil {
				r.Header.Set("Authorization", "Bearer "+string(c.token))
			}
			answer, err := h.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close() //nolint:errcheck // Nothing was written.
			if raw, _ := io.ReadAll(answer.Body); answer.StatusCode != c.want {
				t.Errorf("want %d, got %d: %s", c.want, answer.StatusCode, raw)
			}
		})
	}
	for object, want := range map[string]string{key: "mine", "v1/ns/other/record/1.tar.zst": "another's"} {
		if raw, err := g.Bucket.ReadSmall(t.Context(), object, 100); err != nil || string(raw) != want {
			t.Errorf("%s: want it as it was, got %q, %v", object, raw, err)
		}
	}
}

// TestRealFileKey checks that a file key from the gateway decrypts one object and no other.
func TestRealFileKey(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, id.String())
	for _, name := range []string{key, recordPrefix + "/2.tar.zst.age"} {
		var b bytes.Buffer
		w, err := age.Encrypt(&b, id.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "content of "+name); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), g.Bucket.Put(t.Context(), name, b.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	c := g.Client(t, gateway.Grant{Object: key})
	fileKey, err := c.FileKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string) (string, error) {
		raw, err := g.Bucket.ReadSmall(t.Context(), name, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		r, err := age.Decrypt(bytes.NewReader(raw), age.NewInjectedFileKeyIdentity(fileKey))
		if err != nil {
			return "", err
		}
		out, err := io.ReadAll(r)
		return string(out), err
	}
	if got, err := open(key); err != nil || got != "content of "+key {
		t.Errorf("want its content, got %q, %v", got, err)
	}
	if got, err := open(recordPrefix + "/2.tar.zst.age"); err == nil {
		t.Errorf("another one is opened by it: %q", got)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	g.Serve(t, other.String())
	if _, err := c.FileKey(t.Context(), key); err == nil || !strings.Contains(err.Error(), "cannot decrypt it") {
		t.Errorf("want that the identity is another one, got %v", err)
	}
	if err := g.Bucket.Put(t.Context(), key, []byte("no age file")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.FileKey(t.Context(), key); err == nil || !strings.Contains(err.Error(), "not encrypted, or it is damaged") {
		t.Errorf("want that it is no such object, got %v", err)
	}
}

// TestRealNewStore checks that a Job waits if the gateway does not have the settings of the Job's store yet. A Job
// may get its token before the kubelet has updated the settings. The archive must not be reported as missing.
func TestRealNewStore(t *testing.T) {
	g := gatewaytest.Start(t, "")
	if err := g.Bucket.Put(t.Context(), key, []byte("there")); err != nil {
		t.Fatal(err)
	}
	token, err := g.Signer.Sign(gateway.Grant{Store: "new", Object: key}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	dir := g.MountDir(t, gateway.Grant{Object: key})
	if err := os.WriteFile(filepath.Join(dir, gateway.TokenFile), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { g.ServeAs(t, "new") })
	c, err := gateway.NewClient(dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := read(t, c, key); err != nil || string(raw) != "there" {
		t.Errorf("want it once the store is known, got %q, %v", raw, err)
	}
}

// TestRealStuck checks that a read fails if it always breaks at the same byte.
func TestRealStuck(t *testing.T) {
	g := gatewaytest.Start(t, "")
	if err := g.Bucket.Put(t.Context(), key, []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	c := g.Client(t, gateway.Grant{Object: key})
	c.GiveUpAfter(2 * time.Second)
	g.Store.Break(func(r *http.Request) (f storetest.Fault) {
		f.CutOff = r.Method == http.MethodGet && r.Header.Get("Range") == ""
		f.Reset = r.Header.Get("Range") != ""
		return f
	})
	if raw, err := read(t, c, key); err == nil {
		t.Errorf("want that it is given up, got %q", raw)
	}
}

// TestRealSlow checks that other Jobs are not delayed if one Job stops sending.
func TestRealSlow(t *testing.T) {
	g := gatewaytest.Start(t, "")
	if err := g.Bucket.Put(t.Context(), key, []byte("there")); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(g.MountDir(t, gateway.Grant{Prefix: recordPrefix}), gateway.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	url, h := g.URL()
	statuses := make(chan int, 100)
	open := make([]*io.PipeWriter, 0, 100)
	for range 100 {
		body, w := io.Pipe()
		open = append(open, w)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
			url+"/v1/objects/"+recordPrefix+"/2.tar.zst?upload=x&part=1", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 10
		r.Header.Set("Authorization", "Bearer "+string(token))
		go func() {
			answer, err := h.Do(r)
			if err != nil {
				statuses <- 0
				return
			}
			_ = answer.Body.Close() // Nothing was written.
			statuses <- answer.StatusCode
		}()
	}
	for range 92 {
		if s := <-statuses; s != http.StatusTooManyRequests {
			t.Errorf("want that it is told to come again, got %d", s)
		}
	}
	if raw, err := read(t, g.Client(t, gateway.Grant{Object: key}), key); err != nil || string(raw) != "there" {
		t.Errorf("another Job waits: %q, %v", raw, err)
	}
	for _, w := range open {
		_ = w.CloseWithError(io.ErrUnexpectedEOF) // This interrupts the uploads.
	}
}

// TestRealGivesUp checks that an error is returned immediately if only a user can fix it. An expired token is
// retried.
func TestRealGivesUp(t *testing.T) {
	g := gatewaytest.Start(t, "")
	c := g.Client(t, gateway.Grant{Prefix: recordPrefix})
	if _, err := read(t, c, key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want that there is none, got %v", err)
	}
	for code, want := range map[string]store.Kind{"AccessDenied": store.Denied, "InvalidAccessKeyId": store.Unknown,
		"RequestTimeTooSkewed": store.WrongClock, "QuotaExceeded": store.Full} {
		g.Store.Break(func(r *http.Request) (f storetest.Fault) {
			if r.Method != http.MethodHead {
				f.Status, f.Code = http.StatusForbidden, code
			}
			return f
		})
		begin := time.Now()
		err := write(t, c, key, []byte("x"))
		if e := new(gateway.ServerError); !errors.As(err, &e) || e.Kind != want {
			t.Errorf("want %s, got %v", want, err)
		}
		if time.Since(begin) > time.Minute {
			t.Errorf("%s is tried again, which helps nobody", code)
		}
	}
	g.Store.Break(nil)
	ended, err := g.Signer.Sign(gateway.Grant{Store: gatewaytest.StoreName, Prefix: recordPrefix}, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	dir := g.MountDir(t, gateway.Grant{Prefix: recordPrefix})
	whole, err := os.ReadFile(filepath.Join(dir, gateway.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, gateway.TokenFile), []byte(ended), 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = os.WriteFile(filepath.Join(dir, gateway.TokenFile), whole, 0o600) })
	waiting, err := gateway.NewClient(dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := write(t, waiting, key, []byte("x")); err != nil {
		t.Errorf("want that the new token is used, got %v", err)
	}
}
