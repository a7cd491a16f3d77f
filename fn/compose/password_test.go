package compose

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestResolvePassword: where it comes from, and what the platform says of it.
func TestResolvePassword(t *testing.T) {
	const asIs = "secret"
	secret := func(name string, labels map[string]string, password string) func(*Input) {
		return func(in *Input) {
			in.Required.Password = Required[corev1.Secret]{Known: true, Items: []corev1.Secret{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}, Data: map[string][]byte{v1.PasswordKey: []byte(password), "k": []byte(password)},
			}}}
		}
	}
	database := func(in *Input) {
		in.XR = (&v1.XDatabase{Spec: v1.XDatabaseSpec{DatabaseSpec: v1.DatabaseSpec{Type: v1.TypeMySQL}, ClaimRef: in.XR.Spec.ClaimRef}}).AsMySQL()
		in.XR.Kind, in.XR.UID, in.Type = v1.KindXDatabase, testLife, v1.TypeMySQL
		in.XR.Spec.ClaimRef.Kind = v1.KindDatabase
	}
	legacy := platform(func(s *v1.MySQLPlatformSpec) { s.LegacyPassword = v1.LegacyPasswordAllow })
	inSecrets := platform(func(s *v1.MySQLPlatformSpec) { s.RequirePasswordSecret = true })
	labelled := platform(func(s *v1.MySQLPlatformSpec) { s.RequirePasswordLabel = true })
	long := platform(func(s *v1.MySQLPlatformSpec) { s.MinPasswordLength = 7 })
	ours := map[string]string{v1.LabelXR: string(testLife)}
	const generated = "db.database-password"
	cases := map[string]struct {
		reason string
		in     Input
		want   string
		refuse string
	}{
		"Stated":           {reason: "The platform says nothing of it.", in: given(), want: asIs},
		"StatedNotAllowed": {reason: "It is read by whoever reads claims.", in: given(inSecrets), refuse: v1.ReasonNotAllowed},
		"InSecret":         {reason: "That is what the platform wants.", in: given(inSecrets, fromSecret, secret("s", nil, "other")), want: "other"},
		"Short":            {reason: "One more would do.", in: given(long), refuse: v1.ReasonNotAllowed},
		"ShortInSecret":    {reason: "It is as short there.", in: given(long, fromSecret, secret("s", nil, "äöü ao")), refuse: v1.ReasonNotAllowed},
		"LongEnough":       {reason: "Characters count, not bytes.", in: given(long, fromSecret, secret("s", nil, "äöü aoä")), want: "äöü aoä"},
		"NoLabel":          {reason: "Nobody said that claims may use it.", in: given(labelled, fromSecret, secret("s", nil, "other")), refuse: v1.ReasonNotAllowed},
		"OtherValue":       {reason: "Somebody took it back.", in: given(labelled, fromSecret, secret("s", map[string]string{v1.LabelPassword: "false"}, "other")), refuse: v1.ReasonNotAllowed},
		"Label":            {reason: "Its owner said so.", in: given(labelled, fromSecret, secret("s", map[string]string{v1.LabelPassword: "true"}, "other")), want: "other"},
		"OtherSecret":      {reason: "It is not the one that was asked for.", in: given(fromSecret, secret("t", nil, "other")), refuse: v1.ReasonInvalid},
		"Legacy":           {reason: "The platform lets everybody know it.", in: given(database, legacy), want: v1.LegacyDatabasePassword},
		"LegacyInSecrets":  {reason: "It says two things, and the stricter counts.", in: given(database, legacy, inSecrets), refuse: v1.ReasonNotAllowed},
		"Unknown":          {reason: "Crossplane has not sent it yet.", in: given(database)},
		"NotGenerated":     {reason: "The controller has not made it yet.", in: given(database, func(in *Input) { in.Required.Password.Known = true })},
		"Generated":        {reason: "Nobody chose it, so no rule is for it.", in: given(database, labelled, long, inSecrets, secret(generated, ours, "made")), want: "made"},
		"EarlierLife":      {reason: "It is of another life.", in: given(database, secret(generated, map[string]string{v1.LabelXR: "earlier"}, "made")), refuse: v1.ReasonNameTaken},
		"SomebodyElses":    {reason: "It was there before.", in: given(database, secret(generated, nil, "made")), refuse: v1.ReasonNameTaken},
		"Emptied":          {reason: "Somebody took it out.", in: given(database, secret(generated, ours, "")), refuse: v1.ReasonInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
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

// TestNotAllowedPassword: a server that runs goes on with what it has, and its claim says so.
func TestNotAllowedPassword(t *testing.T) {
	forbids := platform(func(s *v1.MySQLPlatformSpec) { s.RequirePasswordSecret = true })
	if _, err := tryCompose(t, given(forbids)); err == nil {
		t.Error("want a new instance refused")
	}
	out := composed(t, given(forbids, server(1)))
	if c := out.Conditions[0]; c.True || c.Reason != v1.ReasonNotAllowed || out.Resources[v1.ResourceDeployment].Object == nil {
		t.Errorf("want the server to run on, and the claim to say so: %+v", c)
	}
}
