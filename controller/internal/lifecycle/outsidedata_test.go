package lifecycle

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestAskedBeforeStop checks that the controller asks a running server about data outside of its data directory
// before the server stops. Only the server can move that data. The controller does not ask if the user accepts the
// loss of that data.
func TestAskedBeforeStop(t *testing.T) {
	runs := withPod(map[string]string{v1.LabelXR: xrUID}, corev1.PodRunning)
	gaveUp := func(s *instance.State) { s.XR.SetAnnotations(map[string]string{v1.AnnotationWithoutOutside: xrUID}) }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   []change.Verb
	}{
		"Runs": {reason: "The server can still move the data, so the controller must check it before the server stops.",
			state: fenced(deployment(1), runs), want: []change.Verb{change.CheckData, change.Scale}},
		"Gone": {reason: "There is no pod of the server that could be checked.",
			state: fenced(deployment(1)), want: []change.Verb{change.Scale}},
		"Discarded": {reason: "A deletion without a backup needs no check.", state: fenced(deployment(1), runs, discard),
			want: []change.Verb{change.Scale}},
		"GivenUp": {reason: "The user accepts the loss of the data outside of the data directory.",
			state: fenced(deployment(1), runs, gaveUp), want: []change.Verb{change.Scale}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			got := slices.DeleteFunc(verbs(step), func(v change.Verb) bool { return v == change.PatchStatus })
			if step.Action != steps.StopServer || !slices.Equal(got, tc.want) {
				t.Errorf("%s %s: %v, want %v", tc.reason, step.Action, got, tc.want)
			}
		})
	}
}

// TestOutsideHint checks that the message lists the data outside of the data directory. It also contains the command
// with which the user accepts the loss of exactly that data.
func TestOutsideHint(t *testing.T) {
	const tables = "`shop`.`orders` (/tmp/shop/orders.ibd)"
	found := func(s *instance.State) { s.BackupJob.Report.ExitCode = agent.ExitOutside }
	noted := func(s *instance.State) {
		s.Records[0].Status = v1.BackupRecordStatus{Phase: v1.BackupFailed, Message: tables}
	}
	cases := map[string]struct {
		state *instance.State
		want  string
	}{
		"BeforeStop": {fenced(deployment(1), withPod(map[string]string{v1.LabelXR: xrUID}, corev1.PodRunning),
			answeredBy(steps.StopServer, tables, true)), "lose the files outside of it: kubectl annotate xmysql "},
		"AfterStop": {fenced(withJob(failedAt(0, tables)), noted, found), "were deleted with the server's pod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			if !strings.Contains(step.Message, tables) || !strings.Contains(step.Hint, tc.want) ||
				!strings.HasSuffix(step.Hint, v1.AnnotationWithoutOutside+"="+xrUID) {
				t.Errorf("%s says %q, %q", step.Action, step.Message, step.Hint)
			}
		})
	}
}

// TestJobLeavesOutside checks that the backup Job omits data outside of the data directory only if the annotation
// contains the UID of the instance.
func TestJobLeavesOutside(t *testing.T) {
	for uid, want := range map[string]bool{xrUID: true, "another": false, "": false} {
		s := fenced(func(s *instance.State) { s.XR.SetAnnotations(map[string]string{v1.AnnotationWithoutOutside: uid}) })
		command := backup.NewJob(s).Spec.Template.Spec.Containers[0].Command
		if got := slices.Contains(command, "--without-outside"); got != want {
			t.Errorf("%q: %q", uid, command)
		}
	}
}
