package undo

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// TestLiterals checks how values of each kind are written and compared. NULL and an empty text are different.
func TestLiterals(t *testing.T) {
	for name, tc := range map[string]struct {
		column           Column
		value            []byte
		literal, current string
	}{
		"Integer": {Column{DataType: "bigint"}, []byte("-5"), "-5", "`c` <=> -5"},
		"Null":    {Column{DataType: "bigint"}, nil, "NULL", "`c` IS NULL"},
		"Float": {Column{DataType: "float"}, []byte("0.10000000149011612"), "0.10000000149011612e0",
			"CAST(`c` AS DOUBLE) <=> 0.10000000149011612e0"},
		"Double": {Column{DataType: "double"}, []byte("-2.5e+300"), "-2.5e+300", "CAST(`c` AS DOUBLE) <=> -2.5e+300"},
		"Forged": {Column{DataType: "int"}, []byte("1; DROP TABLE x"), "x'313b2044524f50205441424c452078'",
			"`c` <=> x'313b2044524f50205441424c452078'"},
		"ForgedTime": {Column{DataType: "date"}, []byte("2026' OR '1"), "'2026'' OR ''1'", "`c` <=> '2026'' OR ''1'"},
		"Bit":        {Column{DataType: "bit"}, []byte("10"), "10", "CAST(`c` AS UNSIGNED) <=> 10"},
		"Year":       {Column{DataType: "year"}, []byte("0"), "'0000'", "`c` <=> '0000'"},
		"Time": {Column{DataType: "datetime"}, []byte("2026-01-01 00:00:00.5"), "'2026-01-01 00:00:00.5'",
			"`c` <=> '2026-01-01 00:00:00.5'"},
		"Bytes": {Column{DataType: "blob"}, []byte{0, 0x27}, "x'0027'", "`c` <=> x'0027'"},
		"Empty": {Column{DataType: "blob"}, []byte{}, "x''", "`c` <=> x''"},
		"Text":  {Column{DataType: "text", Charset: "utf8mb4"}, []byte(`O'Neill\ü`), `'O''Neill\ü'`, `CAST(` + "`c`" + ` AS BINARY) <=> 'O''Neill\ü'`},
		"Terminal": {Column{DataType: "text", Charset: "utf8mb4"}, []byte("\x1b[2J"), "_utf8mb4 x'1b5b324a'",
			"CAST(`c` AS BINARY) <=> x'1b5b324a'"},
		"Latin":    {Column{DataType: "char", Charset: "latin1"}, []byte{0xe4}, "_latin1 x'e4'", "CAST(`c` AS BINARY) <=> x'e4'"},
		"Enum":     {Column{DataType: "enum", Charset: "utf8mb4"}, []byte("x"), "'x'", "CAST(`c` AS BINARY) <=> 'x'"},
		"JSON":     {Column{DataType: "json"}, []byte(`{"a": 1}`), `'{"a": 1}'`, "CAST(CAST(`c` AS CHAR CHARACTER SET utf8mb4) AS BINARY) <=> '{\"a\": 1}'"},
		"Geometry": {Column{DataType: "point"}, []byte{1}, "x'01'", "UNHEX(HEX(`c`)) <=> x'01'"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.column.Name = "c"
			if got := tc.column.valueLiteral(tc.value); got != tc.literal {
				t.Errorf("got %s", got)
			}
			if got := tc.column.isCurrent(tc.value); got != tc.current {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestQuoteName(t *testing.T) {
	if got := (Name{"a`b", "c.d"}).quotedName(); got != "`a``b`.`c.d`" {
		t.Error(got)
	}
	for text, want := range map[string]Name{"shop.orders": {"shop", "orders"}, "a.b.c": {"a", "b.c"}, "orders": {}, ".x": {}, "x.": {}} {
		if got, err := ParseName(text); got != want || (err == nil) != (want != Name{}) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// fakeRows are rows in memory.
type fakeRows struct {
	rows    []Row
	failure error
}

func (f *fakeRows) Next() (Row, error) {
	if len(f.rows) == 0 {
		return nil, f.failure
	}
	out := f.rows[0]
	f.rows = f.rows[1:]
	return out, nil
}

// TestFindChanges checks findChanges with random tables against a comparison in memory. Some keys occur twice, as in
// tables without a key.
func TestFindChanges(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // A test.
		key := []Column{{Name: "k", DataType: []string{"int", "varchar"}[seed%2]}}
		tables := [2][]Row{}
		counts := [2]map[string]int{{}, {}}
		for i := range tables {
			used := map[int]bool{}
			for range r.IntN(20) {
				n := r.IntN(25) - 12
				if used[n] {
					continue
				}
				used[n] = true
				row := Row{fmt.Append(nil, n), fmt.Append(nil, r.IntN(2))}
				if r.IntN(4) == 0 {
					row[1] = nil
				}
				tables[i] = append(tables[i], row)
				counts[i][text(row)]++
			}
			slices.SortFunc(tables[i], func(a, b Row) int { return compareKeys(key, a, b) })
		}
		got := [2]map[string]int{{}, {}}
		err := findChanges(&fakeRows{rows: tables[0]}, &fakeRows{rows: tables[1]}, key, func(c Change) error {
			if c.Before != nil && c.After != nil && !bytes.Equal(c.Before[0], c.After[0]) {
				t.Errorf("seed %d: %s became %s", seed, text(c.Before), text(c.After))
			}
			for i, row := range []Row{c.Before, c.After} {
				if row != nil {
					got[i][text(row)]++
				}
			}
			return nil
		})
		want := [2]map[string]int{{}, {}}
		for i := range counts {
			for row := range counts[i] {
				if counts[1-i][row] == 0 {
					want[i][row]++
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("seed %d: %v, -want +got:\n%s", seed, err, diff)
		}
	}
}

func text(r Row) string { return fmt.Sprintf("%q", r) }

// TestFindChangesFails checks that no wrong difference is reported if a server fails or sorts in another way.
func TestFindChangesFails(t *testing.T) {
	key := []Column{{Name: "k", DataType: "int"}}
	broken := errors.New("broken")
	rows := func(keys ...string) (out []Row) {
		for _, k := range keys {
			out = append(out, Row{[]byte(k)})
		}
		return out
	}
	for name, tc := range map[string]struct {
		before, after fakeRows
		want          error
	}{
		"Order":      {before: fakeRows{rows: rows("1", "10", "9")}, want: errOrder},
		"LaterOrder": {before: fakeRows{rows: rows("1")}, after: fakeRows{rows: rows("2", "1")}, want: errOrder},
		"Before":     {before: fakeRows{rows: rows("1"), failure: broken}, after: fakeRows{rows: rows("1")}, want: broken},
		"After":      {before: fakeRows{rows: rows("1", "2")}, after: fakeRows{rows: rows("1"), failure: broken}, want: broken},
		"Empty":      {before: fakeRows{failure: broken}, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			if err := findChanges(&tc.before, &tc.after, key, func(Change) error { return nil }); !errors.Is(err, tc.want) {
				t.Error(err)
			}
		})
	}
}

func TestCompareIntegers(t *testing.T) {
	for _, a := range []string{"-18446744073709551615", "-10", "-9", "-1", "0", "1", "9", "10", "0011", "18446744073709551615"} {
		for _, b := range []string{"-100", "-9", "0", "00", "2", "10", "9223372036854775808", "18446744073709551615"} {
			left, _ := new(big.Int).SetString(a, 10)
			right, _ := new(big.Int).SetString(b, 10)
			got := compareIntegers([]byte(a), []byte(b))
			if want := left.Cmp(right); (got < 0) != (want < 0) || (got > 0) != (want > 0) {
				t.Errorf("%s, %s: %d", a, b, got)
			}
		}
	}
}

func exampleTable() *Table {
	return &Table{Name: Name{"shop", "t"}, Engine: "InnoDB", Keys: [][]string{{"id"}}, Columns: []Column{
		{Name: "id", DataType: "int", Type: "int"}, {Name: "a", DataType: "varchar", Type: "varchar(9)", Charset: "utf8mb4"},
		{Name: "b", DataType: "int", Type: "int"}, {Name: "g", DataType: "int", Type: "int", IsGenerated: true},
		{Name: "seen", DataType: "timestamp", Type: "timestamp", IsTouched: true},
	}}
}

// TestDecideRow checks the decision for each combination of former, written and current values.
func TestDecideRow(t *testing.T) {
	target, err := NewTarget(exampleTable(), exampleTable(), exampleTable(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	row := func(values ...string) Row {
		if len(values) == 0 {
			return nil
		}
		out := Row{[]byte(values[0])}
		for _, v := range values {
			if v == "NULL" {
				out = append(out, nil)
			} else {
				out = append(out, []byte(v))
			}
		}
		return out
	}
	first, oops, time := row("1", "x", "5", "now"), row("1", "oops", "0", "now"), "now"
	for name, tc := range map[string]struct {
		change  Change
		current Row
		want    Decision
		columns []int
		stay    int
	}{
		"Deleted":       {change: Change{Before: first}, want: Insert},
		"InsertedLater": {change: Change{Before: first}, current: row("1", "y", "5", time), want: Conflict},
		"InsertedBack":  {change: Change{Before: first}, current: first, want: Done},
		"Changed":       {change: Change{Before: first, After: oops}, current: oops, want: Update, columns: []int{1, 2}},
		"ChangedBack":   {change: Change{Before: first, After: oops}, current: first, want: Done},
		"PartlyBack": {change: Change{Before: first, After: oops}, current: row("1", "x", "0", time), want: Update,
			columns: []int{2}},
		"LaterColumn": {change: Change{Before: first, After: oops}, current: row("1", "oops", "7", time), want: Update,
			columns: []int{1}, stay: 1},
		"OtherColumn": {change: Change{Before: first, After: row("1", "oops", "5", time)}, current: row("1", "oops", "7",
			time), want: Update, columns: []int{1}},
		"LaterColumns":  {change: Change{Before: first, After: oops}, current: row("1", "z", "7", time), want: Conflict, stay: 2},
		"LaterSpelling": {change: Change{Before: first, After: oops}, current: row("1", "OOPS", "7", time), want: Conflict, stay: 2},
		"LaterNull": {change: Change{Before: first, After: oops}, current: row("1", "NULL", "0", time), want: Update,
			columns: []int{2}, stay: 1},
		"FromNull": {change: Change{Before: row("1", "NULL", "5", time), After: row("1", "", "5", time)}, current: row("1",
			"", "5", time), want: Update, columns: []int{1}},
		"DeletedLater":     {change: Change{Before: first, After: oops}, want: Conflict},
		"ByTheTransaction": {change: Change{After: oops}, current: oops, want: New},
	} {
		t.Run(name, func(t *testing.T) {
			current := tc.current
			if current != nil {
				current = current[1:]
			}
			got, columns, stay := target.decideRow(tc.change, current)
			if got != tc.want || !slices.Equal(columns, tc.columns) || stay != tc.stay {
				t.Errorf("got %d, columns %v, %d stay", got, columns, stay)
			}
		})
	}
}

// TestStatements checks the SQL statements and queries for one row.
func TestStatements(t *testing.T) {
	target, err := NewTarget(exampleTable(), exampleTable(), exampleTable(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := Row{[]byte("1"), []byte("1"), []byte("x"), nil, []byte("2026-01-01 00:00:00")}
	after := Row{[]byte("1"), []byte("1"), []byte("oops"), []byte("0"), []byte("2026-01-01 00:00:00")}
	for got, want := range map[string]string{
		target.insertRow(before): "INSERT INTO `shop`.`t` (`id`, `a`, `b`, `seen`) VALUES (1, 'x', NULL, '2026-01-01 00:00:00') " +
			"ON DUPLICATE KEY UPDATE `id` = `id`",
		target.updateRow(Change{Before: before, After: after}, []int{1, 2}): "UPDATE `shop`.`t` SET `a` = 'x', `b` = NULL, `seen` = `seen` " +
			"WHERE `id` = 1 AND CAST(`a` AS BINARY) <=> 'oops' AND `b` <=> 0",
		target.rowsQuery(): "SELECT `id`, `id`, CAST(`a` AS BINARY), `b`, `seen` FROM `shop`.`t` ORDER BY 1",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestNewTarget checks for which tables an undo is refused. TestRealCases does so with tables of a MySQL server.
func TestNewTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(before, after, current *Table) (*Table, *Table)
		options Options
		want    string
	}{
		"Same":     {},
		"Dropped":  {change: func(_, _, _ *Table) (*Table, *Table) { return nil, nil }},
		"Created":  {change: func(_, _, current *Table) (*Table, *Table) { return nil, current }},
		"GoneNow":  {change: func(_, after, _ *Table) (*Table, *Table) { return after, nil }, want: "undo that transaction first"},
		"AddedNow": {change: func(_, after, current *Table) (*Table, *Table) { return after, addColumn(current, true) }},
		"RequiredNow": {change: func(_, after, current *Table) (*Table, *Table) { return after, addColumn(current, false) },
			want: "has no default"},
		"Added": {change: func(_, after, current *Table) (*Table, *Table) { return addColumn(after, true), current },
			want: "added a column"},
		"Type": {change: func(_, after, current *Table) (*Table, *Table) { after.Columns[1].Type = "text"; return after, current },
			want: "changed the definition"},
		"Charset": {change: func(_, after, current *Table) (*Table, *Table) {
			current.Columns[1].Charset = "latin1"
			return after, current
		}, want: "changed the definition"},
		"Unknown": {change: func(before, after, current *Table) (*Table, *Table) {
			before.Columns[2].DataType, after.Columns[2].DataType = "quaternion", "quaternion"
			return after, current
		}, want: "not supported"},
		"Trigger": {change: func(_, after, current *Table) (*Table, *Table) {
			current.Triggers = []Trigger{{Name: "g", Event: "UPDATE"}}
			return after, current
		}, want: "--run-triggers"},
		"RunTrigger": {options: Options{RunTriggers: true}, change: func(_, after, current *Table) (*Table, *Table) {
			current.Triggers = []Trigger{{Name: "g", Event: "INSERT"}}
			return after, current
		}},
		"DeleteTrigger": {change: func(_, after, current *Table) (*Table, *Table) {
			current.Triggers = []Trigger{{Name: "g", Event: "DELETE"}}
			return after, current
		}},
		"NewKey": {change: func(_, after, current *Table) (*Table, *Table) {
			current.Keys = [][]string{{"id", "b"}}
			return after, current
		}, want: "changed the primary key"},
		"SecondKey": {change: func(_, after, current *Table) (*Table, *Table) {
			current.Keys = [][]string{{"new"}, {"ID"}}
			return after, current
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, current := exampleTable(), exampleTable(), exampleTable()
			if tc.change != nil {
				after, current = tc.change(before, after, current)
			}
			_, err := NewTarget(before, after, current, tc.options)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Error(err)
			}
		})
	}
}

func addColumn(t *Table, isOptional bool) *Table {
	t.Columns = append(t.Columns, Column{Name: "new", DataType: "int", Type: "int", IsOptional: isOptional})
	return t
}

// TestSortTargets checks that parents of foreign keys come before their children, and that a cycle does not cause an
// endless loop.
func TestSortTargets(t *testing.T) {
	table := func(name string, parents ...string) *Target {
		out := &Target{Before: &Table{Name: Name{"s", name}}}
		for _, p := range parents {
			out.Before.Parents = append(out.Before.Parents, ForeignKey{Parent: Name{"s", p}})
		}
		return out
	}
	all := []*Target{table("c", "b"), table("b", "a", "elsewhere"), table("a"), table("x", "y"), table("y", "x"), table("self", "self")}
	got := make([]string, 0, len(all))
	for _, one := range sortTargets(all) {
		got = append(got, one.Before.Table)
	}
	if want := []string{"a", "b", "c", "y", "x", "self"}; !slices.Equal(got, want) {
		t.Error(got)
	}
	cycles := findCycles(all)
	for name, want := range map[string]bool{"a": false, "b": false, "c": false, "x": true, "y": true, "self": true} {
		if cycles[Name{"s", name}] != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestTouches checks for which transactions Touches returns true.
func TestTouches(t *testing.T) {
	rows := func(kind binlog.EffectKind, schema, table string) Effect {
		return Effect{Effect: binlog.Effect{Kind: kind, Schema: schema, Table: table, Size: 10}}
	}
	statement := func(text string) Effect {
		return Effect{Effect: binlog.Effect{Kind: binlog.EffectStatement, Schema: "shop", Statement: text}}
	}
	for name, tc := range map[string]struct {
		effect     Effect
		any, named bool
	}{
		"Delete":       {rows(binlog.EffectDelete, "shop", "orders"), true, true},
		"Update":       {rows(binlog.EffectUpdate, "Shop", "ORDERS"), true, true},
		"Insert":       {rows(binlog.EffectInsert, "shop", "orders"), false, false},
		"OtherTable":   {rows(binlog.EffectDelete, "shop", "items"), true, false},
		"OtherSchema":  {rows(binlog.EffectDelete, "old", "orders"), true, false},
		"System":       {rows(binlog.EffectDelete, "mysql", "user"), false, false},
		"Drop":         {statement("DROP TABLE `orders` /* generated by server */"), true, true},
		"DropOther":    {statement("DROP TABLE `items`"), true, false},
		"DropDatabase": {statement("drop database shop"), true, true},
		"Truncate":     {statement("/* job */ truncate table orders"), true, true},
		"Grant":        {statement("GRANT SELECT ON shop.orders TO x"), false, false},
		"CreateUser":   {statement("CREATE USER 'x'@'%'"), false, false},
		"DropUser":     {statement("DROP USER 'orders'@'%'"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := Transaction{Effects: []Effect{tc.effect}}
			if got := one.Touches(nil); got != tc.any {
				t.Errorf("any table: %v", got)
			}
			if got := one.Touches([]Name{{"shop", "orders"}}); got != tc.named {
				t.Errorf("the table: %v", got)
			}
		})
	}
	all := []Transaction{{Effects: []Effect{rows(binlog.EffectInsert, "a", "b")}}, {Effects: []Effect{rows(binlog.EffectDelete,
		"a", "b")}},
		{Effects: []Effect{statement("TRUNCATE x")}}}
	SortByDamage(all)
	if all[0].Effects[0].Kind != binlog.EffectStatement || all[2].Effects[0].Kind != binlog.EffectInsert {
		t.Error(all)
	}
}
