package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestPlatform checks that a claim cannot use a setting that the platform no longer allows, even if it selects an
// older revision of a Composition. A server that already uses the setting keeps running, and its claim reports that.
func TestPlatform(t *testing.T) {
	t.Parallel()
	const key = "e2e.example.org/reach"
	composition := framework.CopyOfComposition(t, framework.ClassComposition, nil)
	forbid := framework.AllowServiceAnnotation(t, key)
	had := framework.NewServer(t, composition)
	had.Spec["service"] = map[string]any{"annotations": map[string]any{key: "x"}}
	before := had.Begin(t)
	first, err := revisionOf(t.Context(), composition)
	if err != nil || first == "" {
		t.Fatalf("cannot find the revision of %s: %v", composition, err)
	}

	forbid()
	changeComposition(t, composition, "Now", "input", "maintenance")
	framework.Eventually(t, "a newer revision", func(ctx context.Context) error {
		now, err := revisionOf(ctx, composition)
		if err == nil && now == first {
			err = errors.New("there is none")
		}
		return err
	})
	pinned := had.Neighbour(t, "pinned")
	maps.Copy(pinned.Spec, map[string]any{"compositionUpdatePolicy": "Manual",
		"compositionRevisionRef": map[string]any{"name": first}})
	pinned.Create(t)
	pinned.Refuses(t, "is not allowed by the platform")
	pinned.IsHeld(t)

	earlier := had.Neighbour(t, "earlier")
	composition = framework.CopyOfComposition(t, framework.ClassComposition,
		map[string]any{"serviceAnnotations": []any{"e2e.example.org"}})
	earlier.Spec["compositionRef"] = map[string]any{"name": composition}
	earlier.Create(t)
	earlier.Refuses(t, "serviceAnnotations: unknown field")
	earlier.IsHeld(t)

	had.Says(t, "Running, but spec.service.annotations["+key+"]: Forbidden: is not allowed by the platform")
	if got := had.Client().MustQuery(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// revisionOf returns the name of the newest CompositionRevision of a Composition.
func revisionOf(ctx context.Context, composition string) (string, error) {
	revisions := framework.NewList("apiextensions.crossplane.io/v1/CompositionRevision")
	if err := framework.Suite.Kube.List(ctx, revisions,
		client.MatchingLabels{"crossplane.io/composition-name": composition}); err != nil {
		return "", err
	}
	name, newest := "", int64(0)
	for _, r := range revisions.Items {
		if n, _, _ := unstructured.NestedInt64(r.Object, "spec", "revision"); n > newest {
			name, newest = r.GetName(), n
		}
	}
	return name, nil
}

// crossplanesFields maps each field that Crossplane adds to the spec of claims (its internal/xcrd/schemas.go) to what
// it can affect. If a newer Crossplane adds a field, the test fails until a developer has reviewed the field.
var crossplanesFields = map[string]string{
	"compositeDeletePolicy": "how this claim's composite resource is deleted; the XRD has it, too, and allows " +
		"Background only",
	"compositionRef":              "each Composition for this kind that the platform has installed",
	"compositionSelector":         "the same, by labels",
	"compositionRevisionRef":      "each revision of them that is left: TestPlatform",
	"compositionRevisionSelector": "the same, by labels",
	"compositionUpdatePolicy":     "whether this instance gets a newer revision",
	"resourceRef":                 "its own composite resource: TestClaimTakesNothing",
	"writeConnectionSecretToRef": "a Secret of the claim's namespace that Crossplane has made for it, and no other: " +
		"TestClaimTakesNothing",
}

// TestCrossplanesFields checks that crossplanesFields contains each field that Crossplane adds to claims.
func TestCrossplanesFields(t *testing.T) {
	t.Parallel()
	for crd, xrd := range map[string]string{"mysqls.otus.homework": "xmysqls.otus.homework",
		"databases.zalando.org": "xdatabases.zalando.org"} {
		ours := specOf(t, framework.NewObject("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "", xrd))
		var added []string
		for field := range specOf(t, framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crd)) {
			if _, ok := ours[field]; !ok || crossplanesFields[field] != "" {
				added = append(added, field)
			}
		}
		slices.Sort(added)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(crossplanesFields)), added); diff != "" {
			t.Errorf("%s: -known, +there:\n%s", crd, diff)
		}
	}
}

// specOf returns the fields of the spec in the schema of an XRD or a CRD.
func specOf(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("%s has %d versions, %v", o.GetName(), len(versions), err)
	}
	spec, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties",
		"spec", "properties")
	if err != nil || !found {
		t.Fatalf("%s has no spec, %v", o.GetName(), err)
	}
	return spec
}

// TestClaimTakesNothing checks that a claim cannot reach other tenants' objects through the fields that Crossplane
// adds. It must not be able to use their Secrets or their composite resources, even when it is deleted.
func TestClaimTakesNothing(t *testing.T) {
	t.Parallel()
	victim := framework.NewServer(t, framework.ClassComposition)
	before := victim.Begin(t)
	xr, err := victim.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	framework.MustKubectl(t, "create", "secret", "generic", "theirs", "--namespace", victim.Namespace,
		"--from-literal=password=theirs")

	thief := victim.Neighbour(t, "thief")
	thief.Namespace = framework.NewNamespace(t)
	thief.Claim.SetNamespace(thief.Namespace)
	thief.Spec["resourceRef"] = map[string]any{"apiVersion": xr.GetAPIVersion(), "kind": xr.GetKind(),
		"name": xr.GetName()}
	thief.Create(t)
	crossplaneRefuses(t, thief, "not bound to this claim")
	thief.StartDelete(t)
	thief.ClaimGone(t)

	greedy := victim.Neighbour(t, "greedy")
	greedy.Spec["writeConnectionSecretToRef"] = map[string]any{"name": "theirs"}
	greedy.Create(t)
	crossplaneRefuses(t, greedy, "connection")
	if got, err := framework.Kubectl(t.Context(), "get", "secret", "theirs", "--namespace", victim.Namespace,
		"--output=jsonpath={.data.password}"); err != nil || got != "dGhlaXJz" {
		t.Errorf("the Secret of somebody else has become %q, %v", got, err)
	}

	now, err := victim.XR(t.Context())
	if err != nil || now.GetUID() != xr.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Fatalf("the victim's composite resource has become %v, %v", now, err)
	}
	if got := victim.Client().MustQuery(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// crossplaneRefuses waits until Crossplane reports in the condition Synced that it refuses the claim. The message
// must contain words.
func crossplaneRefuses(t *testing.T, s *framework.Server, words string) {
	t.Helper()
	framework.Eventually(t, "Crossplane's refusal", func(ctx context.Context) error {
		c, err := framework.FindCondition(ctx, s.Claim.DeepCopy(), "Synced")
		if err != nil {
			return err
		}
		if c["status"] != "False" || !strings.Contains(fmt.Sprint(c["message"]), words) {
			return fmt.Errorf("it says %v", c)
		}
		return nil
	})
}
