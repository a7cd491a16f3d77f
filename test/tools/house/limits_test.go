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
		"Fine": {reason: "The package is within all limits.", files: map[string]string{"room/a.go": good}},
		"Vague": {reason: "A single vague name must be reported, also in tests.",
			broken: "names no thing", place: "room/a_test.go:3:5: of",
			files: map[string]string{"room/a_test.go": "package room\n\nvar of int\n"}},
		"VagueField": {reason: "The name of a field must be checked.", broken: "names no thing", place: "room/b.go:3:17: at",
			files: map[string]string{"room/b.go": "package room\n\ntype T struct { at int }\n"}},
		"VagueParameter": {reason: "The name of a parameter in an interface must be checked.", broken: "names no thing",
			place: ": said",
			files: map[string]string{"room/b.go": "package room\n\ntype T interface{ Do(said int) }\n"}},
		"VagueMethod": {reason: "The name of a method in an interface must not be checked.", files: map[string]string{
			"room/b.go": "package room\n\ntype T interface{ to() }\n"}},
		"Words": {reason: "Two question words in 302 names are 0.66 %, which exceeds the limit.",
			broken: "question word", place: "room/b.go:3:5: why",
			files: map[string]string{"room/b.go": "package room\n\nvar why, into int\n" + manyNames.String()}},
		"FewWords": {reason: "One question word in 301 names is 0.33 %, which is within the limit.", files: map[string]string{
			"room/b.go": "package room\n\nvar why int\n" + manyNames.String()}},
		"Long": {reason: "A line has 141 characters.", broken: "over 140 characters", place: "room/b.go:3",
			files: map[string]string{"room/b.go": "package room\n\n// " + strings.Repeat("é", 138) + "\n" +
				strings.Repeat("\n", 100)}},
		"LongRaw": {reason: "A line with a raw string cannot be wrapped.", files: map[string]string{
			"room/b.go": "package room\n\nvar x = `" + strings.Repeat("x", 140) + "`\n" + strings.Repeat("\n", 100)}},
		"LongMarker": {reason: "A line with a marker cannot be wrapped.", files: map[string]string{
			"room/b.go": "package room\n\n// +" + strings.Repeat("x", 140) + "\n" + strings.Repeat("\n", 100)}},
		"Wide": {reason: "One of 15 lines has more than 120 characters.", broken: "over 120 characters", place: "room/b.go:3",
			files: map[string]string{"room/b.go": "package room\n\n// " + strings.Repeat("x", 118) + "\n"}},
		"Function": {reason: "A function has 61 lines.", broken: "longest function", place: "room/b.go:3:1: openSlowly",
			files: map[string]string{"room/b.go": "package room\n\nfunc openSlowly() {\n" +
				strings.Repeat("\tcloseDoor()\n", 61) + "}\n"}},
		"TestFunction": {reason: "A test function may have a long table.", files: map[string]string{
			"room/b_test.go": "package room\n\nfunc openSlowly() {\n" + strings.Repeat("\tcloseDoor()\n", 61) + "}\n"}},
		"Package": {reason: "A package has 6,001 lines, although the median is small.",
			broken: "largest package", place: "hall 60",
			files: map[string]string{"hall/b.go": "package hall\n" + strings.Repeat("\n", 6000),
				"attic/a.go": "package attic\n"}},
		"Packages": {reason: "Two of three packages have more than 900 lines.", broken: "median package", place: "attic 901",
			files: map[string]string{"hall/b.go": "package hall\n" + strings.Repeat("\n", 900), "attic/a.go": "package attic\n" +
				strings.Repeat("\n", 900)}},
		"Methods": {reason: "A type has 43 methods.", broken: "methods has the type", place: "room.T 43",
			files: map[string]string{"room/b.go": "package room\n\ntype T struct{}\n" +
				functions(43, "func (T) Open%d() {}\n")}},
		"OneWord": {reason: "One of three functions has a name of one word.",
			broken: "named by one word", place: "room/b.go:3:1: open",
			files: map[string]string{"room/b.go": "package room\n\nfunc open() {}\n"}},
		"ImportUp": {reason: "The package catalog must not import the package backup.", broken: "up the order",
			place: "controller/internal/catalog imports controller/internal/backup",
			files: map[string]string{"controller/internal/catalog/b.go": "package catalog\n\nimport _ " +
				"\"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup\"\n"}},
		"ImportDown": {reason: "The package backup may import the package catalog.", files: map[string]string{
			"controller/internal/backup/b.go": "package backup\n\nimport _ " +
				"\"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog\"\n"}},
		"ImportUnknown": {reason: "A package that is not in the list of the order must be reported.", broken: "up the order",
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
