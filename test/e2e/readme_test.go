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

// A prompt is a shell at the top of the repository, with kubectl and the cluster at hand.
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

// enter a command as it stands, and want a text in what it prints.
func (p prompt) enter(t *testing.T, command, want string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir, cmd.Env = framework.Repository(), p.env
	out, err := cmd.CombinedOutput()
	// The doctor ends with 1 when another test has something wrong just now.
	if exit := cmd.ProcessState.ExitCode(); err != nil &&
		(exit != 1 || command != "go run ./controller/kubectl-mysql doctor") {
		t.Fatalf("$ %s: %v\n%s", command, err, out)
	}
	if !strings.Contains(string(out), want) {
		t.Errorf("$ %s: want %q in\n%s", command, want, out)
	}
}

// TestReadmeInstall types what README.md says of installing. It shares the cluster with no other test, and changes
// nothing: all of it is there, and the packages would be other revisions of themselves.
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

// TestReadmeLive types the commands of README.md's section "Session on a local cluster", as they stand, and those that
// look at what there is.
// Booting and ending the cluster is typed where the tests begin and end.
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
		"kubectl explain mysql.spec":    "storage_size",
		"kubectl explain platform.spec": "allowedImages",
		"kubectl get platform":          "crossplane-mysql",
		"kubectl get mysql":             s.Name,
		"kubectl get db":                "",
		"kubectl get msb":               verified,
		"kubectl get msbr":              s.Name,
		"kubectl describe msbr":         framework.PhaseProven,
		"kubectl get pv -l app.kubernetes.io/component=backup": "Retain",
		"go run ./controller/kubectl-mysql doctor":             " default/" + s.Name + " ",
	} {
		p.enter(t, command, want)
	}
}

// inDefault is the original claim's server in its own namespace. What an earlier run has backed up is restored.
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

// live commands of kubectl in README.md, after those that boot a cluster and name its kubeconfig.
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

// replaceClaim by one that is the same.
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
