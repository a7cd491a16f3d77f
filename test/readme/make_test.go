package readme

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var repository = filepath.Join("..", "..")

// logVariable is the environment variable with the file in which a fake program records its calls.
const logVariable = "README_TEST_LOG"

// standIns are the names of the programs that make's recipes call. The test replaces them with fakes that record their
// calls.
var standIns = []string{"go", "kubectl", "rm", "tool"}

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); slices.Contains(standIns, name) {
		if err := standIn(name, os.Args[1:]); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A call is a recorded call of a fake program.
type call struct {
	Program string   `json:"program"`
	Dir     string   `json:"dir"`
	Args    []string `json:"args"`
}

// standIn records a call of a fake program. The fake of test/tools also prints paths of tools, as the real program
// does.
func standIn(name string, args []string) error {
	if name == "go" && len(args) > 2 && args[1] == "./test/tools" {
		for range args[2:] {
			fmt.Println(filepath.Join(filepath.Dir(os.Getenv(logVariable)), "tool"))
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	line, err := json.Marshal(call{name, dir, args})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(os.Getenv(logVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// makes matches commands that call make.
var makes = regexp.MustCompile(`^([A-Z_]+=\S+ )*make `)

// TestMake runs each make command in README.md and docs with fake programs that record their calls, because some of
// the commands would run for hours. It checks that the programs, tests, benchmarks and directories in these calls
// exist.
func TestMake(t *testing.T) {
	for _, c := range Commands(pages(t)) {
		if !makes.MatchString(c) {
			continue
		}
		t.Run(c, func(t *testing.T) {
			calls := noted(t, c)
			if len(calls) == 0 && c != "make help" {
				t.Error("it does nothing")
			}
			for _, c := range calls {
				if err := c.check(); err != nil {
					t.Errorf("%s %q: %v", c.Program, c.Args, err)
				}
			}
		})
	}
}

// noted runs a make command and returns the calls of the fake programs.
func noted(t *testing.T, command string) []call {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range standIns {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	enter(t, repository, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), logVariable + "=" + log, "TMPDIR=" + dir},
		"bash", "-c", command)
	b, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []call
	for line := range strings.Lines(string(b)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// enter runs a command without the environment of a surrounding make, and returns its output.
func enter(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	}), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// check returns an error if the call refers to a directory, package, test or benchmark that does not exist.
func (c call) check() error {
	if c.Program == "kubectl" {
		_, err := os.Stat(filepath.Join(c.Dir, c.value("-k")))
		return err
	}
	if c.Program != "go" {
		return nil
	}
	c.Dir = filepath.Join(c.Dir, c.value("-C"))
	switch c.Args[0] {
	case "run":
		return c.program()
	case "test":
		return c.tests()
	}
	return nil
}

// value returns the value of a flag in the call's arguments, or "".
func (c call) value(flag string) string {
	for i, a := range c.Args {
		if v, found := strings.CutPrefix(a, flag+"="); found {
			return v
		}
		if a == flag && i+1 < len(c.Args) {
			return c.Args[i+1]
		}
	}
	return ""
}

// packages returns the arguments of the call that are Go packages.
func (c call) packages() []string {
	return slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return a != "." && !strings.HasPrefix(a, "./") })
}

// program checks that the package in a recorded `go run` call is a program.
func (c call) program() error {
	found, err := functions(filepath.Join(c.Dir, c.packages()[0]), ".go")
	if err == nil && !slices.Contains(found, "main") {
		err = fmt.Errorf("%s is no program", c.packages()[0])
	}
	return err
}

// tests checks that each test that a recorded `go test` call selects exists.
func (c call) tests() error {
	var found []string
	for _, p := range c.packages() {
		extra, err := functions(filepath.Join(c.Dir, p), "_test.go")
		if err != nil {
			return err
		}
		found = append(found, extra...)
	}
	for kind, flag := range map[string]string{"Test": "-run", "Benchmark": "-bench", "Fuzz": "-fuzz"} {
		for name := range strings.SplitSeq(c.value(flag), "|") {
			pattern := regexp.MustCompile(name)
			if name != "^$" && name != "" &&
				!slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, kind) && pattern.MatchString(f) }) {
				return fmt.Errorf("there is no %s %s", kind, name)
			}
		}
	}
	return nil
}

// function matches a function declaration.
var function = regexp.MustCompile(`(?m)^func (\w+)\(`)

// functions returns the names of all functions in a package's files. kind is the required suffix of a file name. If
// the package ends with "...", it includes the packages below.
func functions(pkg, kind string) ([]string, error) {
	dir, below := strings.CutSuffix(pkg, "...")
	root := os.DirFS(dir)
	var all []string
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && !below:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, kind):
			return nil
		}
		b, err := fs.ReadFile(root, path)
		for _, m := range function.FindAllSubmatch(b, -1) {
			all = append(all, string(m[1]))
		}
		return err
	})
	return all, err
}

// TestHelp checks that `make help` lists every target that occurs in the pages.
func TestHelp(t *testing.T) {
	help := enter(t, repository, nil, "make", "help")
	for _, c := range Typed(pages(t), "make") {
		if name := strings.Fields(c)[1]; !strings.Contains("\n"+help, "\n"+name+" ") {
			t.Errorf("want %s in\n%s", name, help)
		}
	}
}
