package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/serialization"
	"github.com/google/uuid"
)

// magic are the first bytes of a binary log file.
const magic = "\xfebin"

// Sizes of parts of an event in bytes. Each event begins with a header and ends with a checksum, unless the format
// description says that there are no checksums.
const (
	headerSize   = 19
	checksumSize = 4
	// maxEvent is the maximum size of an event. max_allowed_packet is at most 1 GiB, and an event of that size has a
	// few more bytes.
	maxEvent = 1<<30 + 1<<20
)

// Types of events (enum Log_event_type in binlog_event.h of MySQL).
const (
	typeStop              = 3
	typeRotate            = 4
	typeFormatDescription = 15
	typeIncident          = 26
	typeHeartbeat         = 27
	typeGTID              = 33
	typeAnonymousGTID     = 34
	typePreviousGTIDs     = 35
	typeHeartbeatV2       = 41
	typeTaggedGTID        = 42
)

// flagInUse is the flag of a format description whose file is still open.
const flagInUse = 1

// An event is one event of a binary log, with its header and its checksum.
type event []byte

func (e event) eventType() byte { return e[4] }

// checkIntegrity returns an error if the event is damaged.
func (e event) checkIntegrity(hasChecksum bool) error {
	switch {
	case len(e) < headerSize:
		return fmt.Errorf("an event of the binary log is only %d bytes long", len(e))
	case int64(binary.LittleEndian.Uint32(e[9:])) != int64(len(e)):
		return fmt.Errorf("an event of the binary log is %d bytes long, but its header says %d bytes", len(e),
			binary.LittleEndian.Uint32(e[9:]))
	case !hasChecksum:
		return nil
	case len(e) < headerSize+checksumSize:
		return fmt.Errorf("an event of the binary log is only %d bytes long", len(e))
	case crc32.ChecksumIEEE(e[:len(e)-checksumSize]) != binary.LittleEndian.Uint32(e[len(e)-checksumSize:]):
		return fmt.Errorf("the checksum of an event of the binary log is wrong (type %d, %d bytes)", e.eventType(), len(e))
	}
	return nil
}

// body returns the event without its header and its checksum.
func (e event) body(hasChecksum bool) []byte {
	if hasChecksum {
		return e[headerSize : len(e)-checksumSize]
	}
	return e[headerSize:]
}

// A format is a format description event. It describes the events that follow it.
type format struct {
	event

	hasChecksum bool
}

// serverVersion is the length of the version string in a format description.
const serverVersion = 50

// minFormat is the minimum size of a format description in bytes. It contains the binlog version, the server version,
// the time of creation, the header length, one post-header length, the checksum algorithm and the checksum.
const minFormat = headerSize + 2 + serverVersion + 4 + 1 + 1 + 1 + checksumSize

// parseFormat parses a format description. Its last bytes are the checksum algorithm and the checksum of the event.
// Only the algorithms none (0) and CRC32 (1) exist. In a file, the event itself always has a checksum. A server without
// checksums changes a flag of the event before it sends the event, and does not correct the checksum.
func parseFormat(e event, isSent bool) (format, error) {
	if len(e) < minFormat {
		return format{}, fmt.Errorf("the format description of the binary log is only %d bytes long", len(e))
	}
	algorithm := e[len(e)-checksumSize-1]
	f := format{event: e, hasChecksum: algorithm == 1}
	if err := e.checkIntegrity(f.hasChecksum || !isSent); err != nil {
		return format{}, err
	}
	if algorithm > 1 {
		return format{}, fmt.Errorf("the binary log has an unknown checksum algorithm (%d)", algorithm)
	}
	if v := binary.LittleEndian.Uint16(e[headerSize:]); v != 4 {
		return format{}, fmt.Errorf("the binary log has version %d, but only version 4 is supported", v)
	}
	return f, nil
}

// closed returns the format description of a closed file.
func (f format) closed() event {
	out := event(append([]byte{}, f.event...))
	flags := binary.LittleEndian.Uint16(out[17:])
	binary.LittleEndian.PutUint16(out[17:], flags&^flagInUse)
	writeChecksum(out)
	return out
}

// version returns the version of the server that wrote the log.
func (f format) version() string {
	return strings.TrimRight(string(f.event[headerSize+2:headerSize+2+serverVersion]), "\x00")
}

// writeChecksum writes the size and the checksum of an event.
func writeChecksum(e event) {
	binary.LittleEndian.PutUint32(e[9:], uint32(len(e))) //nolint:gosec // Events of this package are small.
	binary.LittleEndian.PutUint32(e[len(e)-checksumSize:], crc32.ChecksumIEEE(e[:len(e)-checksumSize]))
}

// previousGTIDs returns a Previous_gtids event, with which each file begins.
func (f format) previousGTIDs(before Set) (event, error) {
	encoded, err := before.encodeSet()
	if err != nil {
		return nil, err
	}
	out := make(event, headerSize, headerSize+len(encoded)+checksumSize)
	copy(out, f.event[:headerSize]) // The format description has the same time and server_id.
	out[4] = typePreviousGTIDs
	binary.LittleEndian.PutUint32(out[13:], 0)
	binary.LittleEndian.PutUint16(out[17:], 0)
	out = append(out, encoded...)
	if !f.hasChecksum {
		binary.LittleEndian.PutUint32(out[9:], uint32(len(out))) //nolint:gosec // At most MaxSet.
		return out, nil
	}
	out = append(out, 0, 0, 0, 0)
	writeChecksum(out)
	return out, nil
}

// A Begin is the event with which a transaction begins.
type Begin struct {
	GTID GTID
	// Time is the time of the commit on the server, in microseconds since 1970.
	Time uint64
	// Length is the size of the whole transaction in bytes, including this event.
	Length uint64
}

var errAnonymous = errors.New("a transaction in the binary log has no GTID, because gtid_mode is not ON")

// isBegin reports whether a transaction begins with this event.
func (e event) isBegin() bool {
	return e.eventType() == typeGTID || e.eventType() == typeTaggedGTID || e.eventType() == typeAnonymousGTID
}

// parseBegin parses the event with which a transaction begins.
func (e event) parseBegin(hasChecksum bool) (b Begin, err error) {
	switch e.eventType() {
	case typeAnonymousGTID:
		return Begin{}, errAnonymous
	case typeTaggedGTID:
		b, err = parseTagged(e.body(hasChecksum))
	default:
		b, err = parseGTID(e.body(hasChecksum))
	}
	switch {
	case err != nil:
		return Begin{}, fmt.Errorf("a GTID event of the binary log is malformed: %w", err)
	case b.GTID.Number < 1:
		return Begin{}, fmt.Errorf("a GTID event of the binary log has transaction number %d", b.GTID.Number)
	case b.Length < uint64(len(e)) || b.Time == 0:
		return Begin{}, errors.New("a GTID event of the binary log has no length or no time: MySQL 8.0.2 or later is " +
			"required")
	}
	return b, nil
}

// Positions in the body of a GTID event in bytes (Gtid_event in libbinlogevents/src/control_events.cpp of MySQL). The
// parts are a flag, the UUID, the number, a type code with two logical timestamps, the commit time, and the length.
const (
	uuidAt     = 1
	numberAt   = uuidAt + 16
	timeAt     = numberAt + 8 + 1 + 16
	timeSize   = 7
	minGTIDLen = timeAt + timeSize + 1
)

// hasOriginalTime is the bit in the commit time which shows that the commit time on the original server follows.
const hasOriginalTime = 1 << 55

var errShort = errors.New("it is too short")

// parseGTID parses the body of an untagged GTID event.
func parseGTID(body []byte) (Begin, error) {
	if len(body) < minGTIDLen {
		return Begin{}, fmt.Errorf("%w (%d bytes): MySQL 8.0.2 or later is required", errShort, len(body))
	}
	id, err := uuid.FromBytes(body[uuidAt:numberAt])
	if err != nil {
		return Begin{}, err
	}
	out := Begin{GTID: GTID{id.String(), int64(binary.LittleEndian.Uint64(body[numberAt:]))}, //nolint:gosec // Checked.
		Time: mysql.FixedLengthInt(body[timeAt : timeAt+timeSize])}
	rest := body[timeAt+timeSize:]
	if out.Time&hasOriginalTime != 0 {
		out.Time &^= hasOriginalTime
		if len(rest) < timeSize+1 {
			return Begin{}, errShort
		}
		rest = rest[timeSize:]
	}
	if size := lengthOfInt(rest[0]); len(rest) < size {
		return Begin{}, errShort
	}
	out.Length, _, _ = mysql.LengthEncodedInt(rest)
	return out, nil
}

// lengthOfInt returns the size in bytes of a length-encoded integer, from its first byte.
func lengthOfInt(first byte) int {
	switch first {
	case 0xfc:
		return 3
	case 0xfd:
		return 4
	case 0xfe:
		return 9
	}
	return 1
}

// parseTagged parses the body of a tagged GTID event, which has the format of mysql::serialization. It recovers from
// panics of go-mysql, which does not check all lengths.
func parseTagged(body []byte) (b Begin, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = Begin{}, fmt.Errorf("%v", r)
		}
	}()
	m := serialization.Message{Format: serialization.Format{Fields: []serialization.Field{
		{Name: "gtid_flags", Type: &serialization.FieldIntFixed{Length: 1}},
		{Name: "uuid", Type: &serialization.FieldIntFixed{Length: 16}},
		{Name: "gno", Type: &serialization.FieldIntVar{}},
		{Name: "tag", Type: &serialization.FieldString{}},
		{Name: "last_committed", Type: &serialization.FieldIntVar{}},
		{Name: "sequence_number", Type: &serialization.FieldIntVar{}},
		{Name: "immediate_commit_timestamp", Type: &serialization.FieldUintVar{}},
		{Name: "original_commit_timestamp", Type: &serialization.FieldUintVar{}, Optional: true},
		{Name: "transaction_length", Type: &serialization.FieldUintVar{}},
		{Name: "immediate_server_version", Type: &serialization.FieldUintVar{}},
		{Name: "original_server_version", Type: &serialization.FieldUintVar{}, Optional: true},
		{Name: "commit_group_ticket", Optional: true},
	}}}
	if err := serialization.Unmarshal(body, &m); err != nil {
		return Begin{}, err
	}
	fields := m.Format.Fields
	raw, isUUID := fields[1].Type.(*serialization.FieldIntFixed)
	number, isNumber := fields[2].Type.(*serialization.FieldIntVar)
	tag, isTag := fields[3].Type.(*serialization.FieldString)
	committed, isTime := fields[6].Type.(*serialization.FieldUintVar)
	length, isLength := fields[8].Type.(*serialization.FieldUintVar)
	if !isUUID || !isNumber || !isTag || !isTime || !isLength {
		return Begin{}, errors.New("a field is missing")
	}
	id, err := uuid.FromBytes(raw.Value)
	if err != nil {
		return Begin{}, err
	}
	source := id.String()
	if tag.Value != "" {
		source += ":" + tag.Value
	}
	if tag.Value != "" && !tagPattern.MatchString(tag.Value) {
		return Begin{}, fmt.Errorf("%.40q is not a tag", tag.Value)
	}
	return Begin{GTID: GTID{source, number.Value}, Time: committed.Value, Length: length.Value}, nil
}
