package binlog

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	mysqlpacket "github.com/go-mysql-org/go-mysql/packet"
	"github.com/google/go-cmp/cmp"
)

// TestCutSemiSync checks which packets have a semi-synchronous header.
func TestCutSemiSync(t *testing.T) {
	plain := make([]byte, headerSize+30)
	binary.LittleEndian.PutUint32(plain[9:], uint32(len(plain))) //nolint:gosec // A small number.
	same := append([]byte{}, plain...)                           // An event whose time begins like a header.
	same[0], same[1] = semiSyncMark, semiSyncWaits
	with := func(flag byte) []byte { return append([]byte{semiSyncMark, flag}, plain...) }
	for name, tc := range map[string]struct {
		raw             []byte
		size            int
		isMarked, waits bool
	}{
		"Plain":     {raw: plain, size: len(plain)},
		"Marked":    {raw: with(0), size: len(plain), isMarked: true},
		"Waits":     {raw: with(semiSyncWaits), size: len(plain), isMarked: true, waits: true},
		"OtherFlag": {raw: with(2), size: len(plain) + 2},
		"TimeOnly":  {raw: same, size: len(plain)},
		"Cut":       {raw: with(1)[:len(plain)], size: len(plain)},
		"Empty":     {},
		"OneByte":   {raw: []byte{semiSyncMark}, size: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if e, isMarked, waits := cutSemiSync(tc.raw); len(e) != tc.size || isMarked != tc.isMarked || waits != tc.waits {
				t.Errorf("%d bytes, %v, %v", len(e), isMarked, waits)
			}
		})
	}
}

// TestRecordFile checks the name of the file in the position that is acknowledged. The first rotate event of a connection may
// have a checksum or not.
func TestRecordFile(t *testing.T) {
	for name, hasChecksum := range map[string]bool{"Checksum": true, "Plain": false} {
		t.Run(name, func(t *testing.T) {
			e := append(make(event, headerSize+8), "binlog.000042"...)
			e[4] = typeRotate
			size := len(e)
			if hasChecksum {
				size += checksumSize
			}
			binary.LittleEndian.PutUint32(e[9:], uint32(size)) //nolint:gosec // A small number.
			if hasChecksum {
				e = binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
			}
			s := &Stream{scan: scanner{isSent: true}}
			if _, ok, err := s.parsePart(e); ok || err != nil || s.file != "binlog.000042" {
				t.Errorf("%q, %v, %v", s.file, ok, err)
			}
		})
	}
	s := &Stream{scan: scanner{isSent: true}}
	short := make(event, headerSize+4)
	short[4] = typeRotate
	if _, _, err := s.parsePart(short); err == nil {
		t.Error("a rotate event without a name was accepted")
	}
}

// TestAcknowledge checks the packet that acknowledges a transaction.
func TestAcknowledge(t *testing.T) {
	one, other := net.Pipe()
	defer other.Close() //nolint:errcheck // A test.
	s := &Stream{conn: &client.Conn{Conn: mysqlpacket.NewConn(one)}, closed: make(chan struct{})}
	sent := make(chan error, 1)
	go func() { sent <- s.Acknowledge(Position{File: "binlog.000001", Offset: 0x1234}) }()
	got := make([]byte, 4+9+13)
	if _, err := other.Read(got); err != nil {
		t.Fatal(err)
	}
	want := append([]byte{22, 0, 0, 0, 0xef, 0x34, 0x12, 0, 0, 0, 0, 0, 0}, "binlog.000001"...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	s.Close()
	if err := s.Acknowledge(Position{}); err == nil {
		t.Error("a closed connection must return an error")
	}
}
