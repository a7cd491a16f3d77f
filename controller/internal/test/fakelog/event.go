// Package fakelog simulates a server with a binary log, for tests of the packages that archive and replay the log.
package fakelog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// Types of events (enum Log_event_type in binlog_event.h of MySQL).
const (
	typeQuery             = 2
	typeXID               = 16
	typeFormatDescription = 15
	typeGTID              = 33
)

// Magic are the first bytes of a binary log file.
const Magic = "\xfebin"

// newEvent returns an event with a header, and with a checksum unless its size is 0.
func newEvent(kind byte, seconds uint32, body []byte, checksum int) []byte {
	const header = 19
	out := make([]byte, header, header+len(body)+checksum)
	binary.LittleEndian.PutUint32(out, seconds)
	out[4] = kind
	binary.LittleEndian.PutUint32(out[5:], 1)
	binary.LittleEndian.PutUint32(out[9:], uint32(header+len(body)+checksum)) //nolint:gosec // Events of tests are small.
	out = append(out, body...)
	if checksum == 0 {
		return out
	}
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// checksumSize is the size of a checksum in bytes.
const checksumSize = 4

// FormatDescription returns the event with which each file begins. Its own checksum always exists.
func FormatDescription(hasChecksums bool) []byte {
	body := binary.LittleEndian.AppendUint16(nil, 4)
	body = append(body, make([]byte, 50)...)
	copy(body[2:], "9.7.4")
	body = append(body, 0, 0, 0, 0, 19)
	body = append(body, make([]byte, 42)...)
	algorithm := byte(0)
	if hasChecksums {
		algorithm = 1
	}
	return newEvent(typeFormatDescription, 1, append(body, algorithm), checksumSize)
}

// Format returns the format of the fake server's log.
func Format(hasChecksums bool) binlog.Format {
	r, err := binlog.NewReader(io.MultiReader(strings.NewReader(Magic), bytes.NewReader(FormatDescription(hasChecksums))))
	if err == nil {
		_, err = r.Read(nil)
	}
	if err != nil {
		panic(err)
	}
	return r.Format()
}

// A Transaction is one transaction in the binary log of the fake server. Its Parts are binary log events.
type Transaction struct {
	binlog.Begin

	Parts  [][]byte
	Format binlog.Format
}

var (
	checkedFormat = Format(true)
	plainFormat   = Format(false)
)

// NewTransaction returns a transaction. Each body becomes one event of it.
func NewTransaction(g binlog.GTID, micros uint64, bodies ...[]byte) Transaction {
	return newTransaction(g, micros, checksumSize, bodies...)
}

// newTransaction returns a transaction whose events have checksums, or none if the size of a checksum is 0.
func newTransaction(g binlog.GTID, micros uint64, checksum int, bodies ...[]byte) Transaction {
	t := Transaction{Begin: binlog.Begin{GTID: g, Time: micros}, Format: checkedFormat}
	if checksum == 0 {
		t.Format = plainFormat
	}
	seconds := uint32(micros / 1e6) //nolint:gosec // A time.
	for _, body := range bodies {
		t.Parts = append(t.Parts, newEvent(typeQuery, seconds, body, checksum))
	}
	t.Parts = append(t.Parts, newEvent(typeXID, seconds, make([]byte, 8), checksum))
	size := uint64(len(t.Bytes()))
	begin := newEvent(typeGTID, seconds, gtidBody(g, micros, size), checksum)
	for t.Length != size+uint64(len(begin)) { // The length contains its own encoding.
		t.Length = size + uint64(len(begin))
		begin = newEvent(typeGTID, seconds, gtidBody(g, micros, t.Length), checksum)
	}
	t.Parts = append([][]byte{begin}, t.Parts...)
	return t
}

// Bytes returns the whole transaction.
func (t *Transaction) Bytes() []byte { return bytes.Join(t.Parts, nil) }

func gtidBody(g binlog.GTID, micros, length uint64) []byte {
	id := uuid.MustParse(g.Source)
	out := append([]byte{0}, id[:]...)
	out = binary.LittleEndian.AppendUint64(out, uint64(g.Number)) //nolint:gosec // It is positive.
	out = append(out, 2)
	out = append(out, make([]byte, 16)...)
	out = append(out, binary.LittleEndian.AppendUint64(nil, micros)[:7]...)
	encoded := binary.LittleEndian.AppendUint64(nil, length)
	switch {
	case length < 251:
		out = append(out, encoded[0])
	case length < 1<<16:
		out = append(append(out, 0xfc), encoded[:2]...)
	case length < 1<<24:
		out = append(append(out, 0xfd), encoded[:3]...)
	default:
		out = append(append(out, 0xfe), encoded...)
	}
	return append(out, 0, 0, 0, 0)
}

// File returns a file with transactions, in the format of the server.
func File(before binlog.Set, all ...Transaction) ([]byte, error) {
	var out bytes.Buffer
	w, err := checkedFormat.NewFile(&out, before)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if _, err := w.Write(all[i].Bytes()); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
