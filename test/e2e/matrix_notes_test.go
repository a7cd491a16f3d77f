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

// notes of a matrix, in a folder if it has one: results.json, table.md, and the log of each cell that failed.
type notes struct {
	folder string
	// tree is what runs, where there is a folder.
	tree tree

	mu      sync.Mutex
	results map[string]*result
}

// A result of a cell, the last one.
type result struct {
	tree

	Passed bool `json:"passed"`
	// Senseless says why the cell is none.
	Senseless string `json:"senseless,omitempty"`
	Seconds   int    `json:"seconds,omitempty"`
}

// A tree is what a cell ran with.
type tree struct {
	// Digest of all files that have to do with the result. Only a result of today's is one.
	Digest string `json:"digest"`
	// Commit on which the working tree stands, for people.
	Commit string `json:"commit"`
}

// treeNow is that of the working tree: what the product is built from, what the cluster is and what is put into
// it, and the matrix.
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
		_, _ = sum.Write(fmt.Appendf(nil, "%s %d\n%s", name, len(content), content)) // A hash takes all.
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

// decides is true for a file of which the results may depend. The plugin, the chart and the checks for
// Argo CD take no part.
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

// read what there is now, and what an earlier run noted.
func (n *notes) read(t *testing.T) {
	t.Helper()
	var err error
	if n.tree, err = treeNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(n.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(n.folder, "results.json"))
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

// passed is true for a cell that did with what there is now.
func (n *notes) passed(c *cell) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.results[c.title()]
	return r != nil && r.Passed && r.Digest == n.tree.Digest
}

func (n *notes) senseless(t *testing.T, c *cell, reason string) {
	t.Helper()
	n.note(t, c, result{Senseless: reason})
}

func (n *notes) ended(t *testing.T, c *cell, passed bool, took time.Duration) {
	t.Helper()
	n.note(t, c, result{Passed: passed, Seconds: int(took.Seconds())})
}

// note a result, and write all of them.
func (n *notes) note(t *testing.T, c *cell, r result) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.results == nil {
		n.results = map[string]*result{}
	}
	r.tree = n.tree
	n.results[c.title()] = &r
	if n.folder == "" {
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

// write a file as a whole or not at all.
func (n *notes) write(name, text string) error {
	path := filepath.Join(n.folder, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// counts of the cells.
func (n *notes) counts() string {
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
	return fmt.Sprintf("cells: %d passed, %d passed with an earlier tree, %d failed, %d not applicable", passed, older,
		failed, senseless)
}

// summary has a line for each cell that failed.
func (n *notes) summary() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for name, r := range n.results {
		if r.Senseless == "" && !r.Passed {
			lines = append(lines, fmt.Sprintf("FAILED %s, see %s", name, filepath.Join(n.folder, logName(name))))
		}
	}
	slices.Sort(lines)
	return strings.Join(append(lines, n.counts()), "\n")
}

func logName(cell string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(cell) + ".log"
}

// table of all cells, in Markdown.
func (n *notes) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The matrix\n\nWhat `make matrix` found for commit %s, whose files that matter have the digest "+
		"%s. \"passed\" is with that digest, "+
		"\"earlier\" is a cell that passed with an earlier one and has not run since, and \"–\" has nothing that the "+
		"fault could hit.\n\n", n.tree.Commit, n.tree.Digest)
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

func (n *notes) mark(r *result) string {
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
