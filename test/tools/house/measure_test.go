package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const measured = `package room

// A Door is used by nobody but Open.
type Door struct{ key string }

// Open has two words less than openSlowly.
func Open(d Door) { push(d); openSlowly(d) }

func push(d Door) { d.turn() }

func openSlowly(Door) {}

func (d Door) turn() {}

// Unused by anybody.
const Unused = 1
`

// TestFigures measures a module that is small enough to count its figures by hand.
func TestFigures(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example.org/house\n\ngo 1.26\n",
		"room/a.go":     measured,
		"room/b.go":     "package room\n\nvar opened = Unused\n",
		"hall/hall.go":  "package hall\n\nimport \"example.org/house/room\"\n\nfunc Enter() { room.Open(room.Door{}) }\n",
		"hall/user.go":  "package hall\n\nvar enter = Enter\n",
		"test/other.go": "package test\n\nfunc a() {}\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range m.figures() {
		got[f.text] = f.value
	}
	want := map[string]string{
		"lines without tests": "27",
		"lines a package":     "13",
		"of 3 unexported functions are named by one word": "66%",
		"methods on the largest type":                     "1",
		"pairs of files of one package are tied":          "1",
		"lines of comment for each of code":               "0.21",
		"lines in the longest function":                   "1",
		"exported names that no other package uses":       "2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestNoModule checks that a directory without a module is an error.
func TestNoModule(t *testing.T) {
	for _, figures := range []bool{false, true} {
		if err := run(io.Discard, figures, []string{t.TempDir()}); err == nil {
			t.Errorf("with figures %v: want an error", figures)
		}
	}
}
