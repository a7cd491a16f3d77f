package reconciler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
)

// TestShowCredentials checks that a message with a webhook's text is made printable and written once.
func TestShowCredentials(t *testing.T) {
	s := instance.NewState(instance.Subject{
		XR: &instance.Composite{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}}})
	now := v1.CredentialsStatus{State: v1.CredentialsFailed, Message: "cannot create Secret: denied:\n\x1b[2Jno"}
	const want = "cannot create Secret: denied: [2Jno"
	changes := showCredentials(s, now)
	if len(changes) != 1 {
		t.Fatalf("want one change, got %d", len(changes))
	}
	if got, _ := internalOf(changes[0])["credentials"].(map[string]any); got["message"] != want {
		t.Errorf("want %q, got %v", want, got)
	}
	s.XR.Status.Credentials = &v1.CredentialsStatus{State: v1.CredentialsFailed, Message: want}
	if second := showCredentials(s, now); len(second) != 0 {
		t.Errorf("want nothing to say again, got %v", second)
	}
}

// TestRecordVersion checks that the server version is written to the volume. The volume is read until it contains the
// version, and once after each start of the server.
func TestRecordVersion(t *testing.T) {
	now, version := time.Unix(1, 0), "8.4.6"
	var noted []string
	volume := &volumeOf{pvc: &corev1.PersistentVolumeClaim{}}
	c := newCredentials(t, rotatorFn(func(in rotate.Input) rotate.Result {
		out := rotate.Result{Credentials: v1.CredentialsStatus{State: v1.CredentialsInSync}, Well: true}
		if in.VerifyPassword {
			out.Version = version
		}
		return out
	}), func() time.Time { return now })
	c.gather = volume
	c.writer = writerFn(func(changes []change.Change) error {
		for _, ch := range changes {
			if pvc, ok := ch.Object.(*corev1.PersistentVolumeClaim); ok {
				volume.pvc = pvc
				noted = append(noted, volume.pvc.Annotations[v1.AnnotationVersion])
			}
		}
		return nil
	})
	for i, step := range []struct {
		reason string
		after  time.Duration
		run    func()
		reads  int
		noted  []string
	}{
		{reason: "The volume does not have the finalizer yet, so no version must be written.", reads: 1},
		{reason: "The next check is not due, so the volume must not be read.", after: time.Second, reads: 1},
		{reason: "The volume has the finalizer now, so the version must be written.",
			after: recheck, run: func() { volume.pvc.Finalizers = []string{v1.Finalizer} }, reads: 2,
			noted: []string{"8.4.6"}},
		{reason: "The volume has the version, so it must not be read again.", after: recheck, reads: 2, noted: []string{"8.4.6"}},
		{reason: "The server has started again with another version, which must be written.", after: time.Second, run: func() {
			volume.start, version = volume.start.Add(time.Hour), "8.4.7"
		}, reads: 3, noted: []string{"8.4.6", "8.4.7"}},
		{reason: "The server has started again with the same version, so the volume is only read.", after: time.Second,
			run: func() { volume.start = volume.start.Add(time.Hour) }, reads: 4, noted: []string{"8.4.6", "8.4.7"}},
	} {
		now = now.Add(step.after)
		if step.run != nil {
			step.run()
		}
		if _, err := c.Reconcile(t.Context(), instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.noted, noted); volume.reads != step.reads || diff != "" {
			t.Errorf("%d: %s Want %d reads, got %d; noted, -want, +got:\n%s", i, step.reason, step.reads, volume.reads, diff)
		}
	}
}

// A volumeOf is a gatherer of one instance with a data PVC. Its server has accepted clients since start.
type volumeOf struct {
	pvc   *corev1.PersistentVolumeClaim
	start time.Time
	reads int
}

func (v *volumeOf) GatherXRs(_ context.Context, k instance.Key) ([]*instance.State, error) {
	s := livingDatabase(k)
	s.XR.SetFinalizers([]string{v1.Finalizer})
	s.XR.Conditions[0].LastTransitionTime = metav1.NewTime(v.start)
	return []*instance.State{s}, nil
}

func (v *volumeOf) ReadData(_ context.Context, s *instance.State) error {
	v.reads++
	s.DataPVC = v.pvc
	return nil
}

// TestPublishedPassword checks that the password comes from the Secret that Crossplane writes for the claim. It is
// empty if that Secret does not exist.
func TestPublishedPassword(t *testing.T) {
	existing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "for-clients"},
		Data: map[string][]byte{v1.PasswordKey: []byte("a")}}
	c := &passwordReconciler{reader: fake.NewClientBuilder().WithObjects(existing).Build()}
	for name, tc := range map[string]struct {
		spec     map[string]any
		in, want string
	}{
		"Published": {map[string]any{"writeConnectionSecretToRef": map[string]any{"name": "for-clients"}}, "for-clients",
			"a"},
		"NotYet":  {map[string]any{"writeConnectionSecretToRef": map[string]any{"name": "other"}}, "other", ""},
		"Nowhere": {map[string]any{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &instance.Composite{Unstructured: &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}}
			in, got, err := c.publishedPassword(t.Context(),
				instance.NewState(instance.Subject{Instance: v1.Instance{Namespace: "default"}, Claim: claim}))
			if in != tc.in || string(got) != tc.want || err != nil {
				t.Errorf("want %q in %q, got %q in %q, %v", tc.want, tc.in, got, in, err)
			}
		})
	}
}

// A writerFn is a writer that calls a function.
type writerFn func(changes []change.Change) error

func (f writerFn) Apply(_ context.Context, changes []change.Change) error { return f(changes) }

// schemeOf returns the scheme of the controller.
func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	s, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGeneratedPassword checks that an instance without a password gets a random one, only once and before the first
// start.
func TestGeneratedPassword(t *testing.T) {
	platform := func(legacy v1.LegacyPassword) client.Object {
		return &v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName},
			Spec: v1.PlatformSpec{LegacyPassword: legacy}}
	}
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db.database-password"},
		Data: map[string][]byte{v1.PasswordKey: []byte("theirs")}}
	cases := map[string]struct {
		reason       string
		objects      []client.Object
		kind         string
		ref          *v1.SecretKeySelector
		made         bool
		requeueAfter time.Duration
	}{
		"None": {reason: "The claim specifies no password, so a random one must be generated.",
			objects: []client.Object{platform("")}, kind: v1.KindDatabase,
			made: true},
		"Named": {reason: "The claim refers to a Secret, so no password must be generated.",
			objects: []client.Object{platform("")}, kind: v1.KindDatabase,
			ref: &v1.SecretKeySelector{Name: "s", Key: "k"}},
		"MySQL": {reason: "A MySQL must specify its password, so none is generated.",
			objects: []client.Object{platform("")}, kind: v1.KindMySQL},
		"Legacy": {reason: "The platform allows the legacy password, so no password must be generated.",
			objects: []client.Object{platform(v1.LegacyPasswordAllow)}, kind: v1.KindDatabase},
		"NoPlatform": {reason: "Without a Platform object, no password must be generated.", kind: v1.KindDatabase},
		"Foreign": {reason: "A Secret of another owner has the name and must not be changed.",
			objects: []client.Object{platform(""), theirs},
			kind:    v1.KindDatabase, requeueAfter: reread},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(tc.objects...).Build()
			var announced []change.Change
			c := &passwordReconciler{
				reader: kube, generator: &rotate.Rotator{Kube: kube},
				writer: writerFn(func(changes []change.Change) error { announced = append(announced, changes...); return nil }),
			}
			s := livingDatabase(instance.Key{Kind: tc.kind, Namespace: "team", Name: "db"})
			s.XR.Spec.Password, s.XR.Spec.PasswordSecretRef = nil, tc.ref
			spec, err := instance.ReadPlatform(t.Context(), c.reader)
			if err != nil {
				t.Fatal(err)
			}
			var first corev1.Secret
			for pass := range 2 {
				got, err := c.generatePassword(t.Context(), s, spec)
				if err != nil || got.RequeueAfter != tc.requeueAfter || (len(announced) > 0) != tc.made {
					t.Fatalf("%s pass %d: %+v, %v, %v", tc.reason, pass, got, announced, err)
				}
				secret := corev1.Secret{}
				if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "db.database-password"},
					&secret); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				if ours := secret.Labels[v1.LabelXR] == "db"; ours != tc.made || ours && len(secret.Data[v1.PasswordKey]) < 20 {
					t.Errorf("%s It has become %+v", tc.reason, secret)
				}
				if pass == 1 && string(first.Data[v1.PasswordKey]) != string(secret.Data[v1.PasswordKey]) {
					t.Errorf("%s Another one was made", tc.reason)
				}
				first = secret
			}
		})
	}
}

// TestPlatformsWord checks that a password change complies with the platform's password policy. Without a Platform
// object, no password is changed.
func TestPlatformsWord(t *testing.T) {
	for name, tc := range map[string]struct {
		platform *v1.PlatformSpec
		want     string
	}{
		"Allows":  {&v1.PlatformSpec{MinPasswordLength: 13}, ""},
		"Longer":  {&v1.PlatformSpec{MinPasswordLength: 14}, "14 characters"},
		"Secret":  {&v1.PlatformSpec{RequirePasswordSecret: true}, "in a Secret"},
		"Nothing": {nil, "there is no Platform"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &passwordReconciler{reader: fake.NewClientBuilder().WithScheme(schemeOf(t)).Build()}
			in, err := c.rotationInput(t.Context(),
				livingDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"}), tc.platform)
			if err != nil || (in.NotAllowed == "") != (tc.want == "") || !strings.Contains(in.NotAllowed, tc.want) ||
				in.Wanted != "correct horse" {
				t.Errorf("want %q, got %+v, %v", tc.want, in, err)
			}
		})
	}
}

// TestNotLetIn checks that all instances of a namespace report it if the controller may not read the Secrets of that
// namespace. The order in which the Secrets are read must not matter, and the reconcile must return no error.
func TestNotLetIn(t *testing.T) {
	for name, serving := range map[string]bool{"Serving": true, "BeforeTheStart": false} {
		t.Run(name, func(t *testing.T) {
			kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(schemeOf(t)).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
					opts ...client.GetOption) error {
					if _, ok := o.(*corev1.Secret); ok {
						return kerrors.NewForbidden(corev1.Resource("secrets"), k.Name, nil)
					}
					return c.Get(ctx, k, o, opts...)
				},
			})
			var announced []change.Change
			c := newCredentials(t, nil, time.Now)
			c.generator = &rotate.Rotator{Kube: kube}
			c.writer = writerFn(func(changes []change.Change) error { announced = append(announced, changes...); return nil })
			c.gather = gatherNamingNone{serving}
			got, err := c.Reconcile(t.Context(), instance.Key{Kind: v1.KindDatabase, Namespace: "team", Name: "db"})
			if err != nil || got.RequeueAfter != whileNotLetIn || len(announced) != 1 {
				t.Fatalf("got %+v, %v, %v", got, announced, err)
			}
			if status, _ := internalOf(announced[0])["credentials"].(map[string]any); status["state"] != v1.CredentialsFailed ||
				!strings.Contains(status["message"].(string), "--clusterrole crossplane-mysql-contents") {
				t.Errorf("it says %v", status)
			}
		})
	}
}

// A gatherNamingNone gathers a database without a password. serving is true if its server accepts clients.
type gatherNamingNone struct{ serving bool }

func (g gatherNamingNone) GatherXRs(_ context.Context, k instance.Key) ([]*instance.State, error) {
	s := livingDatabase(k)
	s.XR.Spec.Password = nil
	if !g.serving {
		s.XR.Conditions = nil
	}
	return []*instance.State{s}, nil
}

func (gatherNamingNone) ReadData(context.Context, *instance.State) error { return nil }

// TestRequeueAfter checks that a user's Secret is read every few seconds if Crossplane does not watch it. A Secret
// that Crossplane watches is read when the status contains a new version.
func TestRequeueAfter(t *testing.T) {
	cases := map[string]struct {
		reason  string
		ref     bool
		version string
		not     string // Type of the condition that is False.
		result  rotate.Result
		want    time.Duration
	}{
		"Stated": {reason: "The password is in the claim, so no Secret must be read.", want: recheck},
		"Watched": {reason: "Crossplane watches the Secret, and the function writes its version to the status.",
			ref: true, version: "1", want: recheck},
		"Unseen": {reason: "The status has no version, because the Secret is missing or Crossplane does not watch it.",
			ref: true, want: reread},
		"Refused": {reason: "The function refuses the spec and does not update the version, so the Secret must be read.",
			ref: true, version: "1",
			not: v1.ConditionAccepted, want: reread},
		"Paused": {reason: "Crossplane does not call the function, so the controller must read the Secret.",
			ref: true, version: "1", not: "Synced", want: reread},
		"Sooner": {reason: "A password change is in progress, so the shorter delay must be used.", ref: true, version: "1",
			result: rotate.Result{RequeueAfter: time.Second}, want: time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := livingDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
			if s.XR.Spec.PasswordSecretRef = nil; tc.ref {
				s.XR.Spec.PasswordSecretRef = &v1.SecretKeySelector{Name: "s", Key: "k"}
			}
			s.XR.Status.PasswordVersion = tc.version
			for _, c := range []string{v1.ConditionAccepted, "Synced"} {
				status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[c != tc.not]
				s.XR.Conditions = append(s.XR.Conditions, metav1.Condition{Type: c, Status: status})
			}
			if got := requeueAfter(s, tc.result); got != tc.want {
				t.Errorf("%s Want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}
