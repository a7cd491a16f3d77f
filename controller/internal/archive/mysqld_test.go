//go:build mysqld

package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
)

// load contains SQL statements that create data of many types, so that a lost or changed value would be detected.
const load = `
create database shop character set utf8mb4; use shop;
create table orders(id bigint auto_increment primary key, ref char(36), note text, doc json, place point not null srid 4326,
  total decimal(12,2), half decimal(12,2) as (total/2) stored, raw varbinary(64), created timestamp default current_timestamp, key(ref), spatial key(place));
create table years(y int, v varchar(100)) partition by range(y) (partition a values less than (2000), partition b values less than maxvalue);
create table void(id int primary key);
create view dear as select id, total from orders where total > 500;
create procedure grow() insert into orders(ref, note, doc, place, total, raw)
  select uuid(), repeat('p\u00e4ge \U0001F600 ', 20), json_object('n', rand()), st_srid(point(rand()*90, rand()*90), 4326), rand()*1000, random_bytes(64)
  from information_schema.columns limit 3000;
create trigger t before insert on orders for each row set new.note = concat('T', new.note);
create event e on schedule every 1 year do delete from shop.void;
create user 'app'@'%' identified by 'a password'; grant select on shop.* to 'app'@'%';
call grow(); call grow(); call grow();
insert into years select rand()*4000, uuid() from orders;
`

const sums = "checksum table shop.orders, shop.years, shop.void, mysql.user; select count(*) from shop.orders; " +
	"select count(*), sum(y) from shop.years; check table shop.orders, shop.years; show create procedure shop.grow; " +
	"show grants for app; select count(*) from shop.dear"

func (s *server) backup(t *testing.T) (place, *Backup) {
	t.Helper()
	p := place{data: s.volume, backup: t.TempDir()}
	b := p.newBackup()
	b.Version = ""
	return p, b
}

// moved restores the backup to a new volume, and returns a server that runs on this volume.
func (s *server) moved(t *testing.T, p place, report agent.Report) *server {
	t.Helper()
	r := p.newRestore(t)
	r.Source, r.SourceClean, r.Target = report.Version, report.CleanShutdown, targetVersion(t, s.version)
	next := newServer(t)
	r.Volume = next.volume
	_, err := r.Run(t.Context())
	must(t, err)
	next.start(t)
	return next
}

func TestRealServer(t *testing.T) {
	s := newServer(t)
	s.initialise(t)
	s.start(t)
	s.must(t, load)
	p, b := s.backup(t)
	if _, err := b.Run(t.Context()); agent.CodeOf(err) != agent.ExitBusy {
		t.Fatalf("a backup beside a running server: %v", err)
	}
	want, uuid := s.must(t, sums), s.must(t, "select @@server_uuid")
	s.stop(t)
	report, err := b.Run(t.Context())
	must(t, err)
	if !report.CleanShutdown || report.Version != s.version {
		t.Errorf("after a clean stop: %+v", report)
	}
	next := s.moved(t, p, report)
	if got := next.must(t, sums); got != want {
		t.Errorf("after the restore: %s\nwant: %s", got, want)
	}
	if got := next.must(t, "select @@server_uuid"); got == uuid {
		t.Errorf("the restored server has the server_uuid of the one that was backed up, %s", got)
	}
}

// TestRealKill checks that a backup of a killed server contains every row whose insertion the server had
// acknowledged.
func TestRealKill(t *testing.T) {
	s := newServer(t)
	s.initialise(t)
	s.start(t)
	s.must(t, load)
	acknowledged := s.write(t, 2*time.Second)
	p, b := s.backup(t)
	report, err := b.Run(t.Context())
	must(t, err)
	if report.CleanShutdown {
		t.Errorf("after a kill: %+v", report)
	}
	next := s.moved(t, p, report)
	got, err := strconv.ParseInt(strings.TrimSpace(next.must(t,
		fmt.Sprintf("select count(*) from shop.void where id between 1 and %d", acknowledged))), 10, 64)
	must(t, err)
	if got != acknowledged || got < 1 {
		t.Errorf("%d rows were acknowledged, and %d of them are there", acknowledged, got)
	}
	if got := next.must(t, "check table shop.orders, shop.years, shop.void"); strings.Count(got, "status\tOK") != 3 {
		t.Errorf("its tables are not whole: %s", got)
	}
}

// write inserts rows, and kills the mysqld process after the duration d, counted from the first row. It returns the
// last row that the server acknowledged.
func (s *server) write(t *testing.T, d time.Duration) int64 {
	t.Helper()
	last := atomic.Int64{}
	first, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := int64(1); ; n++ {
			if _, err := s.query(fmt.Sprintf("insert into shop.void values(%d); call shop.grow()", n)); err != nil {
				return
			}
			if last.Store(n); n == 1 {
				close(first)
			}
		}
	}()
	select {
	case <-first:
		time.Sleep(d)
	case <-done:
	}
	s.kill(t)
	<-done
	return last.Load()
}

// TestRealStops checks that a clean shutdown is detected correctly after each way of stopping the server.
func TestRealStops(t *testing.T) {
	s := newServer(t)
	s.initialise(t)
	s.expect(t, "after the initialisation", true)
	s.start(t)
	s.must(t, load)
	s.stop(t)
	s.expect(t, "after the load", true)
	for round := range 3 {
		for _, tc := range []struct {
			name  string
			run   func()
			clean bool
		}{
			{"fast shutdown 1", func() { s.must(t, "call shop.grow()"); s.stop(t) }, true},
			{"fast shutdown 0", func() { s.must(t, "call shop.grow(); set global innodb_fast_shutdown=0"); s.stop(t) }, true},
			{"nothing done", func() { s.stop(t) }, true},
			{"fast shutdown 2", func() { s.must(t, "call shop.grow(); set global innodb_fast_shutdown=2"); s.stop(t) }, false},
			{"killed under load", func() { s.write(t, time.Duration(round+1)*300*time.Millisecond) }, false},
			{"killed after recovery", func() { s.kill(t) }, false},
			{"cleanly after recovery", func() { s.stop(t) }, true},
			{"killed idle", func() { time.Sleep(time.Duration(round) * time.Second); s.kill(t) }, false},
			{"killed while it stops", func() { s.must(t, "call shop.grow()"); s.killStopping(t, round) }, false},
			{"cleanly with a small log", func() {
				s.must(t, "set global innodb_redo_log_capacity=8388608; call shop.grow(); call shop.grow()")
				s.stop(t)
			}, true},
			{"killed with a full small log", func() {
				s.must(t, "set global innodb_redo_log_capacity=8388608")
				s.write(t, time.Second)
			}, false},
		} {
			s.start(t)
			tc.run()
			s.expect(t, fmt.Sprintf("round %d, %s", round, tc.name), tc.clean)
		}
		s.reset(t)
	}
}

// reset deletes the rows of the previous round, so that the data directory does not grow with each round.
func (s *server) reset(t *testing.T) {
	t.Helper()
	s.start(t)
	s.must(t, "truncate shop.orders; truncate shop.void")
	s.stop(t)
}

// killStopping sends SIGTERM to the mysqld process and kills it shortly afterwards, before its shutdown is complete.
func (s *server) killStopping(t *testing.T, round int) {
	t.Helper()
	must(t, s.process.Process.Signal(syscall.SIGTERM))
	time.Sleep(time.Duration(round*10) * time.Millisecond)
	s.kill(t)
}

func (s *server) expect(t *testing.T, moment string, clean bool) {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join(s.volume, v1.DataDirectory))
	must(t, err)
	defer root.Close() //nolint:errcheck // Nothing was written.
	got, err := datadir.HowStopped(root)
	must(t, err)
	t.Logf("%s: clean %v: %s", moment, got.Clean, got.Reason)
	if !got.Known || got.Clean != clean {
		t.Errorf("%s: %+v", moment, got)
	}
}
