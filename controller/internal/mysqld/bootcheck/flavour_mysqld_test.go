//go:build mysqld

package bootcheck

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// flavourLoad contains statements that every supported server understands.
const flavourLoad = `
create database shop; use shop;
create table orders(id int auto_increment primary key, ref char(36), note text, key(ref), fulltext key(note));
insert into orders(ref, note) select uuid(), repeat('some words of a text ', 20) from information_schema.columns limit 1000;
insert into orders(ref, note) select ref, note from orders; insert into orders(ref, note) select ref, note from orders;
create table years(y int, v varchar(100)) partition by range(y) (partition a values less than (2000), partition b values less than maxvalue);
insert into years select id, ref from orders;
create table void(id int primary key);
create table old(id int primary key, v varchar(100)) engine=myisam; insert into old select id, ref from orders;
create table memory(id int) engine=memory;
create view dear as select id from orders;
create user 'app'@'%' identified by 'a password';
`

// mariadbLoad contains kinds of tables that only MariaDB has.
const mariadbLoad = `
create table shop.pages(id int primary key, v varchar(100)) engine=aria; insert into shop.pages select id, ref from shop.orders;
create table shop.history(id int primary key) with system versioning; insert into shop.history values (1); update shop.history set id = 2;
create sequence shop.numbers; select nextval(shop.numbers);
`

// TestRealFlavourRestoreTest checks that an intact backup of each supported server passes, and that a damaged backup
// fails. A former bug reported all backups of MariaDB as broken.
func TestRealFlavourRestoreTest(t *testing.T) {
	s := newSource(t)
	s.exec(t, flavourLoad)
	if s.root.IsMariaDB() {
		s.exec(t, mariadbLoad)
	}
	s.stop(t)
	s.back(t)
	r, _, err := s.try(t, unchanged)
	must(t, err)
	if r.Tables < 20 || r.Version == "" {
		t.Errorf("it found %+v", r)
	}
	cases := s.broken(t)
	for _, name := range []string{"GarbagePages", "MyISAM", "NoTable", "NoMyISAM"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := s.try(t, cases[name].change)
			if _, ok := errors.AsType[*BrokenError](err); !ok || !strings.Contains(err.Error(), "ord") &&
				!strings.Contains(err.Error(), "old") {
				t.Errorf("want the table named, got %v", err)
			}
		})
	}
	t.Run("DoesNotStart", func(t *testing.T) {
		_, _, err := s.try(t, func(data string) {
			must(t, os.WriteFile(filepath.Join(data, "ibdata1"), bytes.Repeat([]byte{0xa5}, 12<<20), 0o600))
		})
		if _, ok := errors.AsType[*BrokenError](err); !ok || strings.Contains(err.Error(), "printed nothing") {
			t.Errorf("want the copy blamed, in the server's words, got %v", err)
		}
	})
	t.Run("UnknownOption", func(t *testing.T) { s.tryWith(t, "--no-such-option") })
	t.Run("WrongValue", func(t *testing.T) { s.tryWith(t, "--secure-file-priv=/does/not/exist") })
}

// tryWith runs a boot check with an option that the server refuses. The error must mention the option, and must not
// be a BrokenError.
func (s *source) tryWith(t *testing.T, option string) {
	t.Helper()
	check := s.unpack(t)
	check.Output = &bytes.Buffer{}
	run := check.command
	check.command = func(program string, args ...string) *exec.Cmd { return run(program, append(args, option)...) }
	_, err := check.run(t.Context(), "mysqld")
	if _, ok := errors.AsType[*BrokenError](err); ok || err == nil || !strings.Contains(err.Error(), "backup is not the cause") ||
		strings.Contains(err.Error(), "printed nothing") {
		t.Errorf("want the option blamed, in the server's words, got %v", err)
	}
}
