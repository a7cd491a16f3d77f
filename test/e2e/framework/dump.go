package framework

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Dump records the state and the logs of a server after a failed test. The reports are printed after all tests, so
// that the failures themselves are easy to read.
func (s *Server) Dump(ctx context.Context, t *testing.T) {
	t.Helper()
	report := fmt.Sprintf("what there was when %s failed (%s/%s):\n%s", t.Name(), s.Namespace, s.Name, s.Look(ctx))
	looks.Lock()
	defer looks.Unlock()
	looks.all = append(looks.all, report)
}

// looks contains the reports about the servers of failed tests.
var looks struct {
	sync.Mutex

	all []string
}

// printLooks prints the reports about the servers of failed tests, after all tests have finished or were interrupted.
func printLooks() {
	looks.Lock()
	defer looks.Unlock()
	for _, l := range looks.all {
		fmt.Println(l)
	}
}

// Look returns the state of the server's objects and the relevant logs.
func (s *Server) Look(ctx context.Context) string {
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "mysql,pvc,job,pod,deployment,events", "--namespace", s.Namespace, "--output", "wide"},
		{"get", "mysql", s.Name, "--namespace", s.Namespace, "--output", "yaml"},
		{"get", "xmysql,backuprecord,pv", "--output", "wide"},
		{"get", "xmysql", "--selector", "crossplane.io/claim-namespace=" + s.Namespace, "--output", "yaml"},
		{"logs", "--namespace", s.Namespace, "--selector", "app.kubernetes.io/component", "--all-containers", "--prefix",
			"--ignore-errors", "--tail", "40"},
		{"logs", "--namespace", "crossplane-mysql-system", "deployment/crossplane-mysql", "--tail", "60"},
	} {
		out, err := Kubectl(ctx, args...)
		fmt.Fprintf(&b, "kubectl %s (%v)\n%s\n", strings.Join(args, " "), err, out)
	}
	return b.String()
}
