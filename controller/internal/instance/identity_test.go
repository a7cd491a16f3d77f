package instance

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestIdentityOfHolders checks the identity that is read from the volume of an instance without an XR.
func TestIdentityOfHolders(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{
		v1.AnnotationBackupNumber: "7", v1.AnnotationFirstBackupNumber: "4", v1.AnnotationImage: "mysql:8.4",
		v1.AnnotationChoice: "c",
	}}}
	id := IdentityOfHolders(v1.Instance{XR: "u"}, []client.Object{v}, time.Now())
	if id.BackupNumber != 7 || id.FirstBackupNumber != 4 || id.Image != "mysql:8.4" || id.Choice != "c" ||
		id.Volume != "pv" || !id.Started {
		t.Errorf("got %+v", id)
	}
}
