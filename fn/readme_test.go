package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// excerpt matches an excerpt of a file in a page: a comment with the name of the file, and a code block.
var excerpt = regexp.MustCompile("(?s)<!-- (\\S+) -->\n```[a-z]*\n(.*?)```")

// These patterns match make targets, examples and links in a page.
var (
	target  = regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)")
	example = regexp.MustCompile(`EXAMPLE=([a-z-]+)`)
	link    = regexp.MustCompile(`\]\(([a-zA-Z.][a-zA-Z0-9./-]*)(?:#[a-z0-9-]+)?\)`)
)

// TestReadme checks that excerpts of files in README.md and docs are current, and that targets, examples and links
// exist.
func TestReadme(t *testing.T) {
	makefile := file(t, "../Makefile")
	pages := []string{"../test/cluster/README.md"}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../examples/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages are %s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	compared := 0
	for _, readme := range pages {
		text := file(t, readme)
		for _, m := range excerpt.FindAllStringSubmatch(text, -1) {
			compared++
			if !strings.Contains(file(t, filepath.Join("..", m[1])), m[2]) {
				t.Errorf("%s shows something else than %s says:\n%s", readme, m[1], m[2])
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names `make %s`, which does not exist", readme, m[1])
			}
		}
		for _, m := range example.FindAllStringSubmatch(text, -1) {
			file(t, filepath.Join("..", "examples", m[1], "xr.yaml"))
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(readme), m[1])); err != nil {
				t.Errorf("%s: %v", readme, err)
			}
		}
	}
	if compared < 4 {
		t.Errorf("only %d excerpts were compared", compared)
	}
	listed := file(t, "../examples/README.md")
	for _, name := range examples(t) {
		if !strings.Contains(listed, "["+name+"]("+name+")") {
			t.Errorf("examples/README.md does not list %s", name)
		}
	}
}

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
