package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// entries are the results of the matrix. If resultDir is set, they are also written to that directory, as results.json,
// table.md, and a log file for each failed case.
type entries struct {
	resultDir string
	// tree is the version of the working tree that is tested, if resultDir is set.
	tree tree

	mu      sync.Mutex
	results map[string]*result
}

// A result is the result of the last run of a case of the matrix.
type result struct {
	tree

	Passed bool `json:"passed"`
	// Senseless is the reason why the case's deletion path and fault cannot be combined.
	Senseless string `json:"senseless,omitempty"`
	Seconds   int    `json:"seconds,omitempty"`
}

// A tree identifies the version of the working tree that was tested.
type tree struct {
	// Digest is the hash of all files that can affect the results. Results with a different digest are outdated.
	Digest string `json:"digest"`
	// Commit is the current commit, for information only.
	Commit string `json:"commit"`
}

// treeNow returns the current version of the working tree. The digest covers the source code of the product, of the
// cluster and its content, and of the matrix.
func treeNow(ctx context.Context) (tree, error) {
	sum := sha256.New()
	files := os.DirFS(framework.Repository())
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == ".cache" || name == "dist"):
			return fs.SkipDir
		case d.IsDir() || !decides(name):
			return nil
		}
		content, err := fs.ReadFile(files, name)
		_, _ = sum.Write(fmt.Appendf(nil, "%s %d\n%s", name, len(content), content)) // Writing to a hash never fails.
		return err
	})
	if err != nil {
		return tree{}, err
	}
	head := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD")
	head.Dir = framework.Repository()
	commit, err := head.Output()
	if err != nil {
		return tree{}, fmt.Errorf("git rev-parse: %w", err)
	}
	return tree{Digest: hex.EncodeToString(sum.Sum(nil))[:12], Commit: strings.TrimSpace(string(commit))}, nil
}

// decides reports whether a change of a file can change the results of the matrix. For example, the kubectl plugin, the
// chart and most tests cannot.
func decides(name string) bool {
	if strings.HasPrefix(name, "controller/kubectl-mysql/") || strings.HasPrefix(name, "package/chart/") ||
		strings.HasPrefix(name, "package/argocd/") {
		return false
	}
	if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
		return strings.HasPrefix(name, "test/e2e/matrix_")
	}
	for _, path := range []string{"Dockerfile", "go.mod", "go.sum", "apis/", "controller/", "fn/", "package/",
		"test/cluster/", "test/images/", "test/install/", "test/e2e/framework/"} {
		if strings.HasPrefix(name, path) {
			return true
		}
	}
	return false
}

// read determines the current version and reads the results of an earlier run.
func (n *entries) read(t *testing.T) {
	t.Helper()
	var err error
	if n.tree, err = treeNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(n.resultDir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(n.resultDir, "results.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(b, &n.results)
	}
	if err != nil {
		t.Fatalf("what an earlier run noted cannot be read, remove it to begin anew: %v", err)
	}
}

// passed reports whether a case has already passed with the current source code, so that it need not run again.
func (n *entries) passed(c *cell) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.results[c.title()]
	return r != nil && r.Passed && r.Digest == n.tree.Digest
}

func (n *entries) senseless(t *testing.T, c *cell, reason string) {
	t.Helper()
	n.entry(t, c, result{Senseless: reason})
}

func (n *entries) ended(t *testing.T, c *cell, passed bool, took time.Duration) {
	t.Helper()
	n.entry(t, c, result{Passed: passed, Seconds: int(took.Seconds())})
}

// entry adds the result of a case, and writes all results to resultDir.
func (n *entries) entry(t *testing.T, c *cell, r result) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.results == nil {
		n.results = map[string]*result{}
	}
	r.tree = n.tree
	n.results[c.title()] = &r
	if n.resultDir == "" {
		return
	}
	b, err := json.MarshalIndent(n.results, "", "  ")
	if err == nil {
		err = n.write("results.json", string(b))
	}
	if err == nil {
		err = n.write("table.md", n.table())
	}
	if err != nil {
		t.Error(err)
	}
	if r.Senseless == "" {
		fmt.Fprintf(os.Stderr, "%s  %-9s %s, %d s; %s\n", time.Now().Format(time.TimeOnly), verdict(&r), c.title(), r.Seconds,
			n.counts())
	}
}

func verdict(r *result) string {
	if r.Passed {
		return "passed"
	}
	return "FAILED"
}

// write replaces a file in resultDir atomically.
func (n *entries) write(name, text string) error {
	path := filepath.Join(n.resultDir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// counts describes the number of cases with each result.
func (n *entries) counts() string {
	passed, older, failed, senseless := 0, 0, 0, 0
	for _, r := range n.results {
		switch {
		case r.Senseless != "":
			senseless++
		case !r.Passed:
			failed++
		case r.Digest == n.tree.Digest:
			passed++
		default:
			older++
		}
	}
	return fmt.Sprintf("cases: %d passed, %d passed with an earlier digest, %d failed, %d not applicable", passed, older,
		failed, senseless)
}

// summary returns a line for each failed case of the matrix, and the number of cases with each result.
func (n *entries) summary() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for name, r := range n.results {
		if r.Senseless == "" && !r.Passed {
			lines = append(lines, fmt.Sprintf("FAILED %s, see %s", name, filepath.Join(n.resultDir, logName(name))))
		}
	}
	slices.Sort(lines)
	return strings.Join(append(lines, n.counts()), "\n")
}

func logName(cell string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(cell) + ".log"
}

// table returns the results of all cases as Markdown.
func (n *entries) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: Results of the matrix\nweight: 40\ndescription: The result of each case of the "+
		"fault-injection matrix.\n---\n\n`make matrix` wrote this page for commit %s. All files that can affect a result "+
		"have the digest %s.\n\n| result | meaning |\n|---|---|\n| passed | The case passed with this digest |\n"+
		"| earlier | The case passed with an earlier digest, and has not run since |\n"+
		"| – | The fault cannot occur in this combination |\n\n", n.tree.Commit, n.tree.Digest)
	b.WriteString("| |")
	for i := range ways {
		fmt.Fprintf(&b, " %c |", 'A'+i)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(ways)) + "\n")
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f.name)
		for _, w := range ways {
			fmt.Fprintf(&b, " %s |", n.mark(n.results[(&cell{way: w, fault: f}).title()]))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, w := range ways {
		fmt.Fprintf(&b, "- %c: %s\n", 'A'+i, w.name)
	}
	return b.String() + "\n" + n.counts() + "\n"
}

func (n *entries) mark(r *result) string {
	switch {
	case r == nil:
		return ""
	case r.Senseless != "":
		return "–"
	case !r.Passed:
		return "FAILED"
	case r.Digest != n.tree.Digest:
		return "earlier"
	}
	return "passed"
}
