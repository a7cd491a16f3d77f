package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// A text is a passage in a file that is checked, such as a comment or an API description.
type text struct {
	area, file string
	line       int
	content    string
}

// Areas into which the texts are divided.
const (
	areaPages    = "pages"
	areaAPI      = "api"
	areaMessages = "messages"
	areaComments = "comments"
)

func areaNames() []string { return []string{areaPages, areaAPI, areaMessages, areaComments} }

// collect returns all texts of the repository whose language is checked.
func collect(root string) ([]text, error) {
	var out []text
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() {
			if isLeftOut(path, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		found, err := textsOf(path)
		out = append(out, found...)
		return err
	})
	return out, err
}

// isLeftOut reports whether a directory is not checked, because it contains caches, test data or generated pages.
func isLeftOut(path, name string) bool {
	return path != "." && strings.HasPrefix(name, ".") || name == "dist" || name == "testdata" ||
		path == "docs/matrix" || path == "docs/reference"
}

// textsOf returns the texts of a file: a page, the descriptions in a CRD or XRD, or the comments and messages in Go
// code.
func textsOf(path string) ([]text, error) {
	switch {
	case strings.HasSuffix(path, ".md"):
		b, err := os.ReadFile(path) //nolint:gosec // A file of the repository.
		return []text{{areaPages, path, 1, string(b)}}, err
	case strings.HasPrefix(path, "apis/crd-") || strings.HasPrefix(path, "apis/xrd-"):
		return descriptionsOf(path)
	case strings.HasSuffix(path, ".go") && isProduct(path):
		return textsOfGo(path)
	}
	return nil, nil
}

// isProduct reports whether a file contains Go code that users run.
func isProduct(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	return slices.Contains([]string{"apis", "fn", "controller"}, top) && !strings.HasSuffix(path, "_test.go") &&
		!strings.Contains(path, "/internal/test/") && !strings.HasPrefix(filepath.Base(path), "zz_")
}

// kubernetesFields matches fields whose types are defined by Kubernetes. Their descriptions are not written by this
// project.
var kubernetesFields = regexp.MustCompile(`\.(affinity|nodeAffinity|topologySpreadConstraints|tolerations|from|conditions|backupNodes)\.`)

// descriptionsOf returns the descriptions of this product's fields in a CRD or XRD, each of them only once.
func descriptionsOf(path string) ([]text, error) {
	b, err := os.ReadFile(path) //nolint:gosec // A file of the repository.
	if err != nil {
		return nil, err
	}
	var content any
	if err := yaml.Unmarshal(b, &content); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []text
	seen := map[string]bool{}
	var walk func(string, any)
	walk = func(field string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				description, ok := inner.(string)
				if k == "description" && ok && !seen[description] && !kubernetesFields.MatchString(field) {
					seen[description] = true
					out = append(out, text{areaAPI, path + " " + field, 1, strings.ReplaceAll(description, "\n", " ")})
				}
				if k == "properties" || k == "items" || k == "schema" || k == "openAPIV3Schema" {
					walk(field, inner)
				} else {
					walk(field+"."+k, inner)
				}
			}
		case []any:
			for _, inner := range v {
				walk(field, inner)
			}
		}
	}
	walk("", content)
	slices.SortFunc(out, func(a, b text) int { return strings.Compare(a.file, b.file) })
	return out, nil
}

// textsOfGo returns the comments and the messages of a Go file.
func textsOfGo(path string) ([]text, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []text
	for _, group := range f.Comments {
		if content := commentText(group); content != "" {
			out = append(out, text{areaComments, path, files.Position(group.Pos()).Line, content})
		}
	}
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				tags[n.Tag] = true
				if help := helpOf(n.Tag.Value); help != "" {
					out = append(out, text{areaMessages, path, files.Position(n.Tag.Pos()).Line, help})
				}
			}
		case *ast.BinaryExpr:
			if content, ok := joined(n); ok {
				if isSentence(content) {
					out = append(out, text{areaMessages, path, files.Position(n.Pos()).Line, escape(content)})
				}
				return false
			}
		case *ast.BasicLit:
			if content, ok := literal(n); ok && !tags[n] && isSentence(content) {
				out = append(out, text{areaMessages, path, files.Position(n.Pos()).Line, escape(content)})
			}
		}
		return true
	})
	return out, nil
}

// commentText returns a comment as a paragraph, without the directives for tools.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for line := range strings.Lines(group.Text()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	return escape(strings.TrimSpace(strings.Join(lines, "\n")))
}

// helpOf returns the help text in the struct tag of a command line flag or command.
func helpOf(tag string) string {
	_, after, ok := strings.Cut(tag, `help:"`)
	if !ok {
		return ""
	}
	help, _, _ := strings.Cut(after, `"`)
	return escape(help)
}

// joined returns the value of a string literal, or of several literals that are concatenated with +.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return literal(e)
	case *ast.BinaryExpr:
		a, aok := joined(e.X)
		b, bok := joined(e.Y)
		return a + b, e.Op == token.ADD && aok && bok
	}
	return "", false
}

func literal(l *ast.BasicLit) (string, bool) {
	if l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// isSentence reports whether a text is a sentence for users, which has at least four words that consist of letters.
func isSentence(s string) bool {
	words := 0
	for w := range strings.FieldsSeq(s) {
		if w = strings.Trim(w, ".,:;()%"); len(w) > 1 && strings.IndexFunc(w, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '\'' && r != '-'
		}) < 0 {
			words++
		}
	}
	return words >= 4 && !strings.ContainsAny(s, "{}`") && !strings.Contains(s, "SELECT ")
}

// escape escapes Markdown syntax.
func escape(s string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "#", `\#`, "_", `\_`, "[", `\[`).Replace(s)
}
