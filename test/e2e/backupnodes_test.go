package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// Each volume of the test cluster belongs to one node, so its two nodes behave like two availability zones.

// TestEmptyBackupVolumeElsewhere checks that the empty backup volume of an instance that never had data does not
// restrict the next instance. The next instance is created on another node, and can be backed up there.
func TestEmptyBackupVolumeElsewhere(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestBackupNodes has who is pulled where, and TestVolumesApart two places")
	s := framework.NewServer(t, framework.ClassComposition)
	nodes := directServers(t, s)
	image := s.Spec["image"]
	s.Spec["image"] = "registry.invalid/mysql:typo"
	direct(t, s, nodes[0])
	s.Create(t)
	s.Says(t, "ErrImagePull")
	s.Delete(t)
	before := isOn(t, s, s.BackupPVC(), nodes[0])

	if s.Spec["image"] = image; image == nil {
		delete(s.Spec, "image")
	}
	direct(t, s, nodes[1])
	rows := s.Begin(t)
	isOn(t, s, s.DataPVC(), nodes[1])
	framework.Eventually(t, "the empty volume to be gone", func(ctx context.Context) error {
		return framework.IsGone(ctx, before.DeepCopy())
	})
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	isOn(t, s, s.BackupPVC(), nodes[1])
	s.Create(t)
	s.Client().SeesRows(t, rows)
}

// TestBackupsPullTheServer checks that an empty server runs on a node that can use the existing backup volume. If it
// cannot run there, the claim reports that before there is any data. An instance that is cloned from another
// instance's backup has its own backups on the node of its data.
func TestBackupsPullTheServer(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestBackupNodes has who is pulled where, and TestVolumesApart two places")
	s := framework.NewServer(t, framework.ClassComposition)
	nodes := directServers(t, s)
	direct(t, s, nodes[1])
	rows := s.Begin(t)
	s.Delete(t)
	isOn(t, s, s.BackupPVC(), nodes[1])
	first := s.Backups().Only(t).GetName()

	direct(t, s, nodes[0])
	s.Spec["restore"] = map[string]any{"policy": "Never"}
	s.Create(t)
	s.Says(t, "The pod must run on nodes that can use the existing backup volume for this name "+
		"(kubernetes.io/hostname In "+nodes[1]+
		"), because otherwise its data could not be backed up")
	direct(t, s, "")
	framework.MustKubectl(t, "delete", "pod", "--namespace", s.Namespace, "--selector", serverPods)
	s.Client().TypeSession(t)
	isOn(t, s, s.DataPVC(), nodes[1])
	s.Delete(t)
	s.Backups().AreVerified(t, 2)

	other := s.Neighbour(t, "neighbour")
	other.Spec["restore"] = map[string]any{"backup": first}
	other.Create(t)
	other.Client().SeesRows(t, rows)
	other.Delete(t)
	other.Backups().AreVerified(t, 1)
	isOn(t, other, other.BackupPVC(), nodes[1])
}

// TestVolumesApart checks a StorageClass with immediate binding that places the two volumes on different nodes. No
// pod can use both volumes, so the claim must report how to fix this, before there is any data.
func TestVolumesApart(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	nodes := directServers(t, s)
	s.Spec["storageClassName"] = "local-immediate"
	volume := reserveBackups(t, s, nodes[1]) // The StorageClass uses the first node.
	s.Create(t)
	s.Says(t, "cannot be scheduled")
	s.Says(t, "If a StorageClass placed the data volume and the backup volume in different zones, "+
		"use one with volumeBindingMode WaitForFirstConsumer")
	isOn(t, s, s.DataPVC(), nodes[0])
	isOn(t, s, s.BackupPVC(), nodes[1])
	if got := s.Backups().MustList(t); len(got) > 0 {
		t.Errorf("want no backup of nothing, got %v", got)
	}
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Annotate(t, skipBackup, string(xr.GetUID()))
	s.Delete(t)
	framework.MustKubectl(t, "patch", "pv", volume, "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
}

const serverPods = "app.kubernetes.io/component=server"

// nodeOfServers is a label of a namespace. Its value is the node on which all servers of the namespace must run.
const nodeOfServers = "e2e.crossplane-mysql.io/node"

// directServers makes all servers of the namespace run on the node in the namespace's label nodeOfServers. This
// simulates a cluster in which no other node has room. It returns the names of all nodes.
func directServers(t *testing.T, s *framework.Server) []string {
	t.Helper()
	nodes := namesOfNodes(t)
	direct(t, s, nodes[0])
	changePods(t, s, `"`+nodeOfServers+
		`" in namespaceObject.metadata.labels && has(object.metadata.labels) && "app.kubernetes.io/component" in object.metadata.labels && object.metadata.labels["app.kubernetes.io/component"] == "server" ? [
		JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"kubernetes.io/hostname": namespaceObject.metadata.labels["`+nodeOfServers+`"]}}
	] : []`, func(p *corev1.Pod) bool { return len(p.Spec.NodeSelector) > 0 })
	return nodes
}

// direct sets the node on which the namespace's servers are created from now on. If the name is empty, they can run on
// any node.
func direct(t *testing.T, s *framework.Server, node string) {
	t.Helper()
	if node == "" {
		framework.MustKubectl(t, "label", "namespace", s.Namespace, nodeOfServers+"-")
		return
	}
	framework.MustKubectl(t, "label", "namespace", s.Namespace, "--overwrite", nodeOfServers+"="+node)
}

// isOn checks that the volume of a PVC is on the given node, and returns the volume.
func isOn(t *testing.T, s *framework.Server, pvc, node string) *corev1.PersistentVolume {
	t.Helper()
	v, err := s.VolumeOf(t.Context(), pvc)
	if err == nil && v == nil {
		err = errors.New("it has none")
	}
	if err != nil {
		t.Fatalf("the volume of %s: %v", pvc, err)
	}
	if got := fmt.Sprint(v.Spec.NodeAffinity); !strings.Contains(got, node) {
		t.Errorf("want the volume of %s on %s, got %s", pvc, node, got)
	}
	return v
}

// reserveBackups creates a volume for the backup PVC on the given node, because the StorageClass would choose the
// node itself.
func reserveBackups(t *testing.T, s *framework.Server, node string) string {
	t.Helper()
	size, _ := s.Spec["storage_size"].(string)
	v := &corev1.PersistentVolume{}
	v.Name = "e2e-" + s.Namespace
	v.Spec = corev1.PersistentVolumeSpec{
		StorageClassName: "local-immediate", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		ClaimRef:    &corev1.ObjectReference{Namespace: s.Namespace, Name: s.BackupPVC()},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}},
	}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + v.Name, Type: new(corev1.HostPathDirectoryOrCreate)}
	framework.Make(t, v)
	return v.Name
}
