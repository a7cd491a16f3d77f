package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// notes of a matrix, in a folder if it has one: results.json, table.md, and the log of each cell that failed.
type notes struct {
	folder string

	mu      sync.Mutex
	results map[string]*result
}

// A result of a cell.
type result struct {
	// Passed and Failed are how often it did.
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Last is whether it passed the last time.
	Last bool `json:"last"`
	// Senseless says why the cell is none.
	Senseless string `json:"senseless,omitempty"`
	Seconds   int    `json:"seconds,omitempty"`
}

// read what an earlier run noted.
func (n *notes) read(t *testing.T) {
	t.Helper()
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

// passed is true for a cell that did in every run but the one that has begun: a run ends when all have passed as often.
func (n *notes) passed(c *cell) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.results[c.title()]
	return r != nil && r.Last && r.Passed > n.least()
}

// least is how often the cell has passed that did least.
func (n *notes) least() int {
	least := -1
	for _, c := range every() {
		if c.senseless() != "" {
			continue
		}
		passed := 0
		if r := n.results[c.title()]; r != nil {
			passed = r.Passed
		}
		if least < 0 || passed < least {
			least = passed
		}
	}
	return least
}

func (n *notes) senseless(t *testing.T, c *cell, why string) {
	t.Helper()
	n.note(t, c, func(r *result) { *r = result{Senseless: why} })
}

func (n *notes) ended(t *testing.T, c *cell, passed bool, took time.Duration) {
	t.Helper()
	n.note(t, c, func(r *result) {
		r.Last, r.Seconds, r.Senseless = passed, int(took.Seconds()), "" // It may have had no sense when an earlier run noted it.
		if passed {
			r.Passed++
		} else {
			r.Failed++
		}
	})
}

// note a result, and write all of them.
func (n *notes) note(t *testing.T, c *cell, change func(*result)) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.results == nil {
		n.results = map[string]*result{}
	}
	if n.results[c.title()] == nil {
		n.results[c.title()] = &result{}
	}
	change(n.results[c.title()])
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
	if r := n.results[c.title()]; r.Senseless == "" {
		fmt.Fprintf(os.Stderr, "%s  %-9s %s, %d s; %s\n", time.Now().Format(time.TimeOnly), verdict(r), c.title(), r.Seconds, n.counts())
	}
}

func verdict(r *result) string {
	if r.Last {
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
	passed, failed, senseless := 0, 0, 0
	for _, r := range n.results {
		switch {
		case r.Senseless != "":
			senseless++
		case r.Last:
			passed++
		default:
			failed++
		}
	}
	return fmt.Sprintf("cells: %d passed, %d failed, %d not applicable", passed, failed, senseless)
}

// summary has a line for each cell that failed.
func (n *notes) summary() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for name, r := range n.results {
		if r.Senseless == "" && !r.Last {
			lines = append(lines, fmt.Sprintf("FAILED %s, see %s", name, filepath.Join(n.folder, logName(name))))
		}
	}
	slices.Sort(lines)
	return strings.Join(append(lines, n.counts()), "\n")
}

func logName(cell string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(cell) + ".log"
}

// table of all cells: how often each passed, in Markdown.
func (n *notes) table() string {
	var b strings.Builder
	b.WriteString("| |")
	for i := range ways {
		fmt.Fprintf(&b, " %c |", 'A'+i)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(ways)) + "\n")
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f.name)
		for _, w := range ways {
			fmt.Fprintf(&b, " %s |", mark(n.results[(&cell{way: w, fault: f}).title()]))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, w := range ways {
		fmt.Fprintf(&b, "%c: %s\n", 'A'+i, w.name)
	}
	return b.String() + "\n" + n.counts() + "\n"
}

func mark(r *result) string {
	switch {
	case r == nil:
		return ""
	case r.Senseless != "":
		return "–"
	case !r.Last:
		return "FAILED"
	}
	return strconv.Itoa(r.Passed)
}
