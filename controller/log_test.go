package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// loggers matches the expressions that write log lines.
var loggers = regexp.MustCompile(`(?i)^(s\.)?log(\.|$)|^l$|Logger\(\)`)

// TestLogLinesAreConstant checks that each log message is a constant, so that a search finds all its lines, and
// that docs/reference/logs.md contains it. The linter checks the keys (loggercheck and sloglint).
func TestLogLinesAreConstant(t *testing.T) {
	page, n := read(t, filepath.Join("..", "docs", "reference", "logs.md")), 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			message := messageOf(node)
			if message == nil {
				return true
			}
			n++
			text, ok := message.(*ast.BasicLit)
			switch {
			case !ok:
				t.Errorf("%s: the message is no constant", set.Position(message.Pos()))
			case !strings.Contains(page, strings.Trim(text.Value, `"`)):
				t.Errorf("%s: docs/reference/logs.md lacks %s", set.Position(message.Pos()), text.Value)
			}
			return true
		})
		return nil
	})
	if err != nil || n < 40 {
		t.Errorf("want all log lines, got %d, %v", n, err)
	}
}

// messageOf returns the message of a call that writes a log line, or nil. It is the first argument, except that Error
// of logr has the error first, and LogAttrs of slog has the context and the level first.
func messageOf(node ast.Node) ast.Expr {
	call, ok := node.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !loggers.MatchString(types.ExprString(method.X)) {
		return nil
	}
	index, writes := map[string]int{"Info": 0, "Warn": 0, "Debug": 0, "Error": 0, "LogAttrs": 2}[method.Sel.Name]
	if !writes || len(call.Args) <= index {
		return nil
	}
	if _, isText := call.Args[index].(*ast.BasicLit); method.Sel.Name == "Error" && !isText {
		index++
	}
	return call.Args[index]
}
