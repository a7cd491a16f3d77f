// Package main puts a built version of the documentation site into the directory that is published. The root of that
// directory has the newest release. Each release has its own copy, and so has the branch main.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// branch is the version of the site that is built from the branch main, and is not a release.
	branch = "main"
	// versionsFile is the file with the list of all versions. A script in each page reads it.
	versionsFile = "versions.json"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "version":
		atRoot, err := addVersion(args[1], args[2], args[3])
		if err == nil && atRoot {
			fmt.Println("root")
		}
		return err
	case len(args) == 3 && args[0] == "root":
		return replaceRoot(args[1], args[2])
	}
	return errors.New("usage: site version VERSION BUILT PAGES, or site root BUILT PAGES")
}

// addVersion replaces the copy of a version, and updates the list of versions. It reports whether the root must be
// this version, too.
func addVersion(name, built, pages string) (atRoot bool, err error) {
	if name != branch && parse(name) == nil {
		return false, fmt.Errorf("%q is neither %q nor a version such as v0.1.0", name, branch)
	}
	if err := copyTo(built, filepath.Join(pages, name)); err != nil {
		return false, err
	}
	all, err := versionsIn(pages)
	if err != nil {
		return false, err
	}
	raw, err := json.MarshalIndent(map[string]any{"root": rootOf(all), "versions": all}, "", "  ")
	if err != nil {
		return false, err
	}
	return rootOf(all) == name, os.WriteFile(filepath.Join(pages, versionsFile), append(raw, '\n'), 0o644)
}

// parse returns the version in the name of a directory, or nil if the name is not a version.
func parse(name string) *version.Version {
	if !strings.HasPrefix(name, "v") {
		return nil
	}
	v, err := version.ParseSemantic(name)
	if err != nil {
		return nil
	}
	return v
}

// versionsIn returns the versions of the site in the published directory, the newest first, and main last.
func versionsIn(pages string) ([]string, error) {
	entries, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && parse(e.Name()) != nil {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if parse(a).LessThan(parse(b)) {
			return 1
		}
		return -1
	})
	if _, err := os.Stat(filepath.Join(pages, branch)); err == nil {
		out = append(out, branch)
	}
	return out, nil
}

// rootOf returns the version of the site for the root directory: the newest release that is not a prerelease, or else
// main.
func rootOf(all []string) string {
	for _, name := range all {
		if v := parse(name); v != nil && v.PreRelease() == "" {
			return name
		}
	}
	return branch
}

// replaceRoot replaces the site in the root of the published directory, and keeps the directories of all versions.
// Pages that no longer exist are deleted.
func replaceRoot(built, pages string) error {
	entries, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == branch || parse(name) != nil || slices.Contains([]string{".git", ".nojekyll", "CNAME", versionsFile}, name) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(pages, name)); err != nil {
			return err
		}
	}
	return copyInto(built, pages)
}

// copyTo replaces a directory with a copy of another one.
func copyTo(source, target string) error {
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return copyInto(source, target)
}

// copyInto copies all files of a directory to another one.
func copyInto(source, target string) error {
	return filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		copied := filepath.Join(target, strings.TrimPrefix(path, source))
		if d.IsDir() {
			return os.MkdirAll(copied, 0o755)
		}
		raw, err := os.ReadFile(path) //nolint:gosec // A file of the built site.
		if err != nil {
			return err
		}
		return os.WriteFile(copied, raw, 0o644)
	})
}
