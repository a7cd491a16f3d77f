package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unknown stands for a part of a message that is not constant.
const unknown = "…"

// formatVerb matches a verb of package fmt, and an escaped percent sign.
var formatVerb = regexp.MustCompile(`%%|%[-+# 0]*(?:\[\d+\])?(?:\d+|\*)?(?:\.(?:\d+|\*))?[a-zA-Z]`)

// messages returns the texts of all string constants in the code of the product. Text that is known only at runtime is
// replaced with unknown.
func messages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"apis", "controller", "fn"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "/internal/test/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				e, isExpr := n.(ast.Expr)
				text, isText := "", false
				if isExpr {
					text, isText = textOf(e)
				}
				if isText {
					out = append(out, text)
				}
				return !isText
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// textOf returns the text of a string literal or of a concatenation that contains one.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return formatVerb.ReplaceAllStringFunc(text, func(verb string) string {
			if verb == "%%" {
				return "%"
			}
			return unknown
		}), e.Kind == token.STRING && err == nil
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.BinaryExpr:
		x, isX := textOf(e.X)
		y, isY := textOf(e.Y)
		if e.Op != token.ADD || !isX && !isY {
			return "", false
		}
		if !isX {
			x = unknown
		}
		if !isY {
			y = unknown
		}
		return x + y, true
	}
	return "", false
}

// foreignMessages are the messages on the pages that are not in the product's code, because Kubernetes writes them.
var foreignMessages = set{ //nolint:gochecknoglobals // A constant set.
	"FailedScheduling": true, "ProvisioningFailed": true, "exceeded quota": true, "violates PodSecurity": true,
}

// fieldPath matches the field at the beginning of a message, as a field.Error of Kubernetes begins.
var fieldPath = regexp.MustCompile(`^spec(\.[a-zA-Z]+)+: (Forbidden: )?`)

// TestMessagesExist checks that the code contains each message that a page tells users to look for. An ellipsis on the
// page stands for any text. The parts between ellipses must be in this order in one constant. The sentences of a
// message may be in different constants.
func TestMessagesExist(t *testing.T) {
	all, quoted, seen := messages(t), 0, set{}
	for _, page := range []string{"docs/troubleshoot/by-message.md", "docs/troubleshoot/by-symptom.md", "docs/how-to/new-cluster.md"} {
		for _, r := range rows(file(t, page)) {
			for head, spans := range r.cells {
				if !strings.HasPrefix(head, "message") {
					continue
				}
				for _, message := range spans {
					quoted++
					seen[message] = true
					if !foreignMessages[message] && !isIn(all, message) {
						t.Errorf("%s quotes a message that the code does not contain: %s", page, message)
					}
				}
			}
		}
	}
	if quoted < 100 || len(all) < 3000 {
		t.Errorf("only %d messages and %d constants were compared", quoted, len(all))
	}
	for message := range foreignMessages {
		if !seen[message] {
			t.Errorf("no page quotes %q", message)
		}
	}
}

// isIn reports whether a constant contains all parts of a message in their order, or of each of its sentences.
func isIn(all []string, message string) bool {
	message = fieldPath.ReplaceAllString(message, "")
	if slices.ContainsFunc(all, func(text string) bool { return hasParts(text, message) }) {
		return true
	}
	sentences := strings.Split(message, ". ")
	return len(sentences) > 1 && !slices.ContainsFunc(sentences, func(s string) bool { return !isIn(all, s) })
}

func hasParts(text, message string) bool {
	for part := range strings.SplitSeq(message, unknown) {
		part = strings.TrimSpace(part)
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}
