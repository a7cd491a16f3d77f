package binlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A scanner groups the events of a log into transactions.
type scanner struct {
	format format
	// isSent is true if a server sends the log, and false for a file.
	isSent bool
	// rest is the number of bytes of the current transaction that have not been read yet.
	rest uint64
}

// A step describes an event as a part of a transaction.
type step struct {
	// begin is the transaction that begins with the event, or nil.
	begin *Begin
	// isPart is true if the event is a part of a transaction. isEnd is true if it is the last part.
	isPart, isEnd bool
}

// ErrIncident is the error for a log in which transactions are missing because the server could not write them.
var ErrIncident = errors.New("the server reports that its binary log lacks transactions (incident event)")

// nextStep checks an event and returns its step.
func (s *scanner) nextStep(e event) (step, error) {
	if len(e) < headerSize {
		return step{}, fmt.Errorf("an event of the binary log is only %d bytes long", len(e))
	}
	if e.eventType() == typeFormatDescription {
		if s.rest > 0 {
			return step{}, errors.New("a file of the binary log begins within a transaction")
		}
		f, err := parseFormat(e, s.isSent)
		s.format = f
		return step{}, err
	}
	if s.format.event == nil {
		return step{}, errors.New("the binary log does not begin with a format description")
	}
	if err := e.checkIntegrity(s.format.hasChecksum); err != nil {
		return step{}, err
	}
	out := step{}
	switch {
	case s.rest > 0 && e.isBegin():
		return step{}, fmt.Errorf("a transaction begins %d bytes before the end of the previous one", s.rest)
	case s.rest > 0:
	case e.isBegin():
		b, err := e.parseBegin(s.format.hasChecksum)
		if err != nil {
			return step{}, err
		}
		out.begin, s.rest = &b, b.Length
	case e.eventType() == typeIncident:
		return step{}, ErrIncident
	case e.eventType() == typeStop || e.eventType() == typeRotate || e.eventType() == typePreviousGTIDs:
		return step{}, nil
	default:
		return step{}, fmt.Errorf("an event of type %d is outside of a transaction", e.eventType())
	}
	if uint64(len(e)) > s.rest {
		return step{}, fmt.Errorf("a transaction is %d bytes longer than its GTID event says", uint64(len(e))-s.rest)
	}
	s.rest -= uint64(len(e))
	out.isPart, out.isEnd = true, s.rest == 0
	return out, nil
}

// A Writer writes a file in the format of a binary log.
type Writer struct {
	out io.Writer
	// Bytes is the number of bytes that were written.
	Bytes int64
}

// newWriter writes the beginning of a file: the format description, and the GTIDs of all transactions before it.
func newWriter(out io.Writer, f format, before Set) (*Writer, error) {
	previous, err := f.previousGTIDs(before)
	if err != nil {
		return nil, err
	}
	w := &Writer{out: out}
	for _, part := range [][]byte{[]byte(magic), f.closed(), previous} {
		if err := w.writePart(part); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// A Reader reads a file in the format of a binary log.
type Reader struct {
	in   *bufio.Reader
	scan scanner
}

// NewReader returns a Reader for a file in the format of a binary log.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<16)}
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r.in, begin); err != nil {
		return nil, fmt.Errorf("cannot read the binary log: %w", err)
	}
	if string(begin) != magic {
		return nil, errors.New("the file is not a binary log")
	}
	return r, nil
}

// A Visitor receives the transactions of a log in their order. Begin is called first. If it returns false, the reader
// stops, and reads neither this transaction nor those after it. Each part is valid only during the call.
type Visitor interface {
	Begin(b Begin) (bool, error)
	Part(raw []byte, isEnd bool) error
}

// errStopped is the error with which the reader stops because the visitor wants no more transactions.
var errStopped = errors.New("stopped")

// Read reads the log. It returns true at the end of the log, and false at the first transaction that the visitor does
// not want. A log that ends within a transaction is an error.
func (r *Reader) Read(v Visitor) (isComplete bool, err error) {
	for {
		e, err := r.readEvent()
		if errors.Is(err, io.EOF) {
			if r.scan.rest > 0 {
				return false, fmt.Errorf("the binary log ends %d bytes before the end of a transaction", r.scan.rest)
			}
			return true, nil
		}
		if err == nil {
			err = r.visitEvent(e, v)
		}
		if errors.Is(err, errStopped) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// Format returns the bytes with which a file of the same server begins, before its Previous_gtids event. It is valid
// after the first event was read.
func (r *Reader) Format() Format { return Format{r.scan.format} }

func (r *Reader) visitEvent(e event, v Visitor) error {
	s, err := r.scan.nextStep(e)
	if err != nil || !s.isPart {
		return err
	}
	if s.begin != nil {
		switch isWanted, err := v.Begin(*s.begin); {
		case err != nil:
			return err
		case !isWanted:
			return errStopped
		}
	}
	return v.Part(e, s.isEnd)
}

// readEvent reads the next event. It returns io.EOF only between two events.
func (r *Reader) readEvent() (event, error) {
	var head [headerSize]byte
	n, err := io.ReadFull(r.in, head[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the binary log ends within an event")
	case err != nil:
		return nil, err
	}
	size := int64(binary.LittleEndian.Uint32(head[9:]))
	if size < headerSize || size > maxEvent {
		return nil, fmt.Errorf("an event of the binary log has an impossible size (%d bytes)", size)
	}
	// The buffer grows with the input, so that a damaged size does not allocate a gigabyte.
	out, err := io.ReadAll(io.LimitReader(r.in, size-headerSize))
	switch {
	case err != nil:
		return nil, err
	case int64(len(out)) != size-headerSize:
		return nil, errors.New("the binary log ends within an event")
	}
	return slices.Concat(head[:], out), nil
}

// A Format is the format description of a log.
type Format struct{ format format }

// NewFile begins a file in this format, whose transactions follow those in a set.
func (f Format) NewFile(out io.Writer, before Set) (*Writer, error) {
	return newWriter(out, f.format, before)
}

// Fits reports whether transactions of another format can be in the same file. The formats of two files of a server
// differ in the time of their creation, and if binlog_checksum was changed.
func (f Format) Fits(o Format) bool {
	const created = headerSize + 2 + serverVersion
	one, two := f.format.event, o.format.event
	if len(one) != len(two) || len(one) < minFormat {
		return false
	}
	end := len(one) - checksumSize
	return bytes.Equal(one[headerSize:created], two[headerSize:created]) &&
		bytes.Equal(one[created+4:end], two[created+4:end])
}

// IsKnown reports whether the format description at the beginning of the log was read.
func (f Format) IsKnown() bool { return f.format.event != nil }

// Version returns the version of the server that wrote the log.
func (f Format) Version() string { return f.format.version() }

// Write appends a part of a transaction to a file.
func (w *Writer) Write(part []byte) (int, error) { return len(part), w.writePart(part) }

func (w *Writer) writePart(part []byte) error {
	n, err := w.out.Write(part)
	w.Bytes += int64(n)
	return err
}
