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
		"None": {reason: "The header is always there.", want: ""},
		"Sorted": {reason: "The order is the same each time.",
			settings: map[string]v1.Setting{"max_connections": "2", "back_log": "1"},
			want:     "back_log = 1\nmax_connections = 2\n"},
		"Flag": {reason: "A setting without a value is a flag.", settings: map[string]v1.Setting{"skip-log-bin": ""},
			want: "skip-log-bin\n"},
		"Quoted": {reason: "A '#' would begin a comment.", settings: map[string]v1.Setting{"init_connect": "SET @a='#'"},
			want: "init_connect = \"SET @a='#'\"\n"},
		"Dotted": {reason: "Components' settings have a dot.",
			settings: map[string]v1.Setting{"validate_password.policy": "LOW"}, want: "validate_password.policy = LOW\n"},
		"Durable": {reason: "What keeps the promise may be said.",
			settings: map[string]v1.Setting{"innodb_flush_log_at_trx_commit": "1", "log_bin": "binlog"},
			want:     "innodb_flush_log_at_trx_commit = 1\nlog_bin = binlog\n"},
		"Datadir": {reason: "Data stays where it is backed up.", settings: map[string]v1.Setting{"loose-datadir": "/x"},
			refused: "backed up"},
		"Binlog": {reason: "The binary log too.", settings: map[string]v1.Setting{"log-bin": "/x/y"}, refused: "backed up"},
		"Volatile": {reason: "Acknowledged means durable.",
			settings: map[string]v1.Setting{"innodb_flush_log_at_trx_commit": "0"}, refused: "acknowledge"},
		"Torn": {reason: "skip_ is a value too.", settings: map[string]v1.Setting{"skip_innodb_doublewrite": ""},
			refused: "has a prefix such as skip"},
		"Turned": {reason: "Turned round, 1 is 0.",
			settings: map[string]v1.Setting{"skip_innodb_flush_log_at_trx_commit": "1"}, refused: "has a prefix such as skip"},
		"Number": {reason: "A number is a choice too: 3 is nosync.",
			settings: map[string]v1.Setting{"innodb_flush_method": "3"}, refused: "acknowledge"},
		"Begins": {reason: "So is the beginning of a word.", settings: map[string]v1.Setting{"innodb_doublewrite": "of"},
			refused: "acknowledge"},
		"AfterDot": {reason: "Old servers take what follows a dot for the option.",
			settings: map[string]v1.Setting{"x.datadir": "/tmp"}, refused: "backed up"},
		"DotTurns": {reason: "With its modifiers.", settings: map[string]v1.Setting{"x.skip-grant-tables": ""},
			refused: "password"},
		"Binsync": {reason: "A binary log that lags loses what it lacks.",
			settings: map[string]v1.Setting{"sync_binlog": "0"}, refused: "acknowledge"},
		"Raw": {reason: "No password in a log.", settings: map[string]v1.Setting{"log_raw": "ON"}, refused: "passwords"},
		"Links": {reason: "Off is what it is by default.", settings: map[string]v1.Setting{"symbolic_links": "0"},
			want: "symbolic_links = 0\n"},
		"Prefix": {reason: "mysqld completes unambiguous beginnings.",
			settings: map[string]v1.Setting{"innodb_flush_log_at_trx": "2"}, refused: "full name"},
		"Grants": {reason: "The password is the only way in.", settings: map[string]v1.Setting{"skip-grant-tables": ""},
			refused: "password"},
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

// composed returns the output for an input, which must be accepted.
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
		"Default": {reason: "The platform's default at first.", want: v1.DefaultImage},
		"Noted":   {reason: "A new default does not upgrade what runs.", status: "mysql:8.0", want: "mysql:8.0"},
		"Spec":    {reason: "The owner decides.", spec: "mysql:9.1", status: "mysql:8.0", want: "mysql:9.1"},
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
		"Fresh": {reason: "The wanted password.", in: given(), want: "secret"},
		"BeforeStart": {reason: "It follows the spec until the server starts.", in: given(observed, previous("")),
			want: "secret"},
		"Started": {reason: "The controller changes it in the running server; the Secret stays.",
			in: given(observed, server(1)), want: "first"},
		"SecretUnknown": {reason: "While the wanted one is not known, what is there stays.", in: given(observed, fromSecret),
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
		"Cluster":  {reason: "The cluster's default class.", in: given(), class: "<nil>", size: "1Gi"},
		"Platform": {reason: "The platform's default class.", in: given(platform("fast")), class: "fast", size: "1Gi"},
		"Observed": {reason: "A new default does not move what is there.",
			in: given(platform("new"), claim(new("old"), "1Gi")), class: "old", size: "1Gi"},
		"Grows": {reason: "A volume may grow.", in: given(claim(new("old"), "512Mi"), class(true)), class: "old",
			size: "1Gi"},
		"CannotGrow": {reason: "Not where its class does not let it: every change of the claim would be refused.",
			in: given(claim(new("old"), "512Mi"), class(false)), class: "old", size: "512Mi"},
		"MayItGrow": {reason: "Not before that is known.", in: given(claim(new("old"), "512Mi")), class: "old",
			size: "512Mi"},
		"Unbound": {reason: "Not before it is bound.", in: given(claim(new("old"), "512Mi"), class(true), pending),
			class: "old", size: "512Mi"},
		"MadeAgain": {reason: "A claim that is made again fits its volume, whatever the defaults are now.",
			in: given(platform("new"), remade), class: "old", size: "512Mi"},
		"HostPath": {reason: "A folder of the node has no class.", in: given(hostPath), class: "", size: "1Gi"},
		"HostPathSize": {reason: "It cannot be resized, and need not be.", in: given(hostPath, claim(new(""), "512Mi")),
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
		"Free": {reason: "A free name.", in: given()},
		"Ours": {reason: "Crossplane lost sight of it.",
			in: given(object(metav1.OwnerReference{UID: testInstance, Controller: new(true)}))},
		"Labels": {reason: "Labels prove nothing.", in: given(object()), taken: true},
		"OwnerOnly": {reason: "An owner that is no controller proves nothing.",
			in: given(object(metav1.OwnerReference{UID: testInstance})), taken: true},
		"Earlier": {reason: "An earlier life's object is not ours.",
			in: given(object(metav1.OwnerReference{UID: "earlier", Controller: new(true)})), taken: true},
		"NoUID": {reason: "Offline, where the XR has no UID, nothing is ours.",
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
		"Password": {reason: "The Secret of the password was deleted.", change: missing,
			want: "Secret default/s does not exist"},
		"Name": {reason: "The Service was deleted and somebody else has its name.", change: foreign,
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
		"Ephemeral": {reason: "Each start is a first one.",
			spec: v1.XDatabaseSpec{DatabaseSpec: v1.DatabaseSpec{Type: v1.TypeMySQL}}, want: "wanted"},
		"Stored": {reason: "The controller brings a change into the server.",
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
