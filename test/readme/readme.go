// Package readme finds the commands that README.md and the pages in docs tell users to run, so that tests can run
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
	// block matches a code block with its language.
	block = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	// inline matches a command in inline code, including its environment variables.
	inline = regexp.MustCompile("`((?:[A-Z_]+=\\S+ )*(?:make|kubectl|go run|crossplane|tar)\\s[^`]+)`")
	// prompt matches a command in a terminal session.
	prompt = regexp.MustCompile(`(?m)^\$ (kubectl .*)$`)
	// comment matches a comment after a command.
	comment = regexp.MustCompile(`\s+# .*`)
)

// Pages returns the text of README.md and of all other pages of the repository.
func Pages(root string) (string, error) {
	names := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"[^R]*.md", "package/chart/*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "test/*/*.md"} {
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

// Commands returns the commands that a text tells users to run, each of them once, in the order of the text. It finds
// commands in shell blocks, after a prompt, and in sentences. It joins continuation lines and removes comments.
func Commands(text string) []string {
	parts := [][]string{}
	offset := 0
	for _, m := range block.FindAllStringSubmatchIndex(text, -1) {
		parts = append(parts, mentioned(text[offset:m[0]]), typed(text[m[2]:m[3]], text[m[4]:m[5]]))
		offset = m[1]
	}
	return unique(slices.Concat(append(parts, mentioned(text[offset:]))...))
}

// Typed returns the commands in a text that begin with the given words, such as "make show".
func Typed(text, words string) []string {
	return slices.DeleteFunc(Commands(text), func(c string) bool { return !strings.HasPrefix(c+" ", words+" ") })
}

// mentioned returns the commands in the inline code of a text. It replaces line breaks with spaces.
func mentioned(text string) []string {
	found := inline.FindAllStringSubmatch(text, -1)
	all := make([]string, len(found))
	for i, m := range found {
		all[i] = strings.Join(strings.Fields(m[1]), " ")
	}
	return all
}

// typed returns the commands in a code block with the given language.
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
