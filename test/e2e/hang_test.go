package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hang the server, as a disk that does not answer would: SIGSTOP from its node, where it is not the first process. What
// it returns ends it with SIGKILL.
func (s *server) hang(t *testing.T) (kill func(*testing.T)) {
	t.Helper()
	p := s.pods(t, "server", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	nodePod(t, s.namespace, "node", p.Spec.NodeName)
	uid := strings.ReplaceAll(string(p.UID), "-", "[-_]") // Names of cgroups have either.
	var servers []string
	for file := range strings.Lines(s.onNode(t, `grep -ls "$0" /proc/[0-9]*/cgroup; exit 0`, uid)) {
		pid := strings.Split(file, "/")[2]
		if s.onNode(t, `cat "/proc/$0/comm"`, pid) == "mysqld\n" {
			servers = append(servers, pid)
		}
	}
	if len(servers) != 1 {
		t.Fatalf("want one server in pod %s, found %v", p.Name, servers)
	}
	s.onNode(t, `kill -STOP "$0"`, servers[0])
	return func(t *testing.T) { t.Helper(); s.onNode(t, `kill -KILL "$0"`, servers[0]) }
}

// onNode runs a line of shell where the node's processes are seen.
func (s *server) onNode(t *testing.T, line, argument string) string {
	t.Helper()
	out, err := in(t.Context(), s.namespace, "node", "", "sh", "-c", line, argument)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nodePod sees the processes of a node.
func nodePod(t *testing.T, namespace, name, node string) {
	t.Helper()
	startPod(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node,
			HostPID:  true,
			Containers: []corev1.Container{{
				Name: "toolbox", Image: toolbox, Command: []string{"sleep", "3600"},
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))},
			}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	})
}
