package recovery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// An archive is the archived log of a fake server. It has six segments of five transactions each.
type archive struct {
	t        *testing.T // The current test.
	objects  *fakelog.Objects
	key      store.SigningKey
	identity *age.X25519Identity
	uuid     string
	log      Log
	// transactions are all transactions of the server, the first of which is not archived.
	transactions []fakelog.Transaction
}

// newArchive archives the log of a fake server.
func newArchive(t *testing.T, identity *age.X25519Identity) *archive {
	t.Helper()
	return newArchiveWith(t, identity, nil)
}

// newArchiveWith archives the log of a fake server whose clock changes before some transactions.
func newArchiveWith(t *testing.T, identity *age.X25519Identity, steps map[int]time.Duration) *archive {
	t.Helper()
	a := &archive{objects: fakelog.NewObjects(), key: store.NewSigningKey(), identity: identity}
	synctest.Test(t, func(t *testing.T) {
		server := fakelog.NewServer()
		server.Commit(10, 0)
		ctx, stop := context.WithCancel(t.Context())
		archiver := &logarchive.Archiver{Reader: a.reader(), Now: time.Now, Report: func(logarchive.Progress) {},
			Connect: func(ctx context.Context) (logarchive.Stream, binlog.State, error) { return server.Connect(ctx) }}
		if identity != nil {
			archiver.Recipients = []age.Recipient{identity.Recipient()}
		}
		ended := make(chan error)
		go func() { ended <- archiver.Run(ctx) }()
		time.Sleep(time.Second)
		for i := range 6 {
			for k := range 5 {
				server.StepClock(steps[2+5*i+k])
				server.Commit(200, 0)
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		server.Visit(func(all []*fakelog.Generation) { a.transactions, a.uuid = all[0].Log, all[0].UUID })
	})
	a.choose(t)
	return a
}

// Open implements Source.
func (a *archive) Open(_ context.Context, key string) (io.ReadCloser, error) {
	raw := a.objects.Get(key)
	if raw == nil {
		return nil, &store.Error{Kind: store.NotFound, Verb: "read", Key: key, Err: errors.New("no such key")}
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// Decrypt implements Source.
func (a *archive) Decrypt(_ context.Context, _ string, raw io.Reader) (io.Reader, error) {
	return age.Decrypt(raw, a.identity)
}

// choose sets the field log to the only timeline in the archive, up to its last segment, as the controller does.
func (a *archive) choose(t *testing.T) {
	t.Helper()
	all, err := a.reader().Timelines(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	last, err := a.reader().Last(t.Context(), all[0])
	if err != nil || last.Number != 6 {
		t.Fatal(last, err)
	}
	a.log = Log{Timeline: last.Timeline, Last: last.Number, Digest: last.Digest, Until: last.Time}
}

func (a *archive) reader() logarchive.Reader {
	return logarchive.Reader{Bucket: &fakelog.Bucket{Objects: a.objects}, Key: a.key, Log: "v1/ns/xr/log"}
}

// clone returns a copy of the archive.
func (a *archive) clone() *archive {
	c := *a
	c.objects = a.objects.Clone()
	return &c
}

func (a *archive) manifest(t *testing.T, number int64) *logarchive.Manifest {
	t.Helper()
	m, err := logarchive.ParseTrusted(a.objects.Get(a.log.Timeline.ManifestKey(number)), number)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// segmentKey returns the key of the object that contains a segment.
func (a *archive) segmentKey(t *testing.T, number int64) string {
	t.Helper()
	return a.log.Timeline.SegmentKey(a.manifest(t, number))
}

// edit replaces the content of a segment by the result of change.
func (a *archive) edit(t *testing.T, number int64, change func([]byte) []byte) {
	t.Helper()
	key := a.segmentKey(t, number)
	a.objects.Set(key, change(slices.Clone(a.objects.Get(key))))
}

// swap exchanges the contents of two objects of the archive.
func (a *archive) swap(one, two string) {
	raw := a.objects.Get(one)
	a.objects.Set(one, a.objects.Get(two))
	a.objects.Set(two, raw)
}

// forge replaces a segment and all manifests from it on, as a user with the signing key could.
func (a *archive) forge(t *testing.T, number int64, change func(*logarchive.Manifest, []byte) []byte) {
	t.Helper()
	for n := number; n <= a.log.Last; n++ {
		m := a.manifest(t, n)
		if n == number {
			key := a.log.Timeline.SegmentKey(m)
			raw := change(m, a.objects.Get(key))
			a.objects.Set(key, raw)
			m.SHA256, m.Size = logarchive.Digest(raw), int64(len(raw))
		} else {
			m.Previous = logarchive.Digest(a.objects.Get(a.log.Timeline.ManifestKey(n - 1)))
		}
		key := a.log.Timeline.ManifestKey(n)
		raw, err := a.key.Sign(key, m)
		if err != nil {
			t.Fatal(err)
		}
		a.objects.Set(key, raw)
	}
	a.log.Digest = logarchive.Digest(a.objects.Get(a.log.Timeline.ManifestKey(a.log.Last)))
}

// compress compresses a file of transactions.
func compress(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// file returns a compressed segment with these transactions.
func (a *archive) file(t *testing.T, m *logarchive.Manifest, numbers ...int) []byte {
	t.Helper()
	before, err := m.BeforeSegment()
	if err != nil {
		t.Fatal(err)
	}
	list := make([]fakelog.Transaction, 0, len(numbers))
	for _, n := range numbers {
		list = append(list, a.transactions[n-1])
	}
	raw, err := fakelog.File(before, list...)
	if err != nil {
		t.Fatal(err)
	}
	m.Bytes = int64(len(raw))
	return compress(t, raw)
}

// TestHostileArchive checks that a recovery refuses a damaged or replaced archive, and leaves no file in the data.
func TestHostileArchive(t *testing.T) {
	plain := newArchive(t, nil)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	encrypted := newArchive(t, identity)
	for name, tc := range map[string]struct {
		isEncrypted bool
		change      func(a *archive)
		// base is the number of the last transaction in the backup. target is the number of the transaction to recover
		// to, or 0 for transaction 29.
		base, target int
		want         string
		code         int
	}{
		"Intact":          {},
		"IntactEncrypted": {isEncrypted: true},
		"IntactLateBase":  {base: 13},
		"UnneededSegmentLost": {base: 12, change: func(a *archive) {
			a.objects.Set(a.segmentKey(a.t, 1), nil)
			a.objects.Set(a.log.Timeline.ManifestKey(1), nil)
		}},
		"SegmentLost": {change: func(a *archive) { a.objects.Set(a.segmentKey(a.t, 3), nil) },
			want: "use a later backup", code: agent.ExitMissing},
		"ManifestLost": {change: func(a *archive) { a.objects.Set(a.log.Timeline.ManifestKey(3), nil) },
			want: "use a later backup", code: agent.ExitMissing},
		"DamagedByte": {change: func(a *archive) {
			a.edit(a.t, 3, func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"DamagedByteEncrypted": {isEncrypted: true, change: func(a *archive) {
			a.edit(a.t, 3, func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"DamageAfterTarget": {change: func(a *archive) {
			a.edit(a.t, 6, func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"Truncated": {change: func(a *archive) {
			a.edit(a.t, 3, func(raw []byte) []byte { return raw[:len(raw)-9] })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"Empty": {change: func(a *archive) {
			a.edit(a.t, 3, func([]byte) []byte { return []byte{} })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"Longer": {change: func(a *archive) {
			a.edit(a.t, 3, func(raw []byte) []byte { return append(raw, raw...) })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"HugeContent": {change: func(a *archive) {
			a.edit(a.t, 3, func([]byte) []byte { return compress(a.t, make([]byte, 256<<20)) })
		}, want: "its manifest says", code: agent.ExitDamaged},
		"SegmentsExchanged": {change: func(a *archive) { a.swap(a.segmentKey(a.t, 3), a.segmentKey(a.t, 4)) },
			want: "its manifest says", code: agent.ExitDamaged},
		"ManifestsExchanged": {change: func(a *archive) {
			a.swap(a.log.Timeline.ManifestKey(3), a.log.Timeline.ManifestKey(4))
		}, want: "was replaced", code: agent.ExitDamaged},
		"BothExchanged": {change: func(a *archive) {
			a.swap(a.segmentKey(a.t, 3), a.segmentKey(a.t, 4))
			a.swap(a.log.Timeline.ManifestKey(3), a.log.Timeline.ManifestKey(4))
		}, want: "was replaced", code: agent.ExitDamaged},
		"OlderManifest": {change: func(a *archive) {
			a.objects.Set(a.log.Timeline.ManifestKey(4), a.objects.Get(a.log.Timeline.ManifestKey(3)))
		}, want: "was replaced", code: agent.ExitDamaged},
		"ManifestOfOtherKey": {change: func(a *archive) {
			key := a.log.Timeline.ManifestKey(4)
			raw, err := store.NewSigningKey().Sign(key, a.manifest(a.t, 4))
			if err != nil {
				a.t.Fatal(err)
			}
			a.objects.Set(key, raw)
		}, want: "was replaced", code: agent.ExitDamaged},
		"ManifestIsNoJSON": {change: func(a *archive) {
			a.objects.Set(a.log.Timeline.ManifestKey(4), []byte("x"))
		}, want: "is not a manifest", code: agent.ExitDamaged},
		"HugeManifest": {change: func(a *archive) {
			a.objects.Set(a.log.Timeline.ManifestKey(4), make([]byte, 64<<20))
		}, want: "is not a manifest", code: agent.ExitDamaged},
		"WrongDigest": {change: func(a *archive) { a.log.Digest = strings.Repeat("0", 64) },
			want: "was replaced", code: agent.ExitDamaged},
		"OtherTimeline": {change: func(a *archive) {
			other := newArchive(a.t, nil)
			a.objects.Set(a.segmentKey(a.t, 3), other.objects.Get(other.segmentKey(a.t, 3)))
		}, want: "its manifest says", code: agent.ExitDamaged},
		"OtherTimelineWithManifest": {change: func(a *archive) {
			other := newArchive(a.t, nil)
			a.objects.Set(a.log.Timeline.ManifestKey(3), other.objects.Get(other.log.Timeline.ManifestKey(3)))
		}, want: "was replaced", code: agent.ExitDamaged},
		"TransactionTwice": {change: func(a *archive) {
			a.forge(a.t, 3, func(m *logarchive.Manifest, _ []byte) []byte { return a.file(a.t, m, 12, 13, 14, 14, 15, 16) })
		}, want: "occurs twice", code: agent.ExitDamaged},
		"TransactionOfEarlierSegment": {change: func(a *archive) {
			a.forge(a.t, 3, func(m *logarchive.Manifest, _ []byte) []byte { return a.file(a.t, m, 11, 12, 13, 14, 15, 16) })
		}, want: "occurs twice", code: agent.ExitDamaged},
		"TransactionLost": {change: func(a *archive) {
			a.forge(a.t, 3, func(m *logarchive.Manifest, _ []byte) []byte { return a.file(a.t, m, 12, 13, 15, 16) })
		}, want: "but its manifest says", code: agent.ExitDamaged},
		"TransactionTooMany": {change: func(a *archive) {
			a.forge(a.t, 3, func(m *logarchive.Manifest, _ []byte) []byte { return a.file(a.t, m, 12, 13, 14, 15, 16, 17) })
		}, want: "but its manifest says", code: agent.ExitDamaged},
		"GapBetweenManifests": {change: func(a *archive) {
			a.forge(a.t, 3, func(m *logarchive.Manifest, _ []byte) []byte {
				m.GTIDs, m.Until, m.LastGTID = a.uuid+":13-16", a.uuid+":1-16", a.uuid+":16"
				return a.file(a.t, m, 13, 14, 15, 16)
			})
		}, want: "does not continue segment", code: agent.ExitDamaged},
		"BaseTooOld":      {base: -1, want: "A later backup is required", code: agent.ExitTarget},
		"BaseTooNew":      {base: 30, target: 20, want: "An older backup is required", code: agent.ExitTarget},
		"BaseAfterTarget": {base: 30, target: 28, want: "An older backup is required", code: agent.ExitTarget},
		"NotInArchive":    {target: 99, want: "is not in the archive", code: agent.ExitTarget},
		"NoSegment":       {change: func(a *archive) { a.log.Last = 0 }, want: "has no segment", code: agent.ExitTarget},
	} {
		t.Run(name, func(t *testing.T) {
			a := plain.clone()
			if tc.isEncrypted {
				a = encrypted.clone()
			}
			if tc.change != nil {
				a.t = t
				tc.change(a)
			}
			target := 29
			if tc.target > 0 {
				target = tc.target
			}
			r := &Recovery{Data: t.TempDir(), Log: a.log, Source: a, Output: io.Discard,
				Target: Target{GTID: binlog.GTID{Source: a.uuid, Number: int64(target)}}}
			base := binlog.Set{}
			if last := int64(max(tc.base, 1)); tc.base >= 0 {
				base = binlog.Set{a.uuid: {{First: 1, Last: last}}}
			}
			c, err := r.writeRelay(t.Context(), base)
			found, _ := filepath.Glob(filepath.Join(r.Data, "*"))
			if tc.want == "" {
				if err != nil || c.last.GTID.Number != int64(target) || len(found) < 3 {
					t.Fatal(err, found)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if coded := new(agent.ExitError); !errors.As(exit.CodeOf(t.Context(), err), &coded) || coded.Code != tc.code {
				t.Errorf("exit code %d, want %d: %v", coded.Code, tc.code, err)
			}
			if len(found) > 0 {
				t.Errorf("files are left: %v", found)
			}
		})
	}
}

// TestHostileTimes checks the errors for times that are before or after the transactions of the archive.
func TestHostileTimes(t *testing.T) {
	a := newArchive(t, nil)
	first, last := a.transactions[1].Time, a.transactions[len(a.transactions)-1].Time
	for name, tc := range map[string]struct {
		target  uint64
		base    int64
		applied int64
		want    string
	}{
		"BeforeAll":     {target: first - 1, base: 1},
		"First":         {target: first, base: 1, applied: 1},
		"BeforeBase":    {target: first, base: 7, want: "An older backup is required"},
		"LastOfArchive": {target: last, base: 1, applied: 30},
		"Idle":          {target: a.log.Until, base: 1, applied: 30},
		"AfterArchive":  {target: a.log.Until + 1, base: 1, want: "recover to an earlier time"},
		// The archive is complete up to the target. Transactions of the backup that are not archived are therefore
		// later.
		"BaseAfterArchive": {target: a.log.Until, base: 40, want: "An older backup is required"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Recovery{Data: t.TempDir(), Log: a.log, Source: a, Output: io.Discard, Target: Target{Time: tc.target}}
			c, err := r.writeRelay(t.Context(), binlog.Set{a.uuid: {{First: 1, Last: tc.base}}})
			if tc.want == "" && (err != nil || c.applied != tc.applied) || tc.want != "" && (err == nil ||
				!strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestSteppedClock checks that a time is refused if the clock went backwards there, and nothing is written.
func TestSteppedClock(t *testing.T) {
	a := newArchive(t, nil)
	m := a.manifest(t, 3)
	a.forge(t, 3, func(m *logarchive.Manifest, raw []byte) []byte {
		m.SteppedAt = 3
		return raw
	})
	r := &Recovery{Data: t.TempDir(), Log: a.log, Source: a, Output: io.Discard, Target: Target{Time: m.LastTime - 1}}
	_, err := r.writeRelay(t.Context(), binlog.Set{a.uuid: {{First: 1, Last: 1}}})
	found, _ := filepath.Glob(filepath.Join(r.Data, "*"))
	if err == nil || !strings.Contains(err.Error(), "recover to a GTID instead of a time") || len(found) > 0 {
		t.Error(err, found)
	}
	r.Target.Time = a.manifest(t, 5).LastTime // A later time is not ambiguous.
	if _, err := r.writeRelay(t.Context(), binlog.Set{a.uuid: {{First: 1, Last: 1}}}); err != nil {
		t.Error(err)
	}
}

// TestNoSpace checks that the relay log is not written if it does not fit into the free space of the volume.
func TestNoSpace(t *testing.T) {
	a := newArchive(t, nil)
	a.forge(t, 2, func(m *logarchive.Manifest, raw []byte) []byte {
		m.Bytes = 1 << 50
		return raw
	})
	r := &Recovery{Data: t.TempDir(), Log: a.log, Source: a, Output: io.Discard,
		Target: Target{GTID: a.transactions[28].GTID}}
	_, err := r.writeRelay(t.Context(), binlog.Set{a.uuid: {{First: 1, Last: 1}}})
	coded := new(agent.ExitError)
	if !errors.As(err, &coded) || coded.Code != agent.ExitNoSpace || !strings.Contains(err.Error(), "or a larger volume") {
		t.Error(err)
	}
}

// TestInterrupted checks that a recovery refuses data that an interrupted recovery may have changed.
func TestInterrupted(t *testing.T) {
	r := &Recovery{Data: t.TempDir(), Scratch: t.TempDir(), Output: io.Discard}
	if err := os.WriteFile(filepath.Join(r.Data, relayIndex), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.runWith(t.Context(), "/none"); err == nil || !strings.Contains(err.Error(), "must be restored again") {
		t.Error(err)
	}
	if found, _ := filepath.Glob(filepath.Join(r.Data, "*")); len(found) != 1 {
		t.Errorf("files %v", found)
	}
}
