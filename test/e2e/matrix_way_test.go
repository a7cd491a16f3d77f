package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A way is a deletion path of the matrix: a way to delete a server and to restore it.
type way struct {
	name string
	// heals is true if the product repairs the running server, for example after its data PVC was deleted. Then
	// there is no backup.
	heals bool
	// toStore is true if the backup is written to a store.
	toStore bool
	// own is true if the server is a MySQL of the group crossplane-mysql.io, which has no claim.
	own bool

	// uninstall removes a part of the product or of Crossplane. It is called only once for all cases that run together.
	uninstall func(*testing.T, *cell)
	// delete starts the deletion of each server, in the way that the deletion path describes.
	delete func(*testing.T, *cell)
	// over waits until the deletion of the server is complete.
	over func(*testing.T, *cell)
	// install reinstalls the part of the product or of Crossplane that was uninstalled.
	install func(*testing.T, *cell)
	// restore recreates the server from its backup.
	restore func(*testing.T, *cell)
}

// The deletion paths, named after kubectl commands.
var (
	byClaim           = &way{name: "claim", delete: deletes("Background"), over: isGone, restore: createsAgain}
	byClaimForeground = &way{name: "claim, --cascade=foreground", delete: deletes("Foreground"), over: isGone,
		restore: createsAgain}
	byClaimOrphan = &way{name: "claim, --cascade=orphan", delete: deletes("Orphan"), over: isGone,
		restore: createsAgain}
	byXR           = &way{name: "XR", delete: deletesXR("Background"), over: hasAnotherXR, restore: comesBack}
	byXRForeground = &way{name: "XR, --cascade=foreground with its policy off", delete: deletesXR("Foreground"),
		over: hasAnotherXR, restore: comesBack}
	byXROrphan = &way{name: "XR, --cascade=orphan", delete: deletesXR("Orphan"), over: hasAnotherXR,
		restore: comesBack}
	byNamespace = &way{name: "namespace", delete: deletesNamespace, over: namespaceIsGone,
		restore: createsNamespaceAgain}
	byFinalizers = &way{name: "claim, finalizers of it and its XR taken off", delete: takesFinalizers,
		over: claimIsGone, restore: createsAgain}
	byPVC        = &way{name: "data PVC", heals: true, delete: deletesPVC, over: pvcIsBack, restore: nothingMore}
	byDeployment = &way{name: "Deployment, then claim", delete: deletesDeployment, over: isGone,
		restore: createsAgain}
	byPackage = &way{name: "XRD, with its Configuration", uninstall: uninstallsConfigurations, delete: nothingMore,
		over: isGoneByHand, install: installsPackages, restore: createsAgain}
	byFunction = &way{name: "Function, then claim", uninstall: uninstallsFunction, delete: deletes("Background"),
		over: isGone, install: installsPackages, restore: createsAgain}
	byClaimToStore = &way{name: "claim, its backup to a store", toStore: true, delete: deletes("Background"),
		over: isGone, restore: createsAgain}
	byReplace = &way{name: "claim, created again at once", delete: deletes("Background"), over: nothingMore,
		restore: createsAtOnce}

	// A MySQL without a claim owns its objects, so that a foreground deletion deletes its objects first.
	ownBackground = &way{name: "MySQL without a claim", own: true, delete: deletes("Background"), over: isGone,
		restore: createsAgain}
	ownForeground = &way{name: "MySQL without a claim, --cascade=foreground", own: true, delete: deletes("Foreground"),
		over: isGone, restore: createsAgain}
	ownOrphan = &way{name: "MySQL without a claim, --cascade=orphan", own: true, delete: deletes("Orphan"), over: isGone,
		restore: createsAgain}
	ownNamespace = &way{name: "namespace of a MySQL without a claim", own: true, delete: deletesNamespace,
		over: namespaceIsGone, restore: createsNamespaceAgain}
	ownDeployment = &way{name: "Deployment, then MySQL without a claim", own: true, delete: deletesDeployment, over: isGone,
		restore: createsAgain}
	ownReplace = &way{name: "MySQL without a claim, created again at once", own: true, delete: deletes("Background"),
		over: nothingMore, restore: createsAtOnce}

	ways = []*way{
		byClaim, byClaimForeground, byClaimOrphan, byXR, byXRForeground, byXROrphan,
		byNamespace, byFinalizers, byPVC, byDeployment, byPackage, byFunction, byReplace, byClaimToStore,
		ownBackground, ownForeground, ownOrphan, ownNamespace, ownDeployment, ownReplace,
	}
)

func nothingMore(*testing.T, *cell) {}

func propagation(policy string) client.DeleteOption {
	return client.PropagationPolicy(metav1.DeletionPropagation(policy))
}

func deletes(policy string) func(*testing.T, *cell) {
	return func(t *testing.T, c *cell) {
		t.Helper()
		if err := framework.Suite.Kube.Delete(t.Context(), c.Claim, propagation(policy)); err != nil {
			t.Fatal(err)
		}
	}
}

func deletesXR(policy string) func(*testing.T, *cell) {
	return func(t *testing.T, c *cell) {
		t.Helper()
		xr, err := c.XR(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := framework.Suite.Kube.Delete(t.Context(), xr, propagation(policy)); err != nil {
			t.Fatal(err)
		}
	}
}

// isGone waits until the claim and all its objects are deleted and the backup is verified.
func isGone(t *testing.T, c *cell) {
	t.Helper()
	c.Gone(t)
	c.proof(t)
	c.leavesBackup(t)
}

// isGoneByHand waits until everything is deleted. If Crossplane was started while its XRD was being deleted, a user
// has to run the commands that the claim prints.
func isGoneByHand(t *testing.T, c *cell) {
	t.Helper()
	runsPrintedCommands(t, c.Server)
	isGone(t, c)
}

// claimIsGone waits until the claim is deleted. Its objects are deleted in the background.
func claimIsGone(t *testing.T, c *cell) {
	t.Helper()
	c.ClaimGone(t)
}

// createsAgain creates the claim and waits until its data is restored.
func createsAgain(t *testing.T, c *cell) {
	t.Helper()
	c.Create(t)
	isRestored(t, c.Server)
	c.proof(t)
}

// createsAtOnce creates the claim without waiting until the previous claim's objects are deleted.
func createsAtOnce(t *testing.T, c *cell) {
	t.Helper()
	createWhenFree(t, c.Server)
	isRestored(t, c.Server)
	c.proof(t)
}

// hasAnotherXR waits until Crossplane has created a new composite resource. Crossplane does so because the claim
// still exists.
func hasAnotherXR(t *testing.T, c *cell) {
	t.Helper()
	c.proof(t)
	c.Eventually(t, "another composite", func(ctx context.Context) error {
		xr, err := c.XR(ctx)
		if err == nil && string(xr.GetUID()) == c.instanceID {
			err = fmt.Errorf("%s is still there", xr.GetName())
		}
		return err
	})
}

func comesBack(t *testing.T, c *cell) {
	t.Helper()
	isRestored(t, c.Server)
}

func deletesNamespace(t *testing.T, c *cell) {
	t.Helper()
	deleteNamespace(t, c.Server)
}

func namespaceIsGone(t *testing.T, c *cell) {
	t.Helper()
	c.proof(t)
	namespaceEnds(t, c.Server)
}

func createsNamespaceAgain(t *testing.T, c *cell) {
	t.Helper()
	c.writer.end() // The client pod is about to be deleted.
	createNamespaceAgain(t, c.Server)
	c.takesPasswordFromSecret(t)
	createsAgain(t, c)
}

func takesFinalizers(t *testing.T, c *cell) {
	t.Helper()
	xr, err := c.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.StartDelete(t)
	// If Crossplane is stopped, it deletes the composite resource only later, when the claim was created again.
	if c.fault != faultCore {
		beingDeleted(t, xr)
	}
	takeFinalizers(t, xr, c.Claim)
}

func deletesPVC(t *testing.T, c *cell) {
	t.Helper()
	c.handle = deleteDataPVC(t, c.Server)
}

func pvcIsBack(t *testing.T, c *cell) {
	t.Helper()
	dataPVCReturns(t, c.Server, c.handle)
	framework.Eventually(t, "the claim", func(ctx context.Context) error {
		return framework.HasCondition(ctx, c.Claim.DeepCopy(), "Ready")
	})
}

func deletesDeployment(t *testing.T, c *cell) {
	t.Helper()
	if err := framework.Suite.Kube.Delete(t.Context(),
		framework.NewObject("apps/v1", "Deployment", c.Namespace, c.Name)); err != nil {
		t.Fatal(err)
	}
	c.StartDelete(t)
}

// Packages to uninstall, dependent packages first.
var (
	configurations = []string{"crossplane-mysql-configuration-mysql-hostpath", "crossplane-mysql-configuration-mysql"}
	function       = "crossplane-mysql-function-mysql"
)

// uninstallsConfigurations uninstalls the Configurations with the XRD and its Compositions. As a result, Crossplane
// deletes all claims and composite resources.
func uninstallsConfigurations(t *testing.T, c *cell) {
	t.Helper()
	t.Cleanup(func() { installsPackages(t, c) })
	for _, name := range configurations {
		if err := framework.Suite.Kube.Delete(t.Context(),
			framework.NewObject("pkg.crossplane.io/v1", "Configuration", "", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// uninstallsFunction uninstalls the function. The claims are deleted while there is no function.
func uninstallsFunction(t *testing.T, c *cell) {
	t.Helper()
	t.Cleanup(func() { installsPackages(t, c) })
	if err := framework.Suite.Kube.Delete(t.Context(),
		framework.NewObject("pkg.crossplane.io/v1", "Function", "", function)); err != nil {
		t.Fatal(err)
	}
	if c.fault == faultCore {
		return // If Crossplane is stopped, the pod is deleted only later.
	}
	framework.Eventually(t, "its pod's end", func(ctx context.Context) error {
		var pods corev1.PodList
		err := framework.Suite.Kube.List(ctx, &pods, client.InNamespace("crossplane-system"),
			client.MatchingLabels{"pkg.crossplane.io/function": function})
		for _, p := range pods.Items {
			// Ignore pods that are being deleted. They receive no more requests, but stay there as long as their kubelet is
			// stopped.
			if p.DeletionTimestamp == nil {
				err = fmt.Errorf("%s is there", p.Name)
			}
		}
		return err
	})
}

// installsPackages reinstalls the packages and waits until claims can be created.
func installsPackages(t *testing.T, _ *cell) {
	t.Helper()
	for name, image := range map[string]string{function: "function-mysql", configurations[1]: "configuration-mysql",
		configurations[0]: "configuration-mysql-hostpath"} {
		kind := "Configuration"
		if name == function {
			kind = "Function"
		}
		framework.Eventually(t, "package "+name, func(ctx context.Context) error {
			p := framework.NewObject("pkg.crossplane.io/v1", kind, "", name)
			// Without the policy Always, Crossplane might not pull the image again, because all builds have the same tag.
			p.Object["spec"] = map[string]any{"package": "ghcr.io/crossplane-mysql/" + image + ":v0.1.0",
				"packagePullPolicy": "Always"}
			if err := framework.Suite.Kube.Create(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if p.GetDeletionTimestamp() != nil {
				return errors.New("the old one is there")
			}
			return framework.HasCondition(ctx, p, "Healthy")
		})
	}
	framework.Eventually(t, "the XRD", func(ctx context.Context) error {
		return framework.HasCondition(ctx,
			framework.NewObject("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "", "xmysqls.otus.homework"),
			"Offered")
	})
	framework.Eventually(t, "the claims' kind", func(ctx context.Context) error {
		return framework.Suite.Kube.List(ctx, framework.NewList("otus.homework/v1/MySQL"))
	})
}

// foregroundIsAllowed allows the foreground deletion of composite resources until the test ends. An earlier run that
// was killed may have left it allowed.
func foregroundIsAllowed(t *testing.T) {
	t.Helper()
	allowForeground(t)
	t.Cleanup(func() {
		if err := framework.Suite.Kube.Create(context.WithoutCancel(t.Context()), foregroundBinding()); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	})
}

func foregroundBinding() *unstructured.Unstructured {
	const name = "crossplane-mysql-no-foreground"
	b := framework.NewObject("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", name)
	b.Object["spec"] = map[string]any{"policyName": name, "validationActions": []any{"Deny"}}
	return b
}

// allowForeground allows foreground deletion until the controller is installed again.
func allowForeground(t *testing.T) {
	t.Helper()
	if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()),
		foregroundBinding())); err != nil {
		t.Fatal(err)
	}
}
