package clone

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/local"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

const (
	// stopTime is the timeout for a clean shutdown of a server.
	stopTime = 10 * time.Minute
	// maxBytes is the maximum number of bytes that a server may send over one connection.
	maxBytes = 16 << 20
)

// A server is a temporary mysqld process of a Clone, with one connection to it.
type server struct {
	*process.Process

	db *sql.DB
}

func (c *Clone) socket() string { return filepath.Join(c.Dir, "s") }

// start starts mysqld on a data directory, which is a subdirectory of Dir.
func (c *Clone) start(program, dir string, options ...string) (*process.Process, error) {
	list := append([]string{
		"--no-defaults", "--loose-persisted-globals-load=OFF",
		"--datadir=" + filepath.Join(c.Dir, dir), "--tmpdir=" + filepath.Join(c.Dir, tmpDir),
		"--socket=" + c.socket(), "--pid-file=" + c.socket() + ".pid",
		"--skip-networking", "--loose-mysqlx=OFF", "--secure-file-priv=NULL", "--local-infile=OFF",
		"--skip-log-bin", "--loose-skip-replica-start", "--loose-skip-slave-start", "--event-scheduler=DISABLED",
		"--innodb-buffer-pool-size=64M", "--max-connections=16", "--loose-innodb-use-native-aio=OFF",
		"--innodb-page-size=" + strconv.Itoa(c.Donor.Layout.PageSize),
		"--lower-case-table-names=" + strconv.Itoa(c.Donor.Layout.LowerCase),
	}, options...)
	if os.Geteuid() == 0 {
		list = append(list, "--user=root")
	}
	return local.Start(c.command, program, list, c.Output)
}

// serve starts a server on a directory and waits until it answers. Only the context limits the time.
func (c *Clone) serve(ctx context.Context, program, dir string, options ...string) (*server, error) {
	p, err := c.start(program, dir, options...)
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	if s.db, err = c.openDB(); err == nil {
		err = local.Await(ctx, s.db, p, func() error {
			return fmt.Errorf("the server did not start (%s): %s", p.End(), p.Log.Complaints())
		})
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (c *Clone) openDB() (*sql.DB, error) {
	db, err := local.Open(c.socket(), maxBytes, nil)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // All statements run in the same session.
	return db, nil
}

// Kill closes the connection and kills the server.
func (s *server) Kill() {
	if s.db != nil {
		_ = s.db.Close()
	}
	s.Process.Kill()
}

// cause returns the server's error messages if the server has exited, or else the given error.
func (s *server) cause(err error) error {
	if mysqldsql.IsUnreachable(err) && s.Ended() {
		return fmt.Errorf("the server has exited (%s): %s", s.End(), s.Log.Complaints())
	}
	return err
}
