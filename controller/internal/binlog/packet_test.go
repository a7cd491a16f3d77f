package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// packetOf returns a packet with an event of a size.
func packetOf(size int) []byte {
	raw := make([]byte, 1+size)
	binary.LittleEndian.PutUint32(raw[1+9:], uint32(size)) //nolint:gosec // A small number.
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

// useOwnSlot replaces the limit for large packets, because a test in a synctest bubble must not share it with other
// tests.
func useOwnSlot() (restore func()) {
	previous := largePackets
	largePackets = make(chan struct{}, 1)
	return func() { largePackets = previous }
}

// TestPacketProgress checks a server that stalls within a large packet. Other streams must not be blocked for long. A
// stream that waits for the memory must not miss its own deadline because of the wait.
func TestPacketProgress(t *testing.T) {
	const second = 1 << 20 // The bytes that a server must send in a second.
	for name, tc := range map[string]struct {
		// sent is the number of bytes that the server sends of a packet. It sends them in chunks, with a pause after
		// each chunk.
		sent, chunk int
		pause       time.Duration
		// waits is the time for which another stream occupies the memory for a large packet.
		waits time.Duration
		// want is the maximum duration. fails is true if the packet must not be received completely.
		want  time.Duration
		fails bool
	}{
		"Fast":    {10 << 20, 1 << 20, 0, 0, time.Second, false},
		"Stalls":  {smallPacket + 4096, 1 << 20, 0, 0, largeGrace + 2*time.Second, true},
		"Steady":  {60 << 20, second, 900 * time.Millisecond, 0, time.Minute, false},
		"TooSlow": {60 << 20, second / 8, time.Second, 0, 15 * time.Second, true},
		"Waits":   {10 << 20, 1 << 20, 0, 3 * silence, 3*silence + 5*time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer useOwnSlot()()
				client, server := net.Pipe()
				defer client.Close() //nolint:errcheck // A pipe.
				if tc.waits > 0 {
					largePackets <- struct{}{}
					time.AfterFunc(tc.waits, func() { <-largePackets })
				}
				ended, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					defer server.Close() //nolint:errcheck // A pipe.
					raw := packetOf(60 << 20)
					for sent := 0; sent < tc.sent; sent += tc.chunk {
						if _, err := server.Write(raw[sent:min(sent+tc.chunk, tc.sent)]); err != nil {
							return
						}
						time.Sleep(tc.pause)
					}
					<-done
				}()
				begun := time.Now()
				_ = client.SetReadDeadline(begun.Add(silence))
				p := &packet{conn: client}
				size := tc.sent
				if tc.fails {
					size++
				}
				_, err := io.CopyN(p, client, int64(size))
				took := time.Since(begun)
				if took > tc.want || (err != nil) != tc.fails {
					t.Errorf("error %v after %s", err, took)
				}
				p.release()
				if len(largePackets) > 0 {
					t.Error("the memory was not released")
				}
				_ = client.Close() // A pipe.
				close(done)
				<-ended
			})
		})
	}
}

// TestPacketOfClosedStream checks that a stream can be closed while it waits for the memory for a large packet.
func TestPacketOfClosedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer useOwnSlot()()
		largePackets <- struct{}{}
		closed := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(closed) })
		p := &packet{closed: closed}
		if _, err := p.Write(packetOf(2 * smallPacket)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if p.release(); len(largePackets) != 1 {
			t.Error("the memory of another stream was released")
		}
	})
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
