//go:build mysqld && bench

package archive

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// speedBytes is the size of the data directory in bytes.
const speedBytes = 1 << 30

// shop is a typical schema with keys, names, amounts, times and text.
const shop = `
create database shop character set utf8mb4; use shop;
create table customers(id int primary key, name varchar(80), email varchar(120), street varchar(120), city varchar(60),
  since datetime, balance decimal(12,2), key(email), key(city));
create table orders(id int primary key, customer int, ref char(36), status enum('new','paid','packed','sent','back'), total decimal(12,2),
  created datetime, changed datetime, note varchar(400), key(customer), key(created));
create table lines_of(orders int, no tinyint, sku char(12), quantity smallint, price decimal(10,2), described varchar(200), primary key(orders, no), key(sku));
create table events(id int primary key, at datetime(6), kind varchar(20), source varchar(45), payload json, key(at));
`

// batch is the number of rows that one statement inserts.
const batch = 500

// fill inserts rows until the data directory of a new server has reached speedBytes. The rows are the same each time.
// The binary log is off, because the log of an older server contains only the last days.
func (s *server) fill(t *testing.T) {
	t.Helper()
	s.must(t, shop)
	w := &writer{Rand: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // The same data each time.
	w.learn(6000)
	for first := 1; s.size(t) < speedBytes; first += 100 * batch {
		r, out := io.Pipe()
		go func() {
			b := bufio.NewWriterSize(out, 1<<20)
			w.rows(b, first, 100)
			_ = out.CloseWithError(b.Flush()) // The client reports the error.
		}()
		client := s.client(t, "mysql", "--database=shop")
		client.Stdin = r
		if out, err := client.CombinedOutput(); err != nil {
			t.Fatalf("cannot fill the server: %v\n%s", err, out)
		}
	}
}

// A writer generates rows from words that it creates. The first words are the most frequent.
type writer struct {
	*rand.Rand

	words []string
}

func (w *writer) learn(n int) {
	syllables := []string{"ka", "ro", "mi", "ten", "sol", "de", "an", "ber", "lu", "ti", "ga", "ver", "no", "is", "fra",
		"lo", "pe", "ster", "un", "ma"}
	for range n {
		word := make([]string, 1+w.IntN(4))
		for i := range word {
			word[i] = syllables[w.IntN(len(syllables))]
		}
		w.words = append(w.words, strings.Join(word, ""))
	}
}

func (w *writer) text(n int) string {
	words := make([]string, n)
	for i := range words {
		f := w.Float64()
		words[i] = w.words[int(f*f*f*float64(len(w.words)))]
	}
	return strings.Join(words, " ")
}

func (w *writer) time() string {
	return fmt.Sprintf("20%02d-%02d-%02d %02d:%02d:%02d", 15+w.IntN(10), 1+w.IntN(12), 1+w.IntN(28), w.IntN(24),
		w.IntN(60), w.IntN(60))
}

// rows writes INSERT statements for all tables, with the given number of statements for each table.
func (w *writer) rows(b *bufio.Writer, first, statements int) {
	say := func(text string) { _, _ = b.WriteString(text) } // Flush returns the first error.
	say("set sql_log_bin=0;\n")
	for row := first; row < first+statements*batch; row += batch {
		say("begin;\n")
		for _, insert := range []struct {
			table string
			row   func(id int) string
		}{{"customers", w.customer}, {"orders", w.order}, {"lines_of", w.lines}, {"events", w.event}} {
			all := make([]string, batch)
			for i := range all {
				all[i] = insert.row(row + i)
			}
			say("insert into " + insert.table + " values " + strings.Join(all, ",") + ";\n")
		}
		say("commit;\n")
	}
}

func (w *writer) customer(id int) string {
	name := w.text(2)
	return fmt.Sprintf("(%d,'%s','%s%d@%s.example','%s %d','%s','%s',%.2f)", id, name, strings.ReplaceAll(name, " ", "."),
		w.IntN(1000),
		w.text(1), w.text(2), w.IntN(200), w.text(1), w.time(), w.Float64()*1000)
}

func (w *writer) order(id int) string {
	return fmt.Sprintf("(%d,%d,'%08x-%04x-%04x-%012x',%d,%.2f,'%s','%s','%s')", id, 1+w.IntN(id), w.Uint32(),
		w.IntN(1<<16), w.IntN(1<<16),
		w.Uint64()>>16, 1+w.IntN(5), w.Float64()*500, w.time(), w.time(), w.text(w.IntN(30)))
}

func (w *writer) lines(id int) string {
	all := make([]string, 1+w.IntN(5))
	for no := range all {
		all[no] = fmt.Sprintf("(%d,%d,'SKU-%08d',%d,%.2f,'%s')", id, no, w.IntN(50_000), 1+w.IntN(9), w.Float64()*100,
			w.text(3+w.IntN(8)))
	}
	return strings.Join(all, ",")
}

func (w *writer) event(id int) string {
	return fmt.Sprintf(`(%d,'%s.%06d','%s','10.%d.%d.%d','{"user": %d, "path": "/%s/%s", "took": %.4f, "agent": "%s"}')`,
		id, w.time(), w.IntN(1e6), w.text(1),
		w.IntN(256), w.IntN(256), w.IntN(256), w.IntN(id)+1, w.text(1), w.text(1), w.Float64(), w.text(6))
}
