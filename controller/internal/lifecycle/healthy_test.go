package lifecycle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestHealthyDeletion checks that a deletion without failures takes the actions that the comment of decideDelete
// lists, in the same order.
func TestHealthyDeletion(t *testing.T) {
	var want []steps.Action
	for _, d := range parsed(t, "delete.go").Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "decideDelete" {
			for _, line := range regexp.MustCompile(`(?m)^\t([A-Z]\w+)`).FindAllStringSubmatch(f.Doc.Text(), -1) {
				want = append(want, steps.Action(line[1]))
			}
		}
	}
	if len(want) == 0 {
		t.Fatal("there is no list above decideDelete")
	}
	if diff := cmp.Diff(want, healthyDeletion(t)); diff != "" {
		t.Errorf("-the list, +what is done:\n%s", diff)
	}
}

// healthyDeletion returns the actions that the controller takes after a user deletes a claim whose server has stored
// a row. Other clients act only while the controller waits.
func healthyDeletion(t *testing.T) []steps.Action {
	t.Helper()
	var out []steps.Action
	w := &walk{world: modelStarts()["delete"].with(func(m *model) { m.creates, m.late = 1, true })}
	for range 1000 {
		before := w.world
		instances, err := w.world.gather()
		if err != nil {
			t.Fatal(err)
		}
		step := Next(instances[0])
		for _, c := range step.Changes {
			w.world.write(c)
		}
		if reason := w.world.check(); reason != "" {
			t.Fatalf("%s after %s", reason, step.Action)
		}
		switch {
		case w.world != before && w.world.deletes == 0:
			out = append(out, step.Action)
		case w.world == before && !w.next():
			return out
		}
	}
	t.Fatalf("it comes to no end: %v", out)
	return nil
}

// next takes one event that Kubernetes, Crossplane, the function or a Job causes. If there is none, it takes an event
// of a user: it creates a claim, writes a row, or deletes the claim. It reports whether there was an event.
func (w *walk) next() bool {
	moves := slices.DeleteFunc(w.world.moves(), func(x move) bool { return x.next == w.world })
	n := slices.IndexFunc(moves, func(x move) bool { return !x.user })
	if n < 0 {
		n = len(moves) - 1 // The event that writes a row is the last one.
	}
	if n >= 0 {
		w.take(moves[n])
	}
	return n >= 0
}

// TestEachActionIsBuilt checks that each action has a builder, except for waiting. Without a builder, the controller
// would repeat the action forever and write nothing.
func TestEachActionIsBuilt(t *testing.T) {
	waits := []steps.Action{steps.NoOp, steps.Wait}
	actions := declaredActions(t, filepath.Join("..", "steps", "step.go"))
	for _, a := range actions {
		if built := builderOf(a) != nil; built == slices.Contains(waits, a) {
			t.Errorf("%s has a builder: %t", a, built)
		}
	}
	if want := len(builders) + len(backup.Builders) + len(catalog.Builders) + len(waits); len(actions) != want {
		t.Errorf("there are %d actions for %d", len(actions), want)
	}
}

// declaredActions returns the constants of type Action in a file.
func declaredActions(t *testing.T, file string) []steps.Action {
	t.Helper()
	var out []steps.Action
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := s.Type.(*ast.Ident); !ok || kind.Name != "Action" {
			return false
		}
		for _, v := range s.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, steps.Action(text))
		}
		return false
	})
	return out
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
