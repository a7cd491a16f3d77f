package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

const (
	metricArchiving     = "crossplane_mysql_instance_archiving"
	metricArchivedUntil = "crossplane_mysql_instance_archived_until_timestamp_seconds"
)

// archivedDatabase returns a running instance with a claim whose binary log is archived in the BackupStore offsite.
func archivedDatabase(k instance.Key) *instance.State {
	s := livingDatabase(k)
	claim := &unstructured.Unstructured{Object: map[string]any{}}
	claim.SetName(k.Name)
	s.Claim = &instance.Composite{Unstructured: claim}
	s.XR.Spec.Backup.Continuous = &v1.ContinuousBackup{}
	s.XR.Status.BackupStore, s.XR.Status.Authorities, s.XR.Status.Started = "offsite", "a certificate", true
	return s
}

// offsiteArchiver returns an archiver of archivedDatabase. It never ends.
func offsiteArchiver(k instance.Key, started time.Time) *runningArchiver {
	return &runningArchiver{key: k, store: "offsite", server: change.Server{Authorities: "a certificate"}, started: started,
		stop: func() {}, ended: make(chan struct{})}
}

// deletedAt marks an instance as being deleted.
func deletedAt(s *instance.State) { s.XR.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }

// anotherXR is the UID of another composite resource.
const anotherXR = "another"

// disabled turns off the archive of an instance.
func disabled(s *instance.State) { s.XR.Spec.Backup.Continuous.Enabled = new(bool) }

// suspended marks an instance as suspended.
func suspended(s *instance.State) {
	s.XR.Spec.Suspend = true
	s.XR.Conditions[0].Status, s.XR.Conditions[0].Reason = metav1.ConditionFalse, v1.ReasonSuspended
}

func TestMayArchive(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *instance.State)
		want   bool
	}{
		"Continuous": {change: func(*instance.State) {}, want: true},
		"Suspended":  {change: suspended, want: true},
		"Default":    {change: func(s *instance.State) { s.XR.Spec.Backup.Continuous = nil }, want: true},
		"Disabled":   {change: disabled},
		"Discard": {change: func(s *instance.State) {
			s.XR.Spec.Backup.Continuous, s.XR.Spec.DeletionPolicy = nil, v1.DeletionDiscard
		}},
		"Deleting": {change: deletedAt},
		"NoXR":     {change: func(s *instance.State) { s.XR = nil }},
		"Stale":    {change: func(s *instance.State) { s.XR.Stale = true }},
		"NoMySQL":  {change: func(s *instance.State) { s.XR.Type = "mongo" }},
		"NoStore":  {change: func(s *instance.State) { s.XR.Status.BackupStore = "" }},
		"NoTLS":    {change: func(s *instance.State) { s.XR.Status.Authorities = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := archivedDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
			tc.change(s)
			if got := mayArchive(s); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// minuteAt returns a fixed time with the given minute.
func minuteAt(minute int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 11, 30, 12, minute, 0, 0, time.UTC)}
}

// TestLogRetention checks what a status says about the time for which the server keeps its binary log.
func TestLogRetention(t *testing.T) {
	for kept, want := range map[time.Duration]string{
		0: "", 24 * time.Hour: "", time.Hour: "The server deletes its binary log after 1h0m0s (binlog_expire_logs_seconds). If the " +
			"archive is interrupted for longer, transactions are lost for a recovery. Set at least 86400",
	} {
		if got := shortRetention(kept); got != want {
			t.Errorf("%s: want %q, got %q", kept, want, got)
		}
	}
	until := minuteAt(10).Add(time.Millisecond)
	for name, tc := range map[string]struct {
		failure string
		until   time.Time
		kept    time.Duration
		want    string
	}{
		"Works":     {until: until, kept: time.Hour},
		"Fails":     {failure: "no store", until: until, kept: time.Hour, want: "no store. From 2026-11-30T13:10:00Z on, the server deletes"},
		"Unlimited": {failure: "no store", until: until, want: "no store"},
		"Nothing":   {failure: "no store", kept: time.Hour, want: "no store"},
	} {
		got := withLossTime(tc.failure, tc.until, tc.kept)
		if !strings.HasPrefix(got, tc.want) || (got == tc.failure) != (tc.want == tc.failure) {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

func TestIsArchivingNews(t *testing.T) {
	works := v1.ArchivingStatus{OK: true, Since: minuteAt(0), Until: minuteAt(10), From: minuteAt(5)}
	for name, tc := range map[string]struct {
		previous *v1.ArchivingStatus
		change   func(next *v1.ArchivingStatus)
		want     bool
	}{
		"First":       {change: func(*v1.ArchivingStatus) {}, want: true},
		"Same":        {previous: &works, change: func(*v1.ArchivingStatus) {}},
		"Fails":       {previous: &works, change: func(next *v1.ArchivingStatus) { next.OK = false }, want: true},
		"Unsupported": {previous: &works, change: func(next *v1.ArchivingStatus) { next.Unsupported = true }, want: true},
		"Message":     {previous: &works, change: func(next *v1.ArchivingStatus) { next.Message = "x" }, want: true},
		"Gap":         {previous: &works, change: func(next *v1.ArchivingStatus) { next.Since = minuteAt(10) }, want: true},
		"Base":        {previous: &works, change: func(next *v1.ArchivingStatus) { next.From = minuteAt(6) }, want: true},
		"NoBase":      {previous: &works, change: func(next *v1.ArchivingStatus) { next.From = nil }, want: true},
		"Soon":        {previous: &works, change: func(next *v1.ArchivingStatus) { next.Until = minuteAt(14) }},
		"Later":       {previous: &works, change: func(next *v1.ArchivingStatus) { next.Until = minuteAt(15) }, want: true},
		"FirstRange": {previous: &v1.ArchivingStatus{OK: true, Since: minuteAt(0), Until: minuteAt(4), From: minuteAt(5)},
			change: func(next *v1.ArchivingStatus) { next.Until = minuteAt(6) }, want: true},
		"NoRange": {previous: &v1.ArchivingStatus{OK: true, Since: minuteAt(0), Until: minuteAt(3), From: minuteAt(5)},
			change: func(next *v1.ArchivingStatus) { next.Until = minuteAt(4) }},
		"Back":   {previous: &works, change: func(next *v1.ArchivingStatus) { next.Until = minuteAt(1) }},
		"NoTime": {previous: &works, change: func(next *v1.ArchivingStatus) { next.Until = nil }},
		"FirstTime": {previous: &v1.ArchivingStatus{OK: true, Since: minuteAt(0), From: minuteAt(5)},
			change: func(*v1.ArchivingStatus) {}, want: true},
		"StillBegin": {previous: &v1.ArchivingStatus{}, change: func(next *v1.ArchivingStatus) { *next = v1.ArchivingStatus{} }},
	} {
		t.Run(name, func(t *testing.T) {
			next := works.DeepCopy()
			tc.change(next)
			if got := isArchivingNews(tc.previous, next); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// TestArchivingFields checks that unset fields are null, because a merge patch keeps the fields that it lacks.
func TestArchivingFields(t *testing.T) {
	for name, tc := range map[string]struct {
		status v1.ArchivingStatus
		want   map[string]any
	}{
		"Begins": {want: map[string]any{"ok": false, "message": nil, "unsupported": nil, "suspended": nil, "since": nil,
			"until": nil, "from": nil}},
		"Works": {status: v1.ArchivingStatus{OK: true, Message: "x", Since: minuteAt(0),
			Until: &metav1.Time{Time: minuteAt(10).In(time.FixedZone("", 3600))}, From: minuteAt(5)},
			want: map[string]any{"ok": true, "message": "x", "unsupported": nil, "suspended": nil,
				"since": "2026-11-30T12:00:00Z", "until": "2026-11-30T12:10:00Z", "from": "2026-11-30T12:05:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, archivingFields(&tc.status)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// TestStopOthers checks that an archiver is stopped if its instance has ended, uses another store, or no longer
// requests an archive. Archivers of instances with other names keep running.
func TestStopOthers(t *testing.T) {
	k := instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"}
	for name, tc := range map[string]struct {
		change func(s *instance.State)
		isGone bool
		keeps  bool
	}{
		"Running":      {change: func(*instance.State) {}, keeps: true},
		"Suspended":    {change: suspended, keeps: true},
		"Deleting":     {change: deletedAt, keeps: true},
		"Default":      {change: func(s *instance.State) { s.XR.Spec.Backup.Continuous = nil }, keeps: true},
		"Disabled":     {change: disabled},
		"AnotherStore": {change: func(s *instance.State) { s.XR.Status.BackupStore = "other" }},
		"AnotherXR":    {change: func(s *instance.State) { s.Instance.XR = anotherXR }},
		"Ended":        {isGone: true},
	} {
		t.Run(name, func(t *testing.T) {
			var stopped []string
			archiver := func(k instance.Key) *runningArchiver {
				return &runningArchiver{key: k, store: "offsite", server: change.Server{Authorities: "a certificate"},
					stop: func() { stopped = append(stopped, k.Name) }, ended: make(chan struct{})}
			}
			other := instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "other"}
			r := &archivingReconciler{running: map[types.UID]*runningArchiver{"db": archiver(k), "other": archiver(other)}}
			var instances []*instance.State
			if !tc.isGone {
				instances = []*instance.State{archivedDatabase(k)}
				tc.change(instances[0])
			}
			r.stopOthers(k, instances)
			want := []string{"db"}
			if tc.keeps {
				want = nil
			}
			_, runs := r.running["db"]
			if diff := cmp.Diff(want, stopped); diff != "" || runs != tc.keeps || r.running["other"] == nil {
				t.Errorf("runs: %v, stopped, -want, +got:\n%s", runs, diff)
			}
		})
	}
}

// TestFailureRemains checks that a failure remains until the archiver has stored more than at the start of a retry.
// Each change must be reported to users once.
func TestFailureRemains(t *testing.T) {
	first, second := logarchive.Timeline{Prefix: "log/20261130120000-a"}, logarchive.Timeline{Prefix: "log/20261130121000-b"}
	progressAt := func(line logarchive.Timeline, number int64, minute int) logarchive.Progress {
		return logarchive.Progress{Timeline: line, Number: number, Until: minuteAt(minute).Time}
	}
	a := &runningArchiver{}
	for i, step := range []struct {
		reason   string
		progress logarchive.Progress
		failure  string
		isNews   bool
		want     string
		until    int
	}{
		{reason: "The archive begins.", progress: progressAt(first, 0, 1), isNews: true, until: 1},
		{reason: "A segment is stored.", progress: progressAt(first, 1, 2), until: 2},
		{reason: "The server had nothing to send.", progress: progressAt(first, 1, 9), until: 9},
		{reason: "The connection broke.", failure: "EOF on port 3306", isNews: true, want: "EOF on port 3306", until: 9},
		{reason: "Only the port in the error differs, so the failure must not be reported again.",
			failure: "EOF on port 3307", want: "EOF on port 3306", until: 9},
		{reason: "A retry has stored nothing, and reports the earlier time in the store.", progress: progressAt(first, 1, 8),
			want: "EOF on port 3306", until: 9},
		{reason: "The retry still reports no new segment, so the failure must remain.",
			progress: progressAt(first, 1, 8), want: "EOF on port 3306", until: 9},
		{reason: "The retry failed with the same error.", failure: "EOF on port 3308", want: "EOF on port 3306", until: 9},
		{reason: "A different failure must be reported.", failure: "access denied", isNews: true, want: "access denied", until: 9},
		{reason: "The retry stored no new segment, so the failure must remain.",
			progress: progressAt(first, 1, 8), want: "access denied", until: 9},
		{reason: "A segment is stored, although the time is the same.", progress: progressAt(first, 2, 9), isNews: true, until: 9},
		{reason: "The connection broke.", failure: "EOF", isNews: true, want: "EOF", until: 9},
		{reason: "The retry stored no new segment, so the failure must remain.", progress: progressAt(first, 2, 9), want: "EOF", until: 9},
		{reason: "The server had nothing to send.", progress: progressAt(first, 2, 10), isNews: true, until: 10},
		{reason: "The connection broke.", failure: "EOF", isNews: true, want: "EOF", until: 10},
		{reason: "A new timeline must be reported, but the failure remains until something is stored in it.",
			progress: progressAt(second, 0, 3), isNews: true, want: "EOF",
			until: 3},
		{reason: "The server had nothing to send.", progress: progressAt(second, 0, 4), isNews: true, until: 4},
	} {
		var isNews bool
		if step.failure != "" {
			isNews = a.fail(step.failure, false)
		} else {
			isNews = a.report(step.progress)
		}
		p, failure := a.state()
		if isNews != step.isNews || failure != step.want || !p.Until.Equal(minuteAt(step.until).Time) {
			t.Fatalf("%d: %s Want news %v, %q until minute %d, got %v, %q until %s", i, step.reason, step.isNews, step.want,
				step.until, isNews, failure, p.Until)
		}
	}
}

// TestGapIsKept checks that the reason for a new timeline is kept until it was reported to users, even if there is a
// new connection.
func TestGapIsKept(t *testing.T) {
	a, line := &runningArchiver{}, logarchive.Timeline{Prefix: "log/20261130120000-a"}
	a.report(logarchive.Progress{Timeline: line, Gap: "RESET"})
	a.report(logarchive.Progress{Timeline: line})
	if p, _ := a.state(); p.Gap != "RESET" {
		t.Errorf("got %q", p.Gap)
	}
	a.report(logarchive.Progress{Timeline: logarchive.Timeline{Prefix: "log/20261130120001-b"}})
	if p, _ := a.state(); p.Gap != "" {
		t.Errorf("another timeline has the gap %q", p.Gap)
	}
}

func TestStatusAtStart(t *testing.T) {
	works := &v1.ArchivingStatus{OK: true, Since: minuteAt(0), Until: minuteAt(10), From: minuteAt(5)}
	for name, tc := range map[string]struct {
		previous *v1.ArchivingStatus
		failure  string
		waited   time.Duration
		want     v1.ArchivingStatus
	}{
		"First":      {want: v1.ArchivingStatus{Message: archiveBegins}},
		"FirstFails": {failure: "no store", want: v1.ArchivingStatus{Message: "no store"}},
		"Restarted":  {previous: works, waited: untilInterval - 1, want: *works},
		"Hangs": {previous: works, waited: untilInterval, want: v1.ArchivingStatus{Message: archiveBegins, Since: minuteAt(0),
			Until: minuteAt(10), From: minuteAt(5)}},
		"Fails": {previous: works, failure: "no store", want: v1.ArchivingStatus{Message: "no store", Since: minuteAt(0),
			Until: minuteAt(10), From: minuteAt(5)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(&tc.want, statusAtStart(tc.previous, tc.failure, tc.waited)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
	if !works.OK || works.Message != "" {
		t.Errorf("the previous status was changed: %+v", works)
	}
}

func TestArchivingEvents(t *testing.T) {
	works := v1.ArchivingStatus{OK: true, Since: minuteAt(0)}
	fails := v1.ArchivingStatus{Message: "no store", Since: minuteAt(0)}
	anew := v1.ArchivingStatus{OK: true, Since: minuteAt(10)}
	for name, tc := range map[string]struct {
		previous  *v1.ArchivingStatus
		next      v1.ArchivingStatus
		gap       string
		isStopped bool
		want      []v1.EventReason
	}{
		"First":       {next: works, gap: noSegmentYet},
		"Begins":      {previous: &v1.ArchivingStatus{Message: archiveBegins}, next: works, gap: noSegmentYet},
		"NeverBegan":  {previous: &v1.ArchivingStatus{Message: archiveBegins}, next: v1.ArchivingStatus{Message: "no store"}},
		"Works":       {previous: &works, next: works},
		"Interrupted": {previous: &works, next: fails, want: []v1.EventReason{v1.EventArchivingInterrupted}},
		"Retried":     {previous: &fails, next: v1.ArchivingStatus{Message: "no server", Since: minuteAt(0)}},
		"Suspended":   {previous: &works, next: fails, isStopped: true},
		"Resumed":     {previous: &fails, next: works, want: []v1.EventReason{v1.EventArchivingResumed}},
		"Gap":         {previous: &works, next: anew, gap: "RESET", want: []v1.EventReason{v1.EventArchiveGap}},
		"GapAgain":    {previous: &anew, next: anew, gap: "RESET"},
		"GapWhileFails": {previous: &fails, next: v1.ArchivingStatus{Message: "x", Since: minuteAt(10)}, gap: "RESET",
			want: []v1.EventReason{v1.EventArchiveGap}},
		"GapAndResumed": {previous: &fails, next: anew, gap: "RESET",
			want: []v1.EventReason{v1.EventArchiveGap, v1.EventArchivingResumed}},
		"NothingStored": {previous: &works, next: anew, gap: noSegmentYet},
	} {
		t.Run(name, func(t *testing.T) {
			var got []v1.EventReason
			for _, e := range archivingEvents(tc.previous, &tc.next, tc.gap, tc.isStopped) {
				got = append(got, e.reason)
				if e.reason == v1.EventArchiveGap && !strings.Contains(e.message, "RESET") ||
					e.reason == v1.EventArchivingInterrupted && !strings.Contains(e.message, "no store") {
					t.Errorf("the message does not contain the reason: %s", e.message)
				}
				if e.warning == (e.reason == v1.EventArchivingResumed) {
					t.Errorf("%s is a warning: %v", e.reason, e.warning)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// A brokenStream is a connection that breaks after it has begun.
type brokenStream struct{}

func (brokenStream) Start(binlog.Set) error     { return nil }
func (brokenStream) Next() (binlog.Part, error) { return binlog.Part{}, errBoom }
func (brokenStream) Close()                     {}

func (brokenStream) Acknowledge(binlog.Position) error { return errBoom }

// TestFirstGap checks that package logarchive reports noSegmentYet for the first timeline, because no event must be
// sent for it.
func TestFirstGap(t *testing.T) {
	var got []string
	bucket, err := store.Open(s3memory.New(t).Settings())
	if err != nil {
		t.Fatal(err)
	}
	archiver := &logarchive.Archiver{Reader: logarchive.Reader{Bucket: bucket, Log: "log"}, Now: time.Now,
		Connect: func(context.Context) (logarchive.Stream, binlog.State, error) {
			return brokenStream{}, binlog.State{}, nil
		},
		Report: func(p logarchive.Progress) { got = append(got, p.Gap) },
	}
	if err := archiver.Run(t.Context()); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{noSegmentYet}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// A gatherArchived is a gatherer that always returns the same instances.
type gatherArchived struct{ instances []*instance.State }

func (g *gatherArchived) GatherXRs(context.Context, instance.Key) ([]*instance.State, error) {
	return g.instances, nil
}

func (*gatherArchived) ReadData(context.Context, *instance.State) error { return nil }

// An archivingTest is an archivingReconciler of one instance, with an archiver that exists only in the test.
type archivingTest struct {
	*archivingReconciler

	key      instance.Key
	state    *instance.State
	gathers  *gatherArchived
	archiver *runningArchiver
	gauges   *gaugeTest
	recorder *events.FakeRecorder
	// wrote counts the writes of the status. requested are the names of the requested backups.
	wrote     int
	requested []string
	fails     error
}

func newArchivingTest(t *testing.T) *archivingTest {
	t.Helper()
	g := newGaugeTest()
	a := &archivingTest{key: g.key(1), gauges: g, recorder: events.NewFakeRecorder(10)}
	a.state = archivedDatabase(a.key)
	a.gathers = &gatherArchived{instances: []*instance.State{a.state}}
	a.archiver = offsiteArchiver(a.key, g.now)
	a.archivingReconciler = &archivingReconciler{ctx: context.Background(), gather: a.gathers, writer: writerFn(a.write), meter: g.meter,
		reader: fake.NewClientBuilder().WithScheme(schemeOf(t)).Build(), events: a.recorder,
		clock: func() time.Time { return g.now }, changed: map[string]chan event.TypedGenericEvent[instance.Key]{},
		running: map[types.UID]*runningArchiver{a.state.Instance.XR: a.archiver}}
	return a
}

// write replaces the writer: it applies the changes of the status to the instance in memory.
func (a *archivingTest) write(changes []change.Change) error {
	if a.fails != nil {
		return a.fails
	}
	for _, c := range changes {
		if c.Verb == change.Create {
			if name := c.Object.GetName(); !slices.Contains(a.requested, name) {
				a.requested = append(a.requested, name)
			}
			continue
		}
		internal, _ := c.Fields[v1.StatusInternal].(map[string]any)
		fields, _ := internal["archiving"].(map[string]any)
		next := &v1.ArchivingStatus{}
		next.OK, _ = fields["ok"].(bool)
		next.Message, _ = fields["message"].(string)
		next.Suspended, _ = fields["suspended"].(bool)
		for name, field := range map[string]**metav1.Time{"since": &next.Since, "until": &next.Until, "from": &next.From} {
			if text, ok := fields[name].(string); ok {
				parsed, err := time.Parse(time.RFC3339, text)
				if err != nil {
					return err
				}
				*field = &metav1.Time{Time: parsed}
			}
		}
		a.state.XR.Status.Archiving = next
		a.wrote++
	}
	return nil
}

// sent reconciles the instance, and returns the reasons of the events.
func (a *archivingTest) sent(t *testing.T) (out []string) {
	t.Helper()
	if _, err := a.Reconcile(t.Context(), a.key); !errors.Is(err, a.fails) {
		t.Fatal(err)
	}
	for {
		select {
		case e := <-a.recorder.Events:
			out = append(out, strings.Join(strings.Fields(e)[:2], " "))
		default:
			return out
		}
	}
}

// TestArchivingStory checks the events of an instance whose archive begins, fails, is retried, and has a gap. An event
// must be sent after its status was written, so a failed write delays it. A restart of the controller must not cause an
// event.
func TestArchivingStory(t *testing.T) {
	a := newArchivingTest(t)
	progressAt := func(line string, number int64, minute int, gap string) logarchive.Progress {
		return logarchive.Progress{Timeline: logarchive.Timeline{Prefix: "log/" + line}, Number: number,
			Until: minuteAt(minute).Time, Gap: gap}
	}
	const first, second = "20261130120000-aaaaaaaaaa", "20261130122000-bbbbbbbbbb"
	for i, step := range []struct {
		reason string
		do     func()
		want   []string
	}{
		{reason: "The archive has not begun yet.", do: func() {}},
		{reason: "The archive has begun.", do: func() { a.archiver.report(progressAt(first, 0, 1, noSegmentYet)) }},
		{reason: "The archiver has stored a segment.", do: func() { a.archiver.report(progressAt(first, 1, 9, noSegmentYet)) }},
		{reason: "The archiver failed, but the status cannot be written, so no event must be sent.", do: func() {
			a.archiver.fail("no store", false)
			a.fails = errBoom
		}},
		{reason: "The status can be written again, so the delayed event must be sent.",
			do: func() { a.fails = nil }, want: []string{"Warning ArchivingInterrupted"}},
		{reason: "The retry has stored nothing yet.", do: func() { a.archiver.report(progressAt(first, 1, 8, "")) }},
		{reason: "The archiver fails again, which must not be reported twice.", do: func() { a.archiver.fail("no server", false) }},
		{reason: "The controller restarts while the failure remains.", do: func() {
			a.archiver = offsiteArchiver(a.key, a.gauges.now)
			a.running[a.state.Instance.XR] = a.archiver
		}},
		{reason: "The archiver has stored a segment after the failure.", do: func() { a.archiver.report(progressAt(first, 1, 9, "")) },
			want: []string{"Normal ArchivingResumed"}},
		{reason: "The controller restarts, which must not cause an event.", do: func() {
			a.archiver = offsiteArchiver(a.key, a.gauges.now)
			a.running[a.state.Instance.XR] = a.archiver
		}},
		{reason: "The archiver works after the restart.", do: func() { a.archiver.report(progressAt(first, 1, 10, "")) }},
		{reason: "The binary log was reset, so the archive has a gap.",
			do:   func() { a.archiver.report(progressAt(second, 0, 20, "the log was reset")) },
			want: []string{"Warning ArchiveGap"}},
		{reason: "The archiver continues after the gap, which must not be reported twice.",
			do: func() { a.archiver.report(progressAt(second, 1, 30, "the log was reset")) }},
		{reason: "The instance is suspended, so the failure of its archiver must not be reported.", do: func() {
			suspended(a.state)
			a.archiver.fail("no server", false)
		}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, a.sent(t)); diff != "" {
			t.Fatalf("%d: %s -want, +got:\n%s", i, step.reason, diff)
		}
	}
	if diff := cmp.Diff([]string{"db-1-log-aaaaaaaaaa-13", "db-1-log-bbbbbbbbbb-13"}, a.requested); diff != "" {
		t.Errorf("want a backup for each timeline: -want, +got:\n%s", diff)
	}
	wrote := a.wrote
	if a.sent(t); a.wrote != wrote {
		t.Error("the same status was written again")
	}
}

// TestArchivingSeries checks that the metrics show the state of the archiver even if the status is not written. They
// are removed when the instance is suspended or deleted, or no longer requests an archive.
func TestArchivingSeries(t *testing.T) {
	a := newArchivingTest(t)
	want := func(reason string, archiving, until map[string]float64) {
		t.Helper()
		a.gauges.want(t, reason, metricArchiving, archiving)
		a.gauges.want(t, reason, metricArchivedUntil, until)
	}
	none := map[string]float64{}
	want("before the first reconcile", none, none)
	a.sent(t)
	want("it begins", map[string]float64{"db-1": 0}, none)
	end := time.Date(2026, 11, 30, 12, 0, 0, 250_000_000, time.UTC)
	a.archiver.report(logarchive.Progress{Timeline: logarchive.Timeline{Prefix: "log/20261130120000-a"}, Until: end})
	works, until := map[string]float64{"db-1": 1}, map[string]float64{"db-1": float64(end.UnixMilli()) / 1000}
	want("it works", works, until)
	a.archiver.fail("no store", false)
	want("it fails", map[string]float64{"db-1": 0}, until)
	a.archiver.failure = ""
	for name, step := range map[string]func(){
		"suspended": func() { suspended(a.state) },
		"deleted":   func() { deletedAt(a.state) },
		"disabled":  func() { disabled(a.state) },
		"ended":     func() { a.gathers.instances = nil },
	} {
		step()
		a.sent(t)
		want(name, none, none)
		a.state = archivedDatabase(a.key)
		a.gathers.instances = []*instance.State{a.state}
		a.running[a.state.Instance.XR] = a.archiver
		a.sent(t)
		want("again", works, until)
	}
	a.archiver.fail("gtid_mode is OFF", true)
	a.sent(t)
	want("it requires an archive that the server does not support", map[string]float64{"db-1": 0}, until)
	a.state.XR.Spec.Backup.Continuous = nil
	a.sent(t)
	want("the server does not support it", none, none)
	a.archiver.failure, a.archiver.isUnsupported = "", false
	a.sent(t)
	another := archivedDatabase(a.key)
	another.Instance.XR = anotherXR
	deletedAt(another)
	a.gathers.instances = []*instance.State{another, a.state}
	a.running[anotherXR] = offsiteArchiver(a.key, time.Time{})
	a.sent(t)
	want("a previous instance with the same name is being deleted", works, until)
	a.state.XR.Spec.Backup.Continuous = &v1.ContinuousBackup{}
	a.state.XR.Status.Authorities = ""
	a.sent(t)
	want("it wants an archive that is not possible", map[string]float64{"db-1": 0}, none)
}

// TestManyArchivers checks the limit of 1000 series. Archives that fail must be included, and of the others those whose
// last transaction is the oldest.
func TestManyArchivers(t *testing.T) {
	g := newGaugeTest()
	for n := range maxSeries + 5 {
		g.observeArchiver(g.key(n), func() observedArchiver {
			return observedArchiver{isArchiving: n != maxSeries, until: g.now.Add(-time.Duration(n) * time.Second)}
		})
	}
	archiving, until := g.series(t, metricArchiving), g.series(t, metricArchivedUntil)
	failing := fmt.Sprintf("db-%d", maxSeries)
	if value, ok := archiving[failing]; len(archiving) != maxSeries || !ok || value != 0 {
		t.Errorf("want %s among 1000, got %v, %v among %d", failing, value, ok, len(archiving))
	}
	if _, newest := until["db-4"]; len(until) != maxSeries || newest || until["db-1004"] != 998_996 {
		t.Errorf("want the 1000 furthest behind of 1005, got %d", len(until))
	}
}

// TestKeepFrom checks that all transactions that the oldest backup needs are kept. Without a backup, all transactions
// are kept.
func TestKeepFrom(t *testing.T) {
	a := &runningArchiver{}
	for minute, bases := range map[int][]recovery.Base{
		3: {{Begun: minuteAt(7).Time}, {Begun: minuteAt(3).Time}, {Begun: minuteAt(5).Time}}, 8: {{Begun: minuteAt(8).Time}}} {
		if a.keep(bases); !a.neededFrom().Equal(minuteAt(minute).Time) {
			t.Errorf("want minute %d, got %s", minute, a.neededFrom())
		}
	}
	if a.keep(nil); !a.neededFrom().IsZero() {
		t.Errorf("want that all are kept, got %s", a.neededFrom())
	}
}
