package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestDirectoryMovedAside checks that a server does not start if its data directory is missing or belongs to another
// instance. No new database may be created there, and the claim must name the volume or directory. When the right
// directory is back, no row is lost.
func TestDirectoryMovedAside(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRealDataMoved has both folders, and TestRealNothingInItsPlace an empty one")
	framework.OnEach(t, map[string]string{framework.OnClass: "a folder of a node is easier to move aside than a volume"},
		func(t *testing.T, composition string) {
			t.Helper()
			s := framework.NewServer(t, composition)
			before := s.Begin(t)
			v := s.MustFindDataVolume(t)
			place := ". The data is on PersistentVolume " + v.Name
			if v.Spec.HostPath != nil {
				place = ". The data is in directory " + v.Spec.HostPath.Path + " of node "
			}
			startHand(t, s, "hand", s.DataPVC())
			restartOn := func(script string) {
				t.Helper()
				if _, err := execByHand(t.Context(), s, "hand", script+"; sync"); err != nil {
					t.Fatal(err)
				}
				if err := framework.Suite.Kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(s.Namespace),
					client.MatchingLabels{"app": s.Name}); err != nil {
					t.Fatal(err)
				}
			}

			restartOn("mv /data/data /data/aside")
			s.Says(t, "the volume contains no data, but this instance had data")
			s.Says(t, place)
			if got, err := execByHand(t.Context(), s, "hand", "[ ! -e /data/data ] || ls -A /data/data"); err != nil ||
				got != "" {
				t.Errorf("want nothing in the place of the data, got %q, %v", got, err)
			}

			restartOn(
				`cp -p /data/.restored.json /tmp; sed -i 's/"xr":"[^"]*"/"xr":"of-another"/' /data/.restored.json; rm -df /data/data; mv /data/aside /data/data`)
			s.Says(t, `the data belongs to another instance, whose composite resource has the UID "of-another"`)
			s.Says(t, place)

			restartOn("cp -p /tmp/.restored.json /data")
			s.Client().SeesRows(t, before)
			endHand(t, s, "hand")
			s.Delete(t)
			s.Backups().AreVerified(t, 1)
		})
}
