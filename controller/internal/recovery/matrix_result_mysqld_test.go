//go:build mysqld

package recovery_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A result is the stored result of one cell of the recovery matrix.
type result struct {
	// Digest is the hash of all code that can affect the result, without comments. Commit and Store are for information.
	Digest string `json:"digest"`
	Commit string `json:"commit"`
	Store  string `json:"store"`
	// Runs is the number of consecutive runs that have passed with this digest.
	Runs int `json:"runs"`
	// Seed is the seed of the last run. Seconds is its duration.
	Seed    uint64 `json:"seed"`
	Seconds int    `json:"seconds"`
	// Missing is true if the last history had no target of this kind.
	Missing bool `json:"missing,omitempty"`
}

// results are the results of all cells. They are written to a directory after each cell.
type results struct {
	dir            string
	digest, commit string
	runs           int
	all            map[string]*result
}

// decisive lists the packages whose code can affect the results of the recovery matrix.
var decisive = []string{"binlog", "logarchive", "recovery", "store", "stores"}

func newResults(t *testing.T) *results {
	t.Helper()
	r := &results{dir: os.Getenv(variable), runs: 1, all: map[string]*result{}}
	if n, err := strconv.Atoi(os.Getenv("RUNS")); err == nil {
		r.runs = n
	}
	sum := sha256.New()
	for _, dir := range decisive {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		must(t, err)
		slices.Sort(files)
		for _, name := range files {
			isTest := strings.HasSuffix(name, "_test.go")
			if isTest && !strings.HasPrefix(filepath.Base(name), "matrix_") {
				continue
			}
			raw, err := os.ReadFile(name) //nolint:gosec // A file of this repository.
			must(t, err)
			_, _ = fmt.Fprintf(sum, "%s\n%s\n", name, codeOf(raw))
		}
	}
	r.digest = hex.EncodeToString(sum.Sum(nil))[:12]
	if out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		r.commit = strings.TrimSpace(string(out))
	}
	if r.dir == "" {
		return r
	}
	raw, err := os.ReadFile(filepath.Join(r.dir, "recovery.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	must(t, err)
	must(t, json.Unmarshal(raw, &r.all))
	return r
}

// codeOf returns the tokens of a Go file without comments, which cannot affect the results.
func codeOf(raw []byte) []byte {
	files := token.NewFileSet()
	var in scanner.Scanner
	in.Init(files.AddFile("", files.Base(), len(raw)), raw, nil, 0)
	var out []byte
	for {
		_, kind, text := in.Scan()
		if kind == token.EOF {
			return out
		}
		out = append(append(out, cmp.Or(text, kind.String())...), ' ')
	}
}

// hasPassed reports whether the cell has already passed often enough with the same code, and is skipped.
func (r *results) hasPassed(c cell) bool {
	one := r.all[c.title()]
	return one != nil && one.Digest == r.digest && (one.Runs >= r.runs || one.Missing)
}

// skip stores that the history of a cell had no target of this kind.
func (r *results) skip(t *testing.T, c cell) {
	t.Helper()
	if r != nil {
		r.write(t, c, result{Missing: true})
	}
}

// note stores whether a cell has passed, and counts its consecutive passed runs.
func (r *results) note(t *testing.T, c cell, hasPassed bool, seed uint64, took time.Duration) {
	t.Helper()
	if r == nil {
		return
	}
	next := result{Seed: seed, Seconds: int(took.Seconds() + 0.5)}
	if previous := r.all[c.title()]; previous != nil && previous.Digest == r.digest {
		next.Runs = previous.Runs
	}
	next.Runs++
	if !hasPassed {
		next.Runs = 0
	}
	r.write(t, c, next)
}

func (r *results) write(t *testing.T, c cell, next result) {
	t.Helper()
	next.Digest, next.Commit, next.Store = r.digest, r.commit, storeServer
	r.all[c.title()] = &next
	verdict := "passed"
	switch {
	case next.Missing:
		verdict = "no such target"
	case next.Runs == 0:
		verdict = "FAILED"
	}
	fmt.Fprintf(os.Stderr, "%s  %-7s %s, %d s\n", time.Now().Format(time.TimeOnly), verdict, c.title(), next.Seconds)
	if r.dir == "" {
		return
	}
	raw, err := json.MarshalIndent(r.all, "", "  ")
	must(t, err)
	for name, text := range map[string]string{"recovery.json": string(raw) + "\n", "recovery-table.md": r.table()} {
		path := filepath.Join(r.dir, name)
		must(t, os.WriteFile(path+".new", []byte(text), 0o644)) //nolint:gosec // It is published.
		must(t, os.Rename(path+".new", path))
	}
}

// counts describes the number of cells with each result.
func (r *results) counts() string {
	passed, twice, older, failed, missing := 0, 0, 0, 0, 0
	for _, one := range r.all {
		switch {
		case one.Missing:
			missing++
		case one.Runs == 0:
			failed++
		case one.Digest != r.digest:
			older++
		default:
			passed++
			if one.Runs > 1 {
				twice++
			}
		}
	}
	return fmt.Sprintf("%d cases passed, %d of them at least twice. %d passed with an earlier version of the code, %d failed, "+
		"and %d had no such target.", passed, twice, older, failed, missing)
}

// table returns the results as Markdown: a row for each fault, and a column for each destination.
func (r *results) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: Results of the recovery matrix\nweight: 45\ndescription: The number of "+
		"recoveries that passed for each fault, destination and target.\n---\n\n"+
		"Results of `make recovery-matrix` for commit %s, whose relevant files have the digest "+
		"%s. A cell contains the number of targets that passed, and the number of targets that were tried. "+
		"An empty cell was not run yet.\n\n", r.commit, r.digest)
	b.WriteString("| fault | " + strings.Join(placeNames, " | ") + " |\n|---|" + strings.Repeat("---|", len(placeNames)) + "\n")
	for i := range faults {
		fmt.Fprintf(&b, "| %s |", faults[i].name)
		for place := range placeNames {
			b.WriteString(" " + r.mark(faults[i].name, place) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| target | passed |\n|---|---|\n")
	for i := range kinds {
		passed, tried := 0, 0
		for title, one := range r.all {
			if strings.HasSuffix(title, " / "+kinds[i].name) && !one.Missing {
				tried++
				passed += min(one.Runs, 1)
			}
		}
		fmt.Fprintf(&b, "| %s | %d of %d |\n", kinds[i].name, passed, tried)
	}
	return b.String() + "\n" + r.counts() + "\n"
}

func (r *results) mark(name string, place int) string {
	passed, tried, older := 0, 0, 0
	for title, one := range r.all {
		if !strings.HasPrefix(title, name+" / "+placeNames[place]+" / ") || one.Missing {
			continue
		}
		tried++
		passed += min(one.Runs, 1)
		if one.Digest != r.digest {
			older++
		}
	}
	text := fmt.Sprintf("%d of %d", passed, tried)
	switch {
	case tried == 0:
		return ""
	case passed < tried:
		text = "FAILED: " + text
	case older > 0:
		text += fmt.Sprintf(", %d with an earlier version", older)
	}
	return text
}
