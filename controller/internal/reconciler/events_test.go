package reconciler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// documentedEvents returns the event reasons of the API with their comments.
func documentedEvents(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "..", "apis", "v1", "events.go"), nil,
		parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, ok := c.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is no text", c.Names[0].Name)
		}
		reason, err := strconv.Unquote(value.Value)
		if err != nil || c.Names[0].Name != "Event"+reason {
			t.Errorf("the constant of %s is called %s: %v", value.Value, c.Names[0].Name, err)
		}
		out[reason] = c.Doc.Text()
		return true
	})
	return out
}

// TestEvents checks that each event reason is documented and sent, and that no other reason is sent.
func TestEvents(t *testing.T) {
	sent := map[string]bool{}
	for _, a := range slices.Concat(slices.Collect(maps.Values(eventsOfPhases)),
		slices.Collect(maps.Values(eventsOfActions)),
		slices.Collect(maps.Values(eventsOfRequest)), slices.Collect(maps.Values(eventsOfSchedule)),
		slices.Collect(maps.Values(eventsOfAttempts)), slices.Collect(maps.Values(eventsOfInstance)),
		slices.Collect(maps.Values(eventsOfArchives)), slices.Collect(maps.Values(eventsOfStores))) {
		sent[string(a.reason)] = true
	}
	sent[string(eventOf(steps.Step{Refused: true}).reason)] = true
	for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		sent[string(eventOfVerdict(s).reason)] = true
	}
	for _, a := range []announcement{archivingInterrupted, archivingResumed, archiveGap, storageGrown, storageGrowthBlocked} {
		sent[string(a.reason)] = true
	}
	for _, r := range []v1.EventReason{v1.EventConnectionPublished, v1.EventPasswordChanged, v1.EventOldPasswordDiscarded,
		v1.EventPasswordChangeFailed} {
		sent[string(r)] = true // Package rotate sends these events, and its reasons have this type.
	}
	documented := documentedEvents(t)
	for reason, doc := range documented {
		if !sent[reason] {
			t.Errorf("nobody sends %s", reason)
		}
		if !strings.Contains(doc, "is sent when") {
			t.Errorf("of %s it is not said when it is sent", reason)
		}
	}
	for reason := range sent {
		if _, ok := documented[reason]; !ok {
			t.Errorf("%q is sent, and is no event of the API", reason)
		}
	}
}

// TestOneSender checks that only sendEvent sends events. Its parameter type ensures that each reason is declared in
// the API.
func TestOneSender(t *testing.T) {
	var senders []string
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok &&
				slices.Contains([]string{"Event", "Eventf", "AnnotatedEventf"}, selector.Sel.Name) {
				senders = append(senders, path)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join("..", "reconciler", "events.go")}, senders); diff != "" {
		t.Errorf("want sendEvent to send all events: -want, +got:\n%s", diff)
	}
}

// TestEventOf checks that the event of a step depends on its action or, for other actions, on the phase of the
// deletion.
func TestEventOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		step   steps.Step
		want   announcement
	}{
		"Living": {reason: "A step of an existing instance has no phase, so its action determines the event.",
			step: steps.Step{Action: steps.FenceServer},
			want: announcement{reason: v1.EventPVCDeleted}},
		"Lost": {reason: "A user must restore the deleted volume, so the event must be a warning.", step: steps.Step{Action: steps.NoOp},
			want: announcement{reason: v1.EventPVCDeleted, warning: true}},
		"Retained": {reason: "The action determines the event even if the step has a phase.",
			step: steps.Step{Action: steps.RetainDataPV, Phase: v1.DeletionAnnounced},
			want: announcement{reason: v1.EventVolumeRetained}},
		"Verified": {reason: "RecordBackup means that the backup is verified, although the phase is still BackingUp.",
			step: steps.Step{Action: steps.RecordBackup, Phase: v1.DeletionBackingUp},
			want: announcement{reason: v1.EventBackupVerified}},
		"PVC": {reason: "Replacing the PVC of a Job is part of the backup, so the phase determines the event.",
			step: steps.Step{Action: steps.DeletePVC, Phase: v1.DeletionBackingUp},
			want: announcement{reason: v1.EventBackupStarted}},
		"Request": {reason: "An on-demand backup of an existing instance has its own event.",
			step: steps.Step{Action: steps.BeginBackup, Origin: v1.OriginRequest},
			want: announcement{reason: v1.EventRequestedBackupBegun}},
		"Schedule": {reason: "A failed scheduled backup must have the event of scheduled backups.",
			step: steps.Step{Action: steps.GiveUpBackup, Origin: v1.OriginSchedule},
			want: announcement{reason: v1.EventScheduledBackupFailed, warning: true}},
		"InLife": {reason: "A backup of an existing instance has no deletion phase, so its attempt determines the event.",
			step: steps.Step{Action: steps.Wait, Attempt: steps.AttemptBlocked},
			want: announcement{reason: v1.EventBackupFailed, warning: true}},
		"Held": {reason: "A blocked deletion must cause a warning, because users search for warnings.",
			step: steps.Step{Action: steps.Wait, Phase: v1.DeletionBlocked},
			want: announcement{reason: v1.EventDeletionBlocked, warning: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := eventOf(tc.step); got != tc.want {
				t.Errorf("%s want %+v, got %+v", tc.reason, tc.want, got)
			}
		})
	}
}
