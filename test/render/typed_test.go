package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReadmeCounts checks that docs/how-to/render-offline.md contains the same numbers of commands and examples as
// the output of `make render`.
func TestReadmeCounts(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	t.Setenv("ALL", "") // `make test-all` sets it.
	r, err := newRun([]string{"cli", "core", "cli116"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := shown(r.pages)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := rendered(r.pages, r.generations)
	if err != nil {
		t.Fatal(err)
	}
	if closing := fmt.Sprintf("\n%d passed, 0 failed\n", len(alone)+len(beside)+len(r.names)+
		len(forV116)); !strings.Contains(r.pages, closing) {
		t.Errorf("docs/how-to/render-offline.md: make render ends with %q", closing)
	}
	for _, c := range append(alone, beside...) {
		if !slices.Contains(r.names, c.example) {
			t.Errorf("%s: no such example", c.command)
		}
	}
}

func TestRendered(t *testing.T) {
	const both = "```shell\ncrossplane render examples/a/xr.yaml\ncrossplane beta render examples/b/xr.yaml\n```\n"
	for name, tc := range map[string]struct {
		reason, text string
		want         []string
	}{
		"Both": {"Each command must be run with its own CLI.", both, []string{"now a", "then b"}},
		"Mention": {"A command without an example must be ignored.",
			both + "`crossplane render`", []string{"now a", "then b"}},
		"OneOnly": {"The page must contain a command for each CLI.", strings.Replace(both, "beta", "alpha", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := rendered(tc.text, generations([]string{"now", "core", "then"}, false))
			got := make([]string, 0, len(all))
			for _, c := range all {
				got = append(got, c.cli.tool+" "+c.example)
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") || (err == nil) != (tc.want != nil) {
				t.Errorf("\n%s\nrendered(): want %q, got %q, %v", tc.reason, tc.want, got, err)
			}
		})
	}
}

// TestStartFunction checks that the CLIs never call a function other than the one from this working tree.
func TestStartFunction(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	for name, tc := range map[string]struct {
		reason, command, want string
	}{
		"Taken":     {"Another function is running at the address.", "sleep 60 --address " + taken, "is one running? End it"},
		"Ended":     {"The function exits immediately.", "false --address 127.0.0.1:1", "has ended: exit status 1"},
		"NoAddress": {"The command does not specify the function's address.", "go run ./fn", "says no --address"},
	} {
		t.Run(name, func(t *testing.T) {
			if f, err := startFunction(t.Context(), tc.command); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("\n%s\nstartFunction(): want %q, got %v, %v", tc.reason, tc.want, f, err)
			}
		})
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
