package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/undo"
)

// undoCommand implements `kubectl mysql undo`, which restores the rows that one transaction deleted or changed.
type undoCommand struct {
	Name        string        `arg:"" help:"Name of the instance."`
	Before      string        `help:"GTID of the transaction to undo. Or a time in UTC shortly before the accident, such as 2026-11-22T18:00:00Z: if more than one later transaction changed the tables, they are listed." placeholder:"GTID|TIME" required:""`
	Table       []string      `help:"Table to bring back, as DATABASE.TABLE. The flag can be repeated. The default is each table that the transaction changed." placeholder:"TABLE" sep:"none"`
	Yes         bool          `help:"Run the SQL without a question. Without a terminal and without this flag, nothing is changed."`
	Show        int           `default:"10" help:"Number of statements to print."`
	SQLFile     string        `help:"File to which all statements are written. It must not exist yet." name:"sql-file" placeholder:"FILE"`
	RunTriggers bool          `help:"Also write to tables that have triggers for INSERT or UPDATE. The triggers run for each row."`
	Keep        bool          `help:"Do not delete the two temporary instances at the end. The next run for the same transaction uses them again."`
	Timeout     time.Duration `default:"1h" help:"How long to wait for the temporary instances."`
}

// Help returns additional text for the output of --help.
func (*undoCommand) Help() string {
	return "Brings back the rows that one transaction deleted or changed, while the server keeps running. It requires an " +
		"archived binary log, which each instance with a BackupStore has. The command creates two temporary instances: " +
		"one with the data right before the transaction, and one with the data right after it. The rows that differ are " +
		"compared with the running server. The command prints the SQL that brings them back, asks, and runs it in one " +
		"transaction. Rows and columns that a later transaction wrote stay as they are. Rows that the transaction " +
		"inserted stay, too. The temporary instances need as much storage as the instance, and are deleted at the end. " +
		"Required permissions: get and create MySQL, and delete the temporary ones, get the connection Secrets, get " +
		"Services and pods, and create pods/portforward."
}

// Run plans the undo, shows the plan, and applies it after the user's consent.
func (c *undoCommand) Run(ctx context.Context, root *cli) error {
	s, err := root.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s, os.Stdin)
}

func (c *undoCommand) run(ctx context.Context, s *session, answers io.Reader) (err error) {
	tables, target, err := c.parseFlags()
	if err != nil {
		return err
	}
	claim, err := s.find(ctx, c.Name)
	if err != nil {
		return err
	}
	if err := checkUndo(claim); err != nil {
		return err
	}
	current, err := s.openServer(ctx, claim)
	if err != nil {
		return err
	}
	defer current.close()
	id, err := c.chooseTransaction(ctx, s, current, target, tables)
	if err != nil || id == nil {
		return err
	}
	temporary := newTemporary(s, claim, *id, c.Timeout)
	defer func() {
		switch {
		case !c.Keep:
			err = errors.Join(err, temporary.removeBoth(ctx))
		case temporary.isCreated:
			s.sayf("The temporary instances %s and %s are kept. Delete them when you no longer need them.",
				temporary.before, temporary.after)
		}
	}()
	before, after, err := temporary.openBoth(ctx)
	if err != nil {
		return err
	}
	defer before.close()
	defer after.close()
	if err := checkStates(ctx, before.Server, after.Server, current.Server, *id); err != nil {
		return err
	}
	p := undo.Planner{Before: before.Server, After: after.Server, Current: current.Server,
		Options:  undo.Options{RunTriggers: c.RunTriggers},
		Progress: func(n undo.Name) { s.sayf("%s", printable("Comparing table "+n.String()+".")) }}
	plan, err := p.Plan(ctx, tables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	return c.applyPlan(ctx, s, plan, current.Server, answers)
}

// parseFlags returns the tables and the transaction or time that the flags specify.
func (c *undoCommand) parseFlags() (tables []undo.Name, target recovery.Target, err error) {
	for _, text := range c.Table {
		n, err := undo.ParseName(text)
		if err != nil {
			return nil, target, plainf("--table: %v", err)
		}
		tables = append(tables, n)
	}
	target, err = recovery.ParseTarget(strings.TrimPrefix(c.Before, v1.MomentBefore))
	if err != nil {
		return nil, target, plainf("--before: %v", err)
	}
	return tables, target, nil
}

// checkUndo returns an error unless an instance can be recovered, and accepts clients.
func checkUndo(claim *instance.Composite) error {
	switch {
	case claim.Type != v1.TypeMySQL:
		return plainf("%s is a Database: its binary log is not archived, so its transactions cannot be undone", claim.GetName())
	case !claim.Spec.AllowsArchive() || claim.Status.BackupStore == "":
		return plainf("the binary log of %s is not archived, so its transactions cannot be undone. The archive requires "+
			"spec.backup.storeRef, and is off with backup.continuous.enabled: false or deletionPolicy: Discard. To get the rows "+
			"of its last backup, restore it next to the instance: kubectl mysql restore --from %s --to %s", claim.GetName(),
			claim.GetName(), temporaryName(claim.GetName(), "backup", ""))
	}
	return nil
}

// chooseTransaction returns the GTID of the transaction to undo, or nil if the user must choose.
func (c *undoCommand) chooseTransaction(ctx context.Context, s *session, current *openedServer, target recovery.Target,
	tables []undo.Name) (*binlog.GTID, error) {
	if target.Time == 0 {
		found, err := undo.FindTransaction(ctx, current.stream, target.GTID)
		switch {
		case errors.Is(err, undo.ErrPurged):
			s.sayf("Transaction %s is no longer in the binary log of the server. The archive contains it.", target.GTID)
		case err != nil:
			return nil, err
		default:
			s.sayf("The transaction to undo:\n%s", describeTransaction(found))
		}
		return &target.GTID, nil
	}
	log, err := undo.OpenLog(ctx, current.Server, current.stream)
	if err != nil {
		return nil, err
	}
	var all []undo.Transaction
	count := 0
	isComplete, err := log.After(ctx, target.Time, func(t undo.Transaction) bool {
		if t.Touches(tables) {
			count++
			all = append(all, t)
			if len(all) > 2*maxListed {
				undo.SortByDamage(all)
				all = all[:maxListed]
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if !isComplete {
		s.sayf("The binary log of the server begins after %s: earlier transactions are not listed.", target)
	}
	switch count {
	case 0:
		return nil, plainf("no transaction after %s changed or deleted rows of the tables, as far as the binary log shows: "+
			"specify an earlier time. Rows that a foreign key deleted are not in the binary log: specify the table of the "+
			"foreign key's parent", target)
	case 1:
		s.sayf("The transaction to undo:\n%s", describeTransaction(&all[0]))
		return &all[0].GTID, nil
	}
	return nil, c.listTransactions(s, target, all, count)
}

// maxListed is the maximum number of transactions in the list.
const maxListed = 20

// listTransactions prints the transactions from which the user must choose.
func (c *undoCommand) listTransactions(s *session, target recovery.Target, all []undo.Transaction, count int) error {
	undo.SortByDamage(all)
	all = all[:min(len(all), maxListed)]
	if s.json {
		out := make([]map[string]string, 0, len(all))
		for i := range all {
			out = append(out, map[string]string{"gtid": all[i].GTID.String(), "description": describeTransaction(&all[i])})
		}
		if err := writeJSON(s.out, out); err != nil {
			return err
		}
	} else {
		for i := range all {
			if _, err := fmt.Fprintln(s.out, describeTransaction(&all[i])); err != nil {
				return err
			}
		}
	}
	return plainf("%d transactions after %s changed or deleted rows of the tables. The %d with the largest changes are listed. "+
		"Nothing was changed. Choose one: %s", count, target, len(all), s.command("undo", c.Name, "--namespace", s.namespace,
		"--before", "GTID"))
}

// applyPlan shows the plan, asks the user, and executes its statements in the running server.
func (c *undoCommand) applyPlan(ctx context.Context, s *session, plan *undo.Plan, current *undo.Server, answers io.Reader) error {
	if err := c.showPlan(s, plan); err != nil {
		return err
	}
	isAgreed, err := c.askUser(ctx, s, plan, answers)
	if err != nil {
		return err
	}
	if !isAgreed {
		s.sayf("Nothing was changed.")
		if s.json {
			return writeJSON(s.out, newUndoReport(plan))
		}
		return nil
	}
	results, err := plan.Apply(ctx, current)
	if err != nil && results == nil {
		if errors.Is(err, undo.ErrUnknown) {
			return err
		}
		return fmt.Errorf("no row was changed, because the transaction was rolled back. Dropped tables may exist again, without "+
			"rows: %w", err)
	}
	return errors.Join(err, showResults(s, plan, results))
}

// askUser reports whether the user agrees that the statements of the plan are executed.
func (c *undoCommand) askUser(ctx context.Context, s *session, plan *undo.Plan, answers io.Reader) (bool, error) {
	switch {
	case plan.IsEmpty() && len(plan.Refused) > 0:
		return false, plainf("nothing was changed, because the rows of these tables cannot be brought back")
	case plan.IsEmpty():
		s.sayf("Nothing has to be brought back.")
		return false, nil
	case c.Yes:
		return true, nil
	}
	s.sayf("Run this SQL in %s? Type yes to run it:", c.Name)
	answer, err := readLine(ctx, answers)
	return answer == "yes", err
}

// readLine reads a line of the user's input. It stops waiting when the context is canceled.
func readLine(ctx context.Context, from io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(from).ReadString('\n') // Without a terminal, the answer is empty.
		line <- strings.TrimSpace(text)
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// checkStates returns an error unless the temporary instances differ in exactly one transaction of the instance.
func checkStates(ctx context.Context, before, after, current *undo.Server, id binlog.GTID) error {
	var sets [3]binlog.Set
	for i, server := range []*undo.Server{before, after, current} {
		text, err := server.Executed(ctx)
		if err != nil {
			return err
		}
		if sets[i], err = binlog.ParseSet(strings.ReplaceAll(text, "\n", "")); err != nil {
			return err
		}
	}
	// A temporary instance has transactions of its own, for its accounts.
	extra := sets[1].Without(sets[0])
	extra = extra.Without(extra.Without(sets[2]))
	if missing := sets[0].Without(sets[1]); !extra.Equal(id.Set()) || !missing.Without(missing.Without(sets[2])).IsEmpty() {
		return fmt.Errorf("the temporary instances differ in the transactions %s instead of %s: report this bug",
			cmp.Or(extra.String(), "(none)"), id)
	}
	return nil
}
