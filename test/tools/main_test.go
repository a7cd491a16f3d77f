package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	type want struct {
		names []string
		root  string
		usage bool
		err   string
	}
	cases := map[string]struct {
		reason string
		args   []string
		want   want
	}{
		"One": {"One name must result in one tool.", []string{"cli"}, want{names: []string{"cli"}}},
		"InOrder": {"The paths must be printed in the order of the names.", []string{"lint", "cli"},
			want{names: []string{"lint", "cli"}}},
		"Root": {"Another repository can be set.", []string{"--root", "r", "core"},
			want{names: []string{"core"}, root: "r"}},
		"None": {"Without a name, the error must list the tools.", nil,
			want{usage: true, err: "gotestsum, helm, htmltest, hugo, kube, lint"}},
		"Unknown": {"The error must contain the unknown name and the names of the tools.",
			[]string{"cli", "cil"}, want{usage: true, err: `"cil"`}},
		"BadFlag": {"The error for an unknown flag must refer to the help.",
			[]string{"--rot", "x", "cli"}, want{usage: true, err: "--help"}},
		"FlagBehind": {"A flag after the names must not be used as a name.", []string{"cli", "--root"},
			want{usage: true, err: `"--root"`}},
		"Help": {"A request for help is not a usage error.", []string{"--help"}, want{err: flag.ErrHelp.Error()}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			names, root, err := parse(tc.args, io.Discard)
			if diff := cmp.Diff(tc.want.err != "", err != nil); diff != "" {
				t.Fatalf("\n%s\nparse(%q): -want error, +got error:\n%s", tc.reason, tc.args, diff)
			}
			if err != nil && !strings.Contains(err.Error(), tc.want.err) {
				t.Errorf("\n%s\nparse(%q): want %q in the error, got %v", tc.reason, tc.args, tc.want.err, err)
			}
			got := want{names: names, root: root, usage: errors.As(err, new(usageError)), err: tc.want.err}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("\n%s\nparse(%q): -want, +got:\n%s", tc.reason, tc.args, diff)
			}
		})
	}
}

func TestHelpNamesEveryTool(t *testing.T) {
	var out bytes.Buffer
	if _, _, err := parse([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("parse(-h): want %v, got %v", flag.ErrHelp, err)
	}
	for name, tool := range tools {
		if !strings.Contains(out.String(), name) || !strings.Contains(out.String(), tool.help) {
			t.Errorf("parse(-h): %s and what it is for are not in the help:\n%s", name, out.String())
		}
	}
}
