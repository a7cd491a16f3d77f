package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimits exceeds each limit separately, without exceeding any other limit.
func TestLimits(t *testing.T) {
	good := "package room\n\n// openDoor opens it.\nfunc openDoor() { closeDoor() }\n\nfunc closeDoor() {}\n"
	manyNames := &strings.Builder{}
	for i := range 300 {
		fmt.Fprintf(manyNames, "var name%d int\n", i)
	}
	functions := func(n int, format string) string {
		out := &strings.Builder{}
		for i := range n {
			fmt.Fprintf(out, format, i)
		}
		return out.String()
	}
	cases := map[string]struct {
		reason string
		files  map[string]string
		broken string
		place  string
	}{
		"Fine": {reason: "It keeps all.", files: map[string]string{"room/a.go": good}},
		"Vague": {reason: "One is too many, in tests as well.", broken: "names no thing", place: "room/a_test.go:3:5: of",
			files: map[string]string{"room/a_test.go": "package room\n\nvar of int\n"}},
		"VagueField": {reason: "A field is a name.", broken: "names no thing", place: "room/b.go:3:17: at",
			files: map[string]string{"room/b.go": "package room\n\ntype T struct { at int }\n"}},
		"VagueParameter": {reason: "A parameter of a method of an interface is one.", broken: "names no thing",
			place: ": said",
			files: map[string]string{"room/b.go": "package room\n\ntype T interface{ Do(said int) }\n"}},
		"VagueMethod": {reason: "A method of an interface is none.", files: map[string]string{
			"room/b.go": "package room\n\ntype T interface{ to() }\n"}},
		"Words": {reason: "Two of 302 are 0.66 %.", broken: "question word", place: "room/b.go:3:5: why",
			files: map[string]string{"room/b.go": "package room\n\nvar why, into int\n" + manyNames.String()}},
		"FewWords": {reason: "One of 301 is 0.33 %.", files: map[string]string{
			"room/b.go": "package room\n\nvar why int\n" + manyNames.String()}},
		"Long": {reason: "141 characters.", broken: "over 140 characters", place: "room/b.go:3",
			files: map[string]string{"room/b.go": "package room\n\n// " + strings.Repeat("é", 138) + "\n" +
				strings.Repeat("\n", 100)}},
		"LongRaw": {reason: "A raw string has no place to break.", files: map[string]string{
			"room/b.go": "package room\n\nvar x = `" + strings.Repeat("x", 140) + "`\n" + strings.Repeat("\n", 100)}},
		"LongMarker": {reason: "A marker is one line.", files: map[string]string{
			"room/b.go": "package room\n\n// +" + strings.Repeat("x", 140) + "\n" + strings.Repeat("\n", 100)}},
		"Wide": {reason: "One of 15 lines is over 120 characters.", broken: "over 120 characters", place: "room/b.go:3",
			files: map[string]string{"room/b.go": "package room\n\n// " + strings.Repeat("x", 118) + "\n"}},
		"Function": {reason: "61 lines.", broken: "longest function", place: "room/b.go:3:1: openSlowly",
			files: map[string]string{"room/b.go": "package room\n\nfunc openSlowly() {\n" +
				strings.Repeat("\tcloseDoor()\n", 61) + "}\n"}},
		"TestFunction": {reason: "Tests have long tables.", files: map[string]string{
			"room/b_test.go": "package room\n\nfunc openSlowly() {\n" + strings.Repeat("\tcloseDoor()\n", 61) + "}\n"}},
		"Package": {reason: "6,001 lines in one, while the median is small.", broken: "largest package", place: "hall 60",
			files: map[string]string{"hall/b.go": "package hall\n" + strings.Repeat("\n", 6000),
				"attic/a.go": "package attic\n"}},
		"Packages": {reason: "Two of three are over 900 lines.", broken: "median package", place: "attic 901",
			files: map[string]string{"hall/b.go": "package hall\n" + strings.Repeat("\n", 900), "attic/a.go": "package attic\n" +
				strings.Repeat("\n", 900)}},
		"Methods": {reason: "43.", broken: "methods has the type", place: "room.T 43",
			files: map[string]string{"room/b.go": "package room\n\ntype T struct{}\n" +
				functions(43, "func (T) Open%d() {}\n")}},
		"OneWord": {reason: "One of three.", broken: "named by one word", place: "room/b.go:3:1: open",
			files: map[string]string{"room/b.go": "package room\n\nfunc open() {}\n"}},
		"ImportUp": {reason: "The catalog knows nothing of backups.", broken: "up the order",
			place: "controller/internal/catalog imports controller/internal/backup",
			files: map[string]string{"controller/internal/catalog/b.go": "package catalog\n\nimport _ " +
				"\"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup\"\n"}},
		"ImportDown": {reason: "That is the order.", files: map[string]string{
			"controller/internal/backup/b.go": "package backup\n\nimport _ " +
				"\"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog\"\n"}},
		"ImportUnknown": {reason: "A package without a place is said.", broken: "up the order",
			place: "controller/internal/cellar has no place",
			files: map[string]string{"controller/internal/cellar/b.go": "package cellar\n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tc.files["room/good.go"] = good
			for name, text := range tc.files {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out := &bytes.Buffer{}
			err := checkLimits(out, root)
			if n := strings.Count(out.String(), "\n"); n != len(limits) {
				t.Errorf("want a line for each of %d limits, got %d", len(limits), n)
			}
			if tc.broken == "" {
				if err != nil {
					t.Errorf("%s want no error, got %v", tc.reason, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.broken) || !strings.Contains(err.Error(), tc.place) {
				t.Fatalf("%s want %q and %q, got %v", tc.reason, tc.broken, tc.place, err)
			}
			if n := strings.Count(err.Error(), "The limit is"); n != 1 {
				t.Errorf("%s want one broken limit, got %d: %v", tc.reason, n, err)
			}
		})
	}
}
