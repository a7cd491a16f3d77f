package compose

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// ready adds a server that is ready with the given image. The image was also the last to use the data.
func ready(image string) func(*Input) {
	return func(in *Input) {
		inUse(in)
		in.Observed.Template.Images = map[string]string{"mysql": image, "mesh": "proxy:1.0"}
		in.Observed.Deployment.Status = appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 1}
		in.XR.Status.Image = image
	}
}

// starting adds a server that is starting with the given image. served is the image that last used the data.
func starting(image, served string) func(*Input) {
	return func(in *Input) {
		ready(image)(in)
		in.Observed.Deployment.Status = appsv1.DeploymentStatus{}
		in.XR.Status.ServedImage = served
	}
}

func wants(image string) func(*Input) { return func(in *Input) { in.XR.Spec.Image = new(image) } }

func changing(c v1.ImageChangeStatus) func(*Input) {
	return func(in *Input) { in.XR.Status.ImageChange = &c }
}

// TestImageChange checks that no server of another release series starts before a backup exists. The current server
// keeps running until the backup starts.
func TestImageChange(t *testing.T) {
	const old, next, later = "mysql:8.0.36", "mysql:8.4", "mysql:9.7"
	fence := changing(v1.ImageChangeStatus{From: old, Fence: true, Message: "Backing up the data, 50%"})
	delayed := changing(v1.ImageChangeStatus{Message: "The store is down"})
	allowed := changing(v1.ImageChangeStatus{From: old, Allowed: true, Backup: "b"})
	never := func(in *Input) { in.XR.Spec.Backup.BeforeUpgrade = v1.BackUpNever }
	cases := map[string]struct {
		reason          string
		in              Input
		image           string
		replicas        int32
		served, pending string
		says            string
	}{
		"None": {reason: "The image of the spec is the one that runs.",
			in: given(ready(old), wants(old)), image: old, replicas: 1, served: old},
		"Series": {reason: "An image of the same release series needs no backup, because a downgrade is possible.",
			in:    given(ready(old), wants("mirror/library/mysql:8.0.40-oracle@sha256:abc")),
			image: "mirror/library/mysql:8.0.40-oracle@sha256:abc", replicas: 1, served: old},
		"Other": {reason: "The old image must run until the controller stops the server.", in: given(ready(old), wants(next)),
			image: old, replicas: 1, served: old, pending: next, says: "Image mysql:8.4 belongs to a different release " +
				"series than mysql:8.0.36"},
		"Unknown": {reason: "The tag latest does not show the release series, so a backup is required.",
			in: given(ready(old), wants("mysql:latest")), image: old,
			replicas: 1, served: old, pending: "mysql:latest"},
		"Major": {reason: "A tag with only a major version moves between series, so a backup is required.",
			in: given(ready("mysql:8"), wants("mysql:9")), image: "mysql:8",
			replicas: 1, served: "mysql:8", pending: "mysql:9"},
		"Product": {reason: "Another product with the same version is another release series.",
			in: given(ready(old), wants("percona-server:8.0")), image: old, replicas: 1, served: old,
			pending: "percona-server:8.0"},
		"Delayed": {reason: "The server must not stop while the backup cannot be written.",
			in: given(ready(old), wants(next), delayed), image: old, replicas: 1, served: old, pending: next,
			says: ". The store is down"},
		"BackDelayed": {reason: "The change was reverted before its backup began, so the server must not stop.",
			in: given(ready(old), wants(old), delayed), image: old,
			replicas: 1, served: old},
		"Fenced": {reason: "The server must be stopped while its data is backed up.",
			in: given(ready(old), wants(next), fence), image: old,
			served: old, pending: next, says: "The server is stopped for a backup before it starts with image mysql:8.4. " +
				"Backing up the data, 50%"},
		"Allowed": {reason: "The new image must start after the backup is verified.",
			in: given(starting(old, old), wants(next), allowed), image: next,
			replicas: 1, served: old, pending: next},
		"Starting": {reason: "The message must say how to revert to the old image.",
			in: given(starting(next, old), wants(next), allowed), image: next,
			replicas: 1, served: old, pending: next,
			says: "To revert the change, set spec.image to mysql:8.0.36. If that image no longer starts on the data, delete " +
				"the claim and create it again with spec.image: mysql:8.0.36 and spec.restore.backup: b"},
		"Other2": {reason: "The backup also protects the change to a third image, because no server has served since.",
			in: given(starting(next, old), wants(later), allowed), image: later, replicas: 1, served: old, pending: later},
		"Served": {reason: "The image change is complete when the new server is ready.",
			in: given(ready(next), wants(next), allowed), image: next, replicas: 1,
			served: next},
		"Next": {reason: "The backup does not contain later changes, so another image needs another backup.",
			in:    given(ready(next), wants(later), allowed),
			image: next, replicas: 1, served: next, pending: later},
		"Back": {reason: "The backup lacks later changes, so it must be finished before the old image starts.",
			in: given(starting(next, old), wants(old), allowed), image: old, served: old,
			says: "Waiting for the controller to finish the previous image change"},
		"BackMid": {reason: "A running backup must be finished before the old image starts again.",
			in: given(starting(old, old), wants(old), fence), image: old,
			served: old, says: "Waiting for the controller to finish the previous image change"},
		"BackDone": {reason: "The controller has finished the change, so the old image must start again.",
			in: given(starting(next, old), wants(old)), image: old, replicas: 1,
			served: old},
		"Never": {reason: "With beforeUpgrade Never, no backup is required.",
			in: given(ready(old), wants(next), never), image: next, replicas: 1,
			served: old},
		"Discard": {reason: "With deletionPolicy Discard, no backup is required.",
			in: given(ready(old), wants(next), func(in *Input) { in.XR.Spec.DeletionPolicy = v1.DeletionDiscard }), image: next,
			replicas: 1, served: old},
		"NeverMid": {reason: "With beforeUpgrade Never, a running backup must still be finished.",
			in: given(starting(old, old), wants(next), fence, never), image: next,
			served: old},
		"First": {reason: "No server has accepted clients yet, so there is no data to back up.",
			in: given(starting("mysql:84", ""), wants(next)), image: next, replicas: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			d := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment)
			if got := container(t, out).Image; got != tc.image || *d.Spec.Replicas != tc.replicas ||
				out.Status.Image != tc.image {
				t.Errorf("%s want %d of %s, got %d of %s, and the status says %s", tc.reason, tc.replicas, tc.image,
					*d.Spec.Replicas, got, out.Status.Image)
			}
			if s := out.Status; s.ServedImage != tc.served || s.PendingImage != tc.pending ||
				!strings.Contains(s.Message, tc.says) {
				t.Errorf("%s want served %q, pending %q and %q, got %q, %q and %q", tc.reason, tc.served, tc.pending, tc.says,
					s.ServedImage, s.PendingImage, s.Message)
			}
		})
	}
}

// TestImageChangeOfNothing checks that no backup is taken before an image change if the instance stores no data.
func TestImageChangeOfNothing(t *testing.T) {
	in := given(ready("mysql:8.0"), wants("mysql:8.4"), func(in *Input) {
		in.XR.Kind, in.Type, in.XR.Spec.StorageSize, in.Observed.DataPVC = v1.KindXDatabase, v1.TypeMySQL, nil, nil
		in.XR.Spec.ClaimRef.Kind = v1.KindDatabase
	})
	if out := composed(t, in); out.Status.PendingImage != "" || container(t, out).Image != "mysql:8.4" {
		t.Errorf("got %q, and %q is pending", container(t, out).Image, out.Status.PendingImage)
	}
}
