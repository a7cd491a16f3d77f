package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestClaimOutlivesItsXR: an XRD is uninstalled, and the controller lets go of an XR, and not of its claim, before Crossplane takes the XRs'
// kind away. It goes on with the claim, also when it was restarted, or the claims' kind would wait for the claim for ever, and the XRD
// could not be installed again. It shares the cluster with no other test.
func TestClaimOutlivesItsXR(t *testing.T) {
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	release := holdsClaims(t, s)
	uninstallsConfigurations(t, nil)
	t.Cleanup(release) // Before all is installed again, which waits for the claim.
	kind := framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "xmysqls.otus.homework")
	framework.Eventually(t, "the end of the XRs' kind", func(ctx context.Context) error { return framework.IsGone(ctx, kind.DeepCopy()) })
	start := stopsTheController(t)
	release()
	start()
	s.Gone(t)
	installsPackages(t, nil)
	leavesNothing(t, s)
	s.Create(t)
	isRestored(t, s)
	s.Client().SeesRows(t, before)
}

// TestCrossplaneForsakes: Crossplane is started while an XRD is being deleted, and never lets go of that XRD's claims and XRs: neither while
// the XRD waits for them, nor where the package that has it takes its finalizers off, so that it is gone before them. The controller does
// Crossplane's part when that had its time, after the backup as ever, and all goes that the XRD defined. It shares the cluster with no
// other test.
func TestCrossplaneForsakes(t *testing.T) {
	framework.Repeats(t, "TestNext has what it decides, and TestClaimOutlivesItsXR an XRD that is uninstalled")
	t.Run("Deleting", func(t *testing.T) { crossplaneForsakes(t, true) })
	t.Run("Gone", func(t *testing.T) { crossplaneForsakes(t, false) })
}

func crossplaneForsakes(t *testing.T, packagesToo bool) {
	t.Helper()
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	crossplane := func(want int32) { scale(t, "crossplane-system", "crossplane", want) }
	t.Cleanup(func() { installsPackages(t, nil) })
	t.Cleanup(func() { crossplane(1) })
	crossplane(0)
	if packagesToo {
		uninstallsConfigurations(t, nil)
	}
	xrd := framework.NewObject("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "", "xmysqls.otus.homework")
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(xrd), xrd); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{xrd, s.Claim} {
		if err := framework.Suite.Kube.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	crossplane(1)
	s.Gone(t)
	s.HasEvents(t, "CrossplaneReplaced", "BackupProven", "NameFreed")
	s.Backups().AreProven(t, 1)
	framework.Eventually(t, "the XRD's end", func(ctx context.Context) error {
		is := xrd.DeepCopy()
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(xrd), is); err != nil || is.GetUID() != xrd.GetUID() {
			return client.IgnoreNotFound(err)
		}
		return errors.New("it is there")
	})
	if !packagesToo {
		uninstallsConfigurations(t, nil) // What has lost its XRD is installed anew.
	}
	installsPackages(t, nil)
	leavesNothing(t, s)
	s.Create(t)
	isRestored(t, s)
	s.Client().SeesRows(t, before)
}

// holdsClaims of a server's namespace: until the test is over, or says so, nobody takes the controller's finalizer off one.
func holdsClaims(t *testing.T, s *framework.Server) (release func()) {
	t.Helper()
	policy := framework.NewObject("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "hold-"+s.Namespace)
	policy.Object["spec"] = map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{"otus.homework"}, "apiVersions": []any{"*"}, "operations": []any{"UPDATE"}, "resources": []any{"mysqls"},
		}}},
		"validations": []any{map[string]any{
			"expression": fmt.Sprintf("object.metadata.namespace != %q || !('otus.homework/protect-data' in oldObject.metadata.?finalizers.orValue([])) || 'otus.homework/protect-data' in object.metadata.?finalizers.orValue([])", s.Namespace),
		}},
	}
	binding := framework.NewObject(policy.GetAPIVersion(), policy.GetKind()+"Binding", "", policy.GetName())
	binding.Object["spec"] = map[string]any{"policyName": policy.GetName(), "validationActions": []any{"Deny"}}
	framework.Make(t, policy)
	framework.Make(t, binding)
	framework.Eventually(t, "that the policy is in force", func(ctx context.Context) error {
		err := framework.Suite.Kube.Patch(ctx, s.Claim.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)), client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("the finalizer may be taken off")
		case apierrors.IsInvalid(err):
			return nil
		}
		return err
	})
	return func() {
		t.Helper()
		if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()), binding)); err != nil {
			t.Error(err)
		}
	}
}
