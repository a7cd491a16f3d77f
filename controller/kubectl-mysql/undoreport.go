package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/undo"
)

// describeTransaction describes a transaction on one line.
func describeTransaction(t *undo.Transaction) string {
	parts := make([]string, 0, len(t.Effects))
	for _, e := range t.Effects {
		if e.Kind == binlog.EffectStatement {
			parts = append(parts, fmt.Sprintf("%.120s", strings.Join(strings.Fields(e.Statement), " ")))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s.%s (%s of rows)", e.Kind, e.Schema, e.Table, sizeText(e.Size)))
	}
	const most = 5
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return printable(fmt.Sprintf("%s  %s  %s", t.GTID, recovery.Target{Time: t.Time}, strings.Join(parts, "; ")))
}

func sizeText(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// An undoReport describes the plan of an undo, or the result after the plan was applied.
type undoReport struct {
	Tables []undoTable `json:"tables"`
	// Refused are the reasons why tables cannot be brought back.
	Refused []string `json:"refused,omitempty"`
}

// An undoTable describes what the undo does with one table.
type undoTable struct {
	Table     string `json:"table"`
	IsCreated bool   `json:"isCreated,omitempty"`
	// Deleted, Changed and Inserted are the numbers of rows that the transaction to undo deleted, changed and
	// inserted.
	Deleted  int64 `json:"deleted"`
	Changed  int64 `json:"changed"`
	Inserted int64 `json:"inserted"`
	// Insert is the number of rows to insert again. Update is the number of rows whose former values are restored.
	Insert int64 `json:"insert"`
	Update int64 `json:"update"`
	// Done is the number of rows that already have their former values.
	Done int64 `json:"done"`
	// Conflicts is the number of rows that stay as they are, because a later transaction wrote them. Partial is the
	// number of rows in Update of which some columns stay as they are.
	Conflicts int64 `json:"conflicts"`
	Partial   int64 `json:"partial"`
	// Applied is true if the undo is committed. Unchanged is the number of rows that stayed as they are, although the
	// plan has a statement for them. Reasons contains the reasons.
	Applied   bool             `json:"applied,omitempty"`
	Unchanged int64            `json:"unchanged,omitempty"`
	Reasons   map[string]int64 `json:"reasons,omitempty"`
}

func newUndoReport(plan *undo.Plan) undoReport {
	out := undoReport{Tables: []undoTable{}}
	for _, t := range plan.Tables {
		out.Tables = append(out.Tables, undoTable{Table: t.Before.String(), IsCreated: t.IsCreated(), Deleted: t.Deleted,
			Changed: t.Changed, Inserted: t.Inserted, Insert: t.Insert, Update: t.Update, Done: t.Done, Conflicts: t.Conflicts,
			Partial: t.Partial})
	}
	for _, refused := range plan.Refused {
		out.Refused = append(out.Refused, refused.Error())
	}
	return out
}

// showPlan prints the plan of an undo, and writes its statements to the file if one is given.
func (c *undoCommand) showPlan(s *session, plan *undo.Plan) error {
	report := newUndoReport(plan)
	out := s.textOutput()
	for _, t := range report.Tables {
		fmt.Fprintln(out, printable(t.planLine())) //nolint:errcheck // bufio.Writer keeps the error for Flush.
	}
	for _, text := range report.Refused {
		fmt.Fprintln(out, printable("Not possible: "+text)) //nolint:errcheck // See above.
	}
	if plan.IsEmpty() {
		return out.Flush()
	}
	if err := c.writeStatements(plan); err != nil {
		return err
	}
	count := 0
	if err := plan.Statements(func(sql string) error {
		if count++; count <= c.Show {
			fmt.Fprintln(out, shortenStatement(printable(sql))+";") //nolint:errcheck // See above.
		}
		return nil
	}); err != nil {
		return err
	}
	if more := count - c.Show; more > 0 {
		fmt.Fprintf(out, "… and %d more statements.\n", more) //nolint:errcheck // See above.
	}
	return out.Flush()
}

// textOutput returns the writer for texts. This is the standard output, or with --output json the progress output.
func (s *session) textOutput() *bufio.Writer {
	if s.json {
		return bufio.NewWriter(s.progress)
	}
	return bufio.NewWriter(s.out)
}

// shortenStatement shortens a printed statement.
func shortenStatement(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// planLine returns a line that describes what the undo does with the table.
func (t *undoTable) planLine() string {
	did := fmt.Sprintf("%s: the transaction deleted %d rows and changed %d.", t.Table, t.Deleted, t.Changed)
	if t.IsCreated {
		did = fmt.Sprintf("%s: the transaction dropped the table, which had %d rows. The table is created again first, outside of "+
			"the transaction.", t.Table, t.Deleted)
	}
	parts := []string{did, fmt.Sprintf("To bring back: %d. To change back: %d.", t.Insert, t.Update)}
	for _, one := range []struct {
		count int64
		text  string
	}{
		{t.Done, "%d rows already have their former values."},
		{t.Conflicts, "%d rows stay, because a later transaction wrote or deleted them."},
		{t.Partial, "Of %d rows, the columns that a later transaction wrote stay."},
		{t.Inserted, "%d rows that the transaction inserted stay."},
	} {
		if one.count > 0 {
			parts = append(parts, fmt.Sprintf(one.text, one.count))
		}
	}
	return strings.Join(parts, " ")
}

// writeStatements writes all SQL statements of the plan to the file.
func (c *undoCommand) writeStatements(plan *undo.Plan) (err error) {
	if c.SQLFile == "" {
		return nil
	}
	f, err := os.OpenFile(c.SQLFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return plainf("--sql-file: %v", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	for _, setting := range undo.SessionSettings() {
		if _, err := out.WriteString("SET " + setting + ";\n"); err != nil {
			return err
		}
	}
	err = plan.Statements(func(sql string) error {
		_, err := out.WriteString(sql + ";\n")
		return err
	})
	return errors.Join(err, out.Flush())
}

// showResults prints what the undo has done with each table.
func showResults(s *session, plan *undo.Plan, results []undo.Result) error {
	report, out := newUndoReport(plan), s.textOutput()
	for i, r := range results {
		t := &report.Tables[i]
		planned := t.Insert + t.Update
		t.Applied, t.Insert, t.Update, t.Unchanged, t.Reasons = true, r.Inserted, r.Updated, r.Unchanged, r.Reasons
		var text strings.Builder
		fmt.Fprintf(&text, "%s: %d rows are back, and %d are changed back.", t.Table, r.Inserted, r.Updated)
		for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
			fmt.Fprintf(&text, " %d rows stay: %s.", r.Reasons[reason], reason)
		}
		if r.Inserted+r.Updated+r.Unchanged != planned {
			fmt.Fprintf(&text, " The plan had %d rows.", planned)
		}
		fmt.Fprintln(out, printable(text.String())) //nolint:errcheck // See above.
	}
	fmt.Fprintln(out, "The transaction is committed.") //nolint:errcheck // See above.
	if err := out.Flush(); err != nil || !s.json {
		return err
	}
	return writeJSON(s.out, report)
}
