package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

var (
	// savedManifest matches a manifest on a page, and the file name under which the page tells readers to save it.
	savedManifest = regexp.MustCompile("(?s)as `([a-z0-9-]+\\.yaml)`[^\n]*\n\n```yaml\n(.*?)```")
	// shellBlock matches a block of commands on a page.
	shellBlock = regexp.MustCompile("(?s)```shell\n(.*?)```")
)

// TestQuickstart runs the commands of docs/get-started/quickstart.md that follow the installation, with the manifest
// on the page. A row that is written before the deletion must exist after the restore.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWithoutClaim deletes and restores one, and TestReadmeLive types such commands")
	printed := typesPage(t, "quickstart", "\n## Start a server\n", apiVersionOwn, "shop")
	for command, want := range map[string]string{
		"kubectl get mysqlinstance shop": "Running",
		"kubectl get msb":                verified,
		"kubectl exec -i deployment/shop --container mysql -- mysql --defaults-extra-file=/dev/stdin shop --execute " +
			"'SELECT name FROM items' <client.cnf": "first",
	} {
		if got, typed := printed[command]; !typed || !strings.Contains(got, want) {
			t.Errorf("$ %s: want %q in\n%s", command, want, got)
		}
	}
}

// TestFirstHour runs the commands of the tutorials for each API.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWithoutClaim and TestReadmeLive create, delete and restore an instance of each API, and "+
		"TestBackupObjects backs one up")
	for page, tc := range map[string]struct {
		apiVersion string
		instances  []string
	}{
		"with-claims":    {"otus.homework/v1", []string{"orders", "orders-copy"}},
		"without-claims": {apiVersionOwn, []string{"crm", "crm-copy"}},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			printed := typesPage(t, page, "\n## Create ", tc.apiVersion, tc.instances...)
			if got := printed["kubectl get msb"]; !strings.Contains(got, verified) {
				t.Errorf("want a verified backup, got\n%s", got)
			}
		})
	}
}

// typesPage runs the commands on a page of docs/get-started that follow a heading, in the namespace default. The
// current directory contains the manifests that the page tells readers to save. It skips kind commands, because the
// cluster already exists. It returns the last output of each command.
func typesPage(t *testing.T, page, heading, apiVersion string, instances ...string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(framework.Repository(), "docs", "get-started", page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), heading)
	if !found {
		t.Fatalf("%s has no heading %q", page, strings.TrimSpace(heading))
	}
	for _, name := range instances {
		s := &framework.Server{Namespace: "default", Name: name,
			Claim: framework.NewObject(apiVersion, "MySQL", "default", name)}
		t.Cleanup(func() { s.Discard(t) })
	}
	dir := t.TempDir()
	for _, m := range savedManifest.FindAllStringSubmatch(section, -1) {
		if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, printed := newPrompt(t), map[string]string{}
	for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			command := strings.TrimSpace(line)
			if strings.HasPrefix(command, "kind ") {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir, cmd.Env = dir, p.env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("$ %s: %v\n%s", command, err, out)
			}
			printed[command] = string(out)
		}
	}
	return printed
}
