package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// A limit is the maximum of a measured property of the code. Some limits are higher than the goal that sentence
// mentions. They are ratchets: they equal the current value and may only be lowered.
type limit struct {
	most     float64
	sentence string
	measure  func(*sources) (value float64, places []string)
}

// limits lists the limits in the order in which they are printed.
var limits = []limit{
	{0, "variables, parameters, constants and fields are named by a word that names no thing (of, is, at, to, said …): " +
		"name the value",
		func(s *sources) (float64, []string) { return s.namedBy(vagueWords, false) }},
	{0.5, "% of all names are another preposition, pronoun or question word (why, into, with …): name the value",
		func(s *sources) (float64, []string) { return s.namedBy(functionWords, true) }},
	{0, "Go lines are over 140 characters, without those that cannot be broken (raw strings, markers, nolint): wrap them",
		func(s *sources) (float64, []string) { return s.longLines(140, false) }},
	{1.5, "% of all Go lines are over 120 characters: wrap them",
		func(s *sources) (float64, []string) { return s.longLines(120, true) }},
	{60, "lines has the longest function of the product, as funlen counts them: split it", (*sources).longestFunction},
	{6000, "lines has the largest package of the product (a ratchet, the goal is 2000): split it",
		(*sources).largestPackage},
	{900, "lines has the median package of the product (a ratchet, the goal is 500): split packages",
		(*sources).medianPackage},
	{42, "methods has the type of the product with the most (a ratchet, the goal is 25): split it",
		(*sources).mostMethods},
	{18.5, "% of the unexported functions of the product are named by one word (a ratchet, the goal is 11): use a verb " +
		"and its object",
		(*sources).oneWordFunctions},
	{0, "imports go up the order of packages, or are of a package that has no place in it (packageOrder in limits.go)",
		(*sources).importsUp},
}

// vagueWords lists the names that the style of this repository forbids.
var vagueWords = strings.Fields(
	"of is was by at to said has wants soon look again away tardy stuck patience share slow")

// functionWords lists further words that say nothing about a value, such as pronouns and prepositions. It does not
// contain words that are conventional in Go and Kubernetes, such as in, out, all, from, before, done and most.
var functionWords = strings.Fields(
	"about am an and are as be been but can could did do does each for had have he her here him his " +
		"how if into it its may me might must my nor not off on or over she should so some such than that the their them " +
		"then there " +
		"these they this those though too until up us very we were what when where which while who whom whose why will " +
		"with within " +
		"without would yes yet you your")

// packageOrder lists the packages in order. Each package may only import earlier packages.
var packageOrder = strings.Fields(
	`apis/redact apis/v1 apis/agent fn/autogrow fn/bufferpool fn/ciphers fn/fieldcheck fn/mycnf fn/durability fn/options fn/placement fn/compose fn controller/internal/admission controller/internal/clock
	controller/internal/nsrules controller/internal/certificate controller/internal/mysqld/version controller/internal/mysqld/datadir
	controller/internal/mysqld/foreign controller/internal/mysqld/process controller/internal/mysqld/exporter controller/internal/mysqld/sql controller/internal/mysqld/local
	controller/internal/exit controller/internal/datavolume controller/internal/change controller/internal/secrets controller/internal/workload
	controller/internal/store controller/internal/binlog controller/internal/logarchive controller/internal/recovery controller/internal/undo
	controller/internal/storekey controller/internal/gateway controller/internal/archive controller/internal/instance
	controller/internal/steps controller/internal/backupobject controller/internal/catalog controller/internal/backup controller/internal/lifecycle
	controller/internal/restoretest controller/internal/stores controller/internal/rotate controller/internal/servercert
	controller/internal/mysqld/bootcheck controller/internal/mysqld/clone controller/internal/mysqld/initialize
	controller/internal/doctor controller/internal/adopt controller/internal/volumestats controller/internal/autogrow controller/internal/reconciler controller controller/kubectl-mysql`)

// checkLimits prints each measured value with its limit. Its error contains a sentence for each limit that is exceeded.
func checkLimits(out io.Writer, root string) error {
	s, err := parse(root)
	if err != nil {
		return fmt.Errorf("cannot measure %s: %w", root, err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var errs []error
	for _, l := range limits {
		value, places := l.measure(s)
		text, _, _ := strings.Cut(l.sentence, ":")
		if _, err := fmt.Fprintf(w, "%.4g\tof %.4g\t\x20%s\n", value, l.most, text); err != nil {
			return err
		}
		if value > l.most {
			errs = append(errs, fmt.Errorf("%.4g %s. The limit is %.4g.%s", value, l.sentence, l.most, list(places)))
		}
	}
	return errors.Join(append(errs, w.Flush())...)
}

// list returns the first entries of places as lines, and the number of omitted entries.
func list(places []string) string {
	const shown = 20
	out := append([]string{""}, places[:min(shown, len(places))]...)
	if n := len(places) - shown; n > 0 {
		out = append(out, fmt.Sprintf("… and %d more", n))
	}
	return strings.Join(out, "\n\t")
}

// sources contains all Go files of a repository that are not generated, from all modules and with all build tags.
type sources struct {
	fset  *token.FileSet
	files []sourceFile
}

type sourceFile struct {
	*ast.File

	path string // The path below the root directory, with slashes.
	text string
}

func (f *sourceFile) dir() string {
	return strings.TrimSuffix(f.path[:strings.LastIndex("/"+f.path, "/")], "/")
}

// isProduct reports whether a file is part of the product, and not a test or a test helper.
func (f *sourceFile) isProduct() bool {
	first, _, _ := strings.Cut(f.path, "/")
	return !strings.HasSuffix(f.path, "_test.go") && !strings.Contains("/"+f.path, "/test/") && first != "hack"
}

func parse(root string) (*sources, error) {
	s := &sources{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root &&
				(strings.HasPrefix(name, ".") || name == "dist" || name == "testdata" || name == "vendor") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		return s.add(root, path)
	})
	if err == nil && len(s.files) == 0 {
		err = errors.New("there is no Go file in it")
	}
	return s, err
}

func (s *sources) add(root, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	f, err := parser.ParseFile(s.fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(f) {
		s.files = append(s.files, sourceFile{File: f, path: rel, text: string(text)})
	}
	return nil
}

// namedBy counts the variables, parameters, constants and fields whose name is in words. It returns their number or
// their percentage, and their locations.
func (s *sources) namedBy(words []string, inPercent bool) (float64, []string) {
	var places []string
	all := 0
	for i := range s.files {
		for _, id := range declared(s.files[i].File) {
			all++
			if slices.Contains(words, id.Name) {
				places = append(places, fmt.Sprintf("%s: %s", s.fset.Position(id.Pos()), id.Name))
			}
		}
	}
	if inPercent {
		return share(len(places), all), places
	}
	return float64(len(places)), places
}

func share(n, all int) float64 { return 100 * float64(n) / float64(max(all, 1)) }

// declared returns the names of the variables, parameters, constants and fields that a file declares.
func declared(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	addExprs := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				out = append(out, id)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			out = append(out, n.Names...)
		case *ast.ValueSpec:
			out = append(out, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				addExprs(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				addExprs(n.Key, n.Value)
			}
		case *ast.InterfaceType: // Methods are not counted, but their parameters are.
			for _, m := range n.Methods.List {
				if t, ok := m.Type.(*ast.FuncType); ok {
					for _, p := range t.Params.List {
						out = append(out, p.Names...)
					}
				}
			}
			return false
		}
		return true
	})
	return slices.DeleteFunc(out, func(id *ast.Ident) bool { return id.Name == "_" })
}

// longLines counts the lines with more than most characters. It returns their percentage, or the number of lines that
// can be wrapped, and their locations.
func (s *sources) longLines(most int, inPercent bool) (float64, []string) {
	var places []string
	all := 0
	for i := range s.files {
		f := &s.files[i]
		lines := strings.Split(f.text, "\n")
		all += len(lines)
		var fixed map[int]bool
		for n, line := range lines {
			if len([]rune(line)) <= most {
				continue
			}
			if fixed == nil {
				fixed = s.unbreakable(f, lines)
			}
			if inPercent || !fixed[n+1] {
				places = append(places, fmt.Sprintf("%s:%d", f.path, n+1))
			}
		}
	}
	if inPercent {
		return share(len(places), all), places
	}
	return float64(len(places)), places
}

// unbreakable returns the lines that cannot be wrapped, because they contain a raw string, a generator's marker or an
// exception of the linter.
func (s *sources) unbreakable(f *sourceFile, lines []string) map[int]bool {
	out := map[int]bool{}
	ast.Inspect(f.File, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value[0] == '`' {
			for l := s.fset.Position(lit.Pos()).Line; l <= s.fset.Position(lit.End()).Line; l++ {
				out[l] = true
			}
		}
		return true
	})
	for n, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "// +") || strings.HasPrefix(trimmed, "//go:") || strings.Contains(line, "//nolint:") {
			out[n+1] = true
		}
	}
	return out
}

// productFunctions calls visit for each function of the product that has a body.
func (s *sources) productFunctions(visit func(*sourceFile, *ast.FuncDecl)) {
	for i := range s.files {
		f := &s.files[i]
		if !f.isProduct() {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				visit(f, fn)
			}
		}
	}
}

func (s *sources) longestFunction() (float64, []string) {
	return s.most(func(count func(place string, n int)) {
		s.productFunctions(func(_ *sourceFile, fn *ast.FuncDecl) {
			lines := s.fset.Position(fn.Body.Rbrace).Line - s.fset.Position(fn.Body.Lbrace).Line - 1
			count(fmt.Sprintf("%s: %s", s.fset.Position(fn.Pos()), fn.Name.Name), lines)
		})
	})
}

// most returns the largest total of the numbers that count adds for one place in the code, and the places with the
// largest totals.
func (*sources) most(count func(add func(place string, n int))) (float64, []string) {
	sums := map[string]int{}
	count(func(place string, n int) { sums[place] += n })
	highest := 0
	for _, n := range sums {
		highest = max(highest, n)
	}
	return float64(highest), top(sums, 5)
}

// packageSizes returns the number of lines of each package of the product.
func (s *sources) packageSizes() map[string]int {
	out := map[string]int{}
	for i := range s.files {
		if f := &s.files[i]; f.isProduct() {
			out[f.dir()] += strings.Count(f.text, "\n")
		}
	}
	return out
}

func (s *sources) largestPackage() (float64, []string) {
	return s.most(func(add func(place string, n int)) {
		for name, n := range s.packageSizes() {
			add(name, n)
		}
	})
}

func (s *sources) medianPackage() (float64, []string) {
	sizes := s.packageSizes()
	all := make([]int, 0, len(sizes))
	for _, n := range sizes {
		all = append(all, n)
	}
	if len(all) == 0 {
		return 0, nil
	}
	slices.Sort(all)
	return float64(all[len(all)/2]), top(sizes, len(all)/2)
}

func (s *sources) mostMethods() (float64, []string) {
	return s.most(func(add func(place string, n int)) {
		s.productFunctions(func(f *sourceFile, fn *ast.FuncDecl) {
			if fn.Recv != nil {
				add(f.dir()+"."+receiver(fn.Recv.List[0].Type), 1)
			}
		})
	})
}

func (s *sources) oneWordFunctions() (float64, []string) {
	var places []string
	all := 0
	s.productFunctions(func(_ *sourceFile, fn *ast.FuncDecl) {
		name := fn.Name.Name
		if !isNamedByUs(fn) {
			return
		}
		all++
		if !strings.ContainsFunc(name, unicode.IsUpper) && !strings.ContainsRune(name, '_') {
			places = append(places, fmt.Sprintf("%s: %s", s.fset.Position(fn.Pos()), name))
		}
	})
	return share(len(places), all), places
}

// isNamedByUs reports whether the author of the function could choose its name freely. This excludes exported
// functions, main and init.
func isNamedByUs(fn *ast.FuncDecl) bool {
	return !fn.Name.IsExported() && !slices.Contains([]string{"main", "init", "_"}, fn.Name.Name)
}

// importsUp counts the product's imports of packages that are not earlier in packageOrder.
func (s *sources) importsUp() (float64, []string) {
	found := map[string]bool{}
	for i := range s.files {
		f := &s.files[i]
		from := slices.Index(packageOrder, f.dir())
		if !f.isProduct() || !isOrdered(f.dir()) {
			continue
		}
		if from < 0 {
			found[f.dir()+" has no place"] = true
			continue
		}
		for _, imported := range f.Imports {
			_, name, ours := strings.Cut(strings.Trim(imported.Path.Value, `"`), "crossplane-mysql/crossplane-mysql/")
			if ours && slices.Index(packageOrder, name) >= from {
				found[f.dir()+" imports "+name] = true
			}
			if ours && !slices.Contains(packageOrder, name) {
				found[f.dir()+" imports "+name+", which has no place"] = true
			}
		}
	}
	places := make([]string, 0, len(found))
	for place := range found {
		places = append(places, place)
	}
	slices.Sort(places)
	return float64(len(places)), places
}

// isOrdered reports whether a directory belongs to a program that runs in a cluster, and not to a test or a build.
func isOrdered(dir string) bool {
	first, _, _ := strings.Cut(dir, "/")
	return slices.Contains([]string{"apis", "fn", "controller"}, first) && dir != "apis"
}
