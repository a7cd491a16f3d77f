package recovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

// relayName is the base name of the relay log files. relayIndex is the file with their names.
const (
	relayName  = "recovery-relay"
	relayIndex = relayName + ".index"
)

// maxWindow limits the memory for the decompression of a segment.
const maxWindow = 8 << 20

// A relay writes the transactions to recover as relay log files, which the temporary server then applies as a replica.
type relay struct {
	source Source
	line   logarchive.Timeline
	cut    *cut
	// dataDir is the data directory of the server.
	dataDir string
	// meter counts the bytes of the segments.
	meter *agent.Meter
	names []string
}

// writeSegments verifies and writes all segments up to the target. No file is written for a segment after it.
func (r *relay) writeSegments(ctx context.Context, all []logarchive.Manifest) error {
	for i := range all {
		if r.cut.isOver {
			break
		}
		if err := r.writeSegment(ctx, &all[i]); err != nil {
			return fmt.Errorf("segment %d of the archived log, which begins at %s: %w", all[i].Number,
				Target{Time: all[i].FirstTime}, err)
		}
	}
	return r.writeIndex()
}

// writeIndex writes the index of the relay log. It is durable before the data changes, because it marks the data as
// changed.
func (r *relay) writeIndex() error {
	f, err := os.Create(filepath.Join(r.dataDir, relayIndex))
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(r.names, "\n") + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	dir, derr := os.Open(r.dataDir)
	if derr != nil {
		return errors.Join(err, derr)
	}
	return errors.Join(err, dir.Sync(), dir.Close())
}

// checkClock returns an error if the time to recover is in a part of the log in which the clock went backwards. Later
// times are not ambiguous, because all transactions of that part are before them.
func (t Target) checkClock(all []logarchive.Manifest) error {
	for i := range all {
		m := &all[i]
		if t.Time > 0 && m.MakesAmbiguous(t.Time) {
			return exit.With(agent.ExitTarget, "segment %d of the archived log: %w", m.Number, errStepped)
		}
	}
	return nil
}

func (r *relay) writeSegment(ctx context.Context, m *logarchive.Manifest) error {
	before, err := m.BeforeSegment()
	if err != nil {
		return err
	}
	raw, err := openObject(ctx, r.source, r.line.SegmentKey(m))
	if err != nil {
		return err
	}
	defer raw.Close() //nolint:errcheck // Nothing was written.
	sum := sha256.New()
	counted := &countingReader{from: io.TeeReader(io.LimitReader(raw, m.Size+1), sum), meter: r.meter}
	w := &segmentWriter{relay: r, before: before, seen: binlog.Set{}}
	isComplete, rerr := r.readSegment(ctx, m, counted, w)
	closed := w.closeFile()
	_, err = io.Copy(io.Discard, counted)
	if err = errors.Join(w.failure, closed, err); err != nil {
		return err
	}
	want, err := binlog.ParseSet(m.GTIDs)
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return err
	case got != m.SHA256 || counted.size != m.Size:
		return exit.Damaged("its SHA-256 checksum is %s (%d bytes), but its manifest says %s (%d bytes)", got, counted.size,
			m.SHA256, m.Size)
	case rerr != nil:
		return exit.Damaged("it cannot be read: %w", rerr)
	case isComplete && !w.seen.Equal(want):
		return exit.Damaged("it has the transactions %.200s, but its manifest says %.200s", w.seen, want)
	case !want.Contains(w.seen):
		return exit.Damaged("it has transactions that its manifest does not mention (%.200s)", w.seen.Without(want))
	}
	return nil
}

// readSegment reads the transactions of a segment up to the target.
func (r *relay) readSegment(ctx context.Context, m *logarchive.Manifest, raw io.Reader, w *segmentWriter) (bool, error) {
	return readTransactions(ctx, r.source, r.line, m, raw, func(in *binlog.Reader) binlog.Visitor {
		w.reader = in
		return w
	})
}

// readTransactions decrypts and decompresses a segment, and passes its transactions to a visitor until the visitor
// returns false. The caller verifies the checksum.
func readTransactions(ctx context.Context, s Source, t logarchive.Timeline, m *logarchive.Manifest, raw io.Reader,
	visitorOf func(*binlog.Reader) binlog.Visitor) (bool, error) {
	in := raw
	if m.IsEncrypted() {
		var err error
		if in, err = s.Decrypt(ctx, t.SegmentKey(m), raw); err != nil {
			return false, err
		}
	}
	unpacked, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return false, err
	}
	defer unpacked.Close()
	// Less data than the manifest says is read if the object was replaced by a small one with a huge content.
	reader, err := binlog.NewReader(io.LimitReader(unpacked, m.Bytes))
	if err != nil {
		return false, err
	}
	return reader.Read(visitorOf(reader))
}

// A countingReader counts the bytes that are read, and adds them to a progress meter.
type countingReader struct {
	from  io.Reader
	meter *agent.Meter
	size  int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.size += int64(n)
	c.meter.Add(int64(n))
	return n, err
}

// A segmentWriter writes the transactions of one segment to one relay log file.
type segmentWriter struct {
	*relay

	reader *binlog.Reader
	before binlog.Set
	// seen contains the GTIDs of the segment that have been read so far, to detect duplicates.
	seen binlog.Set

	file   *os.File
	writer *binlog.Writer
	// failure is the first error that is not caused by the content of the segment, such as a full volume.
	failure error
}

// Begin implements binlog.Visitor.
func (w *segmentWriter) Begin(b binlog.Begin) (bool, error) {
	if w.seen.Has(b.GTID) || w.before.Has(b.GTID) {
		return false, fmt.Errorf("transaction %s occurs twice", b.GTID)
	}
	ok, err := w.cut.decideNext(b)
	if !ok || err != nil {
		return false, w.fail(err)
	}
	w.seen.Add(b.GTID)
	if w.file != nil {
		return true, nil
	}
	name := fmt.Sprintf("%s.%06d", relayName, len(w.names)+1)
	w.file, err = os.OpenFile(filepath.Join(w.dataDir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // A number.
	if err != nil {
		return false, w.fail(err)
	}
	w.names = append(w.names, "./"+name)
	w.writer, err = w.reader.Format().NewFile(w.file, w.before)
	return err == nil, w.fail(err)
}

// Part implements binlog.Visitor.
func (w *segmentWriter) Part(raw []byte, _ bool) error {
	_, err := w.writer.Write(raw)
	return w.fail(err)
}

// fail stores the first error in failure, and returns err.
func (w *segmentWriter) fail(err error) error {
	if w.failure == nil {
		w.failure = err
	}
	return err
}

func (w *segmentWriter) closeFile() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
