// Command english checks the language of the repository's texts with Vale. These are pages, descriptions of API
// fields, the product's messages, and comments. The file limits.txt contains the maximum number of findings for each
// area and rule. These limits may only be lowered.
//
// The argument is the path of Vale. With -list AREA, the command prints the findings in an area. With -update, it
// lowers the limits to the current numbers of findings.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// limitsFile contains a line for each area and rule with the maximum number of findings.
const limitsFile = "test/english/limits.txt"

func main() {
	list := flag.String("list", "", "print the findings of this area: "+strings.Join(areaNames(), ", "))
	update := flag.Bool("update", false, "write the numbers of findings that have become smaller")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, flag.Arg(0), *list, *update); err != nil {
		fmt.Fprintln(os.Stderr, "english:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, vale, list string, update bool) error {
	if vale == "" {
		return errors.New(`no path of Vale: go run ./test/english "$(go run ./test/tools vale)"`)
	}
	texts, err := collect(".")
	if err != nil {
		return err
	}
	found, err := check(ctx, vale, texts)
	if err != nil {
		return err
	}
	if list != "" {
		for _, f := range found {
			if f.area == list {
				if _, err := fmt.Fprintf(out, "%s: %s (%s)\n", f.place, f.message, f.rule); err != nil {
					return err
				}
			}
		}
		return nil
	}
	limits, err := readLimits(limitsFile)
	if err != nil {
		return err
	}
	counts := count(found)
	if update {
		return writeLimits(limitsFile, lower(limits, counts))
	}
	return compare(out, limits, counts)
}

// A key identifies a limit: the maximum number of findings of a rule in an area.
type key struct{ area, rule string }

func count(found []finding) map[key]int {
	out := map[key]int{}
	for _, f := range found {
		out[key{f.area, f.rule}]++
	}
	return out
}

// lower returns limits that are lowered to the current numbers of findings. A limit of 0 is omitted, because it is
// the default.
func lower(limits, counts map[key]int) map[key]int {
	out := map[key]int{}
	for k, most := range limits {
		if n := min(most, counts[k]); n > 0 {
			out[k] = n
		}
	}
	return out
}

// compare prints each number of findings with its limit. It returns an error if a number exceeds its limit.
func compare(out io.Writer, limits, counts map[key]int) error {
	all := maps.Clone(limits)
	for k := range counts {
		all[k] = limits[k]
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var errs []error
	for _, k := range slices.SortedFunc(maps.Keys(all), compareKeys) {
		if _, err := fmt.Fprintf(w, "%d\tof %d\t\x20%s in %s\n", counts[k], limits[k], k.rule, k.area); err != nil {
			return err
		}
		if counts[k] > limits[k] {
			errs = append(errs, fmt.Errorf("%d findings of %s in the %s, and %d are the most: go run ./test/english -list %s "+
				"\"$(go run ./test/tools vale)\" shows them", counts[k], k.rule, k.area, limits[k], k.area))
		}
	}
	return errors.Join(append(errs, w.Flush())...)
}

func compareKeys(a, b key) int {
	if c := strings.Compare(a.area, b.area); c != 0 {
		return c
	}
	return strings.Compare(a.rule, b.rule)
}

func readLimits(path string) (map[key]int, error) {
	b, err := os.ReadFile(path) //nolint:gosec // A file of the repository.
	if err != nil {
		return nil, err
	}
	out := map[key]int{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q is not an area, a rule and a number", path, strings.TrimSpace(line))
		}
		if out[key{f[0], f[1]}], err = strconv.Atoi(f[2]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}

func writeLimits(path string, limits map[key]int) error {
	var b bytes.Buffer
	for _, k := range slices.SortedFunc(maps.Keys(limits), compareKeys) {
		fmt.Fprintf(&b, "%s %s %d\n", k.area, k.rule, limits[k])
	}
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // A file of the repository.
}

// A finding is a violation of a language rule that Vale has found in a text of the repository.
type finding struct {
	area, rule, place, message string
}

// check runs Vale on the texts and returns its findings. It writes the texts of each area to one Markdown file, with
// one paragraph for each text.
func check(ctx context.Context, vale string, texts []text) ([]finding, error) {
	dir, err := os.MkdirTemp("", "english")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // The directory is temporary.
	places := map[string][]string{}
	files := map[string]*bytes.Buffer{}
	for _, t := range texts {
		b, ok := files[t.area]
		if !ok {
			b = &bytes.Buffer{}
			files[t.area] = b
		}
		for i, line := range strings.Split(strings.TrimRight(t.content, "\n"), "\n") {
			fmt.Fprintln(b, line)
			places[t.area] = append(places[t.area], fmt.Sprintf("%s:%d", t.file, t.line+i))
		}
		fmt.Fprintln(b)
		places[t.area] = append(places[t.area], t.file)
	}
	args := []string{"--config", "test/english/vale.ini", "--output=JSON", "--no-exit"}
	for area, b := range files {
		path := filepath.Join(dir, area+".md")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			return nil, err
		}
		args = append(args, path)
	}
	cmd := exec.CommandContext(ctx, vale, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("vale: %w: %s%s", err, stderr.String(), raw)
	}
	return parse(raw, places)
}

// parse parses the output of Vale, which lists the findings in each Markdown file. places contains the original
// location of each line.
func parse(raw []byte, places map[string][]string) ([]finding, error) {
	var all map[string][]struct {
		Check   string `json:"check"`
		Message string `json:"message"`
		Line    int    `json:"line"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("cannot read what Vale says: %w", err)
	}
	var out []finding
	for file, alerts := range all {
		area := strings.TrimSuffix(filepath.Base(file), ".md")
		for _, a := range alerts {
			place := file
			if lines := places[area]; a.Line >= 1 && a.Line <= len(lines) {
				place = lines[a.Line-1]
			}
			out = append(out, finding{area: area, rule: strings.TrimPrefix(a.Check, "Plain."), place: place, message: a.Message})
		}
	}
	slices.SortFunc(out, func(a, b finding) int { return strings.Compare(a.area+a.place, b.area+b.place) })
	return out, nil
}
