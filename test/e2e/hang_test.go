package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// hangServer stops the server with SIGSTOP, so that it hangs as if its disk did not respond. The signal is sent from
// the node, because mysqld is PID 1 in its container. The returned function kills the server with SIGKILL.
func hangServer(t *testing.T, s *framework.Server) (kill func(*testing.T)) {
	t.Helper()
	p := s.Pods().WaitFor(t, "server", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	nodePod(t, s.Namespace, "node", p.Spec.NodeName)
	uid := strings.ReplaceAll(string(p.UID), "-", "[-_]") // Cgroup names contain one of these characters.
	var servers []string
	for file := range strings.Lines(execOnNode(t, s, `grep -ls "$0" /proc/[0-9]*/cgroup; exit 0`, uid)) {
		pid := strings.Split(file, "/")[2]
		if execOnNode(t, s, `cat "/proc/$0/comm"`, pid) == "mysqld\n" {
			servers = append(servers, pid)
		}
	}
	if len(servers) != 1 {
		t.Fatalf("want one server in pod %s, found %v", p.Name, servers)
	}
	execOnNode(t, s, `kill -STOP "$0"`, servers[0])
	return func(t *testing.T) { t.Helper(); execOnNode(t, s, `kill -KILL "$0"`, servers[0]) }
}

// execOnNode runs a shell command in a pod that sees the processes of the node.
func execOnNode(t *testing.T, s *framework.Server, line, argument string) string {
	t.Helper()
	out, err := framework.Exec(t.Context(), s.Namespace, "node", "", "sh", "-c", line, argument)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nodePod starts a pod that sees the processes of a node.
func nodePod(t *testing.T, namespace, name, node string) {
	t.Helper()
	framework.StartPod(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node,
			HostPID:  true,
			Containers: []corev1.Container{{
				Name: "toolbox", Image: framework.Toolbox, Command: []string{"sleep", "3600"},
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))},
			}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	})
}
