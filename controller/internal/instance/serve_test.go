package instance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestMayServe checks that the controller logs in to a server that accepts clients or waits for the first login. It
// also logs in if the state is unknown because Crossplane cannot compose.
func TestMayServe(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	unknown, unsynced := condition(v1.ConditionServing, metav1.ConditionUnknown, "FatalError"), condition("Synced",
		metav1.ConditionFalse, "ReconcileError")
	bound := &v1.Binding{Name: "db-connection"}
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		binding    *v1.Binding
		want       bool
	}{
		"Serving": {reason: "The condition of the function reports that the server accepts clients.",
			conditions: []metav1.Condition{condition(v1.ConditionServing, metav1.ConditionTrue, v1.ReasonRunning)}, want: true},
		"First": {reason: "The server waits for the first login, which is done by the controller.",
			conditions: []metav1.Condition{condition(v1.ConditionServing, metav1.ConditionFalse, v1.ReasonLoginPending)},
			want:       true},
		"Starting": {reason: "The server has not started, so the controller must not log in.",
			conditions: []metav1.Condition{condition(v1.ConditionServing, metav1.ConditionFalse, v1.ReasonStarting), unsynced},
			binding:    bound},
		"Unknown": {reason: "Crossplane cannot compose, but a server that accepted clients before continues to run.",
			conditions: []metav1.Condition{unknown, unsynced}, binding: bound, want: true},
		"NeverBound": {reason: "There is no connection Secret, so the server has never accepted clients.",
			conditions: []metav1.Condition{unknown, unsynced}},
		"Synced": {reason: "Crossplane can compose, so the function will soon report the state of the server.",
			conditions: []metav1.Condition{unknown},
			binding:    bound},
		"Silent": {reason: "There is no condition of the function yet.", conditions: []metav1.Condition{unsynced},
			binding: bound},
	}
	for name, tc := range cases {
		c := &Composite{Conditions: tc.conditions}
		c.Status.Binding = tc.binding
		if _, got := c.MayServe(); got != tc.want {
			t.Errorf("%s: %s want %t, got %t", name, tc.reason, tc.want, got)
		}
	}
}

// TestWhyUncomposed checks that Crossplane's last warning is found, although Crossplane sends a normal event with the
// same reason after it.
func TestWhyUncomposed(t *testing.T) {
	xr := &corev1.ConfigMap{}
	xr.UID = "xr"
	l := lookAt(t,
		said("old", "xr", corev1.EventTypeWarning, reasonCompose, "cannot apply composed resource \"config\": old", 60),
		said("cause", "xr", corev1.EventTypeWarning, reasonCompose,
			"cannot apply composed resource \"service\": Service \"db\" is invalid: spec.ports[0].nodePort: no", 5),
		said("other", "xr", corev1.EventTypeWarning, "Invalid", "spec.image: no", 1),
		said("after", "xr", corev1.EventTypeNormal, reasonCompose, "Composed resource \"service\" is not yet valid", 1),
	)
	if got, want := l.whyUncomposed(t.Context(),
		xr), `cannot apply composed resource "service": Service "db" is invalid: spec.ports[0].nodePort: no`; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}
