package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// section is a patch for spec.config. The value of mysqld is an object, like a section of my.cnf. The current CRDs
// accept only settings directly under config.
const section = `{"spec":{"config":{"mysqld":{"max_connections":200}}}}`

// TestUnreadableConfig checks that the API server refuses an object, such as a section of my.cnf, as a setting. A
// composite resource from an older version can still contain one. In this case, the instance and other instances must
// still be deleted with backups, and the doctor must report the instance.
func TestUnreadableConfig(t *testing.T) {
	framework.Repeats(t, "TestUnreadableKeepsData has its deletion, TestUnreadableConfigStaysLocal its neighbors, and "+
		"TestAcceptedIsReadable what the API server refuses")
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	neighbor := s.Neighbour(t, "neighbor")
	neighbor.Begin(t)
	out, err := framework.Kubectl(t.Context(), "patch", "mysql", s.Name, "--namespace", s.Claim.GetNamespace(), "--type",
		"merge", "--patch", section)
	if err == nil || !strings.Contains(out, "Write settings directly under config") {
		t.Fatalf("want the API server to say what to write instead, got %v: %s", err, out)
	}
	breakConfig(t, s)
	named := func(f finding) bool { return strings.Contains(f.Text, "spec.config.mysqld cannot be read") }
	framework.Eventually(t, "doctor", func(ctx context.Context) error {
		if got := examineInstance(ctx, t, s); !slices.ContainsFunc(got.Findings, named) {
			return fmt.Errorf("it does not name what cannot be read: %+v", got)
		}
		return nil
	})
	neighbor.Delete(t)
	neighbor.Backups().AreVerified(t, 1)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
}

// breakConfig writes a section into the composite resource, as in an object that is older than the schema. Crossplane
// immediately reverts a change of its CRD, so the CRD and the composite resource are patched until the API server
// accepts the section.
func breakConfig(t *testing.T, s *framework.Server) {
	t.Helper()
	const path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/config/additionalProperties"
	loose := client.RawPatch(types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":%q,"value":{"x-kubernetes-preserve-unknown-fields":true}}]`, path))
	framework.Eventually(t, "a schema that accepts a section", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return client.IgnoreNotFound(err) // It is already deleted.
		}
		crd := framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "xmysqls.otus.homework")
		if err := framework.Suite.Kube.Patch(ctx, crd, loose); err != nil {
			return err
		}
		for range 20 {
			if err = framework.Suite.Kube.Patch(ctx, xr.DeepCopy(),
				client.RawPatch(types.MergePatchType, []byte(section))); !kerrors.IsInvalid(err) {
				return client.IgnoreNotFound(err)
			}
		}
		return errors.New("the API server still refuses it")
	})
}

// breaksConfig makes spec.config of the composite resource unreadable at the beginning of the deletion.
func breaksConfig(t *testing.T, c *cell) {
	t.Helper()
	breakConfig(t, c.Server)
}
