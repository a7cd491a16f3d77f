package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Environment variables with which the test binary does not run tests. Instead, it runs the demo, or acts as a fake
// kubectl that records its calls.
const (
	mainVariable = "DEMO_TEST_MAIN"
	logVariable  = "DEMO_TEST_LOG"
	// failVariable and hangVariable contain the first argument of a call in which the fake kubectl must fail or hang.
	failVariable = "DEMO_TEST_FAIL"
	hangVariable = "DEMO_TEST_HANG"
	// answerVariable contains the text that the fake kubectl prints.
	answerVariable = "DEMO_TEST_ANSWER"
)

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "kubectl":
		os.Exit(fakeKubectl(os.Args[1:]))
	case os.Getenv(mainVariable) != "":
		main()
		return
	}
	os.Exit(m.Run())
}

// A call is a recorded call of the fake kubectl.
type call struct {
	Args  []string `json:"args"`
	Stdin string   `json:"stdin"`
}

func fakeKubectl(args []string) int {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	line, err := json.Marshal(call{args, string(in)})
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(os.Getenv(logVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		panic(err)
	}
	switch args[0] {
	case os.Getenv(failVariable):
		_, _ = io.WriteString(os.Stderr, "The connection was refused\n")
		return 1
	case os.Getenv(hangVariable):
		time.Sleep(time.Hour)
	}
	_, _ = io.WriteString(os.Stdout, os.Getenv(answerVariable))
	return 0
}

// fake adds a fake kubectl to PATH, and returns the file in which it records its calls.
func fake(t *testing.T) (log string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	log = filepath.Join(dir, "log")
	t.Setenv(logVariable, log)
	return log
}

// calls returns the calls of the fake kubectl that were recorded since the previous call of this function.
func calls(t *testing.T, log string) []call {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(log); err != nil {
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

// self returns a command that runs the demo as a separate process.
func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	return cmd
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit.ExitCode()
}
