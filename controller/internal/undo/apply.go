package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Error numbers of the server.
const (
	errDuplicate      = 1062
	errDeadlock       = 1213
	errNoParentOld    = 1216
	errIsReferenced   = 1451
	errNoParent       = 1452
	errNoPartition    = 1526
	errCheckViolated  = 3819
	errReferencedOld  = 1217
	errLockWait       = 1205
	maxDeadlocks      = 5
	maxBatchStatement = 200
	maxBatchBytes     = 1 << 20
)

// A Result counts what the undo has done with the rows of one table.
type Result struct {
	// Inserted is the number of rows that were inserted again. Updated is the number of rows whose former values were
	// restored.
	Inserted, Updated int64
	// Unchanged is the number of rows that stayed as they are, although the plan has a statement for them. Reasons maps
	// each reason to its number of rows.
	Unchanged int64
	Reasons   map[string]int64
}

// ErrUnknown is the error if the connection broke during COMMIT, so that the result of the transaction is unknown.
var ErrUnknown = errors.New("the connection broke while the transaction was committed, so it is unknown whether the rows are " +
	"back: run the same command again, which shows what is still missing")

// Apply creates dropped tables again, and runs all statements of the plan in one transaction of the running server. If it
// returns an error, the transaction is rolled back, but the created tables remain.
func (p *Plan) Apply(ctx context.Context, s *Server) ([]Result, error) {
	if err := p.createTables(ctx, s); err != nil {
		return nil, err
	}
	var out []Result
	for attempt := 0; ; attempt++ {
		r := &run{plan: p, server: s, results: make([]Result, len(p.Tables))}
		err := r.runTransaction(ctx)
		if hasCode(err, errDeadlock) && attempt < maxDeadlocks {
			time.Sleep(time.Duration(attempt+1) * 100 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = r.results
		break
	}
	for _, t := range p.Tables {
		for _, sql := range t.createTriggers() {
			if _, err := s.execAll(ctx, sql); err != nil {
				return out, fmt.Errorf("the rows are back, but a trigger of %s could not be created: %w", t.Before.Name, err)
			}
		}
	}
	return out, nil
}

// createTables creates the dropped tables again. Their foreign keys may refer to each other.
func (p *Plan) createTables(ctx context.Context, s *Server) error {
	if _, err := s.execAll(ctx, "SET SESSION foreign_key_checks = 0"); err != nil {
		return err
	}
	for _, t := range p.Tables {
		if !t.IsCreated() {
			continue
		}
		for _, sql := range t.createStatements() {
			if _, err := s.execAll(ctx, sql); err != nil {
				return fmt.Errorf("cannot create table %s again: %w", t.Before.Name, err)
			}
		}
	}
	_, err := s.execAll(ctx, "SET SESSION foreign_key_checks = 1")
	return err
}

// A run is one attempt to execute the statements of the plan in one transaction.
type run struct {
	plan    *Plan
	server  *Server
	results []Result
	// failed contains the statements that failed in this round. They are executed again, because the effect of another
	// statement may allow them.
	failed *spool

	batch []Statement
	size  int
}

func (r *run) runTransaction(ctx context.Context) (err error) {
	if _, err := r.server.execAll(ctx, "SET SESSION foreign_key_checks = 1", "START TRANSACTION"); err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, ErrUnknown) {
			_, rerr := r.server.execAll(context.WithoutCancel(ctx), "ROLLBACK")
			if rerr != nil { // The server rolls back a transaction whose connection is closed.
				_ = r.server.Close()
			}
		}
	}()
	if err := r.runAll(ctx); err != nil {
		return err
	}
	_, err = r.server.execAll(ctx, "COMMIT")
	if _, isAnswer := errors.AsType[*mysql.MySQLError](err); err != nil && !isAnswer {
		return fmt.Errorf("%w (%w)", ErrUnknown, err)
	}
	return err
}

// runAll runs the statements in rounds, and tries the failed ones again in the next round. A row may need other rows,
// such as the parents of its foreign keys. runAll stops when no further statement succeeds.
func (r *run) runAll(ctx context.Context) (err error) {
	statements := r.plan.statements
	for {
		if r.failed, err = newSpool(); err != nil {
			return err
		}
		failed := r.failed
		defer failed.removeFile() //nolint:errcheck // It is a temporary file.
		err = statements.readAll(func(one Statement) error { return r.addStatement(ctx, one) })
		if err = errors.Join(err, r.flushBatch(ctx)); err != nil {
			return err
		}
		if failed.count == statements.count {
			isOver, err := r.insertCycles(ctx)
			if err != nil || isOver {
				return err
			}
			failed = r.failed
		}
		if failed.count == 0 {
			return nil
		}
		statements = failed
	}
}

// addStatement adds a statement to the batch, and executes the batch if it is full.
func (r *run) addStatement(ctx context.Context, one Statement) error {
	r.batch = append(r.batch, one)
	r.size += len(one.SQL)
	if len(r.batch) < maxBatchStatement && r.size < min(maxBatchBytes, r.server.maxPacket/2) {
		return nil
	}
	return r.flushBatch(ctx)
}

// flushBatch runs all statements of the batch in one query. If one of them fails, it runs each statement alone.
func (r *run) flushBatch(ctx context.Context) error {
	batch := r.batch
	r.batch, r.size = nil, 0
	if len(batch) > 1 {
		isDone, err := r.runTogether(ctx, batch)
		if isDone || err != nil {
			return err
		}
	}
	for _, one := range batch {
		affected, err := r.server.execAll(ctx, one.SQL)
		switch {
		case err == nil:
			if err := r.countRow(ctx, one, affected[0]); err != nil {
				return err
			}
		case hasCode(err, conflictCodes...):
			e, _ := errors.AsType[*mysql.MySQLError](err)
			one.Failure = e.Number
			if err := r.failed.addStatement(one); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%.300s: %w", one.SQL, err)
		}
	}
	return nil
}

// conflictCodes are the errors which mean that one row cannot be restored. All other errors stop the transaction.
var conflictCodes = []uint16{errDuplicate, errNoParentOld, errReferencedOld, errIsReferenced, errNoParent, errNoPartition,
	errCheckViolated}

// runTogether runs several statements in one query. If one of them fails, it rolls all of them back and returns false.
func (r *run) runTogether(ctx context.Context, batch []Statement) (bool, error) {
	if _, err := r.server.execAll(ctx, "SAVEPOINT batch"); err != nil {
		return false, err
	}
	list := make([]string, len(batch))
	for i := range batch {
		list[i] = batch[i].SQL
	}
	affected, err := r.server.execAll(ctx, list...)
	if hasCode(err, conflictCodes...) {
		_, err := r.server.execAll(ctx, "ROLLBACK TO SAVEPOINT batch")
		return false, err
	}
	if err != nil {
		return false, err
	}
	for i, one := range batch {
		if err := r.countRow(ctx, one, affected[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// countRow adds the effect of a statement on its row to the results.
func (r *run) countRow(ctx context.Context, one Statement, affected int64) error {
	result := &r.results[one.Table]
	switch {
	case one.IsInsert && affected == 1:
		result.Inserted++
	case one.IsInsert:
		result.countUnchanged("another row has one of its unique keys", 1)
	case affected > 0:
		result.Updated++
	default:
		found, err := r.server.readTexts(ctx, one.Check)
		if err != nil {
			return err
		}
		if len(found) > 0 { // The row already has its former values, because a cascade of a foreign key has restored them.
			result.Updated++
			return nil
		}
		count, err := r.updateSingles(ctx, one)
		if err != nil {
			return err
		}
		if count > 0 {
			result.Updated++
		} else {
			result.countUnchanged("a later transaction wrote it", 1)
		}
	}
	return nil
}

// updateSingles restores each column of a row with a separate statement. It returns the number of restored columns.
func (r *run) updateSingles(ctx context.Context, one Statement) (count int64, err error) {
	for _, statement := range one.Singles {
		affected, err := r.server.execAll(ctx, statement)
		switch {
		case err == nil:
			count += affected[0]
		case !hasCode(err, conflictCodes...):
			return 0, fmt.Errorf("%.300s: %w", statement, err)
		}
	}
	return count, nil
}

func (r *Result) countUnchanged(reason string, n int64) {
	if r.Reasons == nil {
		r.Reasons = map[string]int64{}
	}
	r.Unchanged += n
	r.Reasons[reason] += n
}

// insertCycles handles the statements that have failed in all rounds. It inserts the rows that refer to each other in a
// cycle. If it has inserted rows, the other statements are tried again. Otherwise it counts the failed statements and
// returns true.
func (r *run) insertCycles(ctx context.Context) (isOver bool, err error) {
	var cyclic []Statement
	rest, err := newSpool()
	if err != nil {
		return false, err
	}
	defer rest.removeFile() //nolint:errcheck // It is a temporary file.
	if err := r.failed.readAll(func(one Statement) error {
		if one.Remove != "" && one.Failure != errDuplicate {
			cyclic = append(cyclic, one)
			return nil
		}
		return rest.addStatement(one)
	}); err != nil {
		return false, err
	}
	failed, err := r.insertCycle(ctx, cyclic)
	if err != nil {
		return false, err
	}
	if len(failed) == len(cyclic) {
		return true, r.failed.readAll(func(one Statement) error {
			r.results[one.Table].countUnchanged(failureTexts[one.Failure], 1)
			return nil
		})
	}
	for _, one := range failed {
		if err := rest.addStatement(one); err != nil {
			return false, err
		}
	}
	return false, r.keepFailed(rest)
}

// keepFailed replaces the content of the spool failed by the statements in rest.
func (r *run) keepFailed(rest *spool) error {
	if err := r.failed.clearAll(); err != nil {
		return err
	}
	return rest.readAll(r.failed.addStatement)
}

// failureTexts describe why a statement failed.
var failureTexts = map[uint16]string{
	errDuplicate: "another row has one of its unique keys",
	errNoParent:  "its parent row does not exist", errNoParentOld: "its parent row does not exist",
	errIsReferenced: "other rows refer to its present value", errReferencedOld: "other rows refer to its present value",
	errNoPartition: "the table has no partition for it", errCheckViolated: "it violates a CHECK constraint",
}

// insertCycle inserts rows that refer to each other in a cycle, and returns the statements of the rows that cannot be
// inserted. The server cannot check the foreign keys of such rows one by one, so it does not check them during the
// insertion. insertCycle then checks and locks the parents of each row, and deletes the rows without a parent.
func (r *run) insertCycle(ctx context.Context, all []Statement) (failed []Statement, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	if _, err := r.server.execAll(ctx, "SET SESSION foreign_key_checks = 0"); err != nil {
		return nil, err
	}
	var inserted []Statement
	for _, one := range all {
		affected, err := r.server.execAll(ctx, one.SQL)
		switch {
		case err != nil && !hasCode(err, conflictCodes...):
			return nil, err
		case err == nil && affected[0] == 1:
			inserted = append(inserted, one)
		default:
			failed = append(failed, one)
		}
	}
	for count := -1; count != len(failed); {
		count = len(failed)
		var complete []Statement
		for _, one := range inserted {
			ok, err := r.hasParents(ctx, one)
			if err != nil {
				return nil, err
			}
			if ok {
				complete = append(complete, one)
				continue
			}
			if _, err := r.server.execAll(ctx, one.Remove); err != nil {
				return nil, err
			}
			failed = append(failed, one)
		}
		inserted = complete
	}
	for _, one := range inserted {
		r.results[one.Table].Inserted++
	}
	_, err = r.server.execAll(ctx, "SET SESSION foreign_key_checks = 1")
	return failed, err
}

func (r *run) hasParents(ctx context.Context, one Statement) (bool, error) {
	for _, query := range one.Parents {
		found, err := r.server.readTexts(ctx, query)
		if err != nil || len(found) == 0 {
			return false, err
		}
	}
	return true, nil
}

// hasCode reports whether an error is from the server and has one of these numbers.
func hasCode(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains(numbers, e.Number)
}
