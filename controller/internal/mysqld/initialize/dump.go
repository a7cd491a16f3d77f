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

// A Loading creates a database from a dump, in a directory that no server uses. The image's own client loads the
// dump, because it supports everything that mysqldump of the same image writes.
type Loading struct {
	datavolume.Half

	// Object is the object that the dump was downloaded from. Its suffix determines the compression.
	Object string
	// Database is the database for statements that do not name one.
	Database string
	// Summed is true if the user has set the checksum of the dump. Otherwise the dump must end with its end mark.
	Summed bool
	// Sockets is the directory to create for the server's socket, as in an Initialization.
	Sockets string
	// Output receives the log of the entrypoint and progress lines.
	Output io.Writer
}

// whileLoading are server options that are used during the load. They disable the binary log, and events in the dump.
var whileLoading = []string{"--skip-log-bin", "--event-scheduler=OFF"}

// endOfDump is the last line of a complete dump (write_footer in client/mysqldump.cc of MySQL).
const endOfDump = "-- Dump completed"

// Run loads the dump. It returns a report even if it fails.
func (l *Loading) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "import-dump", l.run)
}

func (l *Loading) run(ctx context.Context, r *agent.Report) error {
	m, err := l.GoOn(ctx)
	if r.Already = m == nil; r.Already || err != nil {
		return err
	}
	defer m.Close()
	if err := l.make(ctx); err != nil {
		if agent.CodeOf(err) != agent.ExitFailed { // The incomplete data is not used.
			err = errors.Join(err, m.Remove())
		}
		return err
	}
	return errors.Join(os.Remove(l.Dump(l.Object)), m.Complete()) // The space of the dump is needed for the data.
}

// make creates the database from the dump. Its temporary server has exited when make returns.
func (l *Loading) make(ctx context.Context) error {
	i := &Initialization{Sockets: l.Sockets, Output: l.Output}
	s, err := i.startEntrypoint(l.Data(), sql.NewPassword(), whileLoading...)
	if err != nil {
		return err
	}
	defer s.Kill() // Other processes of the entrypoint are killed with the container.
	if err = s.awaitServer(ctx); err == nil {
		err = l.load(ctx, s)
	}
	if err != nil {
		return err
	}
	return s.stop(ctx)
}

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

// runClient runs the image's client on the dump. The client exits at the end of the dump, or if a statement fails.
func (l *Loading) runClient(ctx context.Context, s *server, dump *tailReader) error {
	args := []string{"--no-defaults", "--user=root", "--socket=" + s.socket, "--binary-mode",
		"--default-character-set=utf8mb4", "--max-allowed-packet=1G"}
	if l.Database != "" {
		args = append(args, "--database="+l.Database)
	}
	cmd, err := imageClient(args...)
	if err != nil {
		return err
	}
	output := &bytes.Buffer{}
	cmd.Env = append(cmd.Environ(), "MYSQL_PWD="+string(s.generated))
	cmd.Stdin = dump
	p, err := process.Start(cmd, &process.Log{Out: output, All: true})
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
		return fmt.Errorf("interrupted, and the next run starts from the beginning: %w", ctx.Err())
	}
	switch {
	case dump.err != nil:
		return damagedDump("it cannot be read completely: %w", dump.err)
	case p.ProcessState.Success():
		return nil
	}
	select {
	case <-s.Done: // The client also exits if the server exits.
		return endedLoading(s)
	case <-time.After(endTime):
	}
	return whatFailed(output.String())
}

// endedLoading returns the error for a server that has exited unexpectedly.
func endedLoading(s *server) error {
	return fmt.Errorf("the server exited while the dump was being loaded (%s): %s", s.End(), s.Log.Complaints())
}

// endTime is the maximum time to wait for the server's exit after its client has failed. If the server exits, this is
// the cause of the failure.
const endTime = 3 * time.Second

// fullErrors matches the server's errors about a full volume. They are about a table or a file, or contain the error
// number of the operating system (MySQL manual, B.3.2.11, and the Server Error Message Reference).
var fullErrors = regexp.MustCompile(`^ERROR (3|1021|1114) |[Ee]rrno: 28\b`)

// whatFailed returns the client's message about the failed statement. It removes rows and passwords from the message.
func whatFailed(output string) error {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "ERROR") {
			continue
		}
		if fullErrors.MatchString(line) {
			return fmt.Errorf("the volume is full: %w", unix.ENOSPC)
		}
		return damagedDump("a statement in it failed: %s",
			v1.PrintableText(v1.WithoutSecrets(strings.TrimSpace(line)), v1.MaxForeignText))
	}
	for line := range strings.Lines(output) {
		if text := strings.TrimSpace(line); isComplaint.MatchString(text) {
			return fmt.Errorf("the client failed: %s", v1.PrintableText(v1.WithoutSecrets(text), v1.MaxForeignText))
		}
	}
	return errors.New("the client failed without reporting a statement")
}

// isComplaint matches the client's messages about itself, such as an unknown option. Other output of the client may
// contain rows.
var isComplaint = regexp.MustCompile(`^(?:mysql|mariadb): (?:\[ERROR\] |[a-z])`)

// clients are the names of the clients in MySQL and MariaDB images.
var clients = []string{"mysql", "mariadb"}

func imageClient(args ...string) (*exec.Cmd, error) {
	for _, name := range clients {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, args...), nil //nolint:gosec,noctx // A program above, killed at the end.
		}
	}
	return nil, fmt.Errorf("this image contains no client that can load a dump: choose an image with one of %s",
		strings.Join(clients, ", "))
}

func damagedDump(format string, args ...any) error {
	return &agent.ExitError{Code: agent.ExitDamaged, Err: fmt.Errorf("the dump cannot be imported: "+format, args...)}
}

// decompress returns a reader that decompresses a dump. The suffix of the name determines the compression.
func decompress(name string, from io.Reader) (io.Reader, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewReader(from)
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
	}
	return from, nil
}

// sandboxLine matches the first line of dumps that MariaDB has written since 2024. It disables the commands of
// MariaDB's client itself, which --binary-mode does as well. MySQL's client treats the line as an unknown command and
// exits.
var sandboxLine = regexp.MustCompile(`^/\*M?!999999\\- enable the sandbox mode \*/[ \t]*\r?\n`)

// maxSandboxLine is the maximum length of that line in bytes.
const maxSandboxLine = 64

// withoutSandboxLine returns a reader for the dump that omits the sandboxLine.
func withoutSandboxLine(dump io.Reader) io.Reader {
	b := bufio.NewReader(dump)
	begin, _ := b.Peek(maxSandboxLine) // The next read returns the same error.
	_, _ = b.Discard(len(sandboxLine.Find(begin)))
	return b
}

// maxWindow is the maximum decompression window in bytes. It is the window of zstd --long=27.
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

// tailBytes is the number of bytes that are kept from the end of a dump. The last line is shorter.
const tailBytes = 512

// A tailReader keeps the last bytes of a dump, so that check can find the end mark.
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

// check returns an error if the dump has no end mark and the user has not set its checksum. A server would accept a
// truncated dump as one with fewer rows.
func (r *tailReader) check(isSummed bool) error {
	lines := strings.Split(strings.TrimRight(string(r.tail), "\r\n\t "), "\n")
	if isSummed || strings.HasPrefix(lines[len(lines)-1], endOfDump) {
		return nil
	}
	return damagedDump("it does not end with the line %q, which mysqldump writes at the end of a complete dump. "+
		"Create the dump again, or specify the checksum of a complete one (sha256)", endOfDump)
}
