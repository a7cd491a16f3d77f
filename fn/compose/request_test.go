package compose

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestRequestedBackup: the server does not run while a backup is taken that its claim asks for, and then as before; why there is
// none the claim says.
func TestRequestedBackup(t *testing.T) {
	const request = "one"
	answered := func(b v1.RequestedBackupStatus) func(*Input) {
		return func(in *Input) {
			in.XR.Spec.Backup.Request, in.XR.Spec.Backup.Method = request, v1.MethodCold
			b.Request = request
			in.XR.Status.RequestedBackup = &b
		}
	}
	cases := map[string]struct {
		reason   string
		in       Input
		replicas int32
		says     string
		silent   string
	}{
		"Asked":   {reason: "The controller has not begun.", in: given(serving, func(in *Input) { in.XR.Spec.Backup.Request, in.XR.Spec.Backup.Method = request, v1.MethodCold }), replicas: 1, says: "Running"},
		"Running": {reason: "It is under way.", in: given(serving, answered(v1.RequestedBackupStatus{Phase: v1.RequestedRunning, Fence: true, Message: "Backing up the data, 50%"})), says: `The server is stopped for the backup that backup.request "one" asks for. Backing up the data, 50%`},
		"Failing": {reason: "What is left of it is put aside.", in: given(serving, answered(v1.RequestedBackupStatus{Phase: v1.RequestedFailing, Fence: true})), says: "stopped for the backup"},
		"Failed":  {reason: "It is over.", in: given(serving, answered(v1.RequestedBackupStatus{Phase: v1.RequestedFailed, Message: "exceeded quota"})), replicas: 1, says: `backup.request "one" asked for has failed: exceeded quota. Another text asks for another one`},
		"Proven":  {reason: "It is over.", in: given(serving, answered(v1.RequestedBackupStatus{Phase: v1.RequestedProven, Backup: "b"})), replicas: 1, says: "Running", silent: "backup.request"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			if d := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment); *d.Spec.Replicas != tc.replicas {
				t.Errorf("%s want %d, got %d", tc.reason, tc.replicas, *d.Spec.Replicas)
			}
			if m := out.Status.Message; !strings.Contains(m, tc.says) || tc.silent != "" && strings.Contains(m, tc.silent) {
				t.Errorf("%s it says %q", tc.reason, m)
			}
		})
	}
}
