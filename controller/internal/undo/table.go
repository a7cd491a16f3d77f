package undo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Name is the name of a table with its schema.
type Name struct{ Schema, Table string }

// ParseName parses a name such as shop.orders. The name of the schema contains no dot.
func ParseName(text string) (Name, error) {
	schema, table, ok := strings.Cut(text, ".")
	if !ok || schema == "" || table == "" {
		return Name{}, fmt.Errorf("%q is not the name of a table: write it as DATABASE.TABLE", text)
	}
	return Name{schema, table}, nil
}

// String returns the name for messages.
func (n Name) String() string { return n.Schema + "." + n.Table }

func (n Name) quotedName() string { return quoteName(n.Schema) + "." + quoteName(n.Table) }

// A Trigger is a trigger of a table.
type Trigger struct{ Name, Event, Create, Mode string }

// A ForeignKey is a foreign key of a table.
type ForeignKey struct {
	Columns []string
	Parent  Name
	// Referenced are the columns of the parent that the foreign key refers to.
	Referenced []string
}

// A Table is the definition of a table.
type Table struct {
	Name

	Columns []Column
	// Keys are the primary key and the other unique keys that identify each row, the primary key first. Their columns
	// are not nullable, and they do not use only a prefix of a column.
	Keys     [][]string
	Engine   string
	Triggers []Trigger
	Parents  []ForeignKey
	// Create is the statement that creates the table.
	Create string
	// CreateSchema is the statement that creates the schema of the table.
	CreateSchema string
}

// findColumn returns a column of the table, or false.
func (t *Table) findColumn(name string) (Column, bool) {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
	if i < 0 {
		return Column{}, false
	}
	return t.Columns[i], true
}

// writtenColumns returns the columns that an INSERT sets.
func (t *Table) writtenColumns() (out []Column) {
	for _, c := range t.Columns {
		if !c.IsGenerated {
			out = append(out, c)
		}
	}
	return out
}

// A Refusal is the reason why the rows of a table cannot be restored.
type Refusal struct {
	Table  Name
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Table, r.Reason) }

// A Target is a table whose rows an undo compares and restores.
type Target struct {
	// Before and After are the definitions of the table before and after the transaction. Current is its definition in
	// the running server. After is nil if the transaction dropped the table. Current is nil if the table must be
	// created again.
	Before, After, Current *Table
	// key contains the columns that identify a row. It is empty if the table has no such key. columns are the columns
	// to compare.
	key, columns []Column
}

// digestColumn replaces the key of a table without one. It is a digest of the whole row.
var digestColumn = Column{Name: "digest", DataType: "varbinary"}

// NewTarget returns the Target for a table, or a Refusal if its rows cannot be restored.
func NewTarget(before, after, current *Table, options Options) (*Target, error) {
	t := &Target{Before: before, After: after, Current: current, columns: before.writtenColumns()}
	refuse := func(text string, args ...any) (*Target, error) {
		return nil, &Refusal{before.Name, fmt.Sprintf(text, args...)}
	}
	for _, c := range before.Columns {
		if _, ok := c.kindOf(); !ok {
			return refuse("column %s has the type %s, which is not supported", c.Name, c.Type)
		}
	}
	if len(before.Keys) > 0 {
		for _, name := range before.Keys[0] {
			c, _ := before.findColumn(name)
			t.key = append(t.key, c)
		}
	}
	if after != nil {
		if err := hasColumns(after, before); err != nil {
			return refuse("the transaction changed the definition of the table (%v). Only rows can be brought back", err)
		}
		if len(after.Columns) != len(before.Columns) {
			return refuse("the transaction added a column. Only rows can be brought back")
		}
	}
	served := before
	switch {
	case current != nil:
		served = current
		if err := checkCurrent(t, current); err != nil {
			return refuse("%v", err)
		}
	case after != nil:
		return refuse("a later transaction has dropped the table: undo that transaction first")
	}
	if !strings.EqualFold(served.Engine, "InnoDB") {
		return refuse("its storage engine is %s, and only InnoDB has transactions", served.Engine)
	}
	if names := served.writeTriggers(); current != nil && len(names) > 0 && !options.RunTriggers {
		return refuse("it has triggers that would run for each row (%s). Check what they do, and pass --run-triggers",
			strings.Join(names, ", "))
	}
	return t, nil
}

// sortKey returns the columns by which rows are sorted and matched.
func (t *Target) sortKey() []Column {
	if len(t.key) == 0 {
		return []Column{digestColumn}
	}
	return t.key
}

// valuesOf returns the values of a row without its key.
func (t *Target) valuesOf(r Row) Row { return r[len(t.sortKey()):] }

// Options are the choices of the user for an undo.
type Options struct {
	// RunTriggers is true if the triggers of the tables may run.
	RunTriggers bool
}

// writeTriggers returns the triggers that INSERT and UPDATE run.
func (t *Table) writeTriggers() (out []string) {
	for _, g := range t.Triggers {
		if g.Event != "DELETE" {
			out = append(out, g.Name)
		}
	}
	return out
}

// hasColumns returns an error unless a table has all columns of another one, with the same types.
func hasColumns(t, wanted *Table) error {
	for _, want := range wanted.Columns {
		got, ok := t.findColumn(want.Name)
		switch {
		case !ok:
			return fmt.Errorf("column %s is missing", want.Name)
		case got.Type != want.Type || got.Charset != want.Charset || got.IsGenerated != want.IsGenerated:
			return fmt.Errorf("the type of column %s differs", want.Name)
		}
	}
	return nil
}

// checkCurrent returns an error unless rows can be written to the table of the running server.
func checkCurrent(t *Target, current *Table) error {
	if err := hasColumns(current, t.Before); err != nil {
		return fmt.Errorf("a later transaction has changed the definition of the table: %w", err)
	}
	for _, c := range current.Columns {
		if _, ok := t.Before.findColumn(c.Name); !ok && !c.IsOptional && !c.IsGenerated {
			return fmt.Errorf("a later transaction has added column %s, which has no default", c.Name)
		}
	}
	if len(t.key) == 0 {
		if len(current.Keys) > 0 {
			return errors.New("a later transaction has added a primary key")
		}
		return nil
	}
	for _, key := range current.Keys {
		if slices.EqualFunc(key, t.key, func(name string, c Column) bool { return strings.EqualFold(name, c.Name) }) {
			return nil
		}
	}
	return errors.New("a later transaction has changed the primary key")
}

// sortTargets sorts the tables so that the parents of foreign keys come before their children, unless there is a cycle.
func sortTargets(all []*Target) []*Target {
	var out []*Target
	state := map[Name]bool{}
	byName := map[Name]*Target{}
	for _, t := range all {
		byName[t.Before.Name] = t
	}
	var visit func(t *Target)
	visit = func(t *Target) {
		if state[t.Before.Name] {
			return
		}
		state[t.Before.Name] = true
		for _, f := range t.Before.Parents {
			if parent := byName[f.Parent]; parent != nil {
				visit(parent)
			}
		}
		out = append(out, t)
	}
	for _, t := range all {
		visit(t)
	}
	return out
}
