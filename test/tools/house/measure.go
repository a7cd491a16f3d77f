package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/tools/go/packages"
)

// A figure is a measured property of a module's code, with a description.
type figure struct {
	value, text string
	// examples are the largest contributions to the figure, if there are few of them.
	examples []string
}

// A module is a Go module with its packages.
type module struct {
	root string
	// packages contains the packages that are measured. users contains all packages of the module with their tests,
	// which may use exported names.
	packages, users []*packages.Package
}

const loaded = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes |
	packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps | packages.NeedModule

// load loads the module in a directory, without the packages that are only used by tests.
func load(root string) (*module, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	all, err := packages.Load(&packages.Config{Mode: loaded, Dir: abs}, "./...")
	if err != nil {
		return nil, err
	}
	users, err := packages.Load(&packages.Config{Mode: loaded, Dir: abs, Tests: true,
		BuildFlags: []string{"-tags=mysqld,bench"}}, "./...")
	if err != nil {
		return nil, err
	}
	m := &module{root: abs, users: users}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		if len(p.Syntax) > 0 && !m.servesTests(p) {
			m.packages = append(m.packages, p)
		}
	}
	if len(m.packages) == 0 {
		return nil, errors.New("there is no package in it")
	}
	return m, nil
}

func (m *module) servesTests(p *packages.Package) bool {
	rel, err := filepath.Rel(m.root, filepath.Dir(p.GoFiles[0]))
	return err != nil || slices.Contains([]string{"test", "tests", "hack", "e2e"},
		strings.Split(filepath.ToSlash(rel), "/")[0])
}

// figures returns all measured properties of the module, in the order in which they are printed.
func (m *module) figures() []figure {
	return slices.Concat(m.lines(), []figure{m.oneWord(), m.methods(), m.ties(), m.comments(), m.longest(), m.exported()})
}

// files returns the files of a package that are not generated.
func files(p *packages.Package) []*ast.File {
	return slices.DeleteFunc(slices.Clone(p.Syntax), ast.IsGenerated)
}

// short returns the path of a package below its module.
func (m *module) short(p *packages.Package) string {
	if p.Module == nil || p.PkgPath == p.Module.Path {
		return filepath.Base(p.PkgPath)
	}
	return strings.TrimPrefix(p.PkgPath, p.Module.Path+"/")
}

func linesOf(p *packages.Package) int {
	n := 0
	for _, f := range files(p) {
		n += p.Fset.File(f.Pos()).LineCount()
	}
	return n
}

// lines counts the lines of the module, of each top-level directory, and of the largest package.
func (m *module) lines() []figure {
	parts, total := map[string]int{}, 0
	largest, most := "", 0
	for _, p := range m.packages {
		n, name := linesOf(p), m.short(p)
		parts[strings.Split(name, "/")[0]] += n
		total += n
		if n > most {
			largest, most = name, n
		}
	}
	examples := make([]string, 0, len(parts))
	for part, n := range parts {
		examples = append(examples, fmt.Sprintf("%s %d", part, n))
	}
	slices.Sort(examples)
	return []figure{
		{value: strconv.Itoa(total), text: "lines without tests", examples: examples},
		{value: strconv.Itoa(total / len(m.packages)), text: "lines a package",
			examples: []string{fmt.Sprintf("the largest %d: %s", most, largest)}},
	}
}

// functions returns the functions with a body.
func functions(p *packages.Package) []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, f := range files(p) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				out = append(out, fn)
			}
		}
	}
	return out
}

// oneWord measures the percentage of unexported functions and methods whose name is a single word.
func (m *module) oneWord() figure {
	all, bare := 0, 0
	rooms := map[string]int{}
	for _, p := range m.packages {
		for _, fn := range functions(p) {
			if name := fn.Name.Name; isNamedByUs(fn) {
				all++
				if !strings.ContainsFunc(name, unicode.IsUpper) && !strings.ContainsRune(name, '_') {
					bare++
					rooms[m.short(p)]++
				}
			}
		}
	}
	return figure{value: percent(bare, all), text: fmt.Sprintf("of %d unexported functions are named by one word", all),
		examples: top(rooms, 5)}
}

func percent(n, total int) string { return fmt.Sprintf("%d%%", 100*n/max(total, 1)) }

// top returns the entries with the highest counts, the highest count first.
func top(counts map[string]int, n int) []string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	out := make([]string, 0, min(n, len(names)))
	for _, name := range names[:min(n, len(names))] {
		out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return out
}

// methods counts the methods of the type with the most methods.
func (m *module) methods() figure {
	counts, most := map[string]int{}, 0
	for _, p := range m.packages {
		for _, fn := range functions(p) {
			if fn.Recv == nil {
				continue
			}
			name := m.short(p) + "." + receiver(fn.Recv.List[0].Type)
			counts[name]++
			most = max(most, counts[name])
		}
	}
	return figure{value: strconv.Itoa(most), text: "methods on the largest type", examples: top(counts, 4)}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// ties measures how strongly the files of a package are coupled. Two files are tied if one file uses a top-level
// declaration of the other. It counts the tied pairs of files in the package with the most.
func (m *module) ties() figure {
	rooms := map[string]int{}
	most := 0
	for _, p := range m.packages {
		pairs := map[[2]string]bool{}
		for id, o := range p.TypesInfo.Uses {
			if o.Pkg() != p.Types || !o.Pos().IsValid() {
				continue
			}
			from, target := p.Fset.Position(id.Pos()).Filename, p.Fset.Position(o.Pos()).Filename
			if from != target && isTop(o) {
				pairs[[2]string{min(from, target), max(from, target)}] = true
			}
		}
		n := len(files(p))
		rooms[fmt.Sprintf("%s (of %d)", m.short(p), n*(n-1)/2)] = len(pairs)
		most = max(most, len(pairs))
	}
	return figure{value: strconv.Itoa(most), text: "pairs of files of one package are tied", examples: top(rooms, 4)}
}

// isTop reports whether an object is a top-level declaration of a package, or a method.
func isTop(o types.Object) bool {
	if f, ok := o.(*types.Func); ok {
		return f.Signature().Recv() != nil || o.Parent() == o.Pkg().Scope()
	}
	return o.Parent() == o.Pkg().Scope()
}

// comments measures the number of comment lines per line of code.
func (m *module) comments() figure {
	comments, code := map[string]int{}, map[string]int{}
	all, total := 0, 0
	for _, p := range m.packages {
		for _, f := range files(p) {
			hasCode := map[int]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n.(type) {
				case nil, *ast.Comment, *ast.CommentGroup:
					return false
				}
				hasCode[p.Fset.Position(n.Pos()).Line], hasCode[p.Fset.Position(n.End()-1).Line] = true, true
				return true
			})
			part := strings.Split(m.short(p), "/")[0]
			n := 0
			for _, g := range f.Comments {
				n += linesBetween(p.Fset, g.Pos(), g.End())
			}
			comments[part] += n
			code[part] += len(hasCode)
			all += n
			total += len(hasCode)
		}
	}
	examples := make([]string, 0, len(code))
	for part := range code {
		examples = append(examples, fmt.Sprintf("%s %.2f", part, float64(comments[part])/float64(max(code[part], 1))))
	}
	slices.Sort(examples)
	return figure{value: fmt.Sprintf("%.2f", float64(all)/float64(max(total, 1))),
		text: "lines of comment for each of code", examples: examples}
}

func linesBetween(fset *token.FileSet, from, end token.Pos) int {
	return fset.Position(end).Line - fset.Position(from).Line + 1
}

// longest measures the number of lines of the longest function.
func (m *module) longest() figure {
	lengths, most := map[string]int{}, 0
	for _, p := range m.packages {
		for _, fn := range functions(p) {
			n := linesBetween(p.Fset, fn.Pos(), fn.End())
			name := m.short(p) + "." + fn.Name.Name
			lengths[name] = max(lengths[name], n) // Methods of several types may have the same name.
			most = max(most, n)
		}
	}
	return figure{value: strconv.Itoa(most), text: "lines in the longest function", examples: top(lengths, 3)}
}

// exported counts the exported top-level names that no other package uses, including tests. It does not count the names
// of an API. A type is used if it is part of the declaration of a used name. A constant is used if its type is used.
func (m *module) exported() figure {
	used := map[string]bool{}
	for _, p := range m.users {
		for _, o := range p.TypesInfo.Uses {
			if o.Pkg() != nil && strings.TrimSuffix(p.PkgPath, "_test") != o.Pkg().Path() && o.Pos().IsValid() {
				used[at(p, o)] = true
			}
		}
	}
	var examples []string
	for _, p := range m.packages {
		if p.Name == "main" || strings.HasPrefix(m.short(p), "apis") {
			continue
		}
		shown := shownTypes(p)
		for _, name := range p.Types.Scope().Names() {
			o := p.Types.Scope().Lookup(name)
			c, isConst := o.(*types.Const)
			if !o.Exported() || used[at(p, o)] || shown[o] || isConst && isNamed(c.Type(), shown) {
				continue
			}
			examples = append(examples, m.short(p)+"."+name)
		}
	}
	return figure{value: strconv.Itoa(len(examples)), text: "exported names that no other package uses",
		examples: examples}
}

func at(p *packages.Package, o types.Object) string { return p.Fset.Position(o.Pos()).String() }

func isNamed(t types.Type, among map[types.Object]bool) bool {
	n, ok := t.(*types.Named)
	return ok && among[n.Obj()]
}

// shownTypes returns the types that occur in the signatures of exported functions and in exported fields.
func shownTypes(p *packages.Package) map[types.Object]bool {
	shown := map[types.Object]bool{}
	show := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if o, ok := p.TypesInfo.Uses[id].(*types.TypeName); ok {
					shown[o] = true
				}
			}
			return true
		})
	}
	for _, f := range files(p) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.IsExported() {
					show(n.Type)
				}
				return false
			case *ast.Field:
				if len(n.Names) == 0 || n.Names[0].IsExported() {
					show(n.Type)
				}
			}
			return true
		})
	}
	return shown
}
