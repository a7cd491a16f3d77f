package initialize

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// A Loading makes a database of a dump, where no server looks. The image's own client loads it, since
// it is that which knows what its mysqldump writes.
type Loading struct {
	datavolume.Half

	// Object that the dump was fetched from: its name says how it is compressed.
	Object string
	// Database that statements are for which name none.
	Database string
	// Summed is true if somebody has said the sum of the dump. Without that it has to say itself that it is whole.
	Summed bool
	// Sockets is a folder that is made for the server's socket, as for an Initialization.
	Sockets string
	// Output takes the log of the entrypoint and progress lines.
	Output io.Writer
}

// whileLoading are options of the server meanwhile: nothing of it is in a binary log, and no event of the
// dump's begins.
var whileLoading = []string{"--skip-log-bin", "--event-scheduler=OFF"}

// endOfDump is how mysqldump says that it has written all (write_footer in client/mysqldump.cc of MySQL).
const endOfDump = "-- Dump completed"

// Run the loading. The report is there also with an error.
func (l *Loading) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "import-dump"}
	err := exit.CodeOf(ctx, l.run(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
}

func (l *Loading) run(ctx context.Context, r *agent.Report) error {
	m, err := l.GoOn(ctx)
	if r.Already = m == nil; r.Already || err != nil {
		return err
	}
	defer m.Close()
	if err := l.make(ctx); err != nil {
		if agent.CodeOf(err) != agent.ExitFailed { // Nobody goes on with it.
			err = errors.Join(err, m.Discard())
		}
		return err
	}
	return errors.Join(os.Remove(l.Dump(l.Object)), m.Complete()) // Its room is the data's.
}

// make the database, with a server that has ended then.
func (l *Loading) make(ctx context.Context) error {
	i := &Initialization{Sockets: l.Sockets, Output: l.Output}
	s, err := i.startEntrypoint(l.Data(), sql.NewPassword(), whileLoading...)
	if err != nil {
		return err
	}
	defer s.Kill() // What it started besides ends with the container.
	if err = s.awaitServer(ctx); err == nil {
		err = l.load(ctx, s)
	}
	if err != nil {
		return err
	}
	return s.stop(ctx)
}

// load the dump into a server.
func (l *Loading) load(ctx context.Context, s *server) error {
	f, err := os.Open(l.Dump(l.Object))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m := agent.StartMeter(l.Output, agent.PhaseLoad, info.Size())
	defer m.Stop()
	plain, err := decompress(l.Object, &countingReader{f, m})
	if err != nil {
		return damagedDump("it cannot be decompressed: %w", err)
	}
	t := &tailReader{from: withoutSandboxLine(plain)}
	if err := l.runClient(ctx, s, t); err != nil {
		return err
	}
	return t.check(l.Summed)
}

// runClient on what a dump says, to its end or to the first statement that fails.
func (l *Loading) runClient(ctx context.Context, s *server, dump *tailReader) error {
	args := []string{"--no-defaults", "--user=root", "--socket=" + s.socket, "--binary-mode", "--default-character-set=utf8mb4", "--max-allowed-packet=1G"}
	if l.Database != "" {
		args = append(args, "--database="+l.Database)
	}
	cmd, err := imageClient(args...)
	if err != nil {
		return err
	}
	said := &bytes.Buffer{}
	cmd.Env = append(cmd.Environ(), "MYSQL_PWD="+string(s.generated))
	cmd.Stdin = dump
	p, err := process.Start(cmd, &process.Log{Out: said, All: true})
	if err != nil {
		return fmt.Errorf("cannot run the image's client: %w", err)
	}
	select {
	case <-p.Done:
	case <-s.Done:
		p.Kill()
		return endedLoading(s)
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("told to stop before the end; the next run begins anew: %w", ctx.Err())
	}
	switch {
	case dump.err != nil:
		return damagedDump("it cannot be read to its end: %w", dump.err)
	case p.ProcessState.Success():
		return nil
	}
	select {
	case <-s.Done: // With it its client.
		return endedLoading(s)
	case <-time.After(endTime):
	}
	return whatFailed(said.String())
}

// endedLoading is a server that nobody told to.
func endedLoading(s *server) error {
	return fmt.Errorf("the server ended while the dump was loaded (%s): %s", s.End(), s.Log.Complaints())
}

// endTime is how long a server that dies takes for it, after its client has noticed.
const endTime = 3 * time.Second

// fullErrors are what the server says where its volume is full: a table, a file, or the operating system's own number (MySQL manual,
// B.3.2.11, and the Server Error Message Reference).
var fullErrors = regexp.MustCompile(`^ERROR (3|1021|1114) |[Ee]rrno: 28\b`)

// whatFailed returns what the client says of the statement that failed, without rows and passwords.
func whatFailed(said string) error {
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "ERROR") {
			continue
		}
		if fullErrors.MatchString(line) {
			return fmt.Errorf("the volume is full: %w", unix.ENOSPC)
		}
		return damagedDump("a statement of it has failed: %s", v1.PrintableText(v1.WithoutSecrets(strings.TrimSpace(line)), v1.MaxForeignText))
	}
	for line := range strings.Lines(said) {
		if text := strings.TrimSpace(line); isComplaint.MatchString(text) {
			return fmt.Errorf("the client has failed: %s", v1.PrintableText(v1.WithoutSecrets(text), v1.MaxForeignText))
		}
	}
	return errors.New("the client has failed without a word of a statement")
}

// isComplaint matches what a client says of itself, such as of an option that it does not know. What else it prints may be rows.
var isComplaint = regexp.MustCompile(`^(?:mysql|mariadb): (?:\[ERROR\] |[a-z])`)

// clients of images: MySQL's, and MariaDB's.
var clients = []string{"mysql", "mariadb"}

func imageClient(args ...string) (*exec.Cmd, error) {
	for _, name := range clients {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, args...), nil //nolint:gosec,noctx // One of the programs above; it is killed in the end.
		}
	}
	return nil, fmt.Errorf("this image has none of %s, which load a dump: choose an image that has", strings.Join(clients, ", "))
}

func damagedDump(format string, args ...any) error {
	return &agent.ExitError{Code: agent.ExitDamaged, Err: fmt.Errorf("the dump cannot be imported: "+format, args...)}
}

// decompress a dump, as its name says.
func decompress(name string, from io.Reader) (io.Reader, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewReader(from)
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
	}
	return from, nil
}

// sandboxLine is the first line of what MariaDB's dump has written since 2024. It tells its own client to refuse commands of
// the client's own, which --binary-mode does as well. MySQL's client takes the line for an unknown command and ends.
var sandboxLine = regexp.MustCompile(`^/\*M?!999999\\- enable the sandbox mode \*/[ \t]*\r?\n`)

// maxSandboxLine in bytes.
const maxSandboxLine = 64

// withoutSandboxLine returns the dump without that line, if it begins with it.
func withoutSandboxLine(dump io.Reader) io.Reader {
	b := bufio.NewReader(dump)
	begin, _ := b.Peek(maxSandboxLine) // An error comes again with the next read.
	_, _ = b.Discard(len(sandboxLine.Find(begin)))
	return b
}

// maxWindow in bytes that is kept of a dump to decompress it: what zstd --long=27 needs.
const maxWindow = 128 << 20

type countingReader struct {
	from  io.Reader
	meter *agent.Meter
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.meter.Add(int64(n))
	return n, err
}

// tailBytes of a dump are kept, more than its last line has.
const tailBytes = 512

// A tailReader knows how what it read has ended.
type tailReader struct {
	from io.Reader
	tail []byte
	err  error
}

func (r *tailReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.tail = append(r.tail, p[:n]...)
	if extra := len(r.tail) - tailBytes; extra > 0 {
		r.tail = append(r.tail[:0], r.tail[extra:]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// check that the dump was written to its end: one that was cut off is one of fewer rows, to every server.
func (r *tailReader) check(isSummed bool) error {
	lines := strings.Split(strings.TrimRight(string(r.tail), "\r\n\t "), "\n")
	if isSummed || strings.HasPrefix(lines[len(lines)-1], endOfDump) {
		return nil
	}
	return damagedDump("it does not end with the line %q, by which mysqldump says that it has written all: take it again, or say the sum of a whole one (sha256)", endOfDump)
}
