package stores

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

const source = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

// A logFixture is an archived binary log whose segments have three transactions each.
type logFixture struct {
	*Store

	line  logarchive.Timeline
	start int64
	count int64
	last  string
}

// addSegment adds a segment of three transactions with these commit times: the first, the last, and the latest one.
func (f *logFixture) addSegment(t *testing.T, first, last, latest time.Time) {
	t.Helper()
	f.count++
	begin := f.start + 3*(f.count-1)
	m := logarchive.Manifest{Number: f.count, Previous: f.last, Segment: fmt.Sprintf("%010d-abcdefghij.binlog.zst", f.count),
		SHA256: strings.Repeat("a", 64), ServerUUID: source, GTIDs: fmt.Sprintf("%s:%d-%d", source, begin+1, begin+3),
		Until: fmt.Sprintf("%s:1-%d", source, begin+3), LastGTID: fmt.Sprintf("%s:%d", source, begin+3),
		FirstTime: uint64(first.UnixMicro()), LastTime: uint64(last.UnixMicro()), MaxTime: uint64(latest.UnixMicro())}
	if f.start > 0 {
		m.Start = fmt.Sprintf("%s:1-%d", source, f.start)
	}
	key := f.line.ManifestKey(m.Number)
	raw, err := f.Sign.Sign(key, &m)
	if err == nil {
		err = f.Put(t.Context(), key, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.last = logarchive.Digest(raw)
}

// writeHead writes the object head.json of the timeline, with the time up to which the segments are complete.
func (f *logFixture) writeHead(t *testing.T, until time.Time) {
	t.Helper()
	key := path.Join(f.line.Prefix, "head.json")
	raw, err := f.Sign.Sign(key, logarchive.Head{Number: f.count, Until: uint64(until.UnixMicro())})
	if err == nil {
		err = f.Put(t.Context(), key, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newRecord returns a verified backup that was taken between two times.
func newRecord(name string, begun, completed time.Time) v1.BackupRecord {
	i := v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: "ns", Name: "db", XR: "xr"}
	return v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(begun)},
		Spec: v1.BackupRecordSpec{Instance: i, Archive: &v1.Archive{Store: "offsite",
			Path: path.Join(v1.StorePrefix(i, name), "x.tar.zst")}},
		Status: v1.BackupRecordStatus{Phase: v1.BackupVerified, CompletionTime: &metav1.Time{Time: completed}}}
}

// TestChooseRecovery checks which backup and which log a recovery begins with, and that each refusal says what is
// possible.
func TestChooseRecovery(t *testing.T) {
	after := now.Add
	base := newRecord("base", after(10*time.Second), after(12*time.Second))
	imported := newRecord("base", after(48*time.Hour), after(48*time.Hour))
	imported.Spec.AnnouncedAt = &metav1.Time{Time: after(10 * time.Second)}
	imported.Spec.CompletedAt = &metav1.Time{Time: after(12 * time.Second)}
	cases := map[string]struct {
		reason string
		record v1.BackupRecord
		// isReset is true if there is a second timeline with the same GTIDs.
		isReset bool
		// damaged are the numbers of the segments of the first timeline whose manifests are damaged.
		damaged         []int64
		target, refusal string
	}{
		"Time": {reason: "The time is after the backup.",
			record: base, target: after(31 * time.Second).Format(time.RFC3339)},
		"FirstTransactions": {reason: "The segment began before the end of the backup.",
			record: base, target: source + ":6"},
		"AfterTheClockWasSetBack": {reason: "The clock of the server was an hour behind.",
			record: base, target: source + ":11"},
		"ImportedTime": {reason: "The backup was complete before it was imported.", record: imported,
			target: after(31 * time.Second).Format(time.RFC3339)},
		"ImportedTransaction": {reason: "The backup was complete before it was imported.",
			record: imported, target: source + ":9"},
		"BeforeTheBackup": {reason: "The backup already contains the transaction.",
			record: base, target: source + ":2", refusal: "Possible is"},
		"Unknown": {reason: "The transaction is not in the log.",
			record: base, target: source + ":99", refusal: "Possible is"},
		"Twice": {reason: "After a reset, the number means two transactions.",
			record: base, isReset: true, target: source + ":8",
			refusal: "exists twice in the archived binary log"},
		"AfterDamage": {reason: "A damaged manifest must not prevent a recovery that does not need it.",
			record: base, damaged: []int64{2}, target: source + ":11"},
		"InTheDamage": {reason: "The transaction is in the damaged last segment.",
			record: base, damaged: []int64{4}, target: source + ":11", refusal: "no readable manifest"},
		"InALostSegment": {reason: "The transaction is in a damaged segment before the last one.",
			record: base, damaged: []int64{2}, target: source + ":5", refusal: "no readable manifest"},
		"HiddenTwice": {reason: "The damaged part of the first timeline may contain the same number.",
			record: base, damaged: []int64{3, 4}, isReset: true, target: source + ":8", refusal: "may exist twice"},
		"Latest": {reason: "The last transaction is in the last segment.", record: base, target: v1.MomentLatest},
		"LatestWithoutBackup": {reason: "No backup contains the transactions of the timeline after the reset.",
			record: base, isReset: true, target: v1.MomentLatest, refusal: "after a gap"},
		"LatestInTheDamage": {reason: "The last transactions are lost.", record: base, damaged: []int64{4},
			target: v1.MomentLatest, refusal: "are lost"},
		"OnceAfterAReset": {reason: "Only the first timeline contains the transaction.",
			record: base, isReset: true, target: source + ":12"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := s3memory.New(t)
			b, secrets := newBackupStore(nil, nil)
			b.Spec.Endpoint, b.Spec.CABundle, b.Spec.PathStyle = m.Settings().Endpoint, m.CA(), true
			b.Spec.Bucket = m.Settings().Bucket
			secrets.Credentials.Namespace, secrets.Key.Namespace = systemNamespace, systemNamespace
			open, err := Open(b, secrets)
			if err != nil {
				t.Fatal(err)
			}
			f := &logFixture{Store: open, line: logarchive.Timeline{Prefix: "v1-log/ns/xr/20260203040506-abcdefghij"}}
			f.addSegment(t, after(time.Second), after(3*time.Second), after(3*time.Second))
			f.addSegment(t, after(11*time.Second), after(14*time.Second), after(14*time.Second))
			f.addSegment(t, after(30*time.Second), after(40*time.Second), after(40*time.Second))
			f.addSegment(t, after(-time.Hour), after(-59*time.Minute), after(40*time.Second))
			f.writeHead(t, after(40*time.Second))
			for _, number := range tc.damaged {
				if err := f.Put(t.Context(), f.line.ManifestKey(number), []byte(`{"content":{}}`)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.isReset {
				second := &logFixture{Store: open, start: 5,
					line: logarchive.Timeline{Prefix: "v1-log/ns/xr/20260203050506-abcdefghij"}}
				second.addSegment(t, after(time.Hour), after(2*time.Hour), after(2*time.Hour))
			}
			scheme, err := instance.NewScheme()
			if err != nil {
				t.Fatal(err)
			}
			kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b, secrets.Credentials, secrets.Key).Build()
			c := Cluster{Reader: kube, Namespace: systemNamespace, Clock: time.Now}
			_, found, err := c.chooseBase(t.Context(), tc.target, []v1.BackupRecord{tc.record})
			refused := new(refusedError)
			switch {
			case err != nil && !errors.As(err, &refused):
				t.Fatal(err)
			case tc.refusal != "" && (err == nil || !strings.Contains(refused.Error(), tc.refusal) ||
				!strings.Contains(refused.Error(), "Possible is")):
				t.Errorf("%s want the refusal %q with the range, got %+v, %v", tc.reason, tc.refusal, found, err)
			case tc.refusal == "" && (err != nil || found.base.Record != "base" || found.line.Prefix != f.line.Prefix):
				t.Errorf("%s got %+v, %v", tc.reason, found, err)
			}
		})
	}
}
