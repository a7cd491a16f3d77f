//go:build site

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// built returns the directory of the documentation site that `make site` has built.
func built(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SITE")
	if dir == "" {
		t.Fatal("SITE must be the directory of the built site: run `make site`")
	}
	return dir
}

// pagesOf returns the paths of all pages of the site, such as how-to/resize, from the mounts in hugo.yaml.
func pagesOf(t *testing.T) []string {
	t.Helper()
	var config struct {
		Module struct {
			Mounts []struct{ Source, Target string }
		}
	}
	docs := filepath.Join("..", "..", "docs")
	if err := yaml.Unmarshal([]byte(read(t, docs, "hugo.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range config.Module.Mounts {
		target, isContent := strings.CutPrefix(m.Target, "content/")
		if !isContent {
			continue
		}
		source := filepath.Join(docs, m.Source)
		err := filepath.WalkDir(source, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".md") {
				return err
			}
			name := target + strings.TrimPrefix(file, source)
			out = append(out, strings.Trim(strings.TrimSuffix(strings.TrimSuffix("/"+name, ".md"), "/_index"), "/"))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 80 {
		t.Fatalf("only %d pages were found", len(out))
	}
	return out
}

// An entry is a page in the search index of the documentation site. The keys of Data are the headings of the page.
type entry struct {
	Title string
	Data  map[string]string
}

// index returns the search index of the documentation site. The keys are paths of pages.
func index(t *testing.T) map[string]entry {
	t.Helper()
	dir := built(t)
	scripts, err := filepath.Glob(filepath.Join(dir, "en.search*.js"))
	if err != nil || len(scripts) != 1 {
		t.Fatalf("want one script of the search, got %q: %v", scripts, err)
	}
	if home := read(t, dir, "how-to", "index.html"); !strings.Contains(home, filepath.Base(scripts[0])) {
		t.Errorf("the pages do not load %s", scripts[0])
	}
	file := regexp.MustCompile(`[\w.-]*search-data[\w.-]*\.json`).FindString(read(t, scripts[0]))
	raw := map[string]entry{}
	if err := json.Unmarshal([]byte(read(t, dir, file)), &raw); err != nil {
		t.Fatalf("the script of the search reads %q: %v", file, err)
	}
	base := "/" + filepath.ToSlash(strings.SplitN(filepath.ToSlash(dir), "/dist/site/", 2)[1])
	out := map[string]entry{}
	for url, e := range raw {
		out[strings.Trim(strings.TrimPrefix(url, path.Clean(base)), "/")] = e
	}
	return out
}

// TestSearch checks that the index of the search contains each page with its text, and that words find their pages.
func TestSearch(t *testing.T) {
	found := index(t)
	for _, page := range pagesOf(t) {
		e, ok := found[page]
		if page == "" { // The home page contains only links.
			continue
		}
		text := ""
		for heading, part := range e.Data {
			text += heading + part
		}
		if !ok || e.Title == "" || len(text) < 50 {
			t.Errorf("the index of the search has no text of %s", page)
		}
	}
	for word, page := range map[string]string{"restore": "how-to/restore-and-clone", "crossplanemysqldown": "troubleshoot/by-alert",
		"retention": "how-to/schedule-backups"} {
		if e := found[page]; !e.contains(word) {
			t.Errorf("a search for %q does not find %s by its title or a heading", word, page)
		}
		if n := len(slices.Collect(hits(found, word))); n == len(found) {
			t.Errorf("a search for %q finds all pages", word)
		}
	}
}

// hits returns the pages in the search index whose title or headings contain a word.
func hits(all map[string]entry, word string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for page, e := range all {
			if e.contains(word) && !yield(page) {
				return
			}
		}
	}
}

// contains reports whether the title or a heading of a page contains a word that begins with word, in lower case. The
// search of the theme matches the beginnings of words.
func (e entry) contains(word string) bool {
	heads := []string{e.Title}
	for heading := range e.Data {
		_, title, _ := strings.Cut(heading, "#")
		heads = append(heads, title)
	}
	return slices.ContainsFunc(strings.Fields(strings.ToLower(strings.Join(heads, " "))), func(w string) bool {
		return strings.HasPrefix(w, word)
	})
}

// source matches a link to a file of the repository, and finds the revision.
var source = regexp.MustCompile(`https://github\.com/crossplane-mysql/crossplane-mysql/(?:blob|tree)/([^/"]+)/`)

// TestLinks checks that the links to files of the repository contain the version of the site.
func TestLinks(t *testing.T) {
	revision, links := os.Getenv("SITE_REVISION"), 0
	err := filepath.WalkDir(built(t), func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".html") {
			return err
		}
		for _, m := range source.FindAllStringSubmatch(read(t, file), -1) {
			if links++; m[1] != revision {
				t.Errorf("%s links to %s, want the revision %s", file, m[0], revision)
			}
		}
		return nil
	})
	if err != nil || links < 30 {
		t.Errorf("%d links were checked: %v", links, err)
	}
}

// TestVersionMenu checks that each page has the script of the version menu, with the version of the page.
func TestVersionMenu(t *testing.T) {
	for _, page := range append(pagesOf(t), "") {
		text := read(t, built(t), page, "index.html")
		if !strings.Contains(text, "versions.json") || !strings.Contains(text, `"`+os.Getenv("SITE_REVISION")+`"`) {
			t.Errorf("%s has no version menu", page)
		}
	}
}
