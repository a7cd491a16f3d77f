package recovery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/local"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

const (
	// stopTime is the timeout for a clean shutdown of a server.
	stopTime = 30 * time.Minute
	// maxBytes is the maximum number of bytes that a server may send over one connection.
	maxBytes = 64 << 20
	// serverID is the server_id of the temporary server. Servers of instances have smaller ones or random ones, but users
	// can set any. By default, a server silently skips transactions with its own server_id.
	serverID = 4294967293
	// maxWorkers is the maximum number of transactions that are applied concurrently.
	maxWorkers = 4
)

// A server is a temporary mysqld process that accepts no network connections, with one connection to it.
type server struct {
	*process.Process

	db *sql.DB
}

// otherCase is the error message of a server with another lower_case_table_names than its data.
var otherCase = regexp.MustCompile(
	`Different lower_case_table_names settings for server \('\d'\) and data dictionary \('(\d)'\)`)

// startServer starts a server on the data. If its error contains the data's lower_case_table_names, it starts again with
// this setting.
func (r *Recovery) startServer(ctx context.Context, program string) (*server, error) {
	options, err := r.options()
	if err != nil {
		return nil, err
	}
	s, err := r.startWith(ctx, program, options)
	if err == nil {
		return s, nil
	}
	if m := otherCase.FindStringSubmatch(err.Error()); m != nil {
		return r.startWith(ctx, program, append(options, "--lower-case-table-names="+m[1]))
	}
	return nil, err
}

func (r *Recovery) startWith(ctx context.Context, program string, options []string) (*server, error) {
	p, err := local.Start(r.command, program, options, r.Output)
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	if s.db, err = local.Open(r.socket(), maxBytes, nil); err == nil {
		s.db.SetMaxOpenConns(1) // See enableGrants.
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

func (r *Recovery) socket() string { return filepath.Join(r.Scratch, "s") }

// options returns the options of the temporary server. Nothing of its own is written to a binary log. The data needs
// no protection against a crash, because an interrupted recovery begins again.
func (r *Recovery) options() ([]string, error) {
	dir, err := os.OpenRoot(r.Data)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	page, err := datadir.PageSize(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the page size of the data: %w", err)
	}
	list := []string{
		"--no-defaults", "--loose-persisted-globals-load=OFF",
		"--datadir=" + r.Data, "--tmpdir=" + filepath.Join(r.Scratch, "tmp"),
		"--socket=" + r.socket(), "--pid-file=" + r.socket() + ".pid",
		"--skip-networking", "--skip-grant-tables", "--loose-mysqlx=OFF", "--secure-file-priv=NULL", "--local-infile=OFF",
		"--skip-log-bin", "--event-scheduler=OFF", "--innodb-buffer-pool-size=256M", "--max-connections=16",
		"--loose-innodb-use-native-aio=OFF", "--max-allowed-packet=1G",
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--server-id=" + strconv.Itoa(serverID),
		"--relay-log=" + relayName, "--relay-log-index=" + relayIndex, "--relay-log-recovery=OFF",
		"--skip-replica-start=ON", "--replica-parallel-workers=" + strconv.Itoa(min(runtime.GOMAXPROCS(0)*2, maxWorkers)),
		// A claim may set any server_id, and imported data may come from a server with any server_id.
		"--replicate-same-server-id=ON", "--replica-preserve-commit-order=ON", "--replica-max-allowed-packet=1G",
		"--replica-pending-jobs-size-max=1G", "--loose-replica-load-tmpdir=" + filepath.Join(r.Scratch, "tmp"),
		// The log may contain statements that only work with settings of the instance.
		"--loose-mysql-native-password=ON", "--innodb-strict-mode=OFF",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=OFF",
	}
	if page > 0 {
		list = append(list, "--innodb-page-size="+strconv.Itoa(page))
	}
	if os.Geteuid() == 0 {
		list = append(list, "--user=root")
	}
	return list, nil
}

// Kill closes the connection and kills the server.
func (s *server) Kill() {
	if s.db != nil {
		_ = s.db.Close()
	}
	s.Process.Kill()
}

// enableGrants loads the accounts of the data. The log may contain statements that change accounts, which a server
// without accounts refuses. The session was opened without accounts, so it keeps all privileges.
func (s *server) enableGrants(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, "FLUSH PRIVILEGES"); err != nil {
		return fmt.Errorf("cannot load the accounts of the data: %w", s.causeOf(err))
	}
	return nil
}

// stopServer stops the server cleanly.
func (s *server) stopServer(ctx context.Context) error {
	if err := errors.Join(s.db.Close(), s.Stop()); err != nil {
		return err
	}
	select {
	case <-s.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stopTime):
		return errors.New("the temporary server did not exit")
	}
	if !s.ProcessState.Success() {
		return fmt.Errorf("the temporary server did not stop cleanly (%s): %s", s.End(), s.Log.Complaints())
	}
	return nil
}

// causeOf returns the server's error messages if the server has exited, or else the given error.
func (s *server) causeOf(err error) error {
	if mysqldsql.IsUnreachable(err) && s.Ended() {
		return fmt.Errorf("the server has exited (%s): %s", s.End(), s.Log.Complaints())
	}
	return err
}
