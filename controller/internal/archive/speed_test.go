//go:build mysqld && bench

package archive

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// speedRounds is the number of measurements per method. The median is reported.
const speedRounds = 3

// firstQuery shows that a restored or loaded server can read a table.
const firstQuery = "select count(*) from shop.orders where id < 1000"

// A way contains the measurements of one backup or restore method, for example tar with zstd.
type way struct {
	name    string
	seconds []float64
	// bytes is the size of the method's output, and resident its maximum memory, both in bytes.
	bytes, resident int64
}

func (w *way) middle() float64 {
	slices.Sort(w.seconds)
	return w.seconds[len(w.seconds)/2]
}

func (w *way) took(since time.Time) { w.seconds = append(w.seconds, time.Since(since).Seconds()) }

// A speedTest has one mysqld process and a directory for copies of its data.
type speedTest struct {
	*server
	*testing.T

	agent, dir string
	report     agent.Report

	backup, tar, tarVerified, dump, gzip way
	restore, load                        way
}

// TestSpeed measures the agent, which runs as a process, and compares it with tar and mysqldump on the same data. It
// asserts nothing, because the load of the machine affects all results.
func TestSpeed(t *testing.T) {
	s := newSpeedTest(t)
	s.backup.name = "backup, written to disk, proved"
	s.tar.name = "tar | zstd -1 -T0"
	s.tarVerified.name = "tar | zstd -1 -T0, then sync and zstd -t"
	s.dump.name = "mysqldump | zstd -1"
	s.gzip.name = "mysqldump | gzip"
	s.restore.name = "restore, written to disk; server start"
	s.load.name = "zstd -d | mysql, into a running server"
	s.prepare()
	for range speedRounds {
		s.round()
	}
	s.print()
}

// newSpeedTest builds the agent's program, and returns a speedTest without data.
func newSpeedTest(t *testing.T) *speedTest {
	t.Helper()
	s := &speedTest{server: defaultServer(t), T: t, dir: t.TempDir()}
	s.agent = filepath.Join(s.dir, "controller")
	s.pipe(nil, exec.CommandContext(t.Context(), "go", "build", "-o", s.agent,
		"github.com/crossplane-mysql/crossplane-mysql/controller"))
	return s
}

// prepare fills the data directory with rows and stops the server.
func (s *speedTest) prepare() {
	s.initialise(s.T)
	s.start(s.T)
	s.fill(s.T)
	s.stop(s.T)
}

func (s *speedTest) round() {
	s.start(s.T)
	s.measure(&s.gzip, "gz", s.mysqldump(), exec.CommandContext(s.Context(), "gzip"))
	s.measure(&s.dump, "sql.zst", s.mysqldump(), exec.CommandContext(s.Context(), "zstd", "-1"))
	s.stop(s.T)
	s.cold()
	s.measure(&s.tar, "tar.zst", s.tarCommand(), exec.CommandContext(s.Context(), "zstd", "-1", "-T0"))
	s.cold()
	s.copied()
	s.cold()
	s.verifiedCount()
	s.restored()
	s.loaded()
}

// cold drops the data files from the page cache, so that each method reads from disk. This is also the state after a
// server has stopped, because MySQL bypasses the page cache.
func (s *speedTest) cold() {
	must(s.T, filepath.WalkDir(s.volume, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path) //nolint:gosec // It is a directory of the test.
		if err == nil {
			dropCache(f)
			err = f.Close()
		}
		return err
	}))
}

func (s *speedTest) file(suffix string) string { return filepath.Join(s.dir, "shop."+suffix) }

func (s *speedTest) archive() string { return filepath.Join(s.dir, "backup", "data.tar.zst") }

func (s *speedTest) mysqldump() *exec.Cmd {
	return s.client(s.T, "mysqldump", "--single-transaction", "--routines", "--events", "--databases", "shop")
}

func (s *speedTest) tarCommand() *exec.Cmd {
	return exec.CommandContext(s.Context(), "tar", "--create", "--directory="+filepath.Join(s.volume, v1.DataDirectory),
		".")
}

// measure runs commands as a shell pipeline whose output is written to a new file. It records the time and the size.
func (s *speedTest) measure(w *way, suffix string, commands ...*exec.Cmd) {
	f, err := os.Create(s.file(suffix))
	must(s.T, err)
	start := time.Now()
	s.pipe(f, commands...)
	w.took(start)
	info, err := f.Stat()
	must(s.T, err)
	w.bytes = info.Size()
	must(s.T, f.Sync()) // The next measurement must not include these writes.
	must(s.T, f.Close())
}

// pipe runs commands. Each command reads the output of the previous one.
func (s *speedTest) pipe(out io.Writer, commands ...*exec.Cmd) {
	for i, c := range commands[1:] {
		from, err := commands[i].StdoutPipe()
		must(s.T, err)
		c.Stdin = from
	}
	commands[len(commands)-1].Stdout = out
	complaints := make([]strings.Builder, len(commands))
	for i, c := range commands {
		c.Stderr = &complaints[i]
		must(s.T, c.Start())
	}
	for i, c := range slices.Backward(commands) {
		if err := c.Wait(); err != nil {
			s.Fatalf("%s: %v\n%s", c, err, complaints[i].String())
		}
	}
}

// verifiedCount measures tar and zstd with the same guarantees as a backup: the archive is synced to disk and read back.
func (s *speedTest) verifiedCount() {
	start := time.Now()
	f, err := os.Create(s.file("tar.zst"))
	must(s.T, err)
	s.pipe(f, s.tarCommand(), exec.CommandContext(s.Context(), "zstd", "-1", "-T0"))
	must(s.T, f.Sync())
	s.pipe(nil, exec.CommandContext(s.Context(), "zstd", "-t", f.Name()))
	s.tarVerified.took(start)
	info, err := f.Stat()
	must(s.T, err)
	s.tarVerified.bytes = info.Size()
	must(s.T, f.Close())
}

// run runs the agent with these arguments, and records its duration and its maximum memory.
func (s *speedTest) run(w *way, args ...string) agent.Report {
	file := filepath.Join(s.dir, "report.json")
	cmd := exec.CommandContext(s.Context(), s.agent, append(args, "--directory="+v1.DataDirectory, "--report="+file)...)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	w.took(start)
	w.resident = max(w.resident, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
	raw, err := os.ReadFile(file)
	must(s.T, err)
	r := agent.Report{}
	must(s.T, json.Unmarshal(raw, &r))
	return r
}

func (s *speedTest) copied() {
	must(s.T, os.RemoveAll(filepath.Dir(s.archive())))
	s.report = s.run(&s.backup, "backup", "--volume="+s.volume, "--archive="+s.archive(), "--record=one", "--xr=uid",
		"--namespace=default", "--name=shop")
	s.backup.bytes = s.report.Size
}

// defaultServer returns a mysqld process with default settings, which is not started yet.
func defaultServer(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.options = nil
	return s
}

// restored measures a restore, including the start of a server on the new volume until it answers.
func (s *speedTest) restored() {
	next := defaultServer(s.T)
	w := way{}
	start := time.Now()
	s.run(&w, "restore", "--volume="+next.volume, "--archive="+s.archive(), "--sha256="+s.report.SHA256,
		"--source-version="+s.report.Version, "--source-clean", "--target-version="+targetVersion(s.T, s.version))
	next.start(s.T)
	next.must(s.T, firstQuery)
	s.restore.took(start)
	s.restore.resident = max(s.restore.resident, w.resident)
	next.stop(s.T)
	must(s.T, os.RemoveAll(next.volume))
}

// loaded measures how long a new server, which already runs, needs to load a dump.
func (s *speedTest) loaded() {
	next := defaultServer(s.T)
	next.initialise(s.T)
	next.start(s.T)
	start := time.Now()
	s.pipe(nil, exec.CommandContext(s.Context(), "zstd", "-dc", s.file("sql.zst")),
		next.client(s.T, "mysql", "--init-command=set sql_log_bin=0"))
	next.must(s.T, firstQuery)
	s.load.took(start)
	next.stop(s.T)
	must(s.T, os.RemoveAll(next.volume))
}

// client returns a command for a MySQL client program, such as mysqldump, that connects to the server.
func (s *server) client(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	return s.root.Command("usr/bin/"+program,
		append([]string{"--no-defaults", "--user=root", "--socket=" + s.socket}, args...)...)
}

// size returns the total size of the data directory's files.
func (s *server) size(t *testing.T) int64 {
	t.Helper()
	total := int64(0)
	must(t, filepath.WalkDir(filepath.Join(s.volume, v1.DataDirectory), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	}))
	return total
}

func (s *speedTest) print() {
	fmt.Printf("%d MiB of InnoDB data of MySQL %s, compressed %.1f:1; the middle of %d\n", s.size(s.T)>>20, s.version,
		float64(s.report.DataBytes)/float64(s.report.Size), speedRounds)
	fmt.Printf("%-42s %8s %8s %10s %12s\n", "", "seconds", "ratio", "size MiB", "memory MiB")
	for _, group := range [][]way{{s.backup, s.tar, s.tarVerified, s.dump, s.gzip}, {s.restore, s.load}} {
		for _, w := range group {
			fmt.Printf("%-42s %8.2f %8.2f %10s %12s  %.2f\n", w.name, w.middle(), w.middle()/group[0].middle(), mebis(w.bytes),
				mebis(w.resident), w.seconds)
		}
	}
}

func mebis(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n>>20, 10)
}
