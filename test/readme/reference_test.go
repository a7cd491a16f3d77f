package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	pageConditions = "docs/reference/conditions.md"
	pageLabels     = "docs/reference/labels.md"
)

// A set is a set of names, such as the names of conditions on a page.
type set map[string]bool

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// A constant is a string constant in a Go package of the product.
type constant struct {
	name, typ, value string
	// group is the comment above the block of constants that contains it.
	group string
}

// constants returns all string constants of the package in a directory. It evaluates concatenated constants.
func constants(t *testing.T, dir string) []constant {
	t.Helper()
	var out []constant
	values := map[string]string{}
	exprs := map[string]ast.Expr{}
	for _, file := range parsed(t, dir) {
		for _, decl := range file.Decls {
			block, ok := decl.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, spec := range block.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
					continue
				}
				c := constant{name: v.Names[0].Name, group: block.Doc.Text()}
				if typ, ok := v.Type.(*ast.Ident); ok {
					c.typ = typ.Name
				}
				out, exprs[c.name] = append(out, c), v.Values[0]
			}
		}
	}
	for i := range out {
		out[i].value = evaluate(exprs[out[i].name], exprs, values)
	}
	return slices.DeleteFunc(out, func(c constant) bool { return c.value == "" })
}

// evaluate returns the value of a concatenation of strings, or "" for any other expression.
func evaluate(e ast.Expr, exprs map[string]ast.Expr, values map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil || e.Kind != token.STRING {
			return ""
		}
		return text
	case *ast.Ident:
		if _, known := values[e.Name]; !known {
			values[e.Name] = evaluate(exprs[e.Name], exprs, values)
		}
		return values[e.Name]
	case *ast.BinaryExpr:
		return evaluate(e.X, exprs, values) + evaluate(e.Y, exprs, values)
	}
	return ""
}

func parsed(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository, dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no Go files: %v", dir, err)
	}
	var out []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	return out
}

// A row is a row of a table on a page. cells maps the header of each column to the code spans in the row's cell.
// chapter and section are the headings above the table.
type row struct {
	chapter, section string
	cells            map[string][]string
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// rows returns the rows of all tables on a page.
func rows(page string) []row {
	var out []row
	var chapter, section string
	var heads []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			chapter, section = line[3:], ""
		case strings.HasPrefix(line, "### "):
			section = line[4:]
		case !strings.HasPrefix(line, "|"):
			heads = nil
		case heads == nil:
			heads = cellsOf(line)
		case !strings.HasPrefix(line, "|---"):
			r := row{chapter, section, map[string][]string{}}
			for i, cell := range cellsOf(line) {
				for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
					r.cells[heads[i]] = append(r.cells[heads[i]], m[1])
				}
			}
			out = append(out, r)
		}
	}
	return out
}

func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// reasonsOf matches the comment above the constants for a condition's reasons, and finds the name of the condition.
var reasonsOf = regexp.MustCompile(`^Reasons of (Condition\w+)`)

// TestConditionsAreDocumented checks that the page lists exactly the condition types, reasons, event reasons and
// deletion phases in the Go constants. Each reason must be listed below its condition.
func TestConditionsAreDocumented(t *testing.T) {
	want := declaredStates(t)
	if len(want.types) < 10 || len(want.reasons) < 50 || len(want.events) < 50 || len(want.phases) < 7 ||
		len(want.pairs) < 50 {
		t.Fatalf("too few constants were read: %+v", want)
	}
	got := documentedStates(file(t, pageConditions), want)
	for what, both := range map[string][2]set{"condition types": {want.types, got.types},
		"reasons": {want.reasons, got.reasons}, "event reasons": {want.events, got.events},
		"phases of a deletion": {want.phases, got.phases}} {
		if diff := cmp.Diff(both[0].sorted(), both[1].sorted()); diff != "" {
			t.Errorf("%s has other %s than the code. -code, +page:\n%s", pageConditions, what, diff)
		}
	}
	for pair := range want.pairs {
		if !got.pairs[pair] {
			t.Errorf("%s has no row for the reason %s", pageConditions, pair)
		}
	}
}

// A states contains the condition types, reasons, event reasons and deletion phases of the API.
type states struct {
	types, reasons, events, phases set
	// pairs contains pairs of a condition and a reason.
	pairs set
}

func newStates() states { return states{set{}, set{}, set{}, set{}, set{}} }

// declaredStates returns the states that the Go constants declare.
func declaredStates(t *testing.T) states {
	t.Helper()
	out, byName, all := newStates(), map[string]string{}, constants(t, "apis/v1")
	for _, name := range []string{"Ready", "Synced"} { // Crossplane's own conditions.
		out.types[name] = true
	}
	for _, c := range all {
		byName[c.name] = c.value
	}
	for _, c := range all {
		switch {
		case strings.HasPrefix(c.name, "Condition"):
			out.types[c.value] = true
		case c.typ == "DeletionPhase":
			out.phases[c.value] = true
		case c.typ == "EventReason":
			out.events[c.value] = true
		case strings.HasPrefix(c.name, "Reason"):
			out.reasons[c.value] = true
			if m := reasonsOf.FindStringSubmatch(c.group); m != nil {
				out.pairs[byName[m[1]]+": "+c.value] = true
			}
		}
	}
	for _, c := range constants(t, "controller/internal/store") {
		if c.typ == "Kind" {
			out.reasons[c.value] = true
			out.pairs["Reachable: "+c.value] = true
		}
	}
	for _, name := range functionEvents(t) {
		out.events[byName[name]] = true
	}
	return out
}

// documentedStates returns the states in the tables of a page. The page also has a table of the events that
// Crossplane sends for the function. The reason of such an event is the reason of a condition, so it is not an event
// reason of the API.
func documentedStates(page string, declared states) states {
	out := newStates()
	for _, r := range rows(page) {
		if r.chapter == "Events" {
			for _, name := range r.cells["reason"] {
				if r.section != "Events of the function" || !declared.reasons[name] || declared.events[name] {
					out.events[name] = true
				}
			}
			continue
		}
		for _, name := range r.cells["type"] {
			out.types[name] = true
		}
		for _, name := range r.cells["phase"] {
			out.phases[name] = true
		}
		for _, name := range r.cells["word"] {
			if !declared.types[name] {
				out.reasons[name] = true
			}
		}
		for _, name := range r.cells["reason"] {
			out.reasons[name] = true
			for _, condition := range conditionsAbove(r) {
				out.pairs[condition+": "+name] = true
			}
		}
	}
	return out
}

// conditionsAbove returns the conditions to which a row belongs: the conditions in the row, or else the heading above
// it.
func conditionsAbove(r row) []string {
	if types := r.cells["type"]; types != nil {
		return types
	}
	return []string{r.section}
}

// functionEvents returns the names of the constants that FunctionEvents returns.
func functionEvents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, file := range parsed(t, "apis/v1") {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Name.Name != "FunctionEvents" {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, "Reason") {
					out = append(out, id.Name)
				}
				return true
			})
		}
	}
	if len(out) == 0 {
		t.Fatal("FunctionEvents was not found")
	}
	return out
}

// placeholder is appended to a constant that is only a prefix of a key, because the documentation has a placeholder
// in this place.
const placeholder = "RECORD"

// TestLabelsAreDocumented checks that the page lists exactly the labels, annotations and finalizers in the Go
// constants and the Compositions, and the components.
func TestLabelsAreDocumented(t *testing.T) {
	want := map[string]set{"label": {}, "annotation": {}, "finalizer": {}, "component": {}}
	for _, c := range constants(t, "apis/v1") {
		switch {
		case strings.HasPrefix(c.name, "Label"):
			want["label"][c.value] = true
		case strings.HasPrefix(c.name, "Annotation"):
			if strings.HasSuffix(c.value, "/") {
				c.value += placeholder
			}
			want["annotation"][c.value] = true
		case c.name == "Finalizer":
			want["finalizer"][c.value] = true
		case strings.HasPrefix(c.name, "Component"):
			want["component"][c.value] = true
		}
	}
	for _, label := range labelsOfCompositions(t) {
		want["label"][label] = true
	}
	if len(want["label"]) < 9 || len(want["annotation"]) < 40 || len(want["component"]) < 9 {
		t.Fatalf("only %d labels, %d annotations and %d components were read", len(want["label"]), len(want["annotation"]),
			len(want["component"]))
	}
	got := map[string]set{"label": {}, "annotation": {}, "finalizer": {}, "component": {}}
	for _, r := range rows(file(t, pageLabels)) {
		for head, names := range r.cells {
			if strings.HasPrefix(head, "value of `app.kubernetes.io/component`") {
				head = "component"
			}
			for _, name := range names {
				if got[head] != nil {
					got[head][name] = true
				}
			}
		}
	}
	for what := range want {
		if diff := cmp.Diff(want[what].sorted(), got[what].sorted()); diff != "" {
			t.Errorf("%s has other keys in its %s column than the code. -code, +page:\n%s", pageLabels, what, diff)
		}
	}
}

func labelsOfCompositions(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(repository, "apis"), func(path string, _ fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || !strings.HasPrefix(name, "composition-") || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		var object struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		}
		err = yaml.Unmarshal([]byte(file(t, filepath.Join("apis", name))), &object)
		out = append(out, slices.Collect(maps.Keys(object.Metadata.Labels))...)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("the Compositions have no labels: %v", err)
	}
	return out
}
