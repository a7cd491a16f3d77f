// Package readme reads the commands that README.md and the pages in docs tell people to type, for the tests that type
// them.
package readme

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// block of code, and what kind of.
	block = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	// inline code that is a command, with what is set for it.
	inline = regexp.MustCompile("`((?:[A-Z_]+=\\S+ )*(?:make|kubectl|go run|crossplane|tar)\\s[^`]+)`")
	// prompt before what somebody has typed, in what a terminal showed.
	prompt = regexp.MustCompile(`(?m)^\$ (kubectl .*)$`)
	// comment behind a command.
	comment = regexp.MustCompile(`\s+# .*`)
)

// Pages are the texts of README.md and of all other pages, one behind the other, of the repository with this root.
func Pages(root string) (string, error) {
	names := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"[^R]*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "test/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return "", err
		}
		names = append(names, found...)
	}
	var text strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(name) //nolint:gosec // A page of this repository.
		if err != nil {
			return "", fmt.Errorf("cannot read a page: %w", err)
		}
		text.Write(append(b, '\n'))
	}
	return text.String(), nil
}

// Commands that a README tells people to type, each once, in the order of the text: those of its shell blocks, those
// behind a prompt, and those in a sentence. One that goes on in the next line is one command, and a comment is none.
func Commands(text string) []string {
	parts := [][]string{}
	offset := 0
	for _, m := range block.FindAllStringSubmatchIndex(text, -1) {
		parts = append(parts, mentioned(text[offset:m[0]]), typed(text[m[2]:m[3]], text[m[4]:m[5]]))
		offset = m[1]
	}
	return unique(slices.Concat(append(parts, mentioned(text[offset:]))...))
}

// Typed are the commands that begin with these words.
func Typed(text, words string) []string {
	return slices.DeleteFunc(Commands(text), func(c string) bool { return !strings.HasPrefix(c+" ", words+" ") })
}

// mentioned in a sentence, which may end its lines anywhere.
func mentioned(text string) []string {
	found := inline.FindAllStringSubmatch(text, -1)
	all := make([]string, len(found))
	for i, m := range found {
		all[i] = strings.Join(strings.Fields(m[1]), " ")
	}
	return all
}

// typed in a block of code.
func typed(language, code string) []string {
	var all []string
	for _, m := range prompt.FindAllStringSubmatch(code, -1) {
		all = append(all, m[1])
	}
	if language != "shell" {
		return all
	}
	for line := range strings.Lines(strings.ReplaceAll(code, "\\\n", "")) {
		all = append(all, mentioned(line)...)
		if c := strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " "); c != "" {
			all = append(all, c)
		}
	}
	return all
}

func unique(all []string) []string {
	var once []string
	for _, c := range all {
		if !slices.Contains(once, c) {
			once = append(once, c)
		}
	}
	return once
}
