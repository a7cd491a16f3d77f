package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestClaimOutlivesItsXR uninstalls an XRD. Before Crossplane deletes the CRD of the composite resources, the
// controller releases the composite resource, but not its claim. The controller must then release the claim as well,
// even after a restart. Otherwise the CRD of the claims would never be deleted, and the XRD could not be installed
// again. No other test can use the cluster at the same time.
func TestClaimOutlivesItsXR(t *testing.T) {
	framework.Repeats(t, "TestNext has a claim whose XR is gone, and this takes the cluster from all other tests")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	release := holdsClaims(t, s)
	uninstallsConfigurations(t, nil)
	t.Cleanup(release) // This runs before the packages are reinstalled, which waits for the deletion of the claim.
	kind := framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "xmysqls.otus.homework")
	framework.Eventually(t, "the end of the XRs' kind", func(ctx context.Context) error {
		return framework.IsGone(ctx, kind.DeepCopy())
	})
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

// TestCrossplaneForsakes checks a start of Crossplane while an XRD is being deleted. In this case, Crossplane never
// removes its finalizers from the XRD's claims and composite resources, and the XRD waits for their deletion. An
// installed package may remove the finalizers of the XRD. The XRD is then deleted before its claims and composite
// resources, but their finalizers remain.
//
// The controller must report that, and must not remove Crossplane's finalizers. A user runs the commands that the
// claim prints. After the backup, everything that the XRD defined must then be deleted. No other test can use the
// cluster at the same time.
func TestCrossplaneForsakes(t *testing.T) {
	framework.Repeats(t, "TestNext has what it decides")
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
	xrd := framework.NewObject("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "",
		"xmysqls.otus.homework")
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(xrd), xrd); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{xrd, s.Claim} {
		if err := framework.Suite.Kube.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	crossplane(1)
	ran := runsPrintedCommands(t, s)
	if len(ran) != 2 || !strings.HasPrefix(ran[0], "kubectl patch xmysql ") ||
		!strings.HasPrefix(ran[1], "kubectl patch mysql ") {
		t.Errorf("want a command for the composite resource, and then one for the claim, got %q", ran)
	}
	s.Gone(t)
	s.HasEvents(t, "DeletionBlocked", "BackupVerified", "NameFreed")
	s.Backups().AreVerified(t, 1)
	framework.Eventually(t, "the XRD's end", func(ctx context.Context) error {
		changed := xrd.DeepCopy()
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(xrd), changed); err != nil ||
			changed.GetUID() != xrd.GetUID() {
			return client.IgnoreNotFound(err)
		}
		return errors.New("it is there")
	})
	if !packagesToo {
		uninstallsConfigurations(t, nil) // Packages that have lost their XRD are installed again.
	}
	installsPackages(t, nil)
	leavesNothing(t, s)
	s.Create(t)
	isRestored(t, s)
	s.Client().SeesRows(t, before)
}

// runsPrintedCommands runs each command in the message of a claim, as a user would, until the claim is deleted. The
// doctor must print the same command. It returns the commands.
func runsPrintedCommands(t *testing.T, s *framework.Server) (ran []string) {
	t.Helper()
	p := newPrompt(t)
	for {
		command := ""
		s.Eventually(t, "the end of the claim, or a command", func(ctx context.Context) error {
			if err := framework.IsGone(ctx, s.Claim.DeepCopy()); err == nil {
				return nil
			}
			_, arguments, printed := strings.Cut(s.Message(ctx), "kubectl patch ")
			if !printed || slices.Contains(ran, "kubectl patch "+arguments) {
				return errors.New("it is there")
			}
			command = "kubectl patch " + arguments
			return nil
		})
		if command == "" {
			return ran
		}
		if d := examineInstance(t.Context(), t, s); !slices.ContainsFunc(d.Findings,
			func(f finding) bool { return strings.Contains(f.Text+f.Advice, command) }) {
			t.Errorf("want the doctor to print %s, got %+v", command, d.Findings)
		}
		p.enter(t, command, " patched")
		ran = append(ran, command)
	}
}

// holdsClaims prevents the controller from removing its finalizer from claims in the server's namespace, until the
// test ends or calls release.
func holdsClaims(t *testing.T, s *framework.Server) (release func()) {
	t.Helper()
	policy := framework.NewObject("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "hold-"+s.Namespace)
	policy.Object["spec"] = map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{"otus.homework"}, "apiVersions": []any{"*"}, "operations": []any{"UPDATE"},
			"resources": []any{"mysqls"},
		}}},
		"validations": []any{map[string]any{
			"expression": fmt.Sprintf("object.metadata.namespace != %q || !('crossplane-mysql.io/protect-data' in "+
				"oldObject.metadata.?finalizers.orValue([])) || 'crossplane-mysql.io/protect-data' in "+
				"object.metadata.?finalizers.orValue([])", s.Namespace),
		}},
	}
	binding := framework.NewObject(policy.GetAPIVersion(), policy.GetKind()+"Binding", "", policy.GetName())
	binding.Object["spec"] = map[string]any{"policyName": policy.GetName(), "validationActions": []any{"Deny"}}
	framework.Make(t, policy)
	framework.Make(t, binding)
	framework.Eventually(t, "that the policy is in force", func(ctx context.Context) error {
		err := framework.Suite.Kube.Patch(ctx, s.Claim.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)), client.DryRunAll)
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
		if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()),
			binding)); err != nil {
			t.Error(err)
		}
	}
}
