package compose

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestResolvePassword checks the source of the password and the platform's rules for it.
func TestResolvePassword(t *testing.T) {
	const asIs = "secret"
	secret := func(name string, labels map[string]string, password string) func(*Input) {
		return func(in *Input) {
			in.Required.Password = Required[corev1.Secret]{Known: true, Items: []corev1.Secret{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
				Data:       map[string][]byte{v1.PasswordKey: []byte(password), "k": []byte(password)},
			}}}
		}
	}
	database := func(in *Input) {
		in.XR = (&v1.XDatabase{Spec: v1.XDatabaseSpec{DatabaseSpec: v1.DatabaseSpec{Type: v1.TypeMySQL},
			ClaimRef: in.XR.Spec.ClaimRef}}).AsMySQL()
		in.XR.Kind, in.XR.UID, in.Type = v1.KindXDatabase, testInstance, v1.TypeMySQL
		in.XR.Spec.ClaimRef.Kind = v1.KindDatabase
	}
	legacy := platform(func(s *v1.PlatformSpec) { s.LegacyPassword = v1.LegacyPasswordAllow })
	inSecrets := platform(func(s *v1.PlatformSpec) { s.RequirePasswordSecret = true })
	labelled := platform(func(s *v1.PlatformSpec) { s.RequirePasswordLabel = true })
	long := platform(func(s *v1.PlatformSpec) { s.MinPasswordLength = 7 })
	ours := map[string]string{v1.LabelXR: string(testInstance)}
	const generated = "db.database-password"
	const withoutClaim = "db.mysql-password"
	bare := func(in *Input) { in.XR.Spec.Password = nil }
	cases := map[string]struct {
		reason string
		in     Input
		want   string
		refuse string
		// invalid is true if the spec itself is refused.
		invalid bool
	}{
		"Stated": {reason: "The platform has no rule for passwords.", in: given(), want: asIs},
		"StatedNotAllowed": {reason: "Every user who can read the claim can read its password.", in: given(inSecrets),
			refuse: v1.ReasonNotAllowed},
		"InSecret": {reason: "The platform requires passwords in Secrets.",
			in: given(inSecrets, fromSecret, secret("s", nil, "other")), want: "other"},
		"Short": {reason: "The password is one character too short.", in: given(long), refuse: v1.ReasonNotAllowed},
		"ShortInSecret": {reason: "The minimum length must also apply to a password in a Secret.",
			in:     given(long, fromSecret, secret("s", nil, "äöü ao")),
			refuse: v1.ReasonNotAllowed},
		"LongEnough": {reason: "The length must be counted in characters, not bytes.",
			in:   given(long, fromSecret, secret("s", nil, "äöü aoä")),
			want: "äöü aoä"},
		"NoLabel": {reason: "The Secret lacks the label that the platform requires.",
			in: given(labelled, fromSecret, secret("s", nil, "other")), refuse: v1.ReasonNotAllowed},
		"OtherValue": {reason: "The owner of the Secret has changed the label to false.",
			in:     given(labelled, fromSecret, secret("s", map[string]string{v1.LabelPassword: "false"}, "other")),
			refuse: v1.ReasonNotAllowed},
		"Label": {reason: "The Secret has the label that the platform requires.",
			in: given(labelled, fromSecret, secret("s", map[string]string{v1.LabelPassword: "true"}, "other")), want: "other"},
		"OtherSecret": {reason: "The Secret is not the one that the claim names.",
			in: given(fromSecret, secret("t", nil, "other")), refuse: v1.ReasonInvalid},
		"Legacy": {reason: "The platform allows the legacy password, which is public.", in: given(database, legacy),
			want: v1.LegacyDatabasePassword},
		"LegacyInSecrets": {reason: "If two rules of the platform contradict each other, the stricter one must apply.",
			in:     given(database, legacy, inSecrets),
			refuse: v1.ReasonNotAllowed},
		"Unknown": {reason: "Crossplane has not sent the Secret yet.", in: given(database)},
		"NotGenerated": {reason: "The controller has not generated the password yet.",
			in: given(database, func(in *Input) { in.Required.Password.Known = true })},
		"Generated": {reason: "No user chose the password, so the rules of the platform must not apply.",
			in: given(database, labelled, long, inSecrets, secret(generated, ours, "made")), want: "made"},
		"EarlierLife": {reason: "The Secret belongs to a previous instance.",
			in:     given(database, secret(generated, map[string]string{v1.LabelXR: "earlier"}, "made")),
			refuse: v1.ReasonNameTaken},
		"SomebodyElses": {reason: "The Secret belongs to another owner.", in: given(database, secret(generated, nil, "made")),
			refuse: v1.ReasonNameTaken},
		"NamespacedUnknown": {reason: "Crossplane has not sent the Secret yet.", in: given(namespaced, bare)},
		"NamespacedNotGenerated": {reason: "The controller has not generated the password yet.",
			in: given(namespaced, bare, func(in *Input) { in.Required.Password.Known = true })},
		"NamespacedGenerated": {reason: "No user chose the password, so the rules of the platform must not apply.",
			in: given(namespaced, bare, labelled, long, inSecrets, secret(withoutClaim, ours, "made")), want: "made"},
		"NamespacedEarlierLife": {reason: "The Secret belongs to a previous instance.",
			in:     given(namespaced, bare, secret(withoutClaim, map[string]string{v1.LabelXR: "earlier"}, "made")),
			refuse: v1.ReasonNameTaken},
		"NamespacedLegacy": {reason: "The legacy password is only for Databases.",
			in: given(namespaced, bare, legacy, secret(withoutClaim, ours, "made")), want: "made"},
		"NamespacedInSecret": {reason: "The user names a Secret.",
			in: given(namespaced, bare, inSecrets, fromSecret, secret("s", nil, "other")), want: "other"},
		"ClaimWithout": {reason: "The controller generates no password for a MySQL claim.",
			in: given(namespaced, bare, func(in *Input) {
				in.XR.APIVersion, in.XR.Kind = v1.GroupVersionClaims.String(), v1.KindXMySQL
			}), invalid: true},
		"Emptied": {reason: "A user has removed the password from the Secret.",
			in:     given(database, secret(generated, ours, "")),
			refuse: v1.ReasonInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if tc.invalid {
				if err == nil || !strings.Contains(err.Error(), "spec.password") {
					t.Errorf("%s want spec.password refused, got %v", tc.reason, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := resolvePassword(r)
			refusal := &Refusal{}
			if err != nil && !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			if got != tc.want || refusal.Reason != tc.refuse {
				t.Errorf("%s want %q, %q, got %q, %v", tc.reason, tc.want, tc.refuse, got, err)
			}
		})
	}
}

// namespaced replaces the XR of an input with an XR that has no claim.
func namespaced(in *Input) {
	in.XR.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindMySQL))
	in.XR.Namespace, in.XR.Name, in.XR.Spec.ClaimRef = "default", "db", nil
	in.Required.Policy = Required[metav1.PartialObjectMetadata]{Known: true, Items: []metav1.PartialObjectMetadata{
		{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelPolicyVersion: v1.ProtectionPolicyVersion}}}}}
	in.Required.Binding = Required[admissionv1.ValidatingAdmissionPolicyBinding]{Known: true,
		Items: []admissionv1.ValidatingAdmissionPolicyBinding{{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: v1.ProtectionPolicy, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}}}
}

// TestUnprotected checks that a MySQL without a claim does not start for the first time while users of its namespace
// could write its status. An instance that has already started keeps running. Claims are not affected, because users
// cannot write the status of their XR.
func TestUnprotected(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*RequiredResources)
		says   string
	}{
		"Protected": {reason: "The policy and its binding protect the status.", change: func(*RequiredResources) {}},
		"Unknown": {reason: "Crossplane has not sent the policy yet.",
			change: func(r *RequiredResources) { r.Policy.Known = false }, says: "Waiting for Crossplane to read " +
				"ValidatingAdmissionPolicy"},
		"NoPolicy": {reason: "A user has deleted the policy.", change: func(r *RequiredResources) { r.Policy.Items = nil },
			says: "ValidatingAdmissionPolicy crossplane-mysql-protect-mysqls is missing"},
		"Ends": {reason: "The policy is being deleted.", change: func(r *RequiredResources) {
			r.Policy.Items[0].DeletionTimestamp = &metav1.Time{}
		}, says: "is missing"},
		"Older": {reason: "The function was upgraded before the policy.", change: func(r *RequiredResources) {
			r.Policy.Items[0].Labels = nil
		}, says: `has version ""`},
		"NoBinding": {reason: "A policy without a binding refuses nothing.",
			change: func(r *RequiredResources) { r.Binding.Items = nil }, says: "ValidatingAdmissionPolicyBinding"},
		"OtherPolicy": {reason: "The binding is for another policy.",
			change: func(r *RequiredResources) { r.Binding.Items[0].Spec.PolicyName = "other" }, says: "is missing"},
		"Audit": {reason: "A binding with the action Audit refuses nothing.", change: func(r *RequiredResources) {
			r.Binding.Items[0].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		}, says: "does not deny"},
		"Narrow": {reason: "A binding with matchResources does not protect all namespaces.",
			change: func(r *RequiredResources) {
				r.Binding.Items[0].Spec.MatchResources = &admissionv1.MatchResources{}
			}, says: "does not deny requests in all namespaces"},
	}
	replicas := func(out *Output) int32 {
		if d, ok := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment); ok {
			return *d.Spec.Replicas
		}
		return 0
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changed := func(in *Input) { tc.change(&in.Required) }
			out := composed(t, given(namespaced, changed))
			if (replicas(out) == 1) != (tc.says == "") || !strings.Contains(out.Status.Message, tc.says) {
				t.Errorf("%s: %d, %q", tc.reason, replicas(out), out.Status.Message)
			}
			if out := composed(t, given(server(1), namespaced, changed)); replicas(out) != 1 {
				t.Errorf("%s: a server that runs is stopped: %q", tc.reason, out.Status.Message)
			}
			if out := composed(t, given()); replicas(out) != 1 {
				t.Errorf("%s: so is that of a claim: %q", tc.reason, out.Status.Message)
			}
		})
	}
}

// TestGeneratedPasswordIsAwaited checks that the function creates neither the root Secret nor a server until the
// controller has generated the password. Meanwhile it does not refuse the XR.
func TestGeneratedPasswordIsAwaited(t *testing.T) {
	bare := func(in *Input) { in.XR.Spec.Password, in.Required.Password.Known = nil, true }
	out := composed(t, given(namespaced, bare))
	if out.Resources[v1.ResourceRootPassword].Object != nil {
		t.Error("want no Secret without a password")
	}
	if d, ok := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment); ok && *d.Spec.Replicas != 0 {
		t.Errorf("want no server without a password, got %d", *d.Spec.Replicas)
	}
	made := generatedSecret("made")
	made.Items[0].Name, made.Items[0].Labels[v1.LabelXR] = "db.mysql-password", string(testInstance)
	out = composed(t, given(namespaced, bare, func(in *Input) { in.Required.Password = made }))
	if s, ok := out.Resources[v1.ResourceRootPassword].Object.(*corev1.Secret); !ok ||
		string(s.Data[v1.PasswordKey]) != "made" || s.Name != "db.mysql-root" {
		t.Errorf("want the generated password in Secret db.mysql-root, got %v", out.Resources[v1.ResourceRootPassword].Object)
	}
	if d, ok := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment); !ok || *d.Spec.Replicas != 1 {
		t.Errorf("want the server, got %v", out.Resources[v1.ResourceDeployment].Object)
	}
}

// TestNoHostPathInANamespace checks that the function refuses hostPath volumes for a namespaced XR, even if the
// instance has started.
func TestNoHostPathInANamespace(t *testing.T) {
	for _, in := range []Input{given(onHostPath, namespaced), given(onHostPath, namespaced, server(1))} {
		out, err := tryCompose(t, in)
		refusal := &Refusal{}
		if !errors.As(err, &refusal) || refusal.Reason != v1.ReasonNotSupported ||
			!strings.Contains(err.Error(), "spec.crossplane.compositionRef") {
			t.Errorf("want hostPath refused, got %v", err)
		}
		if out != nil && len(out.Resources) > 0 {
			t.Errorf("want nothing composed, got %v", out.Resources)
		}
	}
}

// TestNotAllowedPassword checks that a running server keeps a password that the platform forbids, with a warning.
func TestNotAllowedPassword(t *testing.T) {
	forbids := platform(func(s *v1.PlatformSpec) { s.RequirePasswordSecret = true })
	if _, err := tryCompose(t, given(forbids)); err == nil {
		t.Error("want a new instance refused")
	}
	out := composed(t, given(forbids, server(1)))
	if c := out.Conditions[0]; c.True || c.Reason != v1.ReasonNotAllowed ||
		out.Resources[v1.ResourceDeployment].Object == nil {
		t.Errorf("want the server to run on, and the claim to say so: %+v", c)
	}
}
