package compose

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func connected(in *Input) {
	in.Required.Connection.Items = []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelXR: string(testInstance)}},
		Data:       map[string][]byte{v1.PasswordKey: []byte("secret")},
	}}
}

func hasPVC(in *Input) {
	in.Observed.DataPVC = &corev1.PersistentVolumeClaim{
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

// TestInitialize checks that a database may be initialized until a client has logged in to it, but never if data is
// restored.
func TestInitialize(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     Input
		// may is true if a database may be initialized. hasDatabase is true if the status reports that one exists.
		may, hasDatabase bool
	}{
		"Fresh": {reason: "There is no data yet.", in: given(), may: true},
		"Starting": {reason: "The first start may be interrupted, so it may initialize again.",
			in: given(server(1)), may: true},
		"Used": {reason: "After a login, an empty volume is the wrong volume.", in: given(server(1), connected),
			hasDatabase: true},
		"Noted": {reason: "The status must record the database, in case the connection Secret is deleted.",
			in: given(server(1), func(in *Input) { in.XR.Status.Initialized = true }), hasDatabase: true},
		"Restoring": {reason: "An empty volume must get the data of the backup, and not a new database.",
			in: given(record("b", 1, v1.BackupVerified), previous("b"))},
		"Chosen": {reason: "No database may be initialized while the restore Job runs or waits for its image.",
			in: given(chosenBefore(v1.RestoreRunning))},
		"Restored": {reason: "The restored data contains the database.",
			in: given(hasPVC, chosenBefore(v1.RestoreSucceeded)), hasDatabase: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			s, ok := out.Resources[v1.ResourceRootPassword].Object.(*corev1.Secret)
			if !ok {
				t.Fatal("no Secret")
			}
			if _, may := s.Data[v1.InitializeKey]; may != tc.may || out.Status.Initialized != tc.hasDatabase {
				t.Errorf("%s want %t, got %t, and status.internal.initialized %t", tc.reason, tc.may, may, out.Status.Initialized)
			}
		})
	}
}

// TestServerNeverInitializes checks that the server's own container gets no variables that would make its entrypoint
// initialize an empty directory.
func TestServerNeverInitializes(t *testing.T) {
	c := container(t, composed(t, given(server(1))))
	taken := make([]string, 0, len(c.Env))
	for _, e := range c.Env {
		if e.Value != "" || e.ValueFrom != nil {
			t.Errorf("The server's container has %s", e.Name)
		}
		taken = append(taken, e.Name)
	}
	for _, prefix := range []string{"MYSQL_", "MARIADB_"} { // Empty values override the variables in the image.
		for _, choice := range []string{"ROOT_PASSWORD", "ROOT_PASSWORD_FILE", "ROOT_PASSWORD_HASH",
			"ROOT_PASSWORD_HASH_FILE", "RANDOM_ROOT_PASSWORD", "ALLOW_EMPTY_PASSWORD", "ALLOW_EMPTY_ROOT_PASSWORD"} {
			if !slices.Contains(taken, prefix+choice) {
				t.Errorf("The server's image may have %s%s.", prefix, choice)
			}
		}
	}
	for _, m := range c.VolumeMounts {
		if m.Name == "root-password" {
			t.Error("The server's container has root's password.")
		}
	}
}

// TestServing checks that an instance is Serving once a login has succeeded.
func TestServing(t *testing.T) {
	up := func(in *Input) {
		server(1)(in)
		in.Observed.Deployment.Status.UpdatedReplicas, in.Observed.Deployment.Status.ReadyReplicas = 1, 1
		in.Observed.Service = &corev1.Service{}
		hasPVC(in)
	}
	failed := func(in *Input) {
		in.XR.Status.Credentials = &v1.CredentialsStatus{State: v1.CredentialsFailed, Message: "no password is accepted"}
	}
	cases := map[string]struct {
		reason       string
		in           Input
		want, says   string
		wantsServing bool
	}{
		"Starting": {reason: "The server has no pod.",
			in: given(server(1)), want: v1.ReasonStarting, says: "Starting the server"},
		"Up": {reason: "No login has succeeded yet.", in: given(up), want: v1.ReasonLoginPending,
			says: "The server is running. Waiting for the controller to log in and publish the connection Secret"},
		"Refused": {reason: "The controller cannot log in.", in: given(up, failed), want: v1.ReasonLoginPending,
			says: "The server is running, but clients cannot log in: no password is accepted"},
		"LoggedIn": {reason: "A login with the published password has succeeded.",
			in: given(up, connected), want: v1.ReasonRunning,
			says: "Running", wantsServing: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			if out.Status.Message != tc.says {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, out.Status.Message)
			}
			for _, c := range out.Conditions {
				if c.Type == v1.ConditionServing && (c.Reason != tc.want || c.True != tc.wantsServing) {
					t.Errorf("%s want %s, got %+v", tc.reason, tc.want, c)
				}
			}
		})
	}
}
