package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var errBoom = errors.New("boom")

// A compiler is a fake go command. It counts how often it runs, and writes a partial file before it fails.
type compiler struct {
	runs atomic.Int32
	err  error
}

func (c *compiler) compile(_ context.Context, _, out string, _ []string) error {
	c.runs.Add(1)
	if err := os.WriteFile(out, []byte("binary"), 0o600); err != nil {
		return err
	}
	return c.err
}

func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, modulesDir, "lint")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "require " + tools["lint"].module + " v1.2.3\n", "go.sum": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func newBuilder(root, goVersion string, c *compiler) *builder {
	return &builder{
		root:      root,
		log:       new(strings.Builder),
		compile:   c.compile,
		goVersion: func(context.Context, string) (string, error) { return goVersion, nil },
	}
}

func TestBuild(t *testing.T) {
	type run struct {
		goVersion string
		fails     error
	}
	type want struct {
		builds int32
		err    error
		files  int
	}
	cases := map[string]struct {
		reason string
		runs   []run
		want   want
	}{
		"Once": {"The first run must build the tool.", []run{{goVersion: "1"}}, want{builds: 1, files: 1}},
		"Twice": {"The second run must use the cached binary.",
			[]run{{goVersion: "1"}, {goVersion: "1"}}, want{builds: 1, files: 1}},
		"OtherGo": {"Another version of Go must have its own binary.", []run{{goVersion: "1"}, {goVersion: "2"}},
			want{builds: 2, files: 2}},
		"Failed": {"A failed build must leave no files, not even a partial binary.", []run{{goVersion: "1", fails: errBoom}},
			want{builds: 1, err: errBoom}},
		"TriedAgain": {"After a failed build, the next run must build the tool again.",
			[]run{{goVersion: "1", fails: errBoom}, {goVersion: "1"}}, want{builds: 2, files: 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := newRepository(t)
			c := &compiler{}
			var err error
			for _, r := range tc.runs {
				c.err = r.fails
				_, err = newBuilder(root, r.goVersion, c).Build(context.Background(), "lint")
			}
			got := want{builds: c.runs.Load(), err: err, files: len(cached(t, root))}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{}), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("\n%s\nBuild(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// cached returns the files in the cache of built tools, except the lock files.
func cached(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(root, cacheDir), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".lock" {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestBuildAtTheSameTime(t *testing.T) {
	root := newRepository(t)
	c := &compiler{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := newBuilder(root, "1", c).Build(context.Background(), "lint"); err != nil {
				t.Errorf("Build(): %v", err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(int32(1), c.runs.Load()); diff != "" {
		t.Errorf("Build() four times at once: -want builds, +got builds:\n%s", diff)
	}
}

func TestBuildStopsWaiting(t *testing.T) {
	root := newRepository(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	holder := newBuilder(root, "1", &compiler{})
	holder.compile = func(context.Context, string, string, []string) error {
		cancel()
		_, err := newBuilder(root, "1", &compiler{}).Build(ctx, "lint")
		return err
	}
	_, err := holder.Build(context.Background(), "lint")
	if diff := cmp.Diff(context.Canceled, err, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("Build() while another one holds the lock: -want error, +got error:\n%s", diff)
	}
}

func TestFailures(t *testing.T) {
	output := "go: downloading a v1\n# pkg\nx.go:1: wrong\ngo: downloading b v1\n"
	if diff := cmp.Diff("# pkg\nx.go:1: wrong", failures(output)); diff != "" {
		t.Errorf("failures(): -want, +got:\n%s", diff)
	}
}
