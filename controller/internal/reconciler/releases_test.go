package reconciler

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
)

// functionOf returns a Function as Crossplane has installed it.
func functionOf(spec, status string) *unstructured.Unstructured {
	f := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"package": spec}}}
	if status != "" {
		f.Object["status"] = map[string]any{"currentIdentifier": status}
	}
	f.SetGroupVersionKind(functionKind)
	f.SetName(functionName)
	return f
}

// TestReleases checks that the status of the Platform contains the running releases, and whether they are compatible.
func TestReleases(t *testing.T) {
	const image = "registry.example:5000/mirror/function-mysql"
	cases := map[string]struct {
		reason   string
		function *unstructured.Unstructured
		release  string
		status   metav1.ConditionStatus
		why, ofF string
	}{
		"Same": {reason: "The controller and the function have the same release.",
			function: functionOf(image+":v0.1.0", ""), release: "v0.1.0",
			status: metav1.ConditionTrue, why: v1.ReasonReleasesFit, ofF: "v0.1.0"},
		"Patch": {reason: "Patch releases have the same API, so the releases must be compatible.",
			function: functionOf(image+":v0.1.7@sha256:ab", ""), release: "v0.1.0",
			status: metav1.ConditionTrue, why: v1.ReasonReleasesFit, ofF: "v0.1.7"},
		"Differ": {reason: "Another minor release may have a different API.", function: functionOf(image+":v0.2.0", image+":v0.2.0"),
			release: "v0.1.0", status: metav1.ConditionFalse, why: v1.ReasonReleasesDiffer, ofF: "v0.2.0"},
		"Upgrading": {reason: "The new release of the function is specified, but not installed yet.",
			function: functionOf(image+":v0.2.0", image+":v0.1.0"),
			release:  "v0.1.0", status: metav1.ConditionTrue, why: v1.ReasonReleasesFit, ofF: "v0.1.0"},
		"Digest": {reason: "An image with only a digest does not show the release of the function.",
			function: functionOf(image+"@sha256:ab", ""), release: "v0.1.0",
			status: metav1.ConditionUnknown, why: v1.ReasonFunctionUnknown},
		"None": {reason: "The function is not installed.", release: "v0.1.0", status: metav1.ConditionUnknown,
			why: v1.ReasonFunctionUnknown},
		"Build": {reason: "A development build of the controller has no release.",
			function: functionOf(image+":v0.1.0", ""), release: "dev",
			status: metav1.ConditionFalse, why: v1.ReasonReleasesDiffer, ofF: "v0.1.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{&v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName, Generation: 3}}}
			if tc.function != nil {
				objects = append(objects, tc.function)
			}
			kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(objects...).
				WithStatusSubresource(&v1.Platform{}).Build()
			writes := 0
			c := releaseCheck{reader: kube, release: tc.release, writer: writerFn(func(changes []change.Change) error {
				writes++
				return change.Writer{Client: kube}.Apply(t.Context(), changes)
			})}
			for range 2 { // The second update writes nothing.
				if err := c.update(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			p := &v1.Platform{}
			if err := kube.Get(context.Background(), client.ObjectKey{Name: v1.PlatformName}, p); err != nil {
				t.Fatal(err)
			}
			got := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionReady)
			if got == nil || got.Status != tc.status || got.Reason != tc.why || got.ObservedGeneration != 3 ||
				(got.Message == "") != (tc.status == metav1.ConditionTrue) {
				t.Errorf("%s Got %+v", tc.reason, got)
			}
			if diff := cmp.Diff([]any{tc.release, tc.ofF, 1}, []any{p.Status.ControllerRelease, p.Status.FunctionRelease,
				writes}); diff != "" {
				t.Errorf("%s Releases and writes: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestReleasesWithoutPlatform checks that a missing Platform object is not an error.
func TestReleasesWithoutPlatform(t *testing.T) {
	c := releaseCheck{reader: fake.NewClientBuilder().WithScheme(schemeOf(t)).Build(),
		writer: writerFn(func([]change.Change) error { t.Error("it writes"); return nil })}
	if err := c.update(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFunctionName checks that the Compositions use the same function name.
func TestFunctionName(t *testing.T) {
	raw, err := os.ReadFile("../../../apis/composition-mysql.yaml")
	if err != nil || !strings.Contains(string(raw), "name: "+functionName+"\n") {
		t.Errorf("no Composition calls %s", functionName)
	}
}
