package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
)

const (
	// smallPacket is the size in bytes up to which any number of packets are in memory at the same time.
	smallPacket = 1 << 20
	// maxPacket is the maximum size of a packet in bytes. A packet contains one event. An event is larger than a few
	// kilobytes only if a single row is.
	maxPacket = 64 << 20
	// maxLogin is the maximum number of bytes that a server may send before the stream begins.
	maxLogin = 4 << 20
)

// ErrLargeEvent is the error for an event of the log that does not fit into the memory of the archiver.
var ErrLargeEvent = fmt.Errorf("the binary log contains a row of more than %d MiB, which cannot be archived",
	maxPacket>>20)

// largePackets limits the memory for large packets of all streams in this process. Other streams wait.
var largePackets = make(chan struct{}, 1) //nolint:gochecknoglobals // The memory belongs to the process.

// A packet is a packet that is being received. The server chooses its size.
type packet struct {
	raw     []byte
	isLarge bool
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
		largePackets <- struct{}{}
		p.isLarge = true
		p.grow()
	}
	p.raw = append(p.raw, part...)
	return len(part), nil
}

// grow allocates the memory for the whole event at once. The event follows the first byte of the packet.
func (p *packet) grow() {
	if len(p.raw) <= headerSize {
		return
	}
	size := int64(binary.LittleEndian.Uint32(p.raw[1+9:])) + 1
	if size <= maxPacket && size > int64(len(p.raw)) {
		p.raw = append(make([]byte, 0, size), p.raw...)
	}
}

// release permits another stream to receive a large packet.
func (p *packet) release() {
	if p.isLarge {
		p.isLarge = false
		<-largePackets
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

// Read implements net.Conn.
func (c *loginConn) Read(p []byte) (int, error) {
	if c.left.Load() <= 0 {
		return 0, errTalkative
	}
	n, err := c.Conn.Read(p)
	c.left.Add(-int64(n))
	return n, err
}

// lift removes the limit.
func (c *loginConn) lift() { c.left.Store(math.MaxInt64) }
