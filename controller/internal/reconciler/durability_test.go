package reconciler

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// TestWithDurability checks when commits must wait for the BackupStore, and what users see.
func TestWithDurability(t *testing.T) {
	inServer := v1.BackupSpec{Continuous: &v1.ContinuousBackup{}}
	waits := v1.BackupSpec{Continuous: &v1.ContinuousBackup{Durability: v1.DurabilityStore}}
	continues := v1.BackupSpec{Continuous: &v1.ContinuousBackup{Durability: v1.DurabilityStore,
		StoreFailurePolicy: v1.StoreFailureContinue}}
	works, fails := v1.ArchivingStatus{OK: true}, v1.ArchivingStatus{Message: "no store"}
	suspended := v1.ArchivingStatus{Message: "no store", Suspended: true}
	for name, tc := range map[string]struct {
		reason   string
		spec     v1.BackupSpec
		next     v1.ArchivingStatus
		wait     commitWait
		reported *v1.ArchivingStatus
		isShown  bool

		want        commitWait
		isOK        bool
		isSuspended bool
		message     string
	}{
		"Server": {reason: "Commits never wait with durability Server.", spec: inServer, next: works, wait: waitOff, isOK: true},
		"Works":  {reason: "Commits wait, and the archive works.", spec: waits, next: works, wait: waitOn, isOK: true},
		"NotAskedYet": {reason: "The controller has just started, and must change nothing.", spec: waits, next: works,
			wait: waitUnknown, isOK: true},
		"NotRestarted": {reason: "A server without the plugin must not look durable.", spec: waits, next: works,
			wait: waitImpossible, isSuspended: true, message: "Restart the server"},
		"SwitchedOff": {reason: "Somebody else has switched the waiting off.", spec: waits, next: works, wait: waitOff,
			want: waitOn, isSuspended: true, message: "do not wait"},
		"Back": {reason: "The store works again, so commits must wait again.", spec: continues, next: works, wait: waitOff,
			reported: &suspended, isShown: true, want: waitOn, isSuspended: true, message: "do not wait"},
		"Waits": {reason: "With policy Wait, the status must say that commits wait.", spec: waits, next: fails, wait: waitOn,
			message: "no store. Commits wait"},
		"WaitsAlways": {reason: "With policy Wait, commits wait even if the status is shown.", spec: waits, next: fails, wait: waitOn,
			reported: &suspended, isShown: true, message: "Commits wait"},
		"NotReported": {reason: "Commits must wait until the status is written.", spec: continues, next: fails, wait: waitOn,
			reported: &works, isSuspended: true, message: "no store. Commits do not wait"},
		"NotShown": {reason: "Commits must wait until users can see the condition.", spec: continues, next: fails, wait: waitOn,
			reported: &suspended, isSuspended: true, message: "do not wait"},
		"Shown": {reason: "Commits must not wait after users can see it.", spec: continues, next: fails, wait: waitOn,
			reported: &suspended, isShown: true, want: waitOff, isSuspended: true, message: "do not wait"},
		"Restarted": {reason: "The server may have restarted, so that commits wait again.", spec: continues, next: fails,
			wait: waitUnknown, reported: &suspended, isShown: true, want: waitOff, isSuspended: true, message: "do not wait"},
		"AlreadyOff": {reason: "Nothing must be changed again.", spec: continues, next: fails, wait: waitOff, reported: &suspended,
			isShown: true, isSuspended: true, message: "do not wait"},
		"KeptMessage": {reason: "A message that is kept must not get the sentence twice.", spec: continues,
			next: v1.ArchivingStatus{Message: "no store. " + commitsDoNotWait}, wait: waitOff, isSuspended: true,
			message: "no store. " + commitsDoNotWait},
	} {
		t.Run(name, func(t *testing.T) {
			next := tc.next
			got := withDurability(&tc.spec, &next, tc.wait, tc.reported, tc.isShown)
			if got != tc.want || next.OK != tc.isOK || next.Suspended != tc.isSuspended {
				t.Errorf("%s\nwant %q, got %q with status %+v", tc.reason, tc.want, got, next)
			}
			if !strings.Contains(next.Message, tc.message) || strings.Count(next.Message, "Commits") > 1 {
				t.Errorf("%s\nwant %q in %q", tc.reason, tc.message, next.Message)
			}
		})
	}
}

// TestCommitWaitOf checks what the state of a server means.
func TestCommitWaitOf(t *testing.T) {
	for want, s := range map[commitWait]binlog.State{waitImpossible: {}, waitOff: {CanWait: true},
		waitOn: {CanWait: true, Waits: true}} {
		if got := commitWaitOf(s); got != want {
			t.Errorf("%+v: want %q, got %q", s, want, got)
		}
	}
}

// A waitOffer records whether commits of the server wait.
type waitOffer struct {
	sets  []bool
	fails error
}

func (*waitOffer) OfferArchive(context.Context, *change.Server) (sql.Password, error) { return "", nil }
func (*waitOffer) WithdrawArchive(context.Context, *change.Server) error              { return nil }

func (o *waitOffer) SetCommitWait(_ context.Context, _ *change.Server, waits bool) (bool, error) {
	if o.fails != nil {
		return false, o.fails
	}
	o.sets = append(o.sets, waits)
	return true, nil
}

// TestDurabilityStory checks an instance with storeFailurePolicy Continue, whose store fails and works again. Commits must
// wait until the condition is shown.
func TestDurabilityStory(t *testing.T) {
	a := newArchivingTest(t)
	offer := &waitOffer{}
	a.offer = offer
	a.changed[v1.KindMySQL] = make(chan event.TypedGenericEvent[instance.Key], 100)
	a.state.XR.Spec.Backup.Continuous = &v1.ContinuousBackup{Durability: v1.DurabilityStore,
		StoreFailurePolicy: v1.StoreFailureContinue}
	show := func() { // The function shows the status as a condition.
		c := metav1.Condition{Type: v1.ConditionArchiving, Status: metav1.ConditionFalse, Reason: v1.ReasonArchiveFailing}
		switch s := a.state.XR.Status.Archiving; {
		case s.Suspended:
			c.Reason = v1.ReasonStoreDurabilitySuspended
		case s.OK:
			c.Status, c.Reason = metav1.ConditionTrue, v1.ReasonArchived
		}
		a.state.XR.Conditions = []metav1.Condition{c}
	}
	report := func(number int64) {
		a.archiver.report(logarchive.Progress{Timeline: logarchive.Timeline{Prefix: "log/20261130120000-aaaaaaaaaa"}, Number: number,
			Until: minuteAt(int(number)).Time})
	}
	for i, step := range []struct {
		reason      string
		do          func()
		sets        []bool
		isOK        bool
		isSuspended bool
	}{
		{reason: "The archive works.", do: func() {
			a.archiver.recordWait(waitOn)
			report(1)
		}, isOK: true},
		{reason: "The store fails, but users cannot see it yet.", do: func() { a.archiver.fail("no store", false) }, isSuspended: true},
		{reason: "The condition is not shown yet.", do: func() {}, isSuspended: true},
		{reason: "The condition is shown, but the server does not respond.", do: func() {
			show()
			offer.fails = errBoom
		}, isSuspended: true},
		{reason: "The server responds.", do: func() { offer.fails = nil }, sets: []bool{false}, isSuspended: true},
		{reason: "Nothing has changed.", do: func() {}, sets: []bool{false}, isSuspended: true},
		{reason: "The archiver failed again, and the server may have restarted.", do: func() { a.archiver.fail("no store", false) },
			sets: []bool{false, false}, isSuspended: true},
		{reason: "The archiver is connected again, but has stored nothing.", do: func() {
			a.archiver.recordWait(waitOff)
			report(1)
		}, sets: []bool{false, false}, isSuspended: true},
		{reason: "The archiver has stored a segment, so commits must wait again before the archive is complete.",
			do: func() { report(2) }, sets: []bool{false, false, true}, isSuspended: true},
		{reason: "Commits wait again.", do: show, sets: []bool{false, false, true}, isOK: true},
	} {
		step.do()
		a.sent(t)
		got := a.state.XR.Status.Archiving
		if got.OK != step.isOK || got.Suspended != step.isSuspended || len(offer.sets) != len(step.sets) {
			t.Fatalf("%d: %s got %v, %+v", i, step.reason, offer.sets, got)
		}
		for n := range step.sets {
			if offer.sets[n] != step.sets[n] {
				t.Fatalf("%d: %s got %v", i, step.reason, offer.sets)
			}
		}
	}
	if a.archiver.commitWait() != waitOn {
		t.Error("commits do not wait")
	}
}

// TestCommitsWaitProblem checks when the metrics report that commits of an instance wait.
func TestCommitsWaitProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(*instance.State)
		want   bool
	}{
		"Fails":      {reason: "The transactions are not archived.", change: func(*instance.State) {}, want: true},
		"Works":      {reason: "The transactions are archived.", change: func(s *instance.State) { s.XR.Status.Archiving.OK = true }},
		"Continues":  {reason: "Commits do not wait any more.", change: func(s *instance.State) { s.XR.Status.Archiving.Suspended = true }},
		"NoArchive":  {reason: "The archive has not begun.", change: func(s *instance.State) { s.XR.Status.Archiving = nil }},
		"NotStarted": {reason: "The server has no clients yet.", change: func(s *instance.State) { s.XR.Status.Started = false }},
		"Suspended":  {reason: "The server is stopped on purpose.", change: suspended},
		"Deleted":    {reason: "The instance is being deleted.", change: deletedAt},
		"Server": {reason: "With durability Server, commits never wait.", change: func(s *instance.State) {
			s.XR.Spec.Backup.Continuous.Durability = v1.DurabilityServer
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := archivedDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
			s.XR.Spec.Backup.Continuous = &v1.ContinuousBackup{Durability: v1.DurabilityStore}
			s.XR.Status.Started, s.XR.Status.Archiving = true, &v1.ArchivingStatus{Message: "no store"}
			tc.change(s)
			if got := slices.Contains(problemsOf(s.XR), problemCommitsWait); got != tc.want {
				t.Errorf("%s\nwant %v, got %v", tc.reason, tc.want, got)
			}
		})
	}
}
