package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Counts contains the numbers of rows of one table that the transaction changed, and that the undo restores.
type Counts struct {
	// Deleted and Changed are the numbers of rows that the transaction deleted and changed. Inserted is the number of
	// rows that it inserted. The undo keeps inserted rows.
	Deleted, Changed, Inserted int64
	// Insert is the number of rows to insert again. Update is the number of rows whose former values are restored.
	Insert, Update int64
	// Done is the number of rows that already have their former values.
	Done int64
	// Conflicts is the number of rows that stay as they are, because a later transaction wrote them. Partial is the
	// number of rows in Update of which some columns stay as they are for the same reason.
	Conflicts, Partial int64
}

// A TablePlan describes what the undo does with one table.
type TablePlan struct {
	*Target
	Counts
}

// IsCreated reports whether the table is created again.
func (t *TablePlan) IsCreated() bool { return t.Current == nil }

// A Plan contains the SQL statements that undo a transaction. The caller must close it.
type Plan struct {
	Tables []*TablePlan
	// Refused are the tables with differences whose rows cannot be restored.
	Refused []*Refusal

	statements *spool
}

// Close removes the temporary file of the plan.
func (p *Plan) Close() error { return p.statements.removeFile() }

// IsEmpty reports whether there is nothing to do.
func (p *Plan) IsEmpty() bool {
	for _, t := range p.Tables {
		if t.IsCreated() {
			return false
		}
	}
	return p.statements.count == 0
}

// Statements calls visit with each SQL statement of the plan. The statements that create tables are first, followed by
// the statements that restore rows.
func (p *Plan) Statements(visit func(sql string) error) error {
	for _, t := range p.Tables {
		if !t.IsCreated() {
			continue
		}
		for _, sql := range t.createStatements() {
			if err := visit(sql); err != nil {
				return err
			}
		}
	}
	if err := visit("START TRANSACTION"); err != nil {
		return err
	}
	if err := p.statements.readAll(func(s Statement) error { return visit(s.SQL) }); err != nil {
		return err
	}
	if err := visit("COMMIT"); err != nil {
		return err
	}
	for _, t := range p.Tables {
		for _, g := range t.createTriggers() {
			if err := visit(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// createStatements returns the statements that create a dropped table again.
func (t *TablePlan) createStatements() []string {
	_, rest, _ := strings.Cut(t.Before.Create, "CREATE TABLE ")
	return []string{t.Before.CreateSchema, "CREATE TABLE " + quoteName(t.Before.Schema) + "." + rest}
}

// createTriggers returns the statements that create the triggers of a dropped table. They run after the rows are
// inserted, so that the triggers do not run for these rows.
func (t *TablePlan) createTriggers() (out []string) {
	if !t.IsCreated() {
		return nil
	}
	for _, g := range t.Before.Triggers {
		out = append(out, "USE "+quoteName(t.Before.Schema), "SET SESSION sql_mode = "+quoteText([]byte(g.Mode)), g.Create)
	}
	return out
}

// A Planner compares the tables of three servers to plan the undo of a transaction. It does not write to any of them.
type Planner struct {
	// Before and After are servers with the data directly before and directly after the transaction. Current is the
	// running server.
	Before, After, Current *Server
	Options                Options
	// Progress is called before each table is compared.
	Progress func(Name)
}

const (
	// batchRows and batchBytes limit the number and the size of the changes that are compared with the running server
	// in one query.
	batchRows  = 100
	batchBytes = 4 << 20
)

// Plan returns the plan for the given tables. If no table is given, it compares all tables.
func (p *Planner) Plan(ctx context.Context, names []Name) (out *Plan, err error) {
	out = &Plan{}
	if out.statements, err = newSpool(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
			out = nil
		}
	}()
	isNamed := len(names) > 0
	if !isNamed {
		if names, err = p.findTables(ctx); err != nil {
			return nil, err
		}
	}
	var all []*Target
	for _, name := range names {
		t, err := p.readTarget(ctx, name)
		var refused *Refusal
		switch {
		case errors.As(err, &refused):
			out.Refused = append(out.Refused, refused)
		case err != nil:
			return nil, err
		default:
			all = append(all, t)
		}
	}
	all = sortTargets(all)
	cyclic := findCycles(all)
	for _, t := range all {
		one := &TablePlan{Target: t}
		w := &tableWriter{planner: p, plan: out, table: one, index: len(out.Tables), isCyclic: cyclic[t.Before.Name]}
		out.Tables = append(out.Tables, one)
		refused, err := w.compareRows(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Before.Name, err)
		}
		if refused != "" {
			out.Refused = append(out.Refused, &Refusal{t.Before.Name, refused})
		}
	}
	return out, nil
}

// findTables returns the tables that the transaction dropped, and the tables whose rows it changed.
func (p *Planner) findTables(ctx context.Context) (out []Name, err error) {
	names, err := p.Before.Tables(ctx)
	if err != nil {
		return nil, err
	}
	later, err := p.After.Tables(ctx)
	if err != nil {
		return nil, err
	}
	exists := map[Name]bool{}
	for _, n := range later {
		exists[n] = true
	}
	for _, n := range names {
		if !exists[n] {
			out = append(out, n)
			continue
		}
		var before string
		failed := make(chan error, 1)
		go func() {
			var err error
			before, err = p.Before.readChecksum(ctx, n)
			failed <- err
		}()
		after, err := p.After.readChecksum(ctx, n)
		if err := errors.Join(<-failed, err); err != nil {
			return nil, err
		}
		if before != after {
			out = append(out, n)
		}
	}
	return out, nil
}

func (p *Planner) readTarget(ctx context.Context, n Name) (*Target, error) {
	before, err := p.Before.Read(ctx, n)
	if err != nil {
		return nil, err
	}
	if before == nil {
		return nil, &Refusal{n, "the table did not exist before the transaction"}
	}
	after, err := p.After.Read(ctx, before.Name)
	if err != nil {
		return nil, err
	}
	current, err := p.Current.Read(ctx, before.Name)
	if err != nil {
		return nil, err
	}
	return NewTarget(before, after, current, p.Options)
}

// findCycles returns the tables that are part of a cycle of foreign keys.
func findCycles(all []*Target) map[Name]bool {
	parents := map[Name][]Name{}
	for _, t := range all {
		for _, f := range t.Before.Parents {
			parents[t.Before.Name] = append(parents[t.Before.Name], f.Parent)
		}
	}
	out := map[Name]bool{}
	for name := range parents {
		seen := map[Name]bool{}
		queue := parents[name]
		for len(queue) > 0 {
			next := queue[0]
			queue = queue[1:]
			if !seen[next] {
				seen[next] = true
				queue = append(queue[:len(queue):len(queue)], parents[next]...)
			}
		}
		out[name] = seen[name]
	}
	return out
}

// A tableWriter compares the rows of one table, and adds the statements that restore them to the plan.
type tableWriter struct {
	planner  *Planner
	plan     *Plan
	table    *TablePlan
	index    int
	isCyclic bool

	batch []Change
	size  int
}

// noRows implements Rows for a table that does not exist.
type noRows struct{}

func (noRows) Next() (Row, error) { return nil, nil }

// compareRows adds the statements for the table to the plan. If the rows of the table cannot be restored, it returns
// the reason.
func (w *tableWriter) compareRows(ctx context.Context) (refused string, err error) {
	if w.planner.Progress != nil {
		w.planner.Progress(w.table.Before.Name)
	}
	if len(w.table.key) == 0 {
		if refused, err = w.checkKeyless(ctx); refused != "" || err != nil {
			return refused, err
		}
	}
	if err := w.visitChanges(ctx, func(c Change) error { return w.addChange(ctx, c) }); err != nil {
		return "", err
	}
	return "", w.flushBatch(ctx)
}

// checkKeyless returns the reason why the rows of a table without a key cannot be restored, or "".
func (w *tableWriter) checkKeyless(ctx context.Context) (refused string, err error) {
	deleted, inserted := 0, 0
	err = w.visitChanges(ctx, func(c Change) error {
		switch {
		case c.After != nil && c.Before != nil, c.Before != nil && c.Before[0] == nil, c.After != nil && c.After[0] == nil:
			refused = "it has no primary key, and rows that are too large to compare them as a whole"
		case c.Before != nil:
			deleted++
		default:
			inserted++
		}
		if refused == "" && deleted > 0 && inserted > 0 {
			refused = "it has no primary key, so nothing shows which of its rows the transaction has changed"
		}
		return nil
	})
	return refused, err
}

// visitChanges calls visit for each row of the table that the transaction has changed.
func (w *tableWriter) visitChanges(ctx context.Context, visit func(Change) error) error {
	query := w.table.rowsQuery()
	rows, err := w.planner.Before.conn.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("cannot read the rows before the transaction: %w", err)
	}
	defer rows.Close() //nolint:errcheck // The reader returns the error.
	before, err := newRowReader(rows)
	if err != nil {
		return err
	}
	var after Rows = noRows{}
	if w.table.After != nil {
		rows, err := w.planner.After.conn.QueryContext(ctx, query)
		if err != nil {
			return fmt.Errorf("cannot read the rows after the transaction: %w", err)
		}
		defer rows.Close() //nolint:errcheck // The reader returns the error.
		if after, err = newRowReader(rows); err != nil {
			return err
		}
	}
	return findChanges(before, after, w.table.sortKey(), visit)
}

func (w *tableWriter) addChange(ctx context.Context, c Change) error {
	switch {
	case c.Before == nil:
		w.table.Inserted++
		return nil
	case c.After == nil:
		w.table.Deleted++
	default:
		w.table.Changed++
	}
	w.batch = append(w.batch, c)
	for _, value := range append(c.Before[:len(c.Before):len(c.Before)], c.After...) {
		w.size += len(value)
	}
	if len(w.batch) < batchRows && w.size < batchBytes {
		return nil
	}
	return w.flushBatch(ctx)
}

// flushBatch compares the rows of the batch with the running server, and adds their statements to the plan.
func (w *tableWriter) flushBatch(ctx context.Context) error {
	batch := w.batch
	w.batch, w.size = nil, 0
	if w.table.Current == nil || len(w.table.key) == 0 || len(batch) == 0 {
		for _, c := range batch {
			if err := w.writeRow(c, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := w.findSpellings(ctx, batch); err != nil {
		return err
	}
	queries := make([]string, len(batch))
	for i, c := range batch {
		queries[i] = w.table.currentQuery(c.Before)
	}
	return w.planner.Current.readCurrent(ctx, queries, func(i int, current Row) error { return w.writeRow(batch[i], current) })
}

// findSpellings corrects rows whose key the transaction has changed to an equal key with another spelling, such as ANN
// instead of Ann. The server treats the two keys as equal, but their bytes differ. Such a row was therefore counted as
// a deleted and an inserted row.
func (w *tableWriter) findSpellings(ctx context.Context, batch []Change) error {
	var deleted []int
	var queries []string
	for i, c := range batch {
		if c.After == nil {
			deleted, queries = append(deleted, i), append(queries, w.table.currentQuery(c.Before))
		}
	}
	if w.table.After == nil || len(deleted) == 0 || !w.table.hasSpellings() {
		return nil
	}
	s, err := w.planner.After.secondSession(ctx)
	if err != nil {
		return err
	}
	return s.readCurrent(ctx, queries, func(i int, after Row) error {
		if after != nil {
			c := &batch[deleted[i]]
			c.After = slices.Concat(c.Before[:len(w.table.key)], after)
			w.table.Deleted, w.table.Inserted, w.table.Changed = w.table.Deleted-1, w.table.Inserted-1, w.table.Changed+1
		}
		return nil
	})
}

// writeRow adds the statement for one row to the plan.
func (w *tableWriter) writeRow(c Change, current Row) error {
	t := w.table
	decision, columns, stay := t.decideRow(c, current)
	one := Statement{Table: w.index}
	switch decision {
	case Done:
		t.Done++
		return nil
	case Conflict:
		t.Conflicts++
		return nil
	case New:
		return nil
	case Update:
		t.Update++
		if stay > 0 {
			t.Partial++
		}
		one.SQL, one.Check = t.updateRow(c, columns), t.updatedQuery(c, columns)
		if len(columns) > 1 {
			for _, i := range columns {
				one.Singles = append(one.Singles, t.updateRow(c, []int{i}))
			}
		}
	case Insert:
		t.Insert++
		one.SQL, one.IsInsert = t.insertRow(c.Before), true
		if w.isCyclic {
			one.Parents, one.Remove = t.parentQueries(c.Before), t.removeRow(c.Before)
		}
	}
	if len(one.SQL) > w.planner.Current.maxPacket-1024 {
		return fmt.Errorf("the statement for one row has %d bytes, but max_allowed_packet of the server is %d: raise it in "+
			"spec.config first", len(one.SQL), w.planner.Current.maxPacket)
	}
	return w.plan.statements.addStatement(one)
}

// updatedQuery returns a query that returns 1 if the columns of a row already have their former values.
func (t *Target) updatedQuery(c Change, columns []int) string {
	conditions := make([]string, 0, 1+len(columns))
	conditions = append(conditions, t.keyCondition(c.Before))
	for _, i := range columns {
		conditions = append(conditions, t.columns[i].isCurrent(t.valuesOf(c.Before)[i]))
	}
	return "SELECT 1 FROM " + t.Before.quotedName() + " WHERE " + strings.Join(conditions, " AND ")
}

// parentQueries returns queries for the parents of a row, which are the rows that its foreign keys refer to.
func (t *Target) parentQueries(r Row) (out []string) {
	for _, f := range t.Before.Parents {
		conditions := make([]string, 0, len(f.Columns))
		for k, name := range f.Columns {
			for i, c := range t.columns {
				if c.Name == name && t.valuesOf(r)[i] != nil {
					conditions = append(conditions, quoteName(f.Referenced[k])+" = "+c.valueLiteral(t.valuesOf(r)[i]))
				}
			}
		}
		if len(conditions) == len(f.Columns) { // Otherwise a column of the foreign key is NULL, and the row has no parent.
			out = append(out, "SELECT 1 FROM "+f.Parent.quotedName()+" WHERE "+strings.Join(conditions, " AND ")+" LIMIT 1 FOR SHARE")
		}
	}
	return out
}

func (t *Target) removeRow(r Row) string {
	return "DELETE FROM " + t.Before.quotedName() + " WHERE " + t.keyCondition(r)
}
