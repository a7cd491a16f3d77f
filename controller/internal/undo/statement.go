package undo

import (
	"slices"
	"strconv"
	"strings"
)

// rowsQuery returns the query for all rows of a table, sorted by the key.
func (t *Target) rowsQuery() string {
	var list []string
	order := make([]string, 0, len(t.sortKey()))
	if len(t.key) == 0 {
		list = append(list, t.rowDigest())
	}
	for _, c := range t.key {
		list = append(list, c.sortExpression())
	}
	for i := range t.sortKey() {
		order = append(order, strconv.Itoa(i+1))
	}
	return "SELECT " + strings.Join(append(list, t.readExpressions()...), ", ") + " FROM " + t.Before.quotedName() + " ORDER BY " +
		strings.Join(order, ", ")
}

func (t *Target) readExpressions() (out []string) {
	for _, c := range t.columns {
		out = append(out, c.readExpression())
	}
	return out
}

// rowDigest returns an SQL expression with a digest of all columns of a row. It replaces the key if a table has none.
func (t *Target) rowDigest() string {
	parts := make([]string, 0, len(t.columns))
	for _, c := range t.columns {
		parts = append(parts, "IFNULL(HEX(CAST("+c.readExpression()+" AS BINARY)), '-')")
	}
	return "CAST(SHA2(CONCAT_WS(',', " + strings.Join(parts, ", ") + "), 256) AS BINARY)"
}

// keyCondition returns the SQL condition that selects the row with the same key as r.
func (t *Target) keyCondition(r Row) string {
	parts := make([]string, 0, len(t.key))
	for _, c := range t.key {
		parts = append(parts, c.quotedName()+" = "+c.valueLiteral(t.keyValue(c, r)))
	}
	return strings.Join(parts, " AND ")
}

// keyValue returns the value of a key column in a row.
func (t *Target) keyValue(c Column, r Row) []byte {
	for i, k := range t.key {
		if k.Name == c.Name {
			return r[i]
		}
	}
	return nil
}

// currentQuery returns the query for the present values of the row with the same key as r.
func (t *Target) currentQuery(r Row) string {
	return "SELECT " + strings.Join(t.readExpressions(), ", ") + " FROM " + t.Before.quotedName() + " WHERE " + t.keyCondition(r)
}

// insertRow returns the statement that inserts a deleted row again. If another row has the same value in a unique key,
// the statement changes nothing and affects no row.
func (t *Target) insertRow(r Row) string {
	names, values := make([]string, 0, len(t.columns)), make([]string, 0, len(t.columns))
	for i, c := range t.columns {
		names = append(names, c.quotedName())
		values = append(values, c.valueLiteral(t.valuesOf(r)[i]))
	}
	unchanged := t.columns[0]
	for _, c := range t.key {
		if !c.IsGenerated {
			unchanged = c
			break
		}
	}
	return "INSERT INTO " + t.Before.quotedName() + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") +
		") ON DUPLICATE KEY UPDATE " + unchanged.quotedName() + " = " + unchanged.quotedName()
}

// updateRow returns the statement that restores the former values of the columns. If one of these columns no longer has
// the value that the transaction wrote, the statement affects no row.
func (t *Target) updateRow(c Change, columns []int) string {
	var set []string
	conditions := make([]string, 0, len(columns))
	before, after := t.valuesOf(c.Before), t.valuesOf(c.After)
	isSet := map[int]bool{}
	for _, i := range columns {
		isSet[i] = true
		set = append(set, t.columns[i].quotedName()+" = "+t.columns[i].valueLiteral(before[i]))
		conditions = append(conditions, t.columns[i].isCurrent(after[i]))
	}
	for i, column := range t.columns {
		if column.IsTouched && !isSet[i] { // Otherwise the server would set the column to the current time.
			set = append(set, column.quotedName()+" = "+column.quotedName())
		}
	}
	return "UPDATE " + t.Before.quotedName() + " SET " + strings.Join(set, ", ") + " WHERE " + t.keyCondition(c.Before) + " AND " +
		strings.Join(conditions, " AND ")
}

// hasSpellings reports whether the server considers keys with different bytes equal.
func (t *Target) hasSpellings() bool {
	return slices.ContainsFunc(t.key, func(c Column) bool { k, _ := c.kindOf(); return k == kindText })
}

// A Decision is what the undo does with one row. It depends on the change of the row by the transaction, and on the
// present values of the row.
type Decision int

// Possible decisions about a row.
const (
	// Insert means that the deleted row is inserted again.
	Insert Decision = iota
	// Update means that former values of the row are restored.
	Update
	// Done means that the row already has its former values.
	Done
	// Conflict means that a later transaction wrote the row, so it stays as it is.
	Conflict
	// New means that the transaction inserted the row, so it stays.
	New
)

// decideRow decides what the undo does with a row. current contains its present values without the key, or nil if no
// row has the key. decideRow returns the columns to restore. stay is the number of columns that a later transaction
// wrote.
func (t *Target) decideRow(c Change, current Row) (d Decision, columns []int, stay int) {
	switch {
	case c.Before == nil:
		return New, nil, 0
	case c.After == nil && current == nil:
		return Insert, nil, 0
	case c.After == nil && isEqual(t.valuesOf(c.Before), current):
		return Done, nil, 0
	case c.After == nil, current == nil: // A later transaction deleted a changed row.
		return Conflict, nil, 0
	}
	before, after := t.valuesOf(c.Before), t.valuesOf(c.After)
	changed := 0
	for i := range t.columns {
		switch {
		case isSame(before[i], after[i]):
			continue
		case isSame(current[i], after[i]):
			columns = append(columns, i)
		case !isSame(current[i], before[i]):
			stay++
		}
		changed++
	}
	switch {
	case len(columns) > 0:
		return Update, columns, stay
	case stay > 0:
		return Conflict, nil, stay
	}
	return Done, nil, 0
}
