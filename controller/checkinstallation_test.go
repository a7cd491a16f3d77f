package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// installation returns all objects of an installation that is ready.
func installation() []client.Object {
	out := make([]client.Object, 0, 2+len(installedCRDs())+2*len(installedPolicies()))
	out = append(out,
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "crossplane-mysql-system", Name: controllerName, Generation: 2},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 2, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}},
		},
		&v1.Platform{
			ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName},
			Status: v1.PlatformStatus{ControllerRelease: version, Conditions: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionTrue}}},
		},
	)
	for _, name := range installedCRDs() {
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}},
		})
	}
	for _, name := range installedPolicies() {
		out = append(out, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return out
}

func TestCheckInstallation(t *testing.T) {
	cases := map[string]struct {
		reason string
		flags  checkInstallationCommand
		change func(client.Object)
		remove string
		want   string
	}{
		"Ready": {reason: "A complete installation is ready.", flags: checkInstallationCommand{Platform: true, Function: true}},
		"NoController": {reason: "The controller must exist.", remove: "*v1.Deployment " + controllerName,
			want: "cannot get the controller's Deployment"},
		"Unavailable": {reason: "The controller must be available.", change: func(o client.Object) {
			if d, ok := o.(*appsv1.Deployment); ok {
				d.Status.Conditions[0].Status = corev1.ConditionFalse
			}
		}, want: "is not available"},
		"OldController": {reason: "The status of the Deployment must be up to date with its spec.", change: func(o client.Object) {
			if d, ok := o.(*appsv1.Deployment); ok {
				d.Status.ObservedGeneration = 1
			}
		}, want: "is not available"},
		"NoCRD": {reason: "Each CRD must exist.", remove: "*v1.CustomResourceDefinition backups.crossplane-mysql.io",
			want: "CustomResourceDefinition backups.crossplane-mysql.io"},
		"NewCRD": {reason: "Each CRD must be established.", change: func(o client.Object) {
			if crd, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
				crd.Status.Conditions = nil
			}
		}, want: "is not established"},
		"NoPolicy": {reason: "Each policy must exist.", remove: "*v1.ValidatingAdmissionPolicy crossplane-mysql-controller-jobs",
			want: "ValidatingAdmissionPolicy crossplane-mysql-controller-jobs"},
		"NoBinding": {reason: "A policy without a binding has no effect.",
			remove: "*v1.ValidatingAdmissionPolicyBinding crossplane-mysql-keep-records",
			want:   "ValidatingAdmissionPolicyBinding crossplane-mysql-keep-records"},
		"NoPlatform": {reason: "The Platform must exist.", flags: checkInstallationCommand{Platform: true},
			remove: "*v1.Platform crossplane-mysql", want: "Platform crossplane-mysql"},
		"PlatformIgnored": {reason: "A user may manage the Platform without the chart.", remove: "*v1.Platform crossplane-mysql"},
		"OtherRelease": {reason: "The controller of this release must have written the status.",
			flags: checkInstallationCommand{Platform: true}, change: func(o client.Object) {
				if p, ok := o.(*v1.Platform); ok {
					p.Status.ControllerRelease = "v0.0.1"
				}
			}, want: `release "v0.0.1"`},
		"NoFunction": {reason: "The release of the function must be compatible with the controller.",
			flags: checkInstallationCommand{Platform: true, Function: true}, change: unknownFunction, want: "There is no Function"},
		"FunctionIgnored": {reason: "A user may install the function without the chart.",
			flags: checkInstallationCommand{Platform: true}, change: unknownFunction},
	}
	scheme, err := newCheckScheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []client.Object
			for _, o := range installation() {
				if tc.change != nil {
					tc.change(o)
				}
				if tc.remove != typeName(o) {
					all = append(all, o)
				}
			}
			if tc.remove != "" && len(all) != len(installation())-1 {
				t.Fatalf("%q removes %d objects", tc.remove, len(installation())-len(all))
			}
			c := tc.flags
			c.Namespace, c.Timeout = "crossplane-mysql-system", time.Millisecond
			var out strings.Builder
			err := c.waitFor(t.Context(), &out, fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).Build())
			if (tc.want != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("\n%s\nwant %q, got %v", tc.reason, tc.want, err)
			}
			if want := cmp.Or(tc.want, "The installation of release "+version+" is ready."); !strings.Contains(out.String(), want) {
				t.Errorf("want %q printed, got %q", want, out.String())
			}
		})
	}
}

func unknownFunction(o client.Object) {
	if p, ok := o.(*v1.Platform); ok {
		p.Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: metav1.ConditionUnknown, Message: "There is no Function"}
	}
}

// typeName returns the type and the name of an object.
func typeName(o client.Object) string { return fmt.Sprintf("%T %s", o, o.GetName()) }

// TestInstalledNames checks that `controller check-installation` requires exactly the CRDs and policies in the
// manifests.
func TestInstalledNames(t *testing.T) {
	got := map[string][]string{}
	for _, pattern := range []string{"deploy/*/*.yaml", "../apis/crd-*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			for document := range strings.SplitSeq(read(t, f), "\n---\n") {
				o := metav1.PartialObjectMetadata{}
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatalf("%s: %v", f, err)
				}
				got[o.Kind] = append(got[o.Kind], o.Name)
			}
		}
	}
	for kind, want := range map[string][]string{"CustomResourceDefinition": installedCRDs(),
		"ValidatingAdmissionPolicy": installedPolicies(), "ValidatingAdmissionPolicyBinding": installedPolicies()} {
		slices.Sort(got[kind])
		if diff := gocmp.Diff(want, got[kind]); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", kind, diff)
		}
	}
}
