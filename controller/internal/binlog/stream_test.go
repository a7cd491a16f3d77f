package binlog

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestConnectToSilentServer checks that a login stops when its context ends, even if the server sends nothing.
func TestConnectToSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // A test.
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // A test.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	w := Watcher{Source: Source{Address: l.Addr().String()}}
	defer w.Close()
	begun := time.Now()
	if _, err := w.ReadState(ctx); err == nil || time.Since(begun) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}

// TestParsePart checks that each part of a transaction has the format of its file.
func TestParsePart(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "real.binlog"))
	if err != nil {
		t.Fatal(err)
	}
	s, parts := &Stream{scan: scanner{isSent: true}}, 0
	for raw = raw[len(magic):]; len(raw) > 0; {
		size := binary.LittleEndian.Uint32(raw[9:])
		p, ok, err := s.parsePart(raw[:size])
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			parts++
			if !p.Format.IsKnown() || p.Format.Version()[:5] != "9.7.4" || !p.Format.Fits(Format{s.scan.format}) {
				t.Fatalf("part %d has no format", parts)
			}
		}
		raw = raw[size:]
	}
	if parts == 0 {
		t.Error("no parts")
	}
	heartbeat := make(event, headerSize)
	heartbeat[4] = typeHeartbeat
	if p, ok, err := s.parsePart(heartbeat); err != nil || !ok || len(p.Raw) > 0 || p.Format.IsKnown() {
		t.Errorf("%+v, %v, %v", p, ok, err)
	}
}
