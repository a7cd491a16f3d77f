package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// packetOf returns a packet with an event of a size.
func packetOf(size int) []byte {
	raw := make([]byte, 1+size)
	binary.LittleEndian.PutUint32(raw[1+9:], uint32(size))
	return raw
}

// TestPacket checks that large packets are received one after the other, and that too large ones are refused.
func TestPacket(t *testing.T) {
	want := packetOf(3 << 20)
	one, two := &packet{}, &packet{}
	if _, err := io.Copy(one, bytes.NewReader(want)); err != nil || !bytes.Equal(one.raw, want) {
		t.Fatalf("the packet differs: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(two, bytes.NewReader(want))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a second large packet was received at the same time: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	one.release()
	one.release() // It may be called twice.
	if err := <-done; err != nil || !bytes.Equal(two.raw, want) {
		t.Fatalf("the second packet differs: %v", err)
	}
	two.release()
	three := &packet{}
	if _, err := io.Copy(three, bytes.NewReader(packetOf(maxPacket))); !errors.Is(err, ErrLargeEvent) {
		t.Errorf("want a refusal, got %v", err)
	}
	three.release()
}

// TestLoginConn checks that a server cannot send any amount of data before its binary log.
func TestLoginConn(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close() //nolint:errcheck // A pipe.
	defer server.Close() //nolint:errcheck // A pipe.
	go func() {
		for {
			if _, err := server.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}()
	c := newLoginConn(client)
	if n, err := io.CopyN(io.Discard, c, 2*maxLogin); !errors.Is(err, errTalkative) || n > maxLogin+1<<20 {
		t.Errorf("want an error after %d bytes, got %v after %d", maxLogin, err, n)
	}
	c.lift()
	if _, err := io.CopyN(io.Discard, c, maxLogin); err != nil {
		t.Error(err)
	}
}
