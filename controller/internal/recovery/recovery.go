package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// A Recovery applies an archived log to the data directory of a restored backup. No server uses the data directory
// until the recovery is complete. If a recovery is interrupted, the backup must be restored again.
type Recovery struct {
	// Data is the data directory. Scratch is a directory for the socket and for temporary files. Its path must be short.
	Data, Scratch string
	Log           Log
	Source        Source
	Target        Target
	// Output receives the progress lines and the errors of the server.
	Output io.Writer

	// command returns the exec.Cmd that starts mysqld. Tests replace it, to run mysqld from the root file system of an
	// image.
	command func(program string, args ...string) *exec.Cmd
}

// A Result describes the data after a recovery.
type Result struct {
	// GTIDs is the set of all transactions in the recovered data.
	GTIDs string
	// Transactions is the number of transactions that were applied to the backup.
	Transactions int64
	// Last is the last transaction that was recovered, and Next the first one that was not. They are nil if there is
	// none in the archive.
	Last, Next *binlog.Begin
	// Prepared is the number of prepared XA transactions, which a client must commit or roll back.
	Prepared int
	// DisabledEvents are the names of the scheduled events that were created or altered after the backup. The server has
	// disabled them like a replica does, whether or not they were enabled. ALTER EVENT … ENABLE enables them.
	DisabledEvents []string
}

// Run recovers the data to the target, with the server of this image.
func (r *Recovery) Run(ctx context.Context) (Result, error) {
	program, _, err := version.Find()
	if err != nil {
		return Result{}, err
	}
	return r.runWith(ctx, program)
}

func (r *Recovery) runWith(ctx context.Context, program string) (Result, error) {
	if err := r.checkUnused(); err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(filepath.Join(r.Scratch, "tmp"), 0o700); err != nil {
		return Result{}, err
	}
	base, err := r.readBase(ctx, program)
	if err != nil {
		return Result{}, err
	}
	c, err := r.writeRelay(ctx, base)
	if err != nil {
		return Result{}, err
	}
	out := Result{Last: c.last, Next: c.next, Transactions: c.applied, GTIDs: c.included.String()}
	if c.applied > 0 {
		// If it fails, the index remains, so that no recovery begins with the changed data.
		if err := r.replayRelay(ctx, program, c, &out); err != nil {
			return Result{}, err
		}
	}
	return out, r.removeRelay()
}

// checkUnused returns an error if an earlier recovery has begun to change the data.
func (r *Recovery) checkUnused() error {
	if _, err := os.Lstat(filepath.Join(r.Data, relayIndex)); err == nil {
		return errors.New("an interrupted recovery has changed this data: the backup must be restored again")
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// readBase returns the transactions of the backup. A server that did not stop cleanly has its last transactions only
// in its InnoDB log, so a server must read them.
func (r *Recovery) readBase(ctx context.Context, program string) (binlog.Set, error) {
	s, err := r.startServer(ctx, program)
	if err != nil {
		return nil, fmt.Errorf("cannot start a server on the restored backup: %w", err)
	}
	defer s.Kill()
	var mode, text string
	if err := s.db.QueryRowContext(ctx, "SELECT @@gtid_mode, @@gtid_executed").Scan(&mode, &text); err != nil {
		return nil, s.causeOf(err)
	}
	base, err := binlog.ParseSet(text)
	if err != nil {
		return nil, err
	}
	return base, s.stopServer(ctx)
}

// writeRelay verifies the archived log, and writes its transactions up to the target as a relay log.
func (r *Recovery) writeRelay(ctx context.Context, base binlog.Set) (*cut, error) {
	all, err := r.Log.readChain(ctx, r.Source, base)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, exit.With(agent.ExitTarget, "the archived log has no segment")
	}
	if err := checkBase(base, &all[0]); err != nil {
		return nil, exit.With(agent.ExitTarget, "%w", err)
	}
	if t := r.Target.Time; t > 0 && all[0].BeforeTime > t {
		return nil, exit.With(agent.ExitTarget, "the backup may contain transactions that were committed after %s. An older "+
			"backup is required: recover to a later time, or to a GTID", r.Target)
	}
	before, err := all[0].BeforeSegment()
	if err != nil {
		return nil, err
	}
	// A segment after the target may show that the clock was ahead at the target and was then corrected.
	if err := r.Target.checkClock(all); err != nil {
		return nil, err
	}
	all = r.Target.chooseNeeded(all)
	if err := r.checkSpace(all); err != nil {
		return nil, err
	}
	size := int64(0)
	for i := range all {
		size += all[i].Size
	}
	m := agent.StartMeter(r.Output, agent.PhaseFetch, size)
	defer m.Stop()
	c := newCut(r.Target, base, before)
	w := &relay{source: r.Source, line: r.Log.Timeline, cut: c, dataDir: r.Data, meter: m}
	if err := w.writeSegments(ctx, all); err != nil {
		return nil, errors.Join(err, r.removeRelay())
	}
	if err := c.checkEnd(r.Log.Until); err != nil {
		return nil, errors.Join(exit.With(agent.ExitTarget, "%w", err), r.removeRelay())
	}
	return c, nil
}

// freeAfter is the space in bytes that must remain free next to the relay log.
const freeAfter = 64 << 20

// checkSpace returns an error if the relay log does not fit next to the data. The data that the transactions add is
// not known before.
func (r *Recovery) checkSpace(all []logarchive.Manifest) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(r.Data, &fs); err != nil {
		return fmt.Errorf("cannot read the free space of the volume: %w", err)
	}
	need := int64(freeAfter)
	for i := range all {
		need += all[i].Bytes
	}
	free := int64(fs.Bavail) * fs.Bsize //nolint:gosec // A volume is smaller.
	if need > free {
		return exit.With(agent.ExitNoSpace, "the binary log up to %s needs %d MiB next to the data, but the volume has only "+
			"%d MiB free: use a later backup, or a larger volume", r.Target, need>>20+1, free>>20)
	}
	return nil
}

// removeRelay removes the relay log and the files of the replication. Their index is the last of these names, so an
// interrupted recovery can still be recognized.
func (r *Recovery) removeRelay() error {
	names, err := filepath.Glob(filepath.Join(r.Data, relayName+"*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

const (
	// poll is the interval at which the progress of the replay is read.
	poll = 200 * time.Millisecond
	// stuckTime is the maximum time in which the server applies nothing. A single transaction can be large.
	stuckTime = 30 * time.Minute
)

// replayRelay starts a server that applies the relay log, and completes the result.
func (r *Recovery) replayRelay(ctx context.Context, program string, c *cut, out *Result) error {
	s, err := r.startServer(ctx, program)
	if err != nil {
		return fmt.Errorf("cannot start a server to apply the binary log: %w", err)
	}
	defer s.Kill()
	if err := s.enableGrants(ctx); err != nil {
		return err
	}
	before, err := s.readDisabledEvents(ctx)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"CHANGE REPLICATION SOURCE TO RELAY_LOG_FILE='" + relayName + ".000001', RELAY_LOG_POS=4, SOURCE_HOST='none'",
		"START REPLICA SQL_THREAD",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("this image's server cannot apply a binary log (MySQL 8.0.26 or later is required): %w",
				s.causeOf(err))
		}
	}
	m := agent.StartMeter(r.Output, agent.PhaseReplay, c.applied<<20) // A transaction counts as a MiB.
	err = s.awaitTransactions(ctx, c, m)
	m.Stop()
	if err != nil {
		return err
	}
	if out.Prepared, err = s.countPrepared(ctx); err != nil {
		return err
	}
	after, err := s.readDisabledEvents(ctx)
	if err != nil {
		return err
	}
	out.DisabledEvents = slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	for _, statement := range []string{"STOP REPLICA", "RESET REPLICA ALL"} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("cannot end the replay: %w", s.causeOf(err))
		}
	}
	return s.stopServer(ctx)
}

// awaitTransactions waits until the server has executed exactly the expected transactions.
func (s *server) awaitTransactions(ctx context.Context, c *cut, m *agent.Meter) error {
	done, moved := int64(0), time.Now()
	for {
		got, err := s.readExecuted(ctx)
		if err != nil {
			return err
		}
		if n := got.Count() - c.base.Count(); n > done {
			m.Add((n - done) << 20)
			done, moved = n, time.Now()
		}
		if got.Equal(c.included) {
			return nil
		}
		if extra := got.Without(c.included); !extra.IsEmpty() {
			return fmt.Errorf("the server has executed transactions that were not expected: %.200s", extra)
		}
		if err := s.replicaError(ctx); err != nil {
			return err
		}
		if time.Since(moved) > stuckTime {
			return fmt.Errorf("the server has applied nothing for %s. It lacks the transactions %.200s", stuckTime,
				c.included.Without(got))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

func (s *server) readExecuted(ctx context.Context) (binlog.Set, error) {
	var text string
	if err := s.db.QueryRowContext(ctx, "SELECT @@gtid_executed").Scan(&text); err != nil {
		return nil, s.causeOf(err)
	}
	return binlog.ParseSet(text)
}

// replicaError returns the error with which the server has stopped to apply transactions.
func (s *server) replicaError(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, `SELECT LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE
		FROM performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_NUMBER <> 0
		UNION SELECT LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE
		FROM performance_schema.replication_applier_status_by_coordinator WHERE LAST_ERROR_NUMBER <> 0`)
	if err != nil {
		return s.causeOf(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	texts := []string{}
	for rows.Next() {
		var number int
		var text string
		if err := rows.Scan(&number, &text); err != nil {
			return err
		}
		texts = append(texts, fmt.Sprintf("%s (error %d)", text, number))
	}
	if err := rows.Err(); err != nil || len(texts) == 0 {
		return err
	}
	return fmt.Errorf("the server cannot apply the archived binary log: %s", strings.Join(texts, "; "))
}

// readDisabledEvents returns the scheduled events that are disabled because they were replicated. MySQL has two names for
// that status.
func (s *server) readDisabledEvents(ctx context.Context) (out []string, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT CONCAT(EVENT_SCHEMA, '.', EVENT_NAME) FROM information_schema.EVENTS "+
		"WHERE STATUS LIKE '%SIDE_DISABLED' ORDER BY 1")
	if err != nil {
		return nil, s.causeOf(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

// countPrepared returns the number of prepared XA transactions. They hold locks until a client ends them.
func (s *server) countPrepared(ctx context.Context) (n int, err error) {
	rows, err := s.db.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		return 0, s.causeOf(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}
