//go:build store

package archive

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/gatewaytest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

// A remotePlace has a data volume, and a backup gateway to a store for the backups of that volume.
type remotePlace struct {
	place
	*gatewaytest.Gateway

	identity *age.X25519Identity
}

const remotePrefix = "v1/ns-uid/xr-uid/one"

func newRemotePlace(t *testing.T) remotePlace {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	must(t, err)
	return remotePlace{place: newPlace(t), Gateway: gatewaytest.Start(t, id.String()), identity: id}
}

func (p remotePlace) newBackup(t *testing.T, recipients ...age.Recipient) *Backup {
	t.Helper()
	b := p.place.newBackup()
	b.Archive, b.Output = remotePrefix, t.Output()
	b.Remote = &Remote{Gateway: p.Client(t, gateway.Grant{Prefix: remotePrefix}), Recipients: recipients}
	return b
}

func (p remotePlace) newRestore(t *testing.T, r agent.Report) *Restore {
	t.Helper()
	key := path.Join(remotePrefix, r.Archive)
	return &Restore{
		Archive: key, SHA256: r.SHA256, Volume: t.TempDir(), Directory: v1.DataDirectory, Source: "9.7.4-2",
		SourceClean: true, Target: targetVersion(t, "9.7.4-2"), Output: t.Output(),
		Remote: &Remote{Gateway: p.Client(t, gateway.Grant{Object: key}), Manifest: r.Manifest},
	}
}

// backUp runs a backup and returns its report.
func (p remotePlace) backUp(t *testing.T, recipients ...age.Recipient) agent.Report {
	t.Helper()
	r, err := p.newBackup(t, recipients...).Run(t.Context())
	must(t, err)
	if !r.OK || r.Size == 0 || len(r.Manifest) == 0 || len(r.Manifest) > agent.MaxManifest {
		t.Fatalf("that is no report of an archive in a store: %+v", r)
	}
	raw, err := r.Encode()
	must(t, err)
	if len(raw) > 4096 {
		t.Errorf("the kubelet reads 4096 bytes of a report, and it has %d", len(raw))
	}
	return r
}

func (p remotePlace) dataOf(dir string) string { return filepath.Join(dir, v1.DataDirectory) }

func (p remotePlace) objects(t *testing.T) []string {
	t.Helper()
	os, err := p.Bucket.List(t.Context(), remotePrefix, 100)
	must(t, err)
	uploads, err := p.Bucket.Uploads(t.Context(), remotePrefix, 100)
	must(t, err)
	out := make([]string, 0, len(os)+len(uploads))
	for _, o := range os {
		out = append(out, path.Base(o.Key))
	}
	for _, u := range uploads {
		out = append(out, "upload "+u.Key)
	}
	return out
}

// TestRealStoreAndBack restores plain and encrypted archives from a store, with the product and with common tools.
func TestRealStoreAndBack(t *testing.T) {
	p := newRemotePlace(t)
	hybrid, err := age.GenerateHybridIdentity()
	must(t, err)
	for name, c := range map[string]struct {
		recipients []age.Recipient
		identity   age.Identity
	}{
		"Plain":       {},
		"Encrypted":   {[]age.Recipient{p.identity.Recipient()}, p.identity},
		"PostQuantum": {[]age.Recipient{hybrid.Recipient()}, hybrid},
	} {
		t.Run(name, func(t *testing.T) {
			if c.identity != nil {
				p.Serve(t, fmt.Sprint(c.identity))
			}
			want := snapshot(t, p.dataOf(p.data))
			r := p.backUp(t, c.recipients...)
			if got := strings.HasSuffix(r.Archive, ".age"); got != (c.recipients != nil) {
				t.Errorf("the archive's name is %s", r.Archive)
			}
			s := p.newRestore(t, r)
			back, err := s.Run(t.Context())
			must(t, err)
			if back.SHA256 != r.SHA256 || back.DataBytes != r.DataBytes {
				t.Errorf("want the report of what was restored, got %+v", back)
			}
			if diff := cmp.Diff(restorable(t, p.dataOf(p.data)), snapshot(t, p.dataOf(s.Volume))); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if second, err := s.Run(t.Context()); err != nil || !second.Already {
				t.Errorf("want that it is there already, got %+v, %v", second, err)
			}
			p.byHand(t, r, c.identity, want)
		})
	}
}

// byHand restores the archive as age -d and tar --zstd -x would. It uses age's library instead of its command.
func (p remotePlace) byHand(t *testing.T, r agent.Report, id age.Identity, want string) {
	t.Helper()
	raw, err := p.Bucket.ReadSmall(t.Context(), path.Join(remotePrefix, r.Archive), 64<<20)
	must(t, err)
	if id != nil {
		in, err := age.Decrypt(bytes.NewReader(raw), id)
		must(t, err)
		raw, err = io.ReadAll(in)
		must(t, err)
	} else if bytes.Contains(raw, []byte("age-encryption.org")) {
		t.Error("nobody has asked for that")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.tar.zst"), raw, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "out"), 0o700))
	out, err := exec.CommandContext(t.Context(), "tar", "--zstd", "-xf", filepath.Join(dir, "a.tar.zst"), "-C",
		filepath.Join(dir, "out"), "--xattrs").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := snapshot(t, filepath.Join(dir, "out")); got != want {
		t.Errorf("-want, +got:\n%s", cmp.Diff(want, got))
	}
}

// TestRealStoreDamage checks that the verification and the restore detect damage, and distinguish it from a failed
// connection.
func TestRealStoreDamage(t *testing.T) {
	p := newRemotePlace(t)
	recipient := p.identity.Recipient()
	isObject := func(r *http.Request) bool {
		return r.Method == http.MethodGet && !r.URL.Query().Has("list-type") && !r.URL.Query().Has("uploads")
	}
	change := func(f func([]byte) []byte) func(*http.Request) storetest.Fault {
		return func(r *http.Request) (out storetest.Fault) {
			if isObject(r) {
				out.Change = f
			}
			return out
		}
	}
	oneBit := func(fraction float64) func([]byte) []byte {
		return func(raw []byte) []byte {
			raw = bytes.Clone(raw)
			raw[int(float64(len(raw)-1)*fraction)] ^= 1
			return raw
		}
	}
	for name, f := range map[string]func([]byte) []byte{
		"BitInHeader": oneBit(0.00001), "BitInTheMiddle": oneBit(0.5), "BitAtTheEnd": oneBit(1),
		"Zeroes": func(raw []byte) []byte { return make([]byte, len(raw)) },
	} {
		for kind, recipients := range map[string][]age.Recipient{"Plain": nil, "Encrypted": {recipient}} {
			t.Run(kind+name, func(t *testing.T) {
				p.Store.Break(change(f))
				r, err := p.newBackup(t, recipients...).Run(t.Context())
				p.Store.Break(nil)
				if code := agent.CodeOf(err); code != agent.ExitDamaged || r.OK || r.SHA256 != "" {
					t.Errorf("a backup: want damage, got %v, %+v", err, r)
				}
				good := p.backUp(t, recipients...)
				s := p.newRestore(t, good)
				p.Store.Break(change(f))
				_, err = s.Run(t.Context())
				p.Store.Break(nil)
				// If the header contains no matching file key, the wrong identity may be the cause.
				if code := agent.CodeOf(err); code != agent.ExitDamaged &&
					(kind+name != "EncryptedBitInHeader" && kind+name != "EncryptedZeroes" || code != agent.ExitFailed) {
					t.Errorf("a restore: want damage, got %d, %v", code, err)
				}
				if got := names(t, s.Volume); len(got) != 0 {
					t.Errorf("want nothing on the volume, got %q", got)
				}
			})
		}
	}
	good := p.backUp(t, recipient)
	t.Run("WrongIdentity", func(t *testing.T) {
		other, err := age.GenerateX25519Identity()
		must(t, err)
		p.Serve(t, other.String())
		defer p.Serve(t, p.identity.String())
		if _, err := p.newRestore(t, good).Run(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "cannot decrypt it") {
			t.Errorf("want the identity, got %v", err)
		}
	})
	t.Run("OtherManifest", func(t *testing.T) {
		s := p.newRestore(t, good)
		s.Remote.Manifest = bytes.Replace(s.Remote.Manifest, []byte(good.SHA256), []byte(strings.Repeat("0", 64)), 1)
		if _, err := s.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged {
			t.Errorf("want damage, got %v", err)
		}
	})
	t.Run("Swapped", func(t *testing.T) {
		p.put(t, "shop/orders.ibd", []byte("later"))
		other := p.backUp(t, recipient)
		raw, err := p.Bucket.ReadSmall(t.Context(), path.Join(remotePrefix, other.Archive), 64<<20)
		must(t, err)
		must(t, p.Bucket.Put(t.Context(), path.Join(remotePrefix, good.Archive), raw))
		if _, err := p.newRestore(t, good).Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged {
			t.Errorf("want damage, got %v", err)
		}
	})
	t.Run("Gone", func(t *testing.T) {
		must(t, p.Bucket.Delete(t.Context(), path.Join(remotePrefix, good.Archive)))
		if _, err := p.newRestore(t, good).Run(t.Context()); agent.CodeOf(err) != agent.ExitMissing {
			t.Errorf("want that it is missing, got %v", err)
		}
	})
}

// TestRealStoreFaults checks that a failed backup leaves no upload, and that its error contains a next step. The
// remains of a killed backup must not disturb the next run.
func TestRealStoreFaults(t *testing.T) {
	p := newRemotePlace(t)
	recipient := p.identity.Recipient()
	for code, says := range map[string]string{"AccessDenied": "do not permit this request", "QuotaExceeded": "free space",
		"InvalidAccessKeyId": "credentialsSecretRef", "RequestTimeTooSkewed": "correct them"} {
		n := 0
		p.Store.Break(func(r *http.Request) (f storetest.Fault) {
			if r.Method == http.MethodPut {
				if n++; n > 1 { // The first part is accepted.
					f.Status, f.Code = http.StatusForbidden, code
				}
			}
			return f
		})
		b := p.newBackup(t, recipient)
		for i := range 3 {
			p.put(t, fmt.Sprintf("noise%d.ibd", i), content(9<<20, true))
		}
		r, err := b.Run(t.Context())
		p.Store.Break(nil)
		if err == nil || r.OK || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want %q, got %v", code, says, err)
		}
		if got := p.objects(t); len(got) != 0 {
			t.Errorf("%s: want nothing left, got %q", code, got)
		}
	}
	want := restorable(t, p.dataOf(p.data))
	for _, step := range []string{stepBegun, stepWritten, stepSynced, stepVerified} {
		b := p.newBackup(t, recipient)
		func() {
			// A panic simulates a killed process. Unlike a real kill, it aborts the current upload.
			defer func() {
				if reason := recover(); reason != step {
					t.Errorf("it did not end at %s: %v", step, reason)
				}
			}()
			b.hook = func(name string) {
				if name == step {
					panic(step)
				}
			}
			_, _ = b.Run(t.Context())
		}()
	}
	r := p.backUp(t, recipient)
	s := p.newRestore(t, r)
	if _, err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, snapshot(t, p.dataOf(s.Volume))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestRealStoreBreaks interrupts the connection repeatedly during upload, verification and restore, which must all
// continue.
func TestRealStoreBreaks(t *testing.T) {
	p := newRemotePlace(t)
	for i := range 4 {
		p.put(t, fmt.Sprintf("noise%d.ibd", i), content(9<<20, true))
	}
	want := restorable(t, p.dataOf(p.data))
	n := 0
	p.Store.Break(func(*http.Request) (f storetest.Fault) {
		switch n++; n % 11 { // Each call of the gateway needs several requests to the store.
		case 1:
			f.Reset = true
		case 4:
			p.Kill()
		case 7:
			f.CutOff = true
		}
		return f
	})
	r := p.backUp(t, p.identity.Recipient())
	s := p.newRestore(t, r)
	if _, err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, snapshot(t, p.dataOf(s.Volume))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if n < 12 {
		t.Errorf("only %d requests were there to break", n)
	}
}

// TestRealStoreUnpack checks that an archive in a store can be unpacked to a volume for a restore test.
func TestRealStoreUnpack(t *testing.T) {
	p := newRemotePlace(t)
	want := restorable(t, p.dataOf(p.data))
	u := Unpack{Restore: *p.newRestore(t, p.backUp(t, p.identity.Recipient()))}
	begin := time.Now()
	if r, err := u.Run(t.Context()); err != nil || !r.OK {
		t.Fatalf("want a copy, got %+v, %v after %s", r, err, time.Since(begin))
	}
	if diff := cmp.Diff(want, snapshot(t, p.dataOf(filepath.Join(u.Volume, v1.RestoreTestDir)))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
