package stores

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

// An archivedCluster has a BackupStore with the archived binary log of one instance, and a verified backup.
type archivedCluster struct {
	Cluster

	records      []v1.BackupRecord
	transactions []fakelog.Transaction
}

// newArchivedCluster archives the log of a fake server. The backup was taken before its transactions. Segments are
// encrypted if there is a recipient.
func newArchivedCluster(t *testing.T, recipient, identity *age.X25519Identity, step time.Duration) *archivedCluster {
	t.Helper()
	m := s3memory.New(t)
	b, secrets := newBackupStore(recipient, identity)
	settings := m.Settings()
	b.Spec.Endpoint, b.Spec.CABundle, b.Spec.PathStyle, b.Spec.Bucket = settings.Endpoint, settings.CA, true, settings.Bucket
	open, err := Open(b, secrets)
	if err != nil {
		t.Fatal(err)
	}
	n := newEntry("one", "x.tar.zst")
	n.Spec.Archive.Size, n.Spec.Archive.DataBytes = "100Mi", 500<<20
	r := v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: n.Spec}
	objects, out := fakelog.NewObjects(), &archivedCluster{}
	synctest.Test(t, func(t *testing.T) {
		server := fakelog.NewServer()
		server.Commit(10, 0)
		ctx, stop := context.WithCancel(t.Context())
		a := &logarchive.Archiver{Now: time.Now, Report: func(logarchive.Progress) {}, Recipients: open.AgeRecipients(),
			Reader:  logarchive.Reader{Bucket: &fakelog.Bucket{Objects: objects}, Key: open.Sign, Log: r.LogPrefix()},
			Connect: func(ctx context.Context) (logarchive.Stream, binlog.State, error) { return server.Connect(ctx) }}
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(2 * time.Second)
		r.CreationTimestamp = metav1.Now()
		time.Sleep(2 * time.Second)
		r.Status = v1.BackupRecordStatus{Phase: v1.BackupVerified, CompletionTime: &metav1.Time{Time: time.Now()}}
		time.Sleep(5 * time.Second)
		for i := range 6 {
			if i == 4 {
				server.StepClock(step)
			}
			server.Commit(200, 0)
			time.Sleep(time.Second)
			if i%2 == 1 {
				time.Sleep(5 * time.Second)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		server.Visit(func(all []*fakelog.Generation) { out.transactions = all[0].Log })
	})
	for _, key := range objects.Keys() {
		if err := open.Put(t.Context(), key, objects.Get(key)); err != nil {
			t.Fatal(err)
		}
	}
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	out.records = []v1.BackupRecord{r}
	out.Cluster = Cluster{Namespace: systemNamespace, Clock: time.Now}
	secrets.Credentials.Namespace, secrets.Key.Namespace = out.Namespace, out.Namespace
	out.Reader = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b, secrets.Credentials, secrets.Key).Build()
	return out
}

// find calls FindRecovery for a time or a GTID, and fails the test if that returns an error.
func (c *archivedCluster) find(t *testing.T, moment string, previous *v1.RecoverySource) *v1.RecoverySource {
	t.Helper()
	out, err := c.FindRecovery(t.Context(), v1.ChoiceAt+moment, moment, previous, c.records)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// timeOf returns the commit time of a transaction.
func (c *archivedCluster) timeOf(number int) string {
	return recovery.Target{Time: c.transactions[number-1].Time}.String()
}

// planned returns a transaction in the format of a RecoveryPlan.
func (c *archivedCluster) planned(number int) *v1.PlannedTransaction {
	return &v1.PlannedTransaction{GTID: c.transactions[number-1].GTID.String(), CommitTime: c.timeOf(number)}
}

// TestFindRecovery checks the plan of a recovery, and the messages for times that are not possible.
func TestFindRecovery(t *testing.T) {
	id, other := newIdentity(t), newIdentity(t)
	c := newArchivedCluster(t, id, id, 0)
	moment, gtid := c.timeOf(4), c.transactions[4].GTID.String()
	found := c.find(t, moment, nil)
	want := &v1.RecoveryPlan{At: moment, Backup: "one", BackupTime: metav1.NewTime(c.records[0].Status.CompletionTime.UTC()),
		Segments: 2, Transactions: 4, FetchSize: "101Mi", ApplySize: "1Mi", EstimatedDuration: "22s",
		LastTransaction: c.planned(4), NextTransaction: c.planned(5)}
	if diff := cmp.Diff(want, found.Plan); diff != "" || found.Message != "" {
		t.Errorf("%s-want, +got:\n%s", found.Message, diff)
	}
	if got := c.find(t, gtid, nil).Plan; got == nil || got.At != gtid || !cmp.Equal(got.LastTransaction, c.planned(5)) {
		t.Errorf("want the plan of a GTID, got %+v", got)
	}
	end := c.find(t, found.Recovery.Until, nil).Plan
	if end == nil || end.NextTransaction != nil || !cmp.Equal(end.LastTransaction, c.planned(7)) {
		t.Errorf("want the last transaction of the archive, got %+v", end)
	}

	kept := found.DeepCopy()
	kept.Plan.Segments = 99
	if got := c.find(t, moment, kept).Plan; got.Segments != 99 {
		t.Errorf("want that a plan is made once, got %+v", got)
	}
	if kept.Plan.Message = "incomplete"; c.find(t, moment, kept).Plan.Segments != 2 {
		t.Error("want that an incomplete plan is made again")
	}

	for name, tc := range map[string]struct {
		cluster *archivedCluster
		moment  func(*archivedCluster) string
		says    []string
		plan    bool
	}{
		"Early": {cluster: c, moment: func(*archivedCluster) string { return "1999-01-01T00:00:00Z" },
			says: []string{"1999-01-01T00:00:00Z is not possible. Possible is 2000-01-01T00:00:"}},
		"Late": {cluster: c, moment: func(*archivedCluster) string { return "2030-01-01T00:00:00Z" },
			says: []string{"is not possible. Possible is 2000-01-01T00:00:"}},
		"UnknownGTID": {cluster: c, moment: func(*archivedCluster) string { return strings.ReplaceAll(gtid, ":5", ":999") },
			says: []string{":999 is not in the archived binary log. Possible is 2000-01-01T00:00:"}},
		"Stepped": {cluster: newArchivedCluster(t, id, id, -9*time.Second),
			moment: func(c *archivedCluster) string { return c.timeOf(4) },
			says: []string{"is ambiguous, because the clock of the server went backwards there. Recover to a GTID instead of a time. " +
				"The transactions from", ":6-7"}},
		"SteppedGTID": {cluster: newArchivedCluster(t, nil, nil, -9*time.Second), plan: true,
			moment: func(c *archivedCluster) string { return c.transactions[3].GTID.String() }},
		"NoIdentity": {cluster: newArchivedCluster(t, id, nil, 0), plan: true,
			moment: func(c *archivedCluster) string { return c.timeOf(4) },
			says: []string{"it cannot be decrypted, because BackupStore offsite has no identity in this cluster. The recovery needs " +
				"it, too: store it in the Secret of keySecretRef, under the key identity"}},
		"OtherIdentity": {cluster: newArchivedCluster(t, id, other, 0), plan: true,
			moment: func(c *archivedCluster) string { return c.timeOf(4) },
			says:   []string{"it cannot be decrypted with the identity of BackupStore offsite"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.cluster.find(t, tc.moment(tc.cluster), nil)
			text := got.Message
			if tc.plan && got.Plan != nil {
				text = got.Plan.Message
			}
			for _, part := range tc.says {
				if !strings.Contains(text, part) {
					t.Errorf("want %q, got %q", part, text)
				}
			}
			if (got.Plan != nil) != tc.plan || (got.Backup != "") != tc.plan || (got.Recovery != nil) != tc.plan {
				t.Errorf("want a plan: %t, got %+v", tc.plan, got)
			}
		})
	}
}

// TestRecoveryAfterDamage checks that a damaged manifest prevents only recoveries that need it.
func TestRecoveryAfterDamage(t *testing.T) {
	c := newArchivedCluster(t, nil, nil, 0)
	moment := c.timeOf(4)
	before := c.find(t, moment, nil)
	whole := c.find(t, before.Recovery.Until, nil)
	if before.Recovery.Segment != 2 || whole.Recovery.Segment != 3 || before.Recovery.Digest == whole.Recovery.Digest {
		t.Errorf("want that a recovery ends with the segment that it needs, got %+v and %+v", before.Recovery, whole.Recovery)
	}
	line := logarchive.Timeline{Prefix: whole.Recovery.Timeline}
	if err := c.ask(t.Context(), c.records[0].Spec.Archive.Store, func(s *Store) error {
		return s.Put(t.Context(), line.ManifestKey(whole.Recovery.Segment), []byte("damaged"))
	}); err != nil {
		t.Fatal(err)
	}
	id := c.transactions[3].GTID.String()
	if got := c.find(t, moment, before); got.Plan != nil || !strings.Contains(got.Message, moment+" may be ambiguous") ||
		!strings.Contains(got.Message, "recover to the last transaction up to that time, "+id) {
		t.Errorf("want that an earlier time is refused with the transaction to use, got %+v", got)
	}
	if after := c.find(t, id, nil); after.Plan == nil || after.Recovery.Segment != before.Recovery.Segment ||
		!cmp.Equal(before.Plan.LastTransaction, after.Plan.LastTransaction) {
		t.Errorf("want that an earlier transaction is possible, got %+v", after)
	}
	want := "Possible is 2000-01-01T00:00:"
	if got := c.find(t, c.timeOf(7), nil); !strings.Contains(got.Message, want) || !strings.Contains(got.Message,
		"After that, the archived binary log is damaged") {
		t.Errorf("a later time: %+v", got)
	}
}

// TestPlanAfterStep checks that an earlier plan is not used after the clock of the server went backwards.
func TestPlanAfterStep(t *testing.T) {
	c := newArchivedCluster(t, nil, nil, -9*time.Second)
	moment := c.timeOf(4)
	previous := c.find(t, c.transactions[3].GTID.String(), nil)
	previous.Choice = v1.ChoiceAt + moment
	if got := c.find(t, moment, previous); got.Plan != nil || !strings.Contains(got.Message, "is ambiguous") {
		t.Errorf("got %+v", got)
	}
}

// TestSegmentSource checks that a damaged segment is not mistaken for a missing identity.
func TestSegmentSource(t *testing.T) {
	id := newIdentity(t)
	b, secrets := newBackupStore(id, id)
	s, err := Open(b, secrets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (segmentSource{s}).Decrypt(t.Context(), "", strings.NewReader("damaged")); err == nil ||
		strings.Contains(err.Error(), recovery.ErrNoKey.Error()) {
		t.Errorf("got %v", err)
	}
}
