package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKey(t *testing.T) {
	base := pin{goMod: "m\n", goSum: "s\n", goVersion: "go version go1.26.8 linux/amd64\n", args: []string{"-ldflags=-s"}}
	changed := func(f func(*pin)) pin { p := base; f(&p); return p }

	cases := map[string]struct {
		reason string
		pin    pin
		same   bool
	}{
		"Same":  {"The key must depend on the inputs, and not on the time or the place.", changed(func(*pin) {}), true},
		"GoMod": {"A changed go.mod must change the key.", changed(func(p *pin) { p.goMod = "m2\n" }), false},
		"GoSum": {"A changed go.sum must change the key.", changed(func(p *pin) { p.goSum = "" }), false},
		"Go": {"Another version of Go must change the key.",
			changed(func(p *pin) { p.goVersion = "go version go1.26.9 linux/amd64\n" }), false},
		"Platform": {"A cache on a shared disk must not contain a binary for another platform.",
			changed(func(p *pin) { p.goVersion = "go version go1.26.8 linux/arm64\n" }), false},
		"Sources": {"Changed sources of a tool of this repository must change the key.",
			changed(func(p *pin) { p.sources = "main.go 1\nx" }), false},
		"Args": {"Changed build flags must change the key.", changed(func(p *pin) { p.args = nil }), false},
		"Moved": {"A line that moves from one file to the next must change the key.",
			changed(func(p *pin) { p.goMod, p.goSum = "m\ns\n", "" }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.pin.Key()
			if len(got) != 12 {
				t.Errorf("\n%s\nKey(): want 12 characters, got %q", tc.reason, got)
			}
			if diff := cmp.Diff(tc.same, got == base.Key()); diff != "" {
				t.Errorf("\n%s\nKey() %q against %q: -want same, +got same:\n%s", tc.reason, got, base.Key(), diff)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	cases := map[string]struct {
		reason string
		goMod  string
		want   string
		err    string
	}{
		"Block": {"go mod tidy lists the module in a block.",
			"module x\nrequire (\n\ta.b/c/d v0.1.0 // indirect\n\ta.b/c v1.2.3 // indirect\n)\n", "v1.2.3", ""},
		"Line": {"A short go.mod lists the module on its own line.", "module x\nrequire a.b/c v1.2.3\n", "v1.2.3", ""},
		"ToolLine": {"The tool directive names a package without a version.", "tool a.b/c\nrequire a.b/c v1.2.3\n", "v1.2.3",
			""},
		"NotThere":  {"Without a version, the tool is not pinned.", "module x\ntool a.b/c\n", "", "a.b/c"},
		"OtherName": {"A longer path is another module.", "require a.b/c/v2 v2.0.0\n", "", "a.b/c"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := pin{goMod: tc.goMod}.Version("a.b/c")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nVersion(): -want, +got:\n%s", tc.reason, diff)
			}
			if (tc.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("\n%s\nVersion(): want %q in the error, got %v", tc.reason, tc.err, err)
			}
		})
	}
}

func TestEveryToolIsPinned(t *testing.T) {
	for name, tool := range tools {
		p, err := readPin(tool.moduleDir(name))
		if err != nil {
			t.Errorf("readPin(%q): %v", name, err)
			continue
		}
		if v, err := p.Version(tool.module); err != nil || !strings.HasPrefix(v, "v") {
			t.Errorf("Version(%q): want one, got %q, %v", tool.module, v, err)
		}
	}
}

func TestFindRoot(t *testing.T) {
	want, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		from   string
		want   string
		err    string
	}{
		"Root":    {"The program is usually run in the root directory.", want, want, ""},
		"Below":   {"go run -C runs the program in a subdirectory.", "cli", want, ""},
		"Outside": {"Outside of the repository, no root directory can be found.", t.TempDir(), "", "--root"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := findRoot(tc.from)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nfindRoot(%q): -want, +got:\n%s", tc.reason, tc.from, diff)
			}
			if (tc.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("\n%s\nfindRoot(%q): want %q in the error, got %v", tc.reason, tc.from, tc.err, err)
			}
		})
	}
}
