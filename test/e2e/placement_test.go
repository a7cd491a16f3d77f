package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// taintOfDatabases is the taint of nodes that are reserved for databases.
const taintOfDatabases = "e2e.crossplane-mysql.io/databases"

// TestScheduling checks that a claim decides on which nodes its server and the Jobs that read its data run. The
// platform must allow the tolerations and priority classes first. If the server must not run on the node of its
// volume, the claim must report that, and the backup must be taken on that node.
func TestScheduling(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	class := &schedulingv1.PriorityClass{Value: 1000}
	class.Name = "e2e-" + s.Namespace
	framework.Make(t, class)
	nodes := namesOfNodes(t)
	s.Spec["scheduling"] = schedulingOn(nodes[1], class.Name)
	s.Create(t)
	s.Refuses(t, "spec.scheduling.tolerations[0].key: Forbidden: "+taintOfDatabases+
		" is not allowed by the platform. Allowed: none")
	s.IsHeld(t)
	framework.Allow(t, "allowedTolerations", taintOfDatabases)
	framework.Allow(t, "allowedPriorityClasses", class.Name)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	rows := s.Client().MustQuery(t, framework.Rows)
	isOn(t, s, s.DataPVC(), nodes[1])
	if p := s.Pods().MustFindServer(t); p.Spec.PriorityClassName != class.Name || !tolerates(p) {
		t.Errorf("want class %s and a toleration of %s, got %q, %v", class.Name, taintOfDatabases, p.Spec.PriorityClassName,
			p.Spec.Tolerations)
	}

	s.Set(t, map[string]any{"scheduling": schedulingOn(nodes[0], class.Name)})
	s.Says(t, "cannot be scheduled")
	s.StartDelete(t)
	if p := s.Pods().WaitFor(t, "backup", func(p *corev1.Pod) bool {
		return p.Spec.NodeName != ""
	}); p.Spec.NodeName != nodes[1] || !tolerates(p) || len(p.Spec.NodeSelector) > 0 {
		t.Errorf("want the Job where the server was, and bound to nothing, got %q, %v, %v", p.Spec.NodeName,
			p.Spec.Tolerations, p.Spec.NodeSelector)
	}
	s.Gone(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Client().SeesRows(t, rows)
	isOn(t, s, s.DataPVC(), nodes[1])
}

// TestTaintedNode checks that a server can run on a node with a taint. All backups, restore tests and restores must
// run on that node, too.
func TestTaintedNode(t *testing.T) {
	framework.Repeats(t, "TestScheduling has what pods tolerate, and this takes a node from all other tests")
	s := framework.NewServer(t, framework.ClassComposition)
	node := namesOfNodes(t)[1]
	framework.Allow(t, "allowedTolerations", taintOfDatabases)
	framework.MustKubectl(t, "taint", "node", node, taintOfDatabases+"=:NoSchedule")
	t.Cleanup(func() {
		if out, err := framework.Kubectl(context.WithoutCancel(t.Context()), "taint", "node", node,
			taintOfDatabases+"-"); err != nil {
			t.Errorf("cannot take the taint from node %s: %v: %s", node, err, out)
		}
	})
	s.Spec["scheduling"] = schedulingOn(node, "")
	s.Spec["backup"] = map[string]any{"finalBackup": map[string]any{"requireRestoreTest": true}}
	rows := s.Begin(t)
	request(t, s, "one", "Online", "Verified")
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	s.Create(t)
	s.Client().SeesRows(t, rows)
	isOn(t, s, s.DataPVC(), node)
}

// schedulingOn returns a spec.scheduling that selects a node and tolerates its taint.
func schedulingOn(node, class string) map[string]any {
	out := map[string]any{
		"nodeSelector": map[string]any{corev1.LabelHostname: node},
		"tolerations":  []any{map[string]any{"key": taintOfDatabases, "operator": "Exists"}},
		"topologySpreadConstraints": []any{map[string]any{"topologyKey": corev1.LabelHostname, "maxSkew": int64(1),
			"whenUnsatisfiable": "ScheduleAnyway"}},
	}
	if class != "" {
		out["priorityClassName"] = class
	}
	return out
}

func tolerates(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == taintOfDatabases })
}

func namesOfNodes(t *testing.T) []string {
	t.Helper()
	all := &corev1.NodeList{}
	if err := framework.Suite.Kube.List(t.Context(), all); err != nil || len(all.Items) < 2 {
		t.Fatalf("want two nodes, got %d, %v", len(all.Items), err)
	}
	return []string{all.Items[0].Name, all.Items[1].Name}
}
