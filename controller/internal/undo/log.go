package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// A Transaction is a transaction in the binary log of the running server.
type Transaction struct {
	binlog.Begin

	// Effects contains the effects of the transaction on each table, and its statements. It does not contain the rows
	// that cascades have changed, because they are not in the binary log before MySQL 9.6.
	Effects []Effect
}

// An Effect sums up all effects of one kind that a transaction has on one table, such as deleted rows.
type Effect struct {
	binlog.Effect

	// Events is the number of events in the binary log. An event can contain many rows.
	Events int
}

// A Log reads the binary log of the running server.
type Log struct {
	// Connect opens a connection to the server that reads its binary log.
	Connect func(context.Context) (*binlog.Stream, error)
	// Files are the names of the binary log files, the oldest first. Before contains, for each file, the transactions
	// before that file.
	Files  []string
	Before []binlog.Set
}

// OpenLog reads the list of the binary log files of a server.
func OpenLog(ctx context.Context, s *Server, connect func(context.Context) (*binlog.Stream, error)) (*Log, error) {
	out := &Log{Connect: connect}
	files, err := s.readTexts(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		events, err := s.readTexts(ctx, "SHOW BINLOG EVENTS IN "+quoteText([]byte(file[0]))+" LIMIT 3")
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if event[2] != "Previous_gtids" {
				continue
			}
			before, err := binlog.ParseSet(strings.ReplaceAll(event[5], "\n", ""))
			if err != nil {
				return nil, err
			}
			out.Files, out.Before = append(out.Files, file[0]), append(out.Before, before)
			break
		}
	}
	if len(out.Files) == 0 {
		return nil, errors.New("the server has no binary log")
	}
	return out, nil
}

// ErrPurged is the error for a transaction that the server has deleted from its binary log.
var ErrPurged = errors.New("the transaction is no longer in the binary log of the server")

// FindTransaction returns the transaction with a GTID, or ErrPurged.
func FindTransaction(ctx context.Context, connect func(context.Context) (*binlog.Stream, error), g binlog.GTID) (out *Transaction,
	err error) {
	stream, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	if !stream.State.Executed.Has(g) {
		return nil, fmt.Errorf("the server has no transaction %s", g)
	}
	if stream.State.Purged.Has(g) {
		return nil, ErrPurged
	}
	err = readTransactions(ctx, stream, stream.State.Executed.Without(g.Set()), func(t Transaction) bool {
		out = &t
		return false
	})
	return out, err
}

// After calls visit for each transaction that was committed after a time (microseconds since 1970), until visit returns
// false. isComplete is true if the binary log begins before that time.
func (l *Log) After(ctx context.Context, moment uint64, visit func(Transaction) bool) (isComplete bool, err error) {
	// first is the index of the first file whose transactions are all later than the time. The reader starts with the
	// file before it.
	first := sort.Search(len(l.Files), func(i int) bool {
		if err != nil {
			return true
		}
		var begin uint64
		begin, err = l.beginOf(ctx, i)
		return begin == 0 || begin > moment
	})
	if err != nil {
		return false, err
	}
	stream, err := l.Connect(ctx)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	return first > 0, readTransactions(ctx, stream, l.Before[max(0, first-1)], func(t Transaction) bool {
		return t.Time <= moment || visit(t)
	})
}

// beginOf returns the time of the first transaction in a file or in the files after it. It returns 0 if there is none.
func (l *Log) beginOf(ctx context.Context, i int) (out uint64, err error) {
	stream, err := l.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	return out, readTransactions(ctx, stream, l.Before[i], func(t Transaction) bool {
		out = t.Time
		return false
	})
}

// silence is the maximum time without a transaction. A server that skips transactions sends heartbeats for some time,
// but after silence it will not send the missing transactions.
const silence = 5 * time.Minute

// readTransactions calls visit for each transaction that is not in the given set, up to the last one that the server
// had executed at the login.
func readTransactions(ctx context.Context, stream *binlog.Stream, after binlog.Set, visit func(Transaction) bool) error {
	missing := stream.State.Executed.Without(after).Without(stream.State.Purged)
	if missing.IsEmpty() {
		return nil
	}
	if err := stream.Start(after); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, stream.Close)()
	left, last := missing.Count(), time.Now()
	current, effects := Transaction{}, &binlog.Effects{}
	for {
		p, err := stream.Next()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if len(p.Raw) == 0 { // A heartbeat.
			if time.Since(last) > silence {
				return fmt.Errorf("the server does not send the transactions %.200s of its binary log", missing)
			}
			continue
		}
		last = time.Now()
		if p.Begin != nil {
			current, effects = Transaction{Begin: *p.Begin}, &binlog.Effects{}
		}
		err = effects.Read(p, current.addEffect)
		isEnd := p.IsEnd
		p.Release()
		switch {
		case err != nil:
			return fmt.Errorf("transaction %s: %w", current.GTID, err)
		case !isEnd:
			continue
		case missing.Has(current.GTID):
			left--
		}
		if !visit(current) || left == 0 {
			return nil
		}
	}
}

// destructive matches statements that can delete or change rows. Other statements, such as GRANT, are not shown to
// users.
var destructive = regexp.MustCompile(`(?is)^\s*(/\*.*?\*/\s*)*(TRUNCATE|DROP\s+(TABLE|DATABASE|SCHEMA)|ALTER\s+TABLE|RENAME\s+TABLE|` +
	`DELETE|UPDATE|REPLACE|WITH)\b`)

// Touches reports whether the transaction deletes or changes rows of the given tables. A statement that can do so
// counts if it mentions one of them. If no tables are given, Touches reports whether the transaction can delete or
// change any rows of users.
func (t *Transaction) Touches(tables []Name) bool {
	return slices.ContainsFunc(t.Effects, func(e Effect) bool {
		switch e.Kind {
		case binlog.EffectInsert:
			return false
		case binlog.EffectStatement:
			return destructive.MatchString(e.Statement) && (len(tables) == 0 || slices.ContainsFunc(tables, e.mentionsTable))
		case binlog.EffectUpdate, binlog.EffectDelete:
		}
		if len(tables) == 0 {
			return !slices.Contains([]string{"mysql", "sys"}, e.Schema)
		}
		return slices.ContainsFunc(tables, func(n Name) bool {
			return strings.EqualFold(n.Schema, e.Schema) && strings.EqualFold(n.Table, e.Table)
		})
	})
}

// addEffect adds an effect to the effects of the same kind on the same table.
func (t *Transaction) addEffect(one binlog.Effect) {
	i := slices.IndexFunc(t.Effects, func(e Effect) bool {
		return e.Kind == one.Kind && e.Schema == one.Schema && e.Table == one.Table && one.Kind != binlog.EffectStatement
	})
	if i < 0 {
		t.Effects = append(t.Effects, Effect{Effect: one, Events: 1})
		return
	}
	t.Effects[i].Events++
	t.Effects[i].Size += one.Size
}

// mentionsTable reports whether a statement contains the name of a table, or drops a database.
func (e Effect) mentionsTable(n Name) bool {
	text := strings.ToLower(e.Statement)
	return strings.Contains(text, strings.ToLower(n.Table)) || dropsSchema.MatchString(text)
}

var dropsSchema = regexp.MustCompile(`(?i)\bDROP\s+(DATABASE|SCHEMA)\b`)

// countDamage returns the size of the effects that can lose data. The size of a statement such as DROP is unknown, so
// it counts as very large.
func (t *Transaction) countDamage() (out int) {
	for _, e := range t.Effects {
		switch e.Kind {
		case binlog.EffectStatement:
			if destructive.MatchString(e.Statement) {
				return 1 << 62
			}
		case binlog.EffectInsert:
		case binlog.EffectUpdate, binlog.EffectDelete:
			out += e.Size
		}
	}
	return out
}

// SortByDamage sorts transactions by the data that they may have lost, the largest loss first.
func SortByDamage(all []Transaction) {
	slices.SortStableFunc(all, func(a, b Transaction) int { return cmp.Compare(b.countDamage(), a.countDamage()) })
}
