package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A prompt is a shell in the root directory of the repository, with kubectl and a kubeconfig.
type prompt struct{ env []string }

func newPrompt(t *testing.T) prompt {
	t.Helper()
	tool := exec.CommandContext(t.Context(), "go", "run", "./test/tools", "kube")
	tool.Dir = framework.Repository()
	path, err := tool.Output()
	if err != nil {
		t.Fatalf("cannot build kubectl: %v", err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", strings.TrimSpace(string(path)))
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return prompt{append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"KUBECONFIG="+framework.Suite.Kubeconfig)}
}

// enter runs a command of a page unchanged in a shell, and checks that its output contains want.
func (p prompt) enter(t *testing.T, command, want string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir, cmd.Env = framework.Repository(), p.env
	out, err := cmd.CombinedOutput()
	// The doctor exits with 1 if another test is currently causing a problem.
	if exit := cmd.ProcessState.ExitCode(); err != nil &&
		(exit != 1 || command != "go run ./controller/kubectl-mysql doctor") {
		t.Fatalf("$ %s: %v\n%s", command, err, out)
	}
	if !strings.Contains(string(out), want) {
		t.Errorf("$ %s: want %q in\n%s", command, want, out)
	}
}

// TestReadmeInstall runs the install commands in README.md. No other test can use the cluster at the same time.
// Nothing changes, because everything is already installed and the packages are applied only as a dry run.
func TestReadmeInstall(t *testing.T) {
	p := newPrompt(t)
	for command, want := range map[string]string{
		"make install": "deployment.apps/crossplane-mysql serverside-applied",
		"kubectl apply --server-side -k controller/deploy/records": "backuprecords.crossplane-mysql.io " +
			"serverside-applied",
		"kubectl apply --server-side -k controller/deploy/controller": "deployment.apps/crossplane-mysql " +
			"serverside-applied",
		"kubectl wait --for=condition=Established crd/platforms.crossplane-mysql.io": "condition met",
		"kubectl apply --server-side -k controller/deploy/platform": "platform.crossplane-mysql.io/crossplane-mysql " +
			"serverside-applied",
	} {
		p.enter(t, command, want)
	}
	p.enter(t, "kubectl apply --server-side --force-conflicts -f package/install.yaml"+" --dry-run=server",
		"crossplane-mysql-configuration-mysql serverside-applied")
}

// TestReadmeLive runs the commands in the section "Session on a local cluster" of README.md unchanged, and the
// commands that inspect the cluster. The test suite itself runs the commands that boot and delete the cluster.
func TestReadmeLive(t *testing.T) {
	t.Parallel()
	p, s := newPrompt(t), inDefault(t)
	applied := 0
	for _, command := range live(t) {
		switch words := strings.Fields(command); words[1] {
		case "apply":
			applied++
			p.enter(t, command, "mysql.otus.homework/"+s.Name)
		case "wait":
			p.enter(t, command, "condition met")
			s.BecomesReady(t)
		case "delete":
			p.enter(t, command, fmt.Sprintf("%q deleted", s.Name))
			if err := framework.IsGone(t.Context(), s.Claim); err != nil {
				t.Errorf("kubectl delete has returned: %v", err)
			}
		default:
			p.enter(t, command, verified)
		}
	}
	if applied != 2 {
		t.Errorf("want the claim applied twice, it was %d times", applied)
	}
	s.Says(t, "Restoring DB have succeed")
	for command, want := range map[string]string{
		"kubectl explain mysql.spec":                           "storage_size",
		"kubectl explain platform.spec":                        "allowedImages",
		"kubectl get platform":                                 "crossplane-mysql",
		"kubectl get mysql":                                    s.Name,
		"kubectl get db":                                       "",
		"kubectl get msb":                                      verified,
		"kubectl get msb --output wide":                        "VERSION",
		"kubectl get msbr":                                     s.Name,
		"kubectl get msbr --output wide":                       "MESSAGE",
		"kubectl describe msbr":                                framework.PhaseVerified,
		"kubectl get pv -l app.kubernetes.io/component=backup": "Retain",
		"go run ./controller/kubectl-mysql doctor":             " default/" + s.Name + " ",
		"kubectl logs deployment/" + s.Name:                    "ready for connections",
		"kubectl get functions":                                "crossplane-mysql-function-mysql",
	} {
		p.enter(t, command, want)
	}
}

// inDefault returns the server of examples/original-claim in the namespace default. If an earlier run has left a
// backup, the backup is restored.
func inDefault(t *testing.T) *framework.Server {
	t.Helper()
	claim := framework.ReadObjects(t, "examples/original-claim/claim.yaml", "default")[0]
	s := &framework.Server{Namespace: "default", Name: claim.GetName(), Claim: claim}
	if err := framework.IsGone(t.Context(), claim.DeepCopy()); err != nil {
		t.Fatalf("namespace default has a MySQL %s, which this must not touch: %v", s.Name, err)
	}
	t.Cleanup(func() { s.Discard(t) })
	return s
}

// live returns the kubectl commands in README.md that follow the commands that boot a cluster and set its kubeconfig.
func live(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(framework.Repository(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n### Session on a local cluster\n\n```shell\n")
	section, _, _ = strings.Cut(section, "```")
	if own := framework.Suite.Own; own != nil &&
		!strings.Contains(section, strings.Replace(own.Kubeconfig,
			framework.Repository()+"/.cache/cluster/"+framework.ClusterName, "$PWD/.cache/cluster/dev", 1)) {
		t.Errorf("the kubeconfig is %s, which README.md does not say in\n%s", own.Kubeconfig, section)
	}
	all := regexp.MustCompile(`(?m)^kubectl .*$`).FindAllString(section, -1)
	for i, c := range all {
		command, _, _ := strings.Cut(c, " #")
		all[i] = strings.TrimSpace(command)
	}
	return all
}

// replaceClaim replaces the claim with an identical one with `kubectl replace --force`.
func replaceClaim(t *testing.T, s *framework.Server) {
	t.Helper()
	object := framework.NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, s.Name)
	object.Object["spec"] = s.Spec
	b, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "claim.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := framework.Kubectl(t.Context(), "replace", "--force", "--filename", file); err != nil {
		t.Fatalf("kubectl replace --force: %v: %s", err, out)
	}
	s.Claim = object
}
