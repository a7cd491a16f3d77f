//go:build mysqld

package bootcheck

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// mysqld returns the command for mysqld in the root file system of an image. It sets the paths of the files that are
// installed there.
func mysqld(root rootfs.Root, args ...string) *exec.Cmd {
	shareDir := root.Share()
	return root.Command("usr/sbin/mysqld", slices.Concat(args[:1], []string{
		"--lc-messages-dir=" + shareDir, "--character-sets-dir=" + filepath.Join(shareDir, "charsets"),
		"--plugin-dir=" + filepath.Join(root.Path, "usr/lib/mysql/plugin"),
	}, args[1:])...)
}

func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") //nolint:usetesting // A socket's path is at most 107 bytes.
	must(t, err)
	must(t, os.Chmod(dir, 0o755)) //nolint:gosec // The server runs as another user.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A source is a running mysqld with its data volume and the backup of that volume.
type source struct {
	*server

	root                   rootfs.Root
	volume, backup, banner string
	settings               []string
	db                     *sql.DB
	report                 agent.Report
}

// newSource starts a new server, whose data was initialized with the given settings.
func newSource(t *testing.T, settings ...string) *source {
	t.Helper()
	s := &source{root: rootfs.Find(t), volume: short(t), backup: short(t),
		settings: append(rootfs.SmallServer(), settings...)}
	must(t, os.Mkdir(filepath.Join(s.volume, "tmp"), 0o700))
	rootfs.Own(t, s.volume)
	out, err := mysqld(s.root, "--no-defaults", "--version").Output()
	must(t, err)
	v, err := version.FromBanner(string(out))
	must(t, err)
	s.banner = v.Version
	s.initialize(t)
	s.start(t)
	return s
}

func (s *source) initialize(t *testing.T) {
	t.Helper()
	cmd := s.command("--initialize-insecure")
	if s.root.IsMariaDB() {
		data := filepath.Join(s.volume, v1.DataDirectory)
		must(t, os.MkdirAll(filepath.Join(data, "mysql"), 0o750))
		rootfs.Own(t, data)
		cmd = s.command("--bootstrap")
		cmd.Stdin = strings.NewReader(s.root.SystemTables(t))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func (s *source) command(extra ...string) *exec.Cmd {
	args := append([]string{"--no-defaults", "--datadir=" + filepath.Join(s.volume, v1.DataDirectory),
		"--socket=" + filepath.Join(s.volume, "s"),
		"--pid-file=" + filepath.Join(s.volume, "pid"), "--skip-networking", "--loose-mysqlx=OFF",
		"--secure-file-priv=" + filepath.Join(s.volume, "tmp")}, s.settings...)
	return mysqld(s.root, append(args, extra...)...)
}

func (s *source) start(t *testing.T) {
	t.Helper()
	p, err := process.Start(s.command(), &process.Log{Out: io.Discard})
	must(t, err)
	s.server = &server{Process: p, arguments: arguments{dir: s.volume}}
	must(t, s.awaitAnswer(t.Context()))
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.MultiStatements, c.Logger = "root", "unix", s.socket(), true, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	must(t, err)
	s.db = sql.OpenDB(connector)
	t.Cleanup(func() { _ = s.db.Close() })
}

func flavourOf(root rootfs.Root) version.Flavour {
	if root.IsMariaDB() {
		return version.MariaDB
	}
	return version.MySQL
}

func (s *source) exec(t *testing.T, statements string) {
	t.Helper()
	_, err := s.db.ExecContext(t.Context(), statements)
	must(t, err)
}

func (s *source) stop(t *testing.T) {
	t.Helper()
	must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
	<-s.Done
}

// load creates a table of each kind, some with unusual names.
const load = `
create database shop character set utf8mb4; use shop;
create table orders(id bigint auto_increment primary key, ref char(36), note text, place point not null srid 4326,
  raw varbinary(64), key(ref), spatial key(place), fulltext key(note));
create table years(y int, v varchar(100)) partition by range(y) subpartition by hash(y) subpartitions 2 (partition a values less than (2000), partition B values less than maxvalue);
create table void(id int primary key);
create table packed(id int primary key, v varchar(100)) row_format=compressed;
create table old(id int primary key, v varchar(100)) engine=myisam;
create table line(id int not null, v varchar(100) not null) engine=csv;
create table memory(id int) engine=memory;
create table hole(id int) engine=blackhole;
create table store(id int) engine=archive;
create table away(id int); alter table away discard tablespace;
create tablespace big add datafile 'big.ibd'; create table inside(id int primary key) tablespace big;
create table whole(id int primary key) tablespace innodb_system;
create view dear as select id from orders;
create procedure grow() insert into orders(ref, note, place, raw)
  select uuid(), repeat('some words of a text ', 20), st_srid(point(rand()*90, rand()*90), 4326), random_bytes(64) from information_schema.columns limit 3000;
call grow(); call grow(); call grow();
insert into years select rand()*4000, uuid() from orders;
insert into old select id, ref from orders; insert into inside select id from orders; insert into packed select id, ref from orders; insert into whole values(1);
create database ` + "`odd $name-ü#`; create table `odd $name-ü#`.`t%/b``c.d`(id int primary key); create table `odd $name-ü#`.`p#q`(id int) partition by hash(id) partitions 2" + `;
create user 'app'@'%' identified by 'a password';
`

// tables is the number of tables that load creates, without views. The other constants are paths of their files.
const (
	tables = 14
	orders = "shop/orders.ibd"
)

// back stops mysqld and writes a backup of its data.
func (s *source) back(t *testing.T) {
	t.Helper()
	b := archive.Backup{
		Identity: archive.Identity{Record: "one",
			Instance: v1.BackedUpInstance{Kind: "MySQL", Namespace: "default", Name: "shop", XR: "uid"}},
		Volume: s.volume, Directory: v1.DataDirectory, Archive: s.archived(), Version: s.banner, Output: io.Discard,
	}
	r, err := b.Run(t.Context())
	must(t, err)
	s.report = r
}

func (s *source) archived() string { return filepath.Join(s.backup, "one", "data.tar.zst") }

// unpack extracts the backup into a new directory, and returns the boot check for that directory.
func (s *source) unpack(t *testing.T) *BootCheck {
	t.Helper()
	target := filepath.Join(t.TempDir(), "version.json")
	must(t, os.WriteFile(target, fmt.Appendf(nil, `{"version":%q,"flavour":%q}`, s.banner, flavourOf(s.root)), 0o600))
	u := archive.Unpack{Restore: archive.Restore{
		Archive: s.archived(), SHA256: s.report.SHA256, Volume: s.backup,
		Source: s.report.Version, SourceClean: s.report.CleanShutdown, Target: target, Output: io.Discard,
	}}
	_, err := u.Run(t.Context())
	must(t, err)
	dir := filepath.Join(s.backup, v1.RestoreTestDir)
	rootfs.Own(t, dir)
	return &BootCheck{Dir: dir, Directory: v1.DataDirectory, command: func(_ string, args ...string) *exec.Cmd {
		rootfs.Own(t, dir)
		return mysqld(s.root, args...)
	}}
}

// try changes the copy of the backup, and runs a boot check on it.
func (s *source) try(t *testing.T, change func(data string)) (Result, string, error) {
	t.Helper()
	check := s.unpack(t)
	change(filepath.Join(check.Dir, check.Directory))
	var out bytes.Buffer
	check.Output = &out
	start, process, run := time.Now(), (*exec.Cmd)(nil), check.command
	check.command = func(program string, args ...string) *exec.Cmd {
		process = run(program, args...)
		return process
	}
	r, err := check.run(t.Context(), "mysqld")
	used := process.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	t.Logf("%v, %d MiB, %+v, error: %v\n%s", time.Since(start).Round(time.Millisecond), used>>10, r, err,
		cutLog(out.String()))
	return r, out.String(), err
}

func cutLog(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

func unchanged(string) {}

func TestRealBootCheck(t *testing.T) {
	s := newSource(t)
	server := s.count(t)
	s.exec(t, load)
	s.stop(t)
	s.back(t)
	r, out, err := s.try(t, unchanged)
	must(t, err)
	if r.Tables != server+tables || r.Version != s.banner {
		t.Errorf("it found %+v, want %d tables of %s", r, server+tables, s.banner)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if p, ok := agent.ParseProgress(lines[len(lines)-1]); !ok || p.Phase != agent.PhaseCheck || p.Percent != 100 ||
		p.Total == 0 {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	for name, tc := range s.broken(t) {
		t.Run(name, func(t *testing.T) {
			_, _, err := s.try(t, tc.change)
			b, ok := errors.AsType[*BrokenError](err)
			if !ok || !strings.Contains(b.Error(), tc.want) || len(b.Error()) > 1000 {
				t.Errorf("it says %v, want %q", err, tc.want)
			}
		})
	}
}

// count returns the number of the server's own tables.
func (s *source) count(t *testing.T) int {
	t.Helper()
	n := 0
	must(t, s.db.QueryRowContext(t.Context(),
		"select count(*) from information_schema.tables where table_type='BASE TABLE' and table_schema in ('mysql', 'sys')").Scan(&n))
	return n
}

type damage struct {
	change func(data string)
	want   string
}

func (s *source) broken(t *testing.T) map[string]damage {
	t.Helper()
	overwrite := func(name string, offset, n int64, value byte) func(string) {
		return func(data string) {
			f, err := os.OpenFile(filepath.Join(data, name), os.O_WRONLY, 0)
			must(t, err)
			defer f.Close() //nolint:errcheck // The next call would fail.
			_, err = f.WriteAt(bytes.Repeat([]byte{value}, int(n)), offset)
			must(t, err)
		}
	}
	remove := func(name string) func(string) {
		return func(data string) { must(t, os.Remove(filepath.Join(data, name))) }
	}
	return map[string]damage{
		"ZeroPages":    {overwrite(orders, 1<<20, 1<<20, 0), "`shop`.`orders`"},
		"GarbagePages": {overwrite(orders, 1<<20, 1<<20, 0xa5), "`shop`.`orders`"},
		"MyISAM":       {overwrite("shop/old.MYD", 1000, 1000, 0xa5), "`shop`.`old`"},
		"NoTable":      {remove(orders), orders},
		"NoPartition":  {remove("shop/years#p#b#sp#bsp1.ibd"), "years#p#b"},
		"NoMyISAM":     {remove("shop/old.MYD"), "`shop`.`old`"},
		"NoDictionary": {remove("mysql.ibd"), "did not start with the data"},
		"Dictionary":   {overwrite("mysql.ibd", 0, 20<<20, 0xa5), "did not start with the data"},
		"NoSystem":     {remove("ibdata1"), "did not start with the data"},
		"System":       {overwrite("ibdata1", 0, 10<<20, 0xa5), "did not start with the data"},
		"Stranger": {func(data string) {
			must(t, os.Rename(filepath.Join(data, "shop/void.ibd"), filepath.Join(data, "shop/other.ibd")))
		}, "shop/void.ibd"},
		"Unknown": {func(data string) {
			raw, err := os.ReadFile(filepath.Join(data, "shop/void.ibd"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(data, "shop/more.ibd"), raw, 0o600))
		}, "shop/more.ibd"},
		"Empty": {func(data string) { must(t, os.Truncate(filepath.Join(data, orders), 0)) }, "orders"},
	}
}

// TestRealBootCheckUnclean checks the copy of a server that was killed while it was writing.
func TestRealBootCheckUnclean(t *testing.T) {
	s := newSource(t)
	s.exec(t, load)
	s.exec(t, "create table shop.x(id int primary key); xa start 'x'; insert into shop.x values(1); xa end 'x'; xa "+
		"prepare 'x'")
	done := make(chan struct{})
	for n := range 3 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := 0; ; i++ {
				_, err := s.db.ExecContext(t.Context(),
					fmt.Sprintf("insert into shop.orders(ref, note, place, raw) select ref, note, place, raw from shop.orders "+
						"limit 100; create table shop.n%d_%d(id int); drop table shop.n%d_%d", n, i, n, i))
				if err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(3 * time.Second)
	s.Kill()
	for range 3 {
		<-done
	}
	s.back(t)
	if s.report.CleanShutdown {
		t.Errorf("after a kill: %+v", s.report)
	}
	_, _, err := s.try(t, unchanged)
	must(t, err)
}

// TestRealBootCheckSettings checks copies of servers that were initialized with different settings.
func TestRealBootCheckSettings(t *testing.T) {
	for _, setting := range []string{"--lower-case-table-names=1", "--innodb-page-size=8k", "--innodb-page-size=64k",
		"--innodb-redo-log-capacity=1G"} {
		t.Run(setting, func(t *testing.T) {
			s := newSource(t, setting)
			s.exec(t, "create database Shop; create table Shop.Orders(id int primary key); insert into Shop.Orders values(1)")
			s.stop(t)
			s.back(t)
			_, _, err := s.try(t, unchanged)
			must(t, err)
		})
	}
}
