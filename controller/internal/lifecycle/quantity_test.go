package lifecycle

import (
	"runtime/metrics"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// allocated returns the number of bytes that f allocates. The metric is updated for small objects only after several
// megabytes, so a limit needs that tolerance. A calculation with a huge number allocates tens of megabytes. The
// duration is not measured, because it varies on a busy machine.
func allocated(f func()) uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	before := s[0].Value.Uint64()
	f()
	metrics.Read(s)
	return s[0].Value.Uint64() - before
}

// TestEndlessClaim checks a backup PVC whose request is 1e9999999, which any user who may edit the PVC can write. The
// API server stores this value. The library parses it quickly, but a comparison takes seconds. The controller
// therefore treats the value as zero, so it creates the PVC again or expands it.
func TestEndlessClaim(t *testing.T) {
	asking := func(text string) func(*instance.State) {
		return func(s *instance.State) {
			s.BackupPVC.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
		}
	}
	cases := map[string]struct {
		reason string
		change func(*instance.State)
		want   steps.Action
	}{
		"Bound": {reason: "The request of a bound PVC must be corrected, unless Kubernetes refuses it.",
			change: func(*instance.State) {},
			want:   steps.ExpandBackupPVC},
		"Refused": {reason: "A size that Kubernetes has refused must not be requested again.",
			change: func(s *instance.State) { s.BackupPVC.Annotations[v1.AnnotationRefusedSize] = "1Gi" }, want: steps.NoOp},
		"Unbound": {reason: "No volume is ever so large, so the unbound PVC must be created again.",
			change: backupUnbound, want: steps.DeleteBackupPVC},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{"1e9999999", "1e1000", "12345678901234567890e999"} {
				s := running(tc.change, asking(text))
				var step steps.Step
				if cost := allocated(func() { step = Next(s) }); cost > 8<<20 {
					t.Errorf("the controller calculates with %s: %d bytes", text, cost)
				}
				if step.Action != tc.want {
					t.Errorf("%s\nwith %s: want %s, got %s %s", tc.reason, text, tc.want, step.Action, step.Message)
				}
			}
		})
	}
}
