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

// loggers are the expressions on which log lines are written.
var loggers = regexp.MustCompile(`(?i)^(s\.)?log(\.|$)|^l$|Logger\(\)`)

// TestLogLinesAreConstant: the message of a log line is a constant, so that a search finds all lines of its kind, and docs/logs.md has
// it. The linter sees to keys (loggercheck and sloglint).
func TestLogLinesAreConstant(t *testing.T) {
	page, n := read(t, filepath.Join("..", "docs", "logs.md")), 0
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
			text, is := message.(*ast.BasicLit)
			switch {
			case !is:
				t.Errorf("%s: the message is no constant", set.Position(message.Pos()))
			case !strings.Contains(page, strings.Trim(text.Value, `"`)):
				t.Errorf("%s: docs/logs.md lacks %s", set.Position(message.Pos()), text.Value)
			}
			return true
		})
		return nil
	})
	if err != nil || n < 40 {
		t.Errorf("want all log lines, got %d, %v", n, err)
	}
}

// messageOf returns the message of a call that writes a log line, or nil. In slog the message of an error comes first, and in logr the error.
func messageOf(node ast.Node) ast.Expr {
	call, is := node.(*ast.CallExpr)
	if !is {
		return nil
	}
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || !loggers.MatchString(types.ExprString(method.X)) {
		return nil
	}
	at, writes := map[string]int{"Info": 0, "Warn": 0, "Debug": 0, "Error": 0, "LogAttrs": 2}[method.Sel.Name]
	if !writes || len(call.Args) <= at {
		return nil
	}
	if _, isText := call.Args[at].(*ast.BasicLit); method.Sel.Name == "Error" && !isText {
		at++
	}
	return call.Args[at]
}
