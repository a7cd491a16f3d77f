package compose

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func TestRenderConfig(t *testing.T) {
	cases := map[string]struct {
		reason   string
		settings map[string]v1.Setting
		want     string
		refused  string
	}{
		"None": {reason: "The header of my.cnf must always exist.", want: ""},
		"Sorted": {reason: "The settings must be sorted, so that my.cnf stays the same.",
			settings: map[string]v1.Setting{"max_connections": "2", "back_log": "1"},
			want:     "back_log = 1\nmax_connections = 2\n"},
		"Flag": {reason: "A setting without a value must be written without an equals sign.",
			settings: map[string]v1.Setting{"skip-log-bin": ""},
			want:     "skip-log-bin\n"},
		"Quoted": {reason: "A value with '#' must be quoted, because '#' begins a comment.",
			settings: map[string]v1.Setting{"init_connect": "SET @a='#'"},
			want:     "init_connect = \"SET @a='#'\"\n"},
		"Dotted": {reason: "The settings of components contain a dot.",
			settings: map[string]v1.Setting{"validate_password.policy": "LOW"}, want: "validate_password.policy = LOW\n"},
		"Durable": {reason: "A claim may set durability options to their safe values.",
			settings: map[string]v1.Setting{"innodb_flush_log_at_trx_commit": "1", "log_bin": "binlog"},
			want:     "innodb_flush_log_at_trx_commit = 1\nlog_bin = binlog\n"},
		"Datadir": {reason: "The data directory must stay on the volume that is backed up.",
			settings: map[string]v1.Setting{"loose-datadir": "/x"},
			refused:  "backed up"},
		"Binlog": {reason: "The binary log must stay in the data directory, which is backed up.",
			settings: map[string]v1.Setting{"log-bin": "/x/y"}, refused: "backed up"},
		"Volatile": {reason: "Transactions that the server has acknowledged must be durable.",
			settings: map[string]v1.Setting{"innodb_flush_log_at_trx_commit": "0"}, refused: "acknowledge"},
		"Torn": {reason: "The prefix skip_ turns an option off without a value.",
			settings: map[string]v1.Setting{"skip_innodb_doublewrite": ""},
			refused:  "has a prefix such as skip"},
		"Turned": {reason: "The prefix skip_ inverts the value, so 1 turns the option off.",
			settings: map[string]v1.Setting{"skip_innodb_flush_log_at_trx_commit": "1"}, refused: "has a prefix such as skip"},
		"Number": {reason: "The number of an option value must be refused like its name: 3 is nosync.",
			settings: map[string]v1.Setting{"innodb_flush_method": "3"}, refused: "acknowledge"},
		"Begins": {reason: "mysqld completes abbreviated values, so of means OFF.",
			settings: map[string]v1.Setting{"innodb_doublewrite": "of"},
			refused:  "acknowledge"},
		"AfterDot": {reason: "Older servers use the text after the dot as the name of the option.",
			settings: map[string]v1.Setting{"x.datadir": "/tmp"}, refused: "backed up"},
		"DotTurns": {reason: "Older servers also accept a prefix such as skip- after the dot.",
			settings: map[string]v1.Setting{"x.skip-grant-tables": ""},
			refused:  "password"},
		"Binsync": {reason: "A binary log that is not synced loses acknowledged transactions.",
			settings: map[string]v1.Setting{"sync_binlog": "0"}, refused: "acknowledge"},
		"Raw": {reason: "The server must not write passwords to a log.",
			settings: map[string]v1.Setting{"log_raw": "ON"}, refused: "passwords"},
		"Links": {reason: "A claim may set symbolic_links to its default.",
			settings: map[string]v1.Setting{"symbolic_links": "0"},
			want:     "symbolic_links = 0\n"},
		"Prefix": {reason: "mysqld completes abbreviated option names, so they must be refused.",
			settings: map[string]v1.Setting{"innodb_flush_log_at_trx": "2"}, refused: "full name"},
		"Grants": {reason: "The server must always check passwords.",
			settings: map[string]v1.Setting{"skip-grant-tables": ""},
			refused:  "password"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := renderConfig(field.NewPath("spec", "config"), "", tc.settings)
			if tc.refused != "" {
				if len(errs) != 1 || !strings.Contains(errs.ToAggregate().Error(), tc.refused) {
					t.Errorf("%s\nwant a refusal with %q, got %v", tc.reason, tc.refused, errs)
				}
				return
			}
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if diff := cmp.Diff(configHeader+tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// composed calls Compose and returns its Output. The test fails if Compose returns a Refusal.
func composed(t *testing.T, in Input) *Output {
	t.Helper()
	out, err := tryCompose(t, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tryCompose composes an input twice. Both outputs must be equal, and the input must not change.
func tryCompose(t *testing.T, in Input) (*Output, error) {
	t.Helper()
	before := jsonOf(t, in)
	out, err := Compose(in)
	second, errAgain := Compose(in)
	if diff := cmp.Diff(out, second) + cmp.Diff(fmt.Sprint(err), fmt.Sprint(errAgain)); diff != "" {
		t.Errorf("Compose returns something else for the same input. -first, +second:\n%s", diff)
	}
	if diff := cmp.Diff(before, jsonOf(t, in)); diff != "" {
		t.Errorf("Compose writes to its input: copy a map or a list before you change it. -before, +after:\n%s", diff)
	}
	return out, err
}

// jsonOf returns a value as indented JSON, for a readable diff.
func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func container(t *testing.T, out *Output) corev1.Container {
	t.Helper()
	d, ok := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment)
	if !ok {
		t.Fatal("no Deployment")
	}
	return d.Spec.Template.Spec.Containers[0]
}

// TestImage checks that an instance keeps the image that it was created with until its spec names another image.
func TestImage(t *testing.T) {
	cases := map[string]struct {
		reason       string
		spec, status string
		want         string
	}{
		"Default": {reason: "A new instance must get the platform's default image.", want: v1.DefaultImage},
		"Noted": {reason: "A new default image must not upgrade a running instance.",
			status: "mysql:8.0", want: "mysql:8.0"},
		"Spec": {reason: "The image in the spec must take precedence.",
			spec: "mysql:9.1", status: "mysql:8.0", want: "mysql:9.1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, given(func(in *Input) {
				in.XR.Status.Image = tc.status
				if tc.spec != "" {
					in.XR.Spec.Image = &tc.spec
				}
			}))
			if got := container(t, out).Image; got != tc.want || out.Status.Image != tc.want {
				t.Errorf("%s want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestRootPassword checks that the root Secret keeps the password that the server was first started with, so that the
// server's initial password is always known.
func TestRootPassword(t *testing.T) {
	observed := func(in *Input) {
		in.Observed.RootPassword = &corev1.Secret{Data: map[string][]byte{v1.PasswordKey: []byte("first")}}
	}
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"Fresh": {reason: "The root Secret of a new instance must contain the password of the spec.",
			in: given(), want: "secret"},
		"BeforeStart": {reason: "The root Secret must follow the spec until the server starts.",
			in:   given(observed, previous("")),
			want: "secret"},
		"Started": {reason: "The controller changes the password in the server, so the root Secret must stay the same.",
			in: given(observed, server(1)), want: "first"},
		"SecretUnknown": {reason: "The root Secret must stay the same while the password of the spec is unknown.",
			in:   given(observed, fromSecret),
			want: "first"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, ok := composed(t, tc.in).Resources[v1.ResourceRootPassword].Object.(*corev1.Secret)
			if !ok || string(s.Data[v1.PasswordKey]) != tc.want {
				t.Errorf("%s want %q", tc.reason, tc.want)
			}
		})
	}
	t.Run("NotMadeEmpty", func(t *testing.T) {
		if _, ok := composed(t, given(fromSecret)).Resources[v1.ResourceRootPassword]; ok {
			t.Error("A Secret without a password must not be made.")
		}
	})
}

func fromSecret(in *Input) {
	in.XR.Spec.Password, in.XR.Spec.PasswordSecretRef = nil, &v1.SecretKeySelector{Name: "s", Key: "k"}
}

// TestStorage checks that an existing data volume keeps its StorageClass and its kind, and never shrinks.
func TestStorage(t *testing.T) {
	class := func(expands bool) func(*Input) {
		return func(in *Input) {
			in.Required.Class = Required[storagev1.StorageClass]{Known: true,
				Items: []storagev1.StorageClass{{AllowVolumeExpansion: &expands}}}
		}
	}
	remade := func(in *Input) {
		in.XR.Status.Volume, in.XR.Status.Started = "pv", true
		in.Required.Volume.Items = []corev1.PersistentVolume{
			{Spec: corev1.PersistentVolumeSpec{StorageClassName: "old",
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}}}}
	}
	pending := func(in *Input) { in.Observed.DataPVC.Status.Phase = corev1.ClaimPending }
	claim := func(class *string, size string) func(*Input) {
		return func(in *Input) {
			in.Observed.DataPVC = &corev1.PersistentVolumeClaim{
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}, Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: class, Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
		}
	}
	platform := func(class string) func(*Input) {
		return func(in *Input) { in.Settings.DefaultStorageClassName = &class }
	}
	hostPath := func(in *Input) {
		in.Settings.Volumes, in.Settings.HostPathRoot = v1.VolumesHostPath, v1.DefaultHostPathRoot
	}
	cases := map[string]struct {
		reason string
		in     Input
		class  string
		size   string
	}{
		"Cluster": {reason: "The cluster's default StorageClass must be used.", in: given(), class: "<nil>", size: "1Gi"},
		"Platform": {reason: "The platform's default StorageClass must be used.",
			in: given(platform("fast")), class: "fast", size: "1Gi"},
		"Observed": {reason: "A new default StorageClass must not change an existing PVC.",
			in: given(platform("new"), claim(new("old"), "1Gi")), class: "old", size: "1Gi"},
		"Grows": {reason: "The PVC must grow if its StorageClass allows expansion.",
			in: given(claim(new("old"), "512Mi"), class(true)), class: "old",
			size: "1Gi"},
		"CannotGrow": {reason: "The API server refuses to resize a PVC if its StorageClass does not allow expansion.",
			in: given(claim(new("old"), "512Mi"), class(false)), class: "old", size: "512Mi"},
		"MayItGrow": {reason: "The PVC must not grow until its StorageClass has been read.",
			in: given(claim(new("old"), "512Mi")), class: "old",
			size: "512Mi"},
		"Unbound": {reason: "The PVC must not grow until it is bound.",
			in:    given(claim(new("old"), "512Mi"), class(true), pending),
			class: "old", size: "512Mi"},
		"MadeAgain": {reason: "A PVC that is created again must match its volume instead of the current defaults.",
			in: given(platform("new"), remade), class: "old", size: "512Mi"},
		"HostPath": {reason: "A directory of the node has no StorageClass.", in: given(hostPath), class: "", size: "1Gi"},
		"HostPathSize": {reason: "A hostPath volume cannot be resized, so the size of the PVC must stay.",
			in:    given(hostPath, claim(new(""), "512Mi")),
			class: "", size: "512Mi"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, ok := composed(t, tc.in).Resources[v1.ResourceDataPVC].Object.(*corev1.PersistentVolumeClaim)
			if !ok {
				t.Fatal("no PersistentVolumeClaim")
			}
			class := "<nil>"
			if c.Spec.StorageClassName != nil {
				class = *c.Spec.StorageClassName
			}
			size := c.Spec.Resources.Requests[corev1.ResourceStorage]
			if class != tc.class || size.String() != tc.size {
				t.Errorf("%s want %s %s, got %s %s", tc.reason, tc.class, tc.size, class, size.String())
			}
			if diff := cmp.Diff([]string{v1.Finalizer}, c.Finalizers); diff != "" {
				t.Errorf("The claim must carry our finalizer from birth:\n%s", diff)
			}
		})
	}
}

// TestOwns checks that an object belongs to the XR only if the UID of its controller matches.
func TestOwns(t *testing.T) {
	object := func(owners ...metav1.OwnerReference) func(*Input) {
		return func(in *Input) {
			o := metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners, Labels: in.XR.Instance().Labels()}}
			in.Required.Existing[v1.ResourceService] = Required[metav1.PartialObjectMetadata]{Known: true,
				Items: []metav1.PartialObjectMetadata{o}}
		}
	}
	cases := map[string]struct {
		reason string
		in     Input
		taken  bool
	}{
		"Free": {reason: "The name of the Service is free.", in: given()},
		"Ours": {reason: "The existing Service belongs to the XR, although Crossplane does not observe it.",
			in: given(object(metav1.OwnerReference{UID: testInstance, Controller: new(true)}))},
		"Labels": {reason: "Labels must not prove ownership, because any user can set them.",
			in: given(object()), taken: true},
		"OwnerOnly": {reason: "An owner reference that is not the controller must not prove ownership.",
			in: given(object(metav1.OwnerReference{UID: testInstance})), taken: true},
		"Earlier": {reason: "An object of a previous instance must not be used.",
			in: given(object(metav1.OwnerReference{UID: "earlier", Controller: new(true)})), taken: true},
		"NoUID": {reason: "An XR without a UID, as in offline rendering, owns no objects.",
			in: given(object(metav1.OwnerReference{Controller: new(true)}), func(in *Input) { in.XR.UID = "" }), taken: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tryCompose(t, tc.in)
			if got := err != nil && strings.Contains(err.Error(), "Service default/db exists"); got != tc.taken {
				t.Errorf("%s want taken %t, got %v", tc.reason, tc.taken, err)
			}
		})
	}
}

// TestLargerBackup checks that a user can resolve a refusal by following its advice, even if the PVC was created too
// small and cannot be resized.
func TestLargerBackup(t *testing.T) {
	larger := record("b1", 1, v1.BackupVerified, func(r *v1.BackupRecord) { r.Spec.StorageSize = "2Gi" })
	small := func(in *Input) {
		in.Observed.DataPVC = &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	}
	follow := func(in *Input) { in.XR.Spec.StorageSize = new("2Gi") }
	if _, err := tryCompose(t, given(previous("b1"), larger, small)); err == nil ||
		!strings.Contains(err.Error(), "Set it to 2Gi or more") {
		t.Errorf("want the refusal that says what to do, got %v", err)
	}
	out := composed(t, given(previous("b1"), larger, small, follow))
	if _, ok := out.Resources[v1.ResourceRestore]; !ok {
		t.Error("after the advice was followed the restore must begin")
	}
}

// TestWarning checks that an error in one part of the spec does not prevent other changes after the server has
// started.
func TestWarning(t *testing.T) {
	missing := func(in *Input) { fromSecret(in); in.Required.Password.Known = true }
	foreign := func(in *Input) {
		in.Required.Existing[v1.ResourceService] = Required[metav1.PartialObjectMetadata]{Known: true,
			Items: []metav1.PartialObjectMetadata{{}}}
	}
	cases := map[string]struct {
		reason string
		change func(*Input)
		want   string
	}{
		"Password": {reason: "The Secret with the password was deleted.", change: missing,
			want: "Secret default/s does not exist"},
		"Name": {reason: "The Service was deleted, and another object has its name.", change: foreign,
			want: "Service default/db exists"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := tryCompose(t, given(tc.change)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s Before the start it must be refused: %v", tc.reason, err)
			}
			fence := func(in *Input) { in.XR.Status.PVCDeleted = true }
			out := composed(t, given(tc.change, server(1), fence))
			d, ok := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment)
			if !ok || *d.Spec.Replicas != 0 {
				t.Errorf("%s A fence must hold all the same.", tc.reason)
			}
			if c := out.Conditions[0]; c.True || !strings.Contains(c.Message, tc.want) {
				t.Errorf("%s It must be said: %+v", tc.reason, c)
			}
			if _, made := out.Resources[v1.ResourceService]; made && name == "Name" {
				t.Error("Another's Service must not be taken over.")
			}
		})
	}
}

// generatedSecret returns the Secret with the password that the controller generated for the Database "db".
func generatedSecret(password string) Required[corev1.Secret] {
	return Required[corev1.Secret]{Known: true, Items: []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db.database-password",
			Labels: map[string]string{v1.LabelXR: "uid"}},
		Data: map[string][]byte{v1.PasswordKey: []byte(password)},
	}}}
}

// TestEphemeralPassword checks that an ephemeral server gets a new password with its next pod. With a volume, the
// root Secret keeps the password of the first start.
func TestEphemeralPassword(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   v1.XDatabaseSpec
		want   string
	}{
		"Ephemeral": {reason: "Each start of an ephemeral server uses an empty directory, and so the new password.",
			spec: v1.XDatabaseSpec{DatabaseSpec: v1.DatabaseSpec{Type: v1.TypeMySQL}}, want: "wanted"},
		"Stored": {reason: "The controller changes the password in the server, so the root Secret must stay the same.",
			spec: v1.XDatabaseSpec{DatabaseSpec: v1.DatabaseSpec{Type: v1.TypeMySQL, StorageSize: new("1Gi")}}, want: "earlier"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			xr := (&v1.XDatabase{Spec: tc.spec}).AsMySQL()
			xr.Kind, xr.Name, xr.Namespace, xr.UID, xr.Status.Started = v1.KindXDatabase, "db", "default", "uid", true
			out := composed(t, Input{
				XR: xr, Type: tc.spec.Type, Settings: v1.Settings{Volumes: v1.VolumesStorageClass, DefaultImage: v1.DefaultImage},
				Observed: Observed{RootPassword: &corev1.Secret{Data: map[string][]byte{v1.PasswordKey: []byte("earlier")}}},
				Required: RequiredResources{Password: generatedSecret("wanted")},
			})
			got, ok := out.Resources[v1.ResourceRootPassword].Object.(*corev1.Secret)
			if !ok || string(got.Data[v1.PasswordKey]) != tc.want {
				t.Errorf("%s\nwant %q, got %v", tc.reason, tc.want, got)
			}
		})
	}
}
