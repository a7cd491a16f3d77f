package initialize

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// A Validation checks whether a server of this image starts and accepts clients with the my.cnf of this container.
// The server has its own empty data directory. The option --validate-config alone does not check the settings of
// storage engines and plugins (MySQL manual, 7.1.3).
//
//	mysqld --validate-config ─▶ entrypoint initializes a database ─▶ the server starts, and root logs in over TCP
type Validation struct {
	// Volume is an empty directory for the data.
	Volume string
	// Sockets is the directory to create for the server's socket. Its path must be short.
	Sockets string
	// TLS is the directory with the server's certificate, or "" for a server without one.
	TLS string
	// Output receives the logs of the servers.
	Output io.Writer

	// find returns the server's program, and command the command of the entrypoint. Tests replace both.
	find    func() (program string, args []string, err error)
	command func(args ...string) (*exec.Cmd, error)
	address string
}

const (
	// validationTime is the timeout for the whole validation.
	validationTime = 15 * time.Minute
	// withoutZones makes the entrypoint skip the time zones. Loading them would only take time.
	withoutZones = "MYSQL_INITDB_SKIP_TZINFO=1"
	// serverAddress is the address of the server in this container.
	serverAddress = "127.0.0.1:3306"
)

// Run runs the validation. It returns a report even if it fails. If the settings are the cause, the error has the
// code agent.ExitSettings.
func (v *Validation) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "validate-settings"}
	limited, cancel := context.WithTimeout(ctx, validationTime)
	defer cancel()
	err := exit.CodeOf(ctx, v.run(limited, &r))
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = refusedSettings("the server did not start within %s: %w", validationTime, err)
	}
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func refusedSettings(format string, args ...any) error {
	return &agent.ExitError{Code: agent.ExitSettings, Err: fmt.Errorf(format, args...)}
}

func (v *Validation) run(ctx context.Context, r *agent.Report) error {
	if err := v.askServer(ctx); err != nil {
		return err
	}
	dir := filepath.Join(v.Volume, v1.DataDirectory)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		return err
	}
	password := sql.NewPassword()
	i := &Initialization{Sockets: v.Sockets, Output: v.Output, Password: password, command: v.command,
		environment: []string{withoutZones}}
	if err := i.makeDatabase(ctx, r, dir); err != nil {
		return blameSettings(err)
	}
	return v.serve(ctx, i, dir, password)
}

// blameSettings marks the settings as the cause of an error.
func blameSettings(err error) error { return refusedSettings("%w", err) }

// askServer validates the my.cnf with --validate-config if the server supports it.
func (v *Validation) askServer(ctx context.Context) error {
	find := v.find
	if find == nil {
		find = version.Find
	}
	program, _, err := find()
	if err != nil {
		return err
	}
	server, err := version.Ask(ctx)
	if err != nil {
		return err
	}
	if running, err := version.Parse(server.Version); err != nil || !running.ValidatesConfig() {
		return err
	}
	p, err := process.Start(exec.Command(program, "--validate-config"), &process.Log{Out: v.Output, All: true}) //nolint:gosec,noctx // This is the image's server, and it is killed at the end.
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", program, err)
	}
	defer p.Kill()
	select {
	case <-p.Done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !p.ProcessState.Success() {
		return refusedSettings("%s", p.Log.Complaints())
	}
	return nil
}

// serve starts the server as its own container does, and logs in as the controller does.
func (v *Validation) serve(ctx context.Context, i *Initialization, dir string, password sql.Password) error {
	trust, err := v.trust()
	if err != nil {
		return err
	}
	s, err := i.runEntrypoint("", "--datadir="+dir, "--socket="+i.socket(), "--bind-address=127.0.0.1")
	if err != nil {
		return err
	}
	defer s.Kill() // Other processes of the entrypoint are killed with the container.
	if err := s.awaitServer(ctx); err != nil {
		return blameSettings(err)
	}
	address := v.address
	if address == "" {
		address = serverAddress
	}
	tcp := sql.Server{Address: address, Hidden: []sql.Password{password}, Trust: trust,
		Times: &sql.Times{Handshake: answerTime, Session: answerTime}}
	for {
		err := tcp.Ping(ctx, password)
		switch {
		case err == nil || sql.IsHostNotAllowed(err): // The image may restrict the hosts of root.
			return s.stop(ctx)
		case !sql.IsUnreachable(err) || s.Ended():
			return blameSettings(fmt.Errorf("the server runs, but root cannot log in: %w", err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("root cannot log in: %w", err)
		case <-time.After(pollInterval):
		}
	}
}

// trust returns the CA that must have signed the server's certificate. If the server has no certificate, any server
// is accepted.
func (v *Validation) trust() (sql.Trust, error) {
	if v.TLS == "" {
		return sql.Trust{AnyServer: true}, nil
	}
	authorities, err := os.ReadFile(filepath.Join(v.TLS, v1.CAKey))
	if err != nil {
		return sql.Trust{}, fmt.Errorf("cannot read the server's certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return sql.Trust{}, errors.New("the server's certificate authorities are not PEM")
	}
	return sql.Trust{Authorities: pool, AnyName: true}, nil
}
