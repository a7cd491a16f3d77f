package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// goodbye is the time for an interrupted program to clean up, before it is killed.
const goodbye = 90 * time.Second

// program returns a command that runs in its own process group, so that Ctrl-C reaches the program and its children
// exactly once.
func program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = goodbye
	return cmd
}

// A command is a kubectl command that the demo runs and shows.
type command struct {
	args  []string
	stdin string
	// text is the shell command that the demo shows. It is empty if the arguments of kubectl can be shown as they are.
	text string
}

// quote quotes a word for a shell, if necessary.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// A kubectl runs kubectl commands and shows them.
type kubectl struct {
	// path is the path of the program. first contains arguments that are added before the arguments of each command.
	path  string
	first []string
	env   []string
	// namespace is the namespace of the commands. If it is empty, they use the namespace of the context.
	namespace string

	screen *screen
}

// findKubectl returns the user's kubectl. If there is none, it builds kubectl from this repository.
func findKubectl(ctx context.Context, s *screen, kubeconfig, cache string) (*kubectl, error) {
	k := &kubectl{screen: s, env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+cache)}
	path, err := exec.LookPath("kubectl")
	if err == nil {
		k.path = path
		return k, nil
	}
	s.sayf("there is no kubectl on this machine: taking the one that is built from Kubernetes' modules")
	build := program(ctx, "go", "run", "./test/tools", "kube")
	build.Stderr = &stamper{screen: s}
	out, err := build.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot build kubectl: %w", err)
	}
	k.path, k.first = strings.TrimSpace(string(out)), []string{"kubectl"}
	return k, nil
}

// alias returns a shell alias for the kubectl that the demo has built, or "" if the user has kubectl.
func (k *kubectl) alias() string {
	if len(k.first) == 0 {
		return ""
	}
	return "alias kubectl=" + quote(k.path+" "+strings.Join(k.first, " "))
}

// words returns the arguments of kubectl for a command, including its namespace.
func (k *kubectl) words(c command) []string {
	if k.namespace == "" {
		return c.args
	}
	return append([]string{"-n", k.namespace}, c.args...)
}

// shell returns the text of a command as a user would type it in a shell.
func (k *kubectl) shell(c command) string {
	if c.text != "" {
		return c.text
	}
	words := []string{"kubectl"}
	for _, w := range k.words(c) {
		words = append(words, quote(w))
	}
	return strings.Join(words, " ")
}

// say shows a kubectl command, as a user would type it, and the given output.
func (k *kubectl) say(c command, printed string) {
	k.screen.show("$ " + k.shell(c) + "\n" + printed)
}

// enter shows a kubectl command as a user would type it, runs it, and shows its output as it is printed.
func (k *kubectl) enter(ctx context.Context, args ...string) error {
	return k.enterCommand(ctx, command{args: args})
}

func (k *kubectl) enterCommand(ctx context.Context, c command) error {
	k.say(c, "")
	return k.run(ctx, c, k.screen, k.screen)
}

// ask runs a kubectl command without showing it, and returns its output.
func (k *kubectl) ask(ctx context.Context, args ...string) (string, error) {
	return k.answer(ctx, command{args: args})
}

// answer runs a kubectl command without showing it, and returns its output. If it fails, the error contains its
// standard error.
func (k *kubectl) answer(ctx context.Context, c command) (string, error) {
	var out, complaint bytes.Buffer
	err := k.run(ctx, c, &out, &complaint)
	if err != nil && complaint.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), err
}

// show runs a kubectl command, shows it together with its output, and returns the output.
func (k *kubectl) show(ctx context.Context, c command) (string, error) {
	var printed bytes.Buffer
	err := k.run(ctx, c, &printed, &printed)
	k.say(c, printed.String())
	return printed.String(), err
}

func (k *kubectl) run(ctx context.Context, c command, out, complaint io.Writer) error {
	cmd := k.process(ctx, c)
	cmd.Stdout, cmd.Stderr = out, complaint
	// The error does not contain the arguments, which may be confidential.
	return ended(ctx, "kubectl "+c.args[0], cmd.Run())
}

// ended returns the error of a program. If the program was interrupted, it returns the error of the context instead.
func ended(ctx context.Context, name string, err error) error {
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (k *kubectl) process(ctx context.Context, c command) *exec.Cmd {
	cmd := program(ctx, k.path, slices.Concat(k.first, k.words(c))...)
	cmd.Env = k.env
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	return cmd
}

// goRun runs a program of this repository and shows its standard error.
func goRun(ctx context.Context, s *screen, env []string, args ...string) error {
	cmd := program(ctx, "go", append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	name := "go run " + strings.Join(args, " ")
	out := &stamper{screen: s}
	cmd.Stderr = out
	stop := out.remind(name, silence)
	err := cmd.Run()
	stop()
	return ended(ctx, name, err)
}
