package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// smallPacket is the maximum size in bytes of a small packet. Only larger packets have to wait for memory.
	smallPacket = 1 << 20
	// maxPacket is the maximum size of a packet in bytes. A packet contains one event. An event has more than a few
	// kilobytes only if it contains a large row.
	maxPacket = 64 << 20
	// largeGrace and largeRate limit the time for a large packet, because other streams wait for its memory. After
	// largeGrace, the server must have sent at least largeRate bytes per second on average.
	largeGrace = 5 * time.Second
	largeRate  = 1 << 20
	// maxLogin is the maximum number of bytes that a server may send before the stream begins.
	maxLogin = 4 << 20
)

// ErrLargeEvent is the error for an event of the log that does not fit into the memory of the archiver.
var ErrLargeEvent = fmt.Errorf("the binary log contains a row of more than %d MiB, which cannot be archived",
	maxPacket>>20)

// largePackets limits the memory for large packets of all streams in this process. One stream at a time may receive a
// large packet.
var largePackets = make(chan struct{}, 1) //nolint:gochecknoglobals // The memory belongs to the process.

// A packet is a packet of the MySQL protocol that is being received. The server chooses its size.
type packet struct {
	raw []byte
	// begin is the number of bytes before the event in the packet.
	begin   int
	isLarge bool
	freed   sync.Once
	// begun is the time at which this packet got the memory for a large packet. received is the number of bytes that
	// were received since then.
	begun    time.Time
	received int
	// conn is the connection, or nil if its deadlines do not matter. closed is a channel that Stream.Close closes.
	conn   interface{ SetReadDeadline(t time.Time) error }
	closed <-chan struct{}
	// failure is the reason why the packet was refused, or nil.
	failure error
}

// Write appends a part of the packet.
func (p *packet) Write(part []byte) (int, error) {
	size := len(p.raw) + len(part)
	if size > maxPacket {
		p.failure = ErrLargeEvent
		return 0, p.failure
	}
	if size > smallPacket && !p.isLarge {
		select {
		case largePackets <- struct{}{}:
		case <-p.closed:
			p.failure = net.ErrClosed
			return 0, p.failure
		}
		p.isLarge, p.begun = true, time.Now()
		p.grow()
	}
	p.raw = append(p.raw, part...)
	if p.isLarge && p.conn != nil {
		p.received += len(part) // The deadline may have passed while the packet waited.
		allowed := largeGrace + time.Duration(p.received)*time.Second/largeRate
		if err := p.conn.SetReadDeadline(p.begun.Add(allowed)); err != nil {
			return 0, err
		}
	}
	return len(part), nil
}

// grow allocates the memory for the whole event at once.
func (p *packet) grow() {
	if len(p.raw) < p.begin+headerSize {
		return
	}
	size := int64(binary.LittleEndian.Uint32(p.raw[p.begin+9:])) + int64(p.begin)
	if size <= maxPacket && size > int64(len(p.raw)) {
		p.raw = append(make([]byte, 0, size), p.raw...)
	}
}

// release permits another stream to receive a large packet. It may be called several times.
func (p *packet) release() {
	if p.isLarge {
		p.freed.Do(func() { <-largePackets })
	}
}

var errTalkative = errors.New("the server sent too much data before the binary log")

// A loginConn limits the number of bytes that a server sends before its binary log.
type loginConn struct {
	net.Conn

	left atomic.Int64
}

func newLoginConn(c net.Conn) *loginConn {
	out := &loginConn{Conn: c}
	out.left.Store(maxLogin)
	return out
}

// Read reads from the connection. It returns an error if the server has sent too many bytes.
func (c *loginConn) Read(p []byte) (int, error) {
	if c.left.Load() <= 0 {
		return 0, errTalkative
	}
	n, err := c.Conn.Read(p)
	c.left.Add(-int64(n))
	return n, err
}

// lift removes the limit when the server begins to send its binary log.
func (c *loginConn) lift() { c.left.Store(math.MaxInt64) }
