// Package fakelog simulates a server with a binary log, for tests of the packages that archive and replay the log.
package fakelog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

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

// newEvent returns an event with a header and a checksum.
func newEvent(kind byte, seconds uint32, body []byte) []byte {
	const header, checksum = 19, 4
	out := make([]byte, header, header+len(body)+checksum)
	binary.LittleEndian.PutUint32(out, seconds)
	out[4] = kind
	binary.LittleEndian.PutUint32(out[5:], 1)
	binary.LittleEndian.PutUint32(out[9:], uint32(header+len(body)+checksum)) //nolint:gosec // Events of tests are small.
	out = append(out, body...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// FormatDescription returns the event with which each file begins.
func FormatDescription() []byte {
	body := binary.LittleEndian.AppendUint16(nil, 4)
	body = append(body, make([]byte, 50)...)
	copy(body[2:], "9.7.4")
	body = append(body, 0, 0, 0, 0, 19)
	body = append(body, make([]byte, 42)...)
	return newEvent(typeFormatDescription, 1, append(body, 1))
}

// Format returns the format of the fake server's log.
func Format() binlog.Format {
	r, err := binlog.NewReader(io.MultiReader(bytes.NewReader([]byte(Magic)), bytes.NewReader(FormatDescription())))
	if err == nil {
		_, err = r.Read(nil)
	}
	if err != nil {
		panic(err)
	}
	return r.Format()
}

// A Transaction is one transaction in the log. Its parts are events.
type Transaction struct {
	binlog.Begin

	Parts [][]byte
}

// NewTransaction returns a transaction. Each body becomes one event of it.
func NewTransaction(g binlog.GTID, micros uint64, bodies ...[]byte) Transaction {
	t := Transaction{Begin: binlog.Begin{GTID: g, Time: micros}}
	seconds := uint32(micros / 1e6) //nolint:gosec // A time.
	for _, body := range bodies {
		t.Parts = append(t.Parts, newEvent(typeQuery, seconds, body))
	}
	t.Parts = append(t.Parts, newEvent(typeXID, seconds, make([]byte, 8)))
	size := uint64(len(t.Bytes()))
	begin := newEvent(typeGTID, seconds, gtidBody(g, micros, size))
	for t.Length != size+uint64(len(begin)) { // The length contains its own encoding.
		t.Length = size + uint64(len(begin))
		begin = newEvent(typeGTID, seconds, gtidBody(g, micros, t.Length))
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
	w, err := Format().NewFile(&out, before)
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
