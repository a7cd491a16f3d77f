package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestPlugin runs the commands in docs/reference/kubectl-mysql.md with kubectl, which must find the plugin. It takes
// an on-demand backup, clones a claim from it, and connects the MySQL client of a server image through a forwarded
// port.
func TestPlugin(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	s := framework.NewServer(t, framework.ClassComposition)
	rows := s.Begin(t)

	if out := kubectl.run(t, s, "mysql", "list"); !strings.Contains(out, s.Name) || !strings.Contains(out, "true") {
		t.Errorf("the list has no server that is ready: %s", out)
	}
	record := strings.TrimSpace(kubectl.run(t, s, "mysql", "backup", s.Name))
	var summary struct {
		Ready        bool `json:"ready"`
		NewestBackup struct {
			Name string `json:"name"`
		} `json:"newestBackup"`
	}
	framework.Eventually(t, "the backup in the status", func(ctx context.Context) error {
		out, err := kubectl.try(ctx, s, "mysql", "status", s.Name, "--output", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &summary)
		}
		if err != nil {
			return err
		}
		if !summary.Ready || summary.NewestBackup.Name != record {
			return fmt.Errorf("want backup %q of a server that is ready, got %+v", record, summary)
		}
		return nil
	})
	s.Client().MustQuery(t, "DELETE FROM test")
	if out := kubectl.run(t, s, "mysql", "restore", "--from", s.Name, "--to", "copy", "--backup",
		record); !strings.Contains(out, "ready") {
		t.Errorf("the copy is %s", out)
	}
	if out := kubectl.run(t, s, "mysql", "connect", "copy", "--client", kubectl.client, "--", "--batch",
		"--skip-column-names", "--execute="+framework.Rows); out != rows {
		t.Errorf("want the rows\n%s\ngot\n%s", rows, out)
	}
	if out, err := kubectl.try(t.Context(), s, "mysql", "status", "nobody"); err == nil ||
		!strings.Contains(out, `there is no MySQL "nobody" in namespace `+s.Namespace) {
		t.Errorf("of none: %v, %s", err, out)
	}
	if out, err := kubectl.try(t.Context(), s, "mysql", "doctor"); !strings.Contains(out, s.Namespace+"/copy") {
		t.Errorf("the doctor does not know it: %v, %s", err, out)
	}
	another := *s
	another.Claim = framework.NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, "copy")
	another.Name = "copy"
	another.Delete(t)
	s.Delete(t)
}

// A plugin is the kubectl plugin of the product. bin is a directory with the plugin and kubectl, and client is the
// path of a mysql client.
type plugin struct{ bin, client string }

func newPlugin(t *testing.T) *plugin {
	t.Helper()
	dir := t.TempDir()
	p := &plugin{bin: filepath.Join(dir, "bin"), client: filepath.Join(dir, "mysql-client")}
	if err := os.Mkdir(p.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	runGo(t, framework.Repository(), "build", "-o", p.bin+"/kubectl-mysql", "./controller/kubectl-mysql")
	script(t, p.bin+"/kubectl", `exec "`+runGo(t, framework.Repository(), "run", "./test/tools", "kube")+
		`" kubectl "$@"`)
	runGo(t, framework.Repository(), "run", "-C", "test/images", ".", "rootfs", dir+"/root")
	script(t, p.client, fmt.Sprintf(
		`r="%s/root"; exec "$r"/lib*/ld-linux-*.so.* --library-path "$(echo "$r"/usr/lib/*-linux-gnu)" "$r/usr/bin/mysql" "$@"`, dir))
	return p
}

func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// command returns a kubectl command in the server's namespace. The doctor examines all namespaces.
func (p *plugin) command(ctx context.Context, s *framework.Server, args ...string) *exec.Cmd {
	if args[1] != "doctor" {
		args = append([]string{args[0], args[1], "--namespace", s.Namespace}, args[2:]...)
	}
	c := exec.CommandContext(ctx, p.bin+"/kubectl", args...)
	c.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "KUBECONFIG="+framework.Suite.Kubeconfig)
	return c
}

func (p *plugin) try(ctx context.Context, s *framework.Server, args ...string) (string, error) {
	out, err := p.command(ctx, s, args...).CombinedOutput()
	return string(out), err
}

// run runs a kubectl command in the server's namespace, and returns its standard output.
func (p *plugin) run(t *testing.T, s *framework.Server, args ...string) string {
	t.Helper()
	c := p.command(t.Context(), s, args...)
	var progress strings.Builder
	c.Stderr = &progress
	out, err := c.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s%s", strings.Join(args, " "), err, out, progress.String())
	}
	t.Logf("kubectl %s:\n%s%s", strings.Join(args, " "), progress.String(), out)
	return string(out)
}
