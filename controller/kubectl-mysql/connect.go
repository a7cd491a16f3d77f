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

// connectCommand implements `kubectl mysql connect`, which runs the mysql client through a forwarded port.
type connectCommand struct {
	Name        string   `arg:""          help:"Name of the instance."`
	Args        []string `arg:""          help:"Arguments of the client, after two dashes. Example: -- --execute='SELECT 1'" optional:""`
	Client      string   `default:"mysql" help:"Program of the client."`
	ForwardOnly bool     `help:"Only forward a port and print it, until Ctrl-C. No client is run."`
}

// Help returns additional text for the output of --help.
func (*connectCommand) Help() string {
	return "It logs in as root with the password from the connection Secret. The password does not appear on a " +
		"command line or in an environment variable. The client accepts only the certificate of this server."
}

// Run forwards a local port to the server, and runs the client, unless only the port is requested.
func (c *connectCommand) Run(ctx context.Context, root *cli) error {
	s, err := root.open()
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
		return plainf("%s is a Database of type %s: it has neither a password nor a connection Secret", c.Name, claim.Type)
	}
	if !mayServe(claim.Conditions) {
		return plainf("the server of %s does not accept clients: %s", c.Name, claim.Status.Message)
	}
	if claim.Status.Binding == nil {
		return plainf("the status of %s contains no connection Secret, because it was written by an earlier release of "+
			"the function", c.Name)
	}
	secret := &corev1.Secret{}
	if err := s.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: claim.Status.Binding.Name},
		secret); err != nil {
		return err
	}
	outer := ctx
	ctx, stop := signal.NotifyContext(context.WithoutCancel(outer), ends()...)
	defer stop()
	letGo := context.AfterFunc(outer, stop)
	instance := v1.Instance{Kind: claim.GetKind(), Namespace: s.namespace, Name: c.Name}
	port, ended, err := s.forward(ctx, "service/"+instance.ServiceName(), claim.Status.Endpoint)
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
	defer caught()() // From here on, Ctrl-C cancels only the client's statement.
	if !letGo() {
		return context.Cause(outer)
	}
	err = c.runClient(ctx, s, secret, port)
	if err == nil {
		return nil // Errors of the port forwarding are ignored after the client has exited.
	}
	select {
	case lost := <-ended:
		return errors.Join(err, lost)
	default:
		return err
	}
}

// mayServe reports whether the server may accept clients, according to the condition that the function sets.
// Crossplane sets the condition to Unknown while it cannot reconcile
// (internal/controller/apiextensions/composite/reconciler.go in v2.4.0), although the server keeps running.
func mayServe(all []metav1.Condition) bool {
	c := meta.FindStatusCondition(all, v1.ConditionServing)
	return c != nil && c.Status != metav1.ConditionFalse
}

// ends returns the signals that stop this program while a client handles Ctrl-C. SIGHUP is sent when the terminal is
// closed, unless the program was started with nohup. SIGQUIT is sent by Ctrl-\, and the client also receives it.
func ends() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
}

// caught makes this program ignore Ctrl-C until the returned function is called.
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

// forwarded matches the line in which kubectl prints the port.
var forwarded = regexp.MustCompile(`^Forwarding from 127\.0\.0\.1:(\d+) ->`)

// waitDelay is the maximum time to wait for the exit of kubectl.
const waitDelay = 5 * time.Second

// forward runs kubectl port-forward to the endpoint of an instance until the context is canceled.
func (s *session) forward(ctx context.Context, target string, endpoint *v1.Endpoint) (port string, ended chan error,
	err error) {
	if endpoint == nil {
		return "", nil, plainf("the server cannot be reached")
	}
	cmd := s.kubectl(ctx, "port-forward", "--address", "127.0.0.1", target, fmt.Sprintf(":%d", endpoint.Port))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not stop kubectl.
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("cannot run kubectl, which forwards the port: %w", err)
	}
	lines := bufio.NewReader(output)
	line, _ := lines.ReadString('\n') // If the line is incomplete, the exit of kubectl explains why.
	ended = make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		err := cmd.Wait()
		switch {
		case ctx.Err() != nil:
			err = nil // kubectl was stopped.
		case err != nil:
			err = fmt.Errorf("kubectl port-forward has exited: %w: %s", err, strings.TrimSpace(complaint.String()))
		}
		ended <- err
		close(ended) // A later read then returns immediately.
	}()
	if m := forwarded.FindStringSubmatch(line); m != nil {
		return m[1], ended, nil
	}
	return "", nil, errors.Join(fmt.Errorf("cannot forward a port: %s", strings.TrimSpace(line)), context.Cause(ctx),
		<-ended)
}

// runClient runs the client with files that only this user can read, and deletes them afterwards.
func (c *connectCommand) runClient(ctx context.Context, s *session, secret *corev1.Secret, port string) (err error) {
	dir, err := os.MkdirTemp("", "kubectl-mysql-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ca := ""
	if len(secret.Data[v1.CAKey]) == 0 {
		fmt.Fprintf(s.progress, "Secret %s/%s has no %s: the server's certificate is not verified\n", secret.Namespace, secret.Name, v1.CAKey) //nolint:errcheck // A lost line is no reason to fail.
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
	cmd := exec.CommandContext(ctx, c.Client, append([]string{"--defaults-file=" + options}, c.Args...)...) //nolint:gosec // The user chooses the client.
	// The client reads its login file last. The user's own login file may be for another server, so it is not used.
	cmd.Env = append(os.Environ(), "MYSQL_TEST_LOGIN_FILE="+filepath.Join(dir, "none"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, s.out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	err = cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return plainf("the program %s was not found: specify a client with --client, or use --forward-only", c.Client)
	}
	return err
}

// clientOptions returns an option file of the mysql client. The client verifies only the certificate authority,
// because the certificate is not valid for 127.0.0.1.
func clientOptions(data map[string][]byte, port, ca string) string {
	quote := func(value []byte) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(string(value)) +
			`"`
	}
	lines := []string{
		"[client]", "host=127.0.0.1", "protocol=TCP", "port=" + port, "user=" + quote(data["username"]),
		"password=" + quote(data["password"]),
	}
	if ca != "" {
		lines = append(lines, "ssl-mode=VERIFY_CA", "ssl-ca="+quote([]byte(ca)))
	}
	if len(data["database"]) > 0 {
		lines = append(lines, "[mysql]", "database="+quote(data["database"]))
	}
	return strings.Join(lines, "\n") + "\n"
}
