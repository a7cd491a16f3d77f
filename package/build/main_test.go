package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{"cli": ""})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type want struct {
		options options
		err     string
	}
	cases := map[string]struct {
		reason string
		args   []string
		want   want
	}{
		"Defaults": {
			"Relative paths must be relative to the repository, not to the directory of go run -C.",
			[]string{"--root", root, "--cli", "cli"},
			want{options: options{cli: filepath.Join(root, "cli"), root: root, out: filepath.Join(root, "dist"),
				version: "v0.1.0"}},
		},
		"Absolute": {
			"Absolute paths must stay the same.",
			[]string{"--root", root, "--cli", self, "--out", filepath.Join(root, "o"), "--version", "v1.2.3-rc.1"},
			want{options: options{cli: self, root: root, out: filepath.Join(root, "o"), version: "v1.2.3-rc.1"}},
		},
		"NoCLI": {
			"Without --cli, the library must build the packages, and no path may be set.",
			[]string{"--root", root, "--arch", "amd64", "--push", "127.0.0.1:5000/o"},
			want{options: options{
				root: root, out: filepath.Join(root, "dist"), version: "v0.1.0",
				arch: "amd64", push: "127.0.0.1:5000/o",
			}},
		},
		"PushAll": {"One tag cannot have two images, so one architecture must be chosen.",
			[]string{"--root", root, "--push", "127.0.0.1:5000/o"},
			want{err: "add --arch"}},
		"CLIMissing": {"A wrong path must be refused before the build, with the command that installs the CLI.",
			[]string{"--root", root, "--cli", "nope"}, want{err: "go run ./test/tools cli"}},
		"Version": {"Crossplane ignores tags that are not complete semantic versions.",
			[]string{"--root", root, "--cli", "cli", "--version", "1.2"}, want{err: "v1.2.3"}},
		"Argument": {"An argument without a dash must not be ignored.", []string{"--root", root, "--cli", "cli", "out"},
			want{err: `"out"`}},
		"Flag": {"The error for an unknown flag must refer to the help.", []string{"--outt", "x"}, want{err: "--help"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args, io.Discard)
			if (tc.want.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.want.err) {
				t.Fatalf("\n%s\nparse(%q): want %q in the error, got %v", tc.reason, tc.args, tc.want.err, err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want.options, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("\n%s\nparse(%q): -want, +got:\n%s", tc.reason, tc.args, diff)
			}
		})
	}
}
