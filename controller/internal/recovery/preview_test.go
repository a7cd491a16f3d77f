package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

// A countingSource counts the segments that a preview reads.
type countingSource struct {
	Source

	segments int
	// noKey is true if the source has no key to decrypt segments.
	noKey bool
}

func (s *countingSource) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if !strings.HasSuffix(key, ".json") {
		s.segments++
	}
	return s.Source.Open(ctx, key)
}

func (s *countingSource) Decrypt(ctx context.Context, key string, raw io.Reader) (io.Reader, error) {
	if s.noKey {
		return nil, fmt.Errorf("%w: there is no identity", ErrNoKey)
	}
	return s.Source.Decrypt(ctx, key, raw)
}

// preview returns the preview of a recovery from a backup that began at the commit time of transaction base.
func (a *archive) preview(t *testing.T, target Target, base int, s Source) (*Preview, error) {
	t.Helper()
	last, damage, err := a.reader().LastReadable(t.Context(), a.log.Timeline)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.UnixMicro(int64(a.transactions[base-1].Time)) //nolint:gosec // A time.
	return NewPreview(t.Context(), target, Base{Begun: begun}, Line{Last: last, Damage: damage}, a.reader(), s)
}

// TestPreviewIsTrue compares previews with recoveries, for each time at or next to a commit and for each transaction. The
// last transaction, the next one and the number of segments must be the same, and both must refuse the same times. It does
// so with clocks that went backwards within a segment, between segments, and more than once.
func TestPreviewIsTrue(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		identity *age.X25519Identity
		steps    map[int]time.Duration
	}{
		"Plain":     {},
		"Encrypted": {identity: identity},
		"Within":    {steps: map[int]time.Duration{14: -20 * time.Millisecond}},
		"Between":   {steps: map[int]time.Duration{17: -8 * time.Second}},
		"Far":       {steps: map[int]time.Duration{24: -12 * time.Second}},
		"Twice":     {steps: map[int]time.Duration{10: -3 * time.Second, 25: -7 * time.Second}},
		"Corrected": {steps: map[int]time.Duration{12: 6 * time.Second, 23: -7 * time.Second}},
		"Last":      {steps: map[int]time.Duration{31: -time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchiveWith(t, tc.identity, tc.steps)
			targets := make([]Target, 0, 4*len(a.transactions))
			targets = append(targets, Target{Time: a.log.Until})
			for _, tr := range a.transactions[1:] {
				targets = append(targets, Target{GTID: tr.GTID}, Target{Time: tr.Time - 1}, Target{Time: tr.Time},
					Target{Time: tr.Time + 1})
			}
			refused := 0
			for _, target := range targets {
				if target.Time > a.log.Until {
					continue // The controller refuses it before.
				}
				fetched := &countingSource{Source: a}
				r := &Recovery{Data: t.TempDir(), Log: a.log, Source: fetched, Output: io.Discard, Target: target}
				c, want := r.writeRelay(t.Context(), binlog.Set{a.uuid: {{First: 1, Last: 1}}})
				read := &countingSource{Source: a}
				got, err := a.preview(t, target, 1, read)
				if (want != nil) != (err != nil) {
					t.Fatalf("%s: the recovery returns the error %v, its preview %v", target, want, err)
				}
				if want != nil {
					refused++
					if !errors.As(err, new(*agent.ExitError)) || !strings.Contains(err.Error(), "to a GTID instead of a time") ||
						!strings.Contains(want.Error(), "to a GTID instead of a time") {
						t.Errorf("%s: the recovery returns the error %v, its preview %v", target, want, err)
					}
					continue
				}
				if short := a.replayTo(t, got.End, target); !short.included.Equal(c.included) ||
					cmp.Diff(short.last, c.last) != "" || cmp.Diff(short.next, c.next) != "" {
					t.Errorf("%s: the log up to segment %d gives %+v, the whole log %+v", target, got.End.Number, short, c)
				}
				last := c.last
				if got.Last != nil && got.Last.Time == 0 { // It is unknown without the content of another segment.
					last = &binlog.Begin{GTID: last.GTID}
				}
				if diff := cmp.Diff(withoutLength(last), withoutLength(got.Last)); diff != "" {
					t.Errorf("%s: last transaction: -want, +got:\n%s", target, diff)
				}
				if diff := cmp.Diff(withoutLength(c.next), withoutLength(got.Next)); diff != "" {
					t.Errorf("%s: next transaction: -want, +got:\n%s", target, diff)
				}
				if got.Segments != int64(fetched.segments) || read.segments > 2 || got.Unknown != "" {
					t.Errorf("%s: want %d segments and at most 2 to read, got %+v and %d", target, fetched.segments, got, read.segments)
				}
			}
			if (refused > 0) != (tc.steps != nil) {
				t.Errorf("%d of %d targets are refused", refused, len(targets))
			}
		})
	}
}

// replayTo writes the transactions that a recovery would apply, with the log only up to the segment end.
func (a *archive) replayTo(t *testing.T, end *logarchive.Last, target Target) *cut {
	t.Helper()
	short := a.log
	short.Last, short.Digest = end.Number, end.Digest
	r := &Recovery{Data: t.TempDir(), Log: short, Source: a, Output: io.Discard, Target: target}
	c, err := r.writeRelay(t.Context(), binlog.Set{a.uuid: {{First: 1, Last: 1}}})
	if err != nil {
		t.Fatalf("%s with the log up to segment %d: %v", target, end.Number, err)
	}
	return c
}

// TestDamageAfterTheEnd checks that damaged and lost objects after the end of a recovery do not prevent it.
func TestDamageAfterTheEnd(t *testing.T) {
	encrypted := newArchive(t, nil)
	for name, damage := range map[string]func(a *archive, key string){
		"Lost":    func(a *archive, key string) { a.objects.Set(key, nil) },
		"Damaged": func(a *archive, key string) { a.objects.Set(key, []byte(`{"number": 4}`)) },
	} {
		for _, object := range []string{"Segment", "Manifest"} {
			for number := int64(4); number <= 6; number++ {
				t.Run(fmt.Sprintf("%s%s%d", object, name, number), func(t *testing.T) {
					a := encrypted.clone()
					key := a.log.Timeline.ManifestKey(number)
					if object == "Segment" {
						key = a.segmentKey(t, number)
					}
					damage(a, key)
					for _, target := range []Target{
						{Time: a.transactions[13].Time}, {GTID: a.transactions[13].GTID}, {GTID: a.transactions[13].GTID, IsBefore: true},
						{Time: a.transactions[15].Time}, {Time: a.transactions[15].Time + 9}, {GTID: a.transactions[15].GTID},
					} {
						got, err := a.preview(t, target, 1, a)
						if object == "Manifest" && number == 4 && target.Time >= a.transactions[15].Time {
							// Transactions of the next segment may have the same time.
							if err == nil || !strings.Contains(err.Error(), "segment 4 of the archived log is damaged or missing") {
								t.Errorf("%s: want a refusal, got %v, %v", target, got, err)
							}
							continue
						}
						if object == "Manifest" && number == 6 && target.Time > 0 { // The clock may have gone backwards in that segment.
							if err == nil || !strings.Contains(err.Error(), "may be ambiguous") {
								t.Errorf("%s: want a refusal, got %v, %v", target, got, err)
							}
							continue
						}
						if err != nil {
							t.Errorf("%s: %v", target, err)
							continue
						}
						a.replayTo(t, got.End, target)
					}
				})
			}
		}
	}
}

// TestDamagedTarget checks that a recovery is refused if the segment of its target is damaged after the target, or if its
// manifest is lost and the backup is later.
func TestDamagedTarget(t *testing.T) {
	whole := newArchive(t, nil)
	a := whole.clone()
	a.edit(t, 3, func(raw []byte) []byte { return append(raw, 0) })
	if got, err := a.preview(t, Target{GTID: a.transactions[12].GTID}, 1, a); err == nil ||
		!strings.Contains(err.Error(), "its manifest says") {
		t.Errorf("damaged after the transaction: got %+v, %v", got, err)
	}
	a = whole.clone()
	a.objects.Set(a.log.Timeline.ManifestKey(3), nil)
	if got, err := a.preview(t, Target{GTID: a.transactions[12].GTID}, 28, a); err == nil ||
		!strings.Contains(err.Error(), "no readable manifest") {
		t.Errorf("lost: got %+v, %v", got, err)
	}
}

// TestHiddenStep checks that a time is refused if the manifest of the segment in which the clock was set back is lost or
// damaged. The refusal names the last transaction up to the time.
func TestHiddenStep(t *testing.T) {
	whole := newArchiveWith(t, nil, map[int]time.Duration{12: 6 * time.Second, 23: -7 * time.Second})
	for name, raw := range map[string][]byte{"Lost": nil, "Damaged": []byte("{}")} {
		for _, number := range []int64{5, 4} { // The segment with the step, and the one before it, which refers to earlier steps.
			a := whole.clone()
			a.objects.Set(a.log.Timeline.ManifestKey(number), raw)
			got, err := a.preview(t, Target{Time: a.transactions[8].Time}, 1, a)
			if err == nil || !strings.Contains(err.Error(), "may be ambiguous") ||
				!strings.Contains(err.Error(), a.transactions[8].GTID.String()) {
				t.Errorf("%s manifest %d: got %+v, %v", name, number, got, err)
			}
		}
	}
}

// TestReplacedManifest checks that a manifest that was signed again prevents a recovery that ends before it or with it.
func TestReplacedManifest(t *testing.T) {
	a := newArchive(t, nil)
	key := a.log.Timeline.ManifestKey(4)
	m := a.manifest(t, 4)
	m.LastTime++
	raw, err := a.key.Sign(key, m)
	if err != nil {
		t.Fatal(err)
	}
	a.objects.Set(key, raw)
	for _, n := range []int{14, 16, 19} { // In the segments 3, 3 and 4.
		_, err := a.preview(t, Target{GTID: a.transactions[n-1].GTID}, 1, a)
		if err == nil || !strings.Contains(err.Error(), "the manifest of segment 4 was replaced") {
			t.Errorf("transaction %d: got %v", n, err)
		}
	}
}

// withoutLength returns a transaction without its length, which the manifests do not contain.
func withoutLength(b *binlog.Begin) *binlog.Begin {
	if b == nil {
		return nil
	}
	return &binlog.Begin{GTID: b.GTID, Time: b.Time}
}

// TestPreview checks the numbers of a preview, and what it says about segments that cannot be read.
func TestPreview(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	encrypted := newArchive(t, identity)
	large := func(a *archive, number int64) {
		a.forge(a.t, number, func(m *logarchive.Manifest, raw []byte) []byte {
			m.Bytes = maxPreviewed + 1
			return raw
		})
	}
	for name, tc := range map[string]struct {
		change func(a *archive)
		noKey  bool
		// target is the number of a transaction. The recovery is to its commit time plus after, or to its GTID if
		// isGTID is true.
		target int
		isGTID bool
		after  int64
		// base is the number of the transaction at whose commit the backup began.
		base int
		// segments, last and next are the expected fields of the Preview. 0 means that the transaction is unknown.
		segments   int64
		last, next int
		unknown    string
		broken     string
		code       int
	}{
		"Whole":       {target: 14, base: 1, segments: 3, last: 14, next: 15},
		"LaterBackup": {target: 29, base: 13, segments: 4, last: 29, next: 30},
		"SameSegment": {target: 29, base: 28, segments: 1, last: 29, next: 30},
		"BackupLast":  {target: 31, base: 31, segments: 1, last: 31},
		"NoKey": {noKey: true, target: 14, base: 1, segments: 3,
			unknown: "Segment 3 of the archived log was not read: it cannot be decrypted: there is no identity. The last " +
				"transaction that is included was committed between T12 and T14, and the first one that is not between T14 and T16"},
		"NoKeyBetween": {noKey: true, target: 16, after: 9, base: 1, segments: 4, last: 16,
			unknown: "The first transaction that is not included is in that segment"},
		"NoKeyGTID": {noKey: true, target: 14, isGTID: true, base: 1, segments: 3, last: 14,
			unknown: "Its transactions were committed between T12 and T16"},
		"NoKeyLastGTID": {noKey: true, target: 16, isGTID: true, base: 1, segments: 3, last: 16,
			unknown: "The first transaction that is not included is in the next one"},
		"NoKeyNotNeeded": {noKey: true, target: 31, base: 1, segments: 6, last: 31},
		"Large": {change: func(a *archive) { large(a, 3) }, target: 14, base: 1, segments: 3,
			unknown: "Segment 3 of the archived log was not read: it is larger than 32 MiB. The last transaction that is included"},
		"NextLarge": {change: func(a *archive) { large(a, 4) }, target: 16, isGTID: true, base: 1, segments: 4, last: 16,
			unknown: "Segment 4 of the archived log was not read"},
		"Damaged": {change: func(a *archive) {
			a.edit(a.t, 3, func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw })
		}, target: 14, base: 1, broken: "its manifest says", code: agent.ExitDamaged},
		"Truncated": {change: func(a *archive) {
			a.edit(a.t, 3, func(raw []byte) []byte { return raw[:len(raw)-9] })
		}, target: 14, base: 1, broken: "Recover to an earlier time", code: agent.ExitDamaged},
		"Huge": {change: func(a *archive) {
			a.edit(a.t, 3, func([]byte) []byte { return make([]byte, 64<<20) })
		}, target: 14, base: 1, broken: "its manifest says", code: agent.ExitDamaged},
		"Lost": {change: func(a *archive) { a.objects.Set(a.segmentKey(a.t, 3), nil) }, target: 14, base: 1,
			broken: "does not exist", code: agent.ExitMissing},
	} {
		t.Run(name, func(t *testing.T) {
			a := encrypted.clone()
			if a.t = t; tc.change != nil {
				tc.change(a)
			}
			target := Target{Time: a.transactions[tc.target-1].Time + uint64(tc.after)} //nolint:gosec // It is positive.
			if tc.isGTID {
				target = Target{GTID: a.transactions[tc.target-1].GTID}
			}
			got, err := a.preview(t, target, tc.base, &countingSource{Source: a, noKey: tc.noKey})
			if tc.broken != "" {
				coded := new(agent.ExitError)
				if !errors.As(err, &coded) || coded.Code != tc.code || !strings.Contains(err.Error(), tc.broken) {
					t.Errorf("want %q with the code %d, got %v", tc.broken, tc.code, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			number := func(b *binlog.Begin) int {
				if b == nil {
					return 0
				}
				return int(b.GTID.Number)
			}
			unknown := tc.unknown
			for _, n := range []int{12, 14, 16} {
				unknown = strings.ReplaceAll(unknown, fmt.Sprintf("T%d", n), Target{Time: a.transactions[n-1].Time}.String())
			}
			if got.Segments != tc.segments || number(got.Last) != tc.last || number(got.Next) != tc.next ||
				(got.Unknown == "") != (unknown == "") || !strings.Contains(got.Unknown, unknown) {
				t.Errorf("got %+v, last %v, next %v", got, got.Last, got.Next)
			}
			size, bytes := int64(0), int64(0)
			last := int64(tc.target-2)/5 + 1
			if tc.segments == 4 && tc.base == 1 {
				last = 4
			}
			for n := last - tc.segments + 1; n <= last; n++ {
				size, bytes = size+a.manifest(t, n).Size, bytes+a.manifest(t, n).Bytes
			}
			if got.Size != size || tc.change == nil && got.Bytes != bytes || got.Transactions != 5*tc.segments {
				t.Errorf("want %d and %d bytes, got %+v", size, bytes, got)
			}
		})
	}
}

// TestPreviewRetries checks that an error of the store is not a reason to refuse a recovery.
func TestPreviewRetries(t *testing.T) {
	a := newArchive(t, nil)
	for _, s := range []Source{brokenSource{a, false}, brokenSource{a, true}} {
		_, err := a.preview(t, Target{Time: a.transactions[13].Time}, 1, s)
		if err == nil || errors.As(err, new(*agent.ExitError)) || !strings.Contains(err.Error(), "connection reset") {
			t.Errorf("want the error of the store, got %v", err)
		}
	}
}

// A brokenSource is a Source whose reads fail, either when an object is opened or after 30 bytes.
type brokenSource struct {
	Source

	later bool
}

func (s brokenSource) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.Source.Open(ctx, key)
	if err != nil || !s.later {
		return nil, errors.Join(err, errors.New("connection reset"))
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, 30), &failingReader{})), nil
}

// A failingReader returns an error at the first read, and io.EOF afterwards.
type failingReader struct{ hasFailed bool }

func (f *failingReader) Read([]byte) (int, error) {
	if f.hasFailed {
		return 0, io.EOF
	}
	f.hasFailed = true
	return 0, errors.New("connection reset")
}

func TestEstimate(t *testing.T) {
	for want, p := range map[string]Preview{
		"20s":    {},
		"39s":    {Transactions: 60_000, Bytes: 62_900_000},
		"5m23s":  {Transactions: 4, Bytes: 1_000_000_000},
		"53m15s": {Transactions: 10_000_000, Bytes: 1_000_000_000},
	} {
		if got := p.Estimate(0).String(); got != want {
			t.Errorf("%+v: want %s, got %s", p, want, got)
		}
	}
	if got := (&Preview{}).Estimate(100 << 30).String(); got != "6m39s" {
		t.Errorf("100 GiB of data: got %s", got)
	}
}
