//go:build mysqld

package recovery

import (
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// TestRealExpiry checks the time after which a server says that it deletes its binary log.
func TestRealExpiry(t *testing.T) {
	i := newInstance(t)
	for statement, want := range map[string]time.Duration{
		"SET GLOBAL binlog_expire_logs_auto_purge = ON, GLOBAL binlog_expire_logs_seconds = 3600":  time.Hour,
		"SET GLOBAL binlog_expire_logs_auto_purge = ON, GLOBAL binlog_expire_logs_seconds = 0":     0,
		"SET GLOBAL binlog_expire_logs_auto_purge = OFF, GLOBAL binlog_expire_logs_seconds = 3600": 0,
	} {
		i.exec(t, statement)
		s, err := binlog.Connect(t.Context(), binlog.Source{Address: i.socket(), User: "root", ServerID: 78})
		if err != nil {
			t.Fatal(err)
		}
		if s.State.ExpireAfter != want {
			t.Errorf("%s: want %s, got %s", statement, want, s.State.ExpireAfter)
		}
		s.Close()
	}
}

// TestRealReset checks that an archiver notices a reset of the binary log although its connection to the server stays
// open.
func TestRealReset(t *testing.T) {
	skipShort(t)
	i := newInstance(t)
	a := i.archive(t, nil)
	a.end(t)
	w := &binlog.Watcher{Source: binlog.Source{Address: i.socket(), User: "root", ServerID: 78}}
	defer w.Close()
	a.State = w.ReadState
	a.run(t)
	i.exec(t, "CREATE DATABASE d; CREATE TABLE d.t (a INT)")
	a.await(t, i)
	i.exec(t, "SET GLOBAL binlog_checksum = NONE; INSERT INTO d.t VALUES (1)")
	a.await(t, i)
	i.exec(t, "SET GLOBAL binlog_checksum = CRC32; INSERT INTO d.t VALUES (2)")
	a.await(t, i)
	time.Sleep(15 * time.Second)
	p := a.progress()
	t.Log(p, time.Since(p.Until))
	if late := time.Since(p.Until); late > 10*time.Second || late < 3*time.Second {
		t.Errorf("the archive is %s late", late)
	}
	i.exec(t, "RESET BINARY LOGS AND GTIDS")
	select {
	case err := <-a.ended:
		t.Log(err)
	case <-time.After(20 * time.Second):
		t.Fatal("not noticed")
	}
	a.run(t)
	i.exec(t, "ALTER TABLE d.t ADD COLUMN b LONGTEXT")
	for range 5 {
		i.exec(t, "INSERT INTO d.t VALUES (3, REPEAT('x', 300000))")
	}
	a.await(t, i)
	time.Sleep(15 * time.Second)
	i.exec(t, "RESET BINARY LOGS AND GTIDS; INSERT INTO d.t VALUES (3, ''); INSERT INTO d.t VALUES (3, ''); INSERT INTO d.t VALUES (3, '');"+
		"INSERT INTO d.t VALUES (3, ''); INSERT INTO d.t VALUES (3, ''); INSERT INTO d.t VALUES (3, ''); INSERT INTO d.t VALUES (3, '');")
	select {
	case err := <-a.ended:
		t.Log(err)
	case <-time.After(100 * time.Second):
		t.Fatal("not noticed")
	}
	a.run(t)
	t.Log(a.progress())
	a.end(t)
}
