package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A server with semi-synchronous replication sends two bytes before each event: semiSyncMark, and semiSyncWaits if a
// client of the server waits for the acknowledgement of the event. See plugin/semisync/semisync.h of MySQL.
const (
	semiSyncMark   = 0xef
	semiSyncWaits  = 1
	semiSyncHeader = 2
)

// A Position is the end of a transaction in the binary log of a server.
type Position struct {
	// File is the name of a file of the log, and Offset the number of bytes up to the end of the transaction.
	File   string
	Offset uint64
}

// cutSemiSync removes the semi-synchronous header of an event if there is one. The first byte of an event is a part of its
// time and can have any value, so the size in the event decides.
func cutSemiSync(raw []byte) (e event, isMarked, waits bool) {
	hasSize := func(e []byte) bool {
		return len(e) >= headerSize && uint64(binary.LittleEndian.Uint32(e[9:])) == uint64(len(e))
	}
	if len(raw) < semiSyncHeader || raw[0] != semiSyncMark || raw[1] > semiSyncWaits || hasSize(raw) ||
		!hasSize(raw[semiSyncHeader:]) {
		return raw, false, false
	}
	return raw[semiSyncHeader:], true, raw[1] == semiSyncWaits
}

// position returns the end of an event in the file that the server sends.
func (s *Stream) position(e event) *Position {
	return &Position{File: s.file, Offset: uint64(binary.LittleEndian.Uint32(e[13:]))}
}

// recordFile stores the name of the file that the server sends next.
func (s *Stream) recordFile(e event) error {
	name := e[headerSize:]
	const offsetSize = 8
	if len(name) < offsetSize {
		return errors.New("a rotate event is too short")
	}
	name = name[offsetSize:]
	// The first rotate event precedes the format description, so it is unknown whether it has a checksum.
	if end := len(name) - checksumSize; end > 0 && e.checkIntegrity(true) == nil {
		name = name[:end]
	}
	s.file = string(name)
	return nil
}

// Acknowledge tells the server that all transactions up to a position are stored. The server then completes the commits
// that wait for them. It may be called concurrently with Next.
func (s *Stream) Acknowledge(p Position) error {
	const header = 4
	out := make([]byte, header, header+9+len(p.File))
	out = append(out, semiSyncMark)
	out = binary.LittleEndian.AppendUint64(out, p.Offset)
	out = append(out, p.File...)
	binary.LittleEndian.PutUint16(out, uint16(len(out)-header)) //nolint:gosec // A name of a file has at most 512 bytes.
	if _, err := s.conn.Write(out); err != nil {
		return fmt.Errorf("cannot acknowledge transactions: %w", err)
	}
	return nil
}
