package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTexts checks that each kind of text is found with its location, and that code is not treated as text.
func TestTexts(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/a.md", "# A page\n")
	write("docs/matrix/a.md", "# Results of a program\n")
	write("docs/reference/a.md", "# Made from the schemas\n")
	write(".cache/a.md", "# A page of others\n")
	write("apis/crd-a.yaml", "schema:\n  properties:\n    image:\n      description: Image of the\n        server.\n")
	write("fn/a.go", `package fn

// Begin starts it.
//
// +kubebuilder:marker
type Begin struct {
	Name string `+"`help:\"Name of the new claim.\"`"+`
}

func (Begin) run() string {
	_ = "a key"
	return "the server could not " +
		"start its work"
}
`)
	write("fn/a_test.go", "package fn\n\n// A comment of a test.\n")
	found, err := collect(".")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(found))
	for _, f := range found {
		got = append(got, f.area+" "+f.file+": "+strings.TrimSpace(f.content))
	}
	slices.Sort(got)
	want := []string{
		"api apis/crd-a.yaml .image: Image of the server.",
		"comments fn/a.go: Begin starts it.",
		"messages fn/a.go: Name of the new claim.",
		"messages fn/a.go: the server could not start its work",
		"pages docs/a.md: # A page",
	}
	if !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

// TestLimits checks that there is an error with a command if there are more findings than the limit, and that a limit
// is never raised.
func TestLimits(t *testing.T) {
	words, long := key{areaPages, "Words"}, key{areaAPI, "Long"}
	limits := map[key]int{words: 2}
	var out strings.Builder
	if err := compare(&out, limits, map[key]int{words: 2}); err != nil {
		t.Error(err)
	}
	for _, counts := range []map[key]int{{words: 3}, {words: 1, long: 1}} {
		if err := compare(&out, limits, counts); err == nil || !strings.Contains(err.Error(), "go run ./test/english -list") {
			t.Errorf("%v: want an error, got %v", counts, err)
		}
	}
	if got := lower(limits, map[key]int{words: 3, long: 1}); len(got) != 1 || got[words] != 2 {
		t.Errorf("a limit has grown: %v", got)
	}
	if got := lower(limits, map[key]int{words: 1}); got[words] != 1 {
		t.Errorf("a limit has not become smaller: %v", got)
	}
	path := filepath.Join(t.TempDir(), "limits")
	if err := writeLimits(path, map[key]int{words: 1, long: 7}); err != nil {
		t.Fatal(err)
	}
	if got, err := readLimits(path); err != nil || len(got) != 2 || got[long] != 7 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestParse checks that a finding refers to the right line of the original file.
func TestParse(t *testing.T) {
	got, err := parse([]byte(`{"/tmp/x/pages.md":[{"Check":"Plain.Words","Message":"Write a instead of b.","Line":2}]}`),
		map[string][]string{"pages": {"README.md:1", "README.md:2"}})
	if want := (finding{"pages", "Words", "README.md:2", "Write a instead of b."}); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parse([]byte("E100 [no style]"), nil); err == nil {
		t.Error("want an error of what is no answer")
	}
}
