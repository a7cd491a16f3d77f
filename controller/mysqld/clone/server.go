package clone

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/sql"
)

const (
	// pause between two looks whether a server is up.
	pause = 100 * time.Millisecond
	// stopTime is how long one may take to write everything out.
	stopTime = 10 * time.Minute
	// maxBytes that it sends over one connection.
	maxBytes = 16 << 20
)

// A server is a process of the program, and one connection to it.
type server struct {
	*process.Process

	db *sql.DB
}

func (c *Clone) socket() string { return filepath.Join(c.Folder, "s") }

// start the program on a folder.
func (c *Clone) start(program, folder string, options ...string) (*process.Process, error) {
	list := append([]string{
		"--no-defaults", "--loose-persisted-globals-load=OFF",
		"--datadir=" + filepath.Join(c.Folder, folder), "--tmpdir=" + filepath.Join(c.Folder, tmpFolder),
		"--socket=" + c.socket(), "--pid-file=" + c.socket() + ".pid",
		"--skip-networking", "--loose-mysqlx=OFF", "--secure-file-priv=NULL", "--local-infile=OFF",
		"--skip-log-bin", "--loose-skip-replica-start", "--loose-skip-slave-start", "--event-scheduler=DISABLED",
		"--innodb-buffer-pool-size=64M", "--max-connections=16", "--loose-innodb-use-native-aio=OFF",
	}, options...)
	if os.Geteuid() == 0 {
		list = append(list, "--user=root")
	}
	command := c.command
	if command == nil {
		command = exec.Command
	}
	p, err := process.Start(command(program, list...), &process.Log{Out: c.Output})
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return p, nil
}

// serve a folder: it returns once the server answers, however long that takes.
func (c *Clone) serve(ctx context.Context, program, folder string, options ...string) (*server, error) {
	p, err := c.start(program, folder, options...)
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	if s.db, err = c.openDB(); err == nil {
		err = s.await(ctx)
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (c *Clone) openDB() (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.Logger = "root", "unix", c.socket(), &mysql.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return mysqldsql.LimitBytes(conn, maxBytes), nil
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1) // What a statement says of its session counts for the next one.
	return db, nil
}

// Kill the server, which has been told to stop, or has failed.
func (s *server) Kill() {
	if s.db != nil {
		_ = s.db.Close()
	}
	s.Process.Kill()
}

// await its first answer.
func (s *server) await(ctx context.Context) error {
	for {
		err := s.db.PingContext(ctx)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return fmt.Errorf("the server does not let anybody in: %w", refused)
		}
		select {
		case <-s.Done:
			return fmt.Errorf("the server does not start (%s): %s", s.ProcessState, s.Log.Complaints())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// cause of an error: what the server complains of, where it has ended.
func (s *server) cause(err error) error {
	if mysqldsql.IsUnreachable(err) && s.Ended() {
		return fmt.Errorf("the server has ended (%s): %s", s.ProcessState, s.Log.Complaints())
	}
	return err
}
