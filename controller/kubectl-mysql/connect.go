package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// connectCommand is `kubectl mysql connect`.
type connectCommand struct {
	Name        string   `arg:""          help:"Name of the claim."`
	Args        []string `arg:""          help:"Arguments of the client, after --; such as -- --execute='SELECT 1'." optional:""`
	Client      string   `default:"mysql" help:"The client's program."`
	ForwardOnly bool     `help:"Forward a port until Ctrl-C, print it, and run no client."`
}

// Help that follows the flags.
func (*connectCommand) Help() string {
	return "It logs in as root, with the password of the connection Secret, which it reads; neither a command line nor a process has it. The client believes this server's certificate and no other's."
}

// Run it.
func (c *connectCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *connectCommand) run(ctx context.Context, s *session) error {
	claim, err := s.find(ctx, c.Name)
	if err != nil {
		return err
	}
	if claim.Type != v1.TypeMySQL {
		return plainf("%s is a Database of type %s: it has no password and no Secret to log in with", c.Name, claim.Type)
	}
	if !mayServe(claim.Conditions) {
		return plainf("the server of %s takes no clients: %s", c.Name, claim.Status.Message)
	}
	if claim.Status.Binding == nil {
		return plainf("%s names no Secret to log in with: its function is of an earlier release", c.Name)
	}
	secret := &corev1.Secret{}
	if err := s.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: claim.Status.Binding.Name}, secret); err != nil {
		return err
	}
	outer := ctx
	ctx, stop := signal.NotifyContext(context.WithoutCancel(outer), ends()...)
	defer stop()
	letGo := context.AfterFunc(outer, stop)
	of := v1.Instance{Kind: claim.GetKind(), Namespace: s.namespace, Name: c.Name}
	port, ended, err := s.forward(ctx, "service/"+of.ServiceName(), claim.Status.Endpoint)
	if err != nil {
		return err
	}
	defer func() { stop(); <-ended }()
	if c.ForwardOnly {
		if err := s.printPort(port); err != nil {
			return err
		}
		return <-ended
	}
	defer caught()() // From here on Ctrl-C is the client's, which ends a statement by it.
	if !letGo() {
		return context.Cause(outer)
	}
	err = c.runClient(ctx, s, secret, port)
	if err == nil {
		return nil // What becomes of the port after the client's last word concerns nobody.
	}
	select {
	case lost := <-ended:
		return errors.Join(err, lost)
	default:
		return err
	}
}

// mayServe is false while the function says that the server takes no clients, or has not said anything yet. Unknown is what Crossplane makes
// of a word that was said, while it cannot reconcile (internal/controller/apiextensions/composite/reconciler.go in v2.4.0): the server does
// not stop for that.
func mayServe(all []metav1.Condition) bool {
	c := meta.FindStatusCondition(all, v1.ConditionServing)
	return c != nil && c.Status != metav1.ConditionFalse
}

// ends are the signals that end this program while a client has Ctrl-C: one of them when its terminal is closed, unless it was begun
// so that it outlives that, and one by Ctrl-\\, which the client has, too.
func ends() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
}

// caught is Ctrl-C, which ends nothing here until what it returns is called.
func caught() func() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT)
	return func() { signal.Stop(c) }
}

func (s *session) printPort(port string) error {
	if s.json {
		return writeJSON(s.out, map[string]string{"host": "127.0.0.1", "port": port})
	}
	_, err := fmt.Fprintf(s.out, "127.0.0.1:%s\n", port)
	return err
}

// forwarded is what kubectl says of a port.
var forwarded = regexp.MustCompile(`^Forwarding from 127\.0\.0\.1:(\d+) ->`)

// waitDelay is how long kubectl may take to end.
const waitDelay = 5 * time.Second

// forward a port of this machine, until the context ends.
func (s *session) forward(ctx context.Context, to string, at *v1.Endpoint) (port string, ended chan error, err error) {
	if at == nil {
		return "", nil, plainf("there is no way to the server")
	}
	cmd := s.kubectl(ctx, "port-forward", "--address", "127.0.0.1", to, fmt.Sprintf(":%d", at.Port))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it.
	said, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("cannot run kubectl, which forwards the port: %w", err)
	}
	lines := bufio.NewReader(said)
	line, _ := lines.ReadString('\n') // What is wrong with a line that has no end, its end says.
	ended = make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		err := cmd.Wait()
		switch {
		case ctx.Err() != nil:
			err = nil // It was told to.
		case err != nil:
			err = fmt.Errorf("kubectl port-forward has ended: %w: %s", err, strings.TrimSpace(complaint.String()))
		}
		ended <- err
		close(ended) // Whoever asks again is told that it is over.
	}()
	if m := forwarded.FindStringSubmatch(line); m != nil {
		return m[1], ended, nil
	}
	return "", nil, errors.Join(fmt.Errorf("cannot forward a port: %s", strings.TrimSpace(line)), context.Cause(ctx), <-ended)
}

// runClient with files that only it reads, and that go with it.
func (c *connectCommand) runClient(ctx context.Context, s *session, secret *corev1.Secret, port string) (err error) {
	dir, err := os.MkdirTemp("", "kubectl-mysql-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ca := ""
	if len(secret.Data[v1.CAKey]) == 0 {
		fmt.Fprintf(s.progress, "Secret %s/%s has no %s: the server's certificate is not verified\n", secret.Namespace, secret.Name, v1.CAKey) //nolint:errcheck // It is for people.
	}
	if raw := secret.Data[v1.CAKey]; len(raw) > 0 {
		ca = filepath.Join(dir, v1.CAKey)
		if err := os.WriteFile(ca, raw, 0o600); err != nil {
			return err
		}
	}
	options := filepath.Join(dir, "my.cnf")
	if err := os.WriteFile(options, []byte(clientOptions(secret.Data, port, ca)), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.Client, append([]string{"--defaults-file=" + options}, c.Args...)...) //nolint:gosec // The caller says which.
	cmd.Env = append(os.Environ(), "MYSQL_TEST_LOGIN_FILE="+filepath.Join(dir, "none"))                     // Read after all other files: a person's own, of another server.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, s.out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	err = cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return plainf("there is no program %s here: name the client with --client, or take --forward-only", c.Client)
	}
	return err
}

// clientOptions as a file of the mysql client has them. Its certificate is not for 127.0.0.1: it is known by who has signed it.
func clientOptions(data map[string][]byte, port, ca string) string {
	quote := func(value []byte) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(string(value)) + `"`
	}
	lines := []string{
		"[client]", "host=127.0.0.1", "protocol=TCP", "port=" + port, "user=" + quote(data["username"]), "password=" + quote(data["password"]),
	}
	if ca != "" {
		lines = append(lines, "ssl-mode=VERIFY_CA", "ssl-ca="+quote([]byte(ca)))
	}
	if len(data["database"]) > 0 {
		lines = append(lines, "[mysql]", "database="+quote(data["database"]))
	}
	return strings.Join(lines, "\n") + "\n"
}
