package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/klauspost/compress/zstd"
)

// Types of the events that describe the effect of a transaction (libbinlogevents of MySQL).
const (
	typeQuery         = 2
	typeTableMap      = 19
	typeWriteRows     = 30
	typeUpdateRows    = 31
	typeDeleteRows    = 32
	typePartialUpdate = 39
	typePayload       = 40
)

// An EffectKind is the kind of change that an event of a transaction makes.
type EffectKind string

// Values of EffectKind.
const (
	EffectInsert    EffectKind = "INSERT"
	EffectUpdate    EffectKind = "UPDATE"
	EffectDelete    EffectKind = "DELETE"
	EffectStatement EffectKind = "statement"
)

// An Effect is what one event of a transaction does: it contains rows of a table, or a statement.
type Effect struct {
	Kind EffectKind
	// Schema and Table are the table of the rows. For a statement, Schema is its default database, and Table is empty.
	Schema, Table string
	Statement     string
	// Size is the size of the rows in bytes.
	Size int
}

// Effects reads the effects of one transaction from its parts. The zero value is ready to use.
type Effects struct{ tables map[uint64]Effect }

var errMalformed = errors.New("an event of the binary log is malformed")

// Read calls visit with the effects of the next part.
func (r *Effects) Read(p Part, visit func(Effect)) error {
	if len(p.Raw) < headerSize {
		return nil
	}
	e := event(p.Raw)
	return r.readEvent(e.eventType(), e.body(p.Format.format.hasChecksum), visit)
}

func (r *Effects) readEvent(kind byte, body []byte, visit func(Effect)) error {
	switch kind {
	case typeQuery:
		return readQuery(body, visit)
	case typeTableMap:
		return r.readTable(body)
	case typePayload:
		return r.readPayload(body, visit)
	}
	name, ok := map[byte]EffectKind{typeWriteRows: EffectInsert, typeUpdateRows: EffectUpdate, typePartialUpdate: EffectUpdate,
		typeDeleteRows: EffectDelete}[kind]
	if !ok {
		return nil
	}
	if len(body) < 8 {
		return errMalformed
	}
	out, ok := r.tables[mysql.FixedLengthInt(body[:6])]
	if !ok {
		return errMalformed
	}
	out.Kind, out.Size = name, len(body)
	visit(out)
	return nil
}

// readQuery reads a statement. Statements that begin or end a transaction have no effect of their own.
func readQuery(body []byte, visit func(Effect)) error {
	const fixed = 13 // The thread, the duration, the length of the database, an error code, and the length of the variables.
	if len(body) < fixed {
		return errMalformed
	}
	schema := int(body[8])
	start := fixed + int(binary.LittleEndian.Uint16(body[11:]))
	if len(body) < start+schema+1 {
		return errMalformed
	}
	text := body[start+schema+1:]
	for _, other := range []string{"BEGIN", "COMMIT", "SAVEPOINT", "ROLLBACK", "XA "} {
		if bytes.HasPrefix(text, []byte(other)) {
			return nil
		}
	}
	visit(Effect{Kind: EffectStatement, Schema: string(body[start : start+schema]), Statement: string(text)})
	return nil
}

// readTable reads the name of a table to which later events refer by a number.
func (r *Effects) readTable(body []byte) error {
	rest := body
	take := func(n int) []byte {
		if n > len(rest) {
			rest = nil
			return nil
		}
		out := rest[:n]
		rest = rest[n:]
		return out
	}
	id := take(8)
	name := func() string {
		size := take(1)
		if len(size) == 0 {
			return ""
		}
		out := string(take(int(size[0])))
		take(1) // The name ends with a zero byte.
		return out
	}
	schema, table := name(), name()
	if len(id) < 8 || table == "" {
		return errMalformed
	}
	if r.tables == nil {
		r.tables = map[uint64]Effect{}
	}
	r.tables[mysql.FixedLengthInt(id[:6])] = Effect{Schema: schema, Table: table}
	return nil
}

// maxPayload is the maximum size of an uncompressed transaction that is read.
const maxPayload = 1 << 30

// readPayload reads the events of a compressed transaction.
func (r *Effects) readPayload(body []byte, visit func(Effect)) error {
	const endOfFields, compression, none = 0, 2, 255
	method := uint64(0)
	for {
		kind, value, rest, err := nextField(body)
		if err != nil {
			return err
		}
		body = rest
		if kind == endOfFields {
			break
		}
		if kind == compression {
			if method, _, err = takeInt(value); err != nil {
				return err
			}
		}
	}
	if method != none {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
		if err != nil {
			return err
		}
		defer decoder.Close()
		if body, err = decoder.DecodeAll(body, nil); err != nil {
			return fmt.Errorf("cannot decompress a transaction: %w", err)
		}
	}
	for len(body) > 0 {
		if len(body) < headerSize {
			return errMalformed
		}
		size := int(binary.LittleEndian.Uint32(body[9:]))
		if size < headerSize || size > len(body) {
			return errMalformed
		}
		if err := r.readEvent(body[4], body[headerSize:size], visit); err != nil {
			return err
		}
		body = body[size:]
	}
	return nil
}

// nextField reads a field of a compressed transaction: its type, its length and its value.
func nextField(body []byte) (kind uint64, value, rest []byte, err error) {
	kind, rest, err = takeInt(body)
	if err != nil || kind == 0 {
		return kind, nil, rest, err
	}
	size, rest, err := takeInt(rest)
	if err != nil || size > uint64(len(rest)) {
		return 0, nil, nil, errMalformed
	}
	return kind, rest[:size], rest[size:], nil
}

// takeInt reads a length-encoded integer.
func takeInt(body []byte) (value uint64, rest []byte, err error) {
	if len(body) == 0 || len(body) < lengthOfInt(body[0]) {
		return 0, nil, errMalformed
	}
	value, _, size := mysql.LengthEncodedInt(body)
	return value, body[size:], nil
}
