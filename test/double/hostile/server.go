// Package hostile provides malicious MySQL servers, in order to test that MySQL clients withstand them.
package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// Limits for each connection, which protect the machine that runs the test: the duration, and the number of bytes
// that are sent.
const (
	longest = time.Minute
	most    = 256 << 20
)

// Constants of MySQL's client/server protocol. The capability flags are documented at
// https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html.
const (
	capabilities    = 1 | 1<<2 | 1<<9 | 1<<13 | 1<<15 | 1<<17 | 1<<19 | 1<<24
	capabilityTLS   = 1 << 11
	statusMore      = 1 << 3
	headerOK        = 0x00
	headerInFile    = 0xfb
	headerEOF       = 0xfe
	headerError     = 0xff
	authenticated   = 3
	fullLogin       = 4
	cachingSHA2     = "caching_sha2_password"
	greetingVersion = 10
)

// A Server is a malicious MySQL server. It attacks each client in the way that its Trick defines.
type Server struct {
	Trick Trick
	// Learned is called with each password that a client sends. It may be nil.
	Learned func(password string)
}

// Serve accepts clients and attacks them until the listener is closed.
func (s Server) Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.Play(c)
	}
}

// Play attacks one client with the trick, and closes the connection.
func (s Server) Play(c net.Conn) {
	defer c.Close()                                                 //nolint:errcheck // The result does not matter.
	_ = c.SetDeadline(time.Now().Add(longest))                      // This limits how long a client is served.
	_ = s.Trick.play(&client{Conn: c, learned: s.Learned})          // The client has disconnected, or the trick is over.
	_, _ = io.Copy(io.Discard, &io.LimitedReader{R: c, N: 1 << 20}) // Wait until the client has received everything.
}

// A client is the connection of the malicious server to one client.
type client struct {
	net.Conn

	sent int
	// next is the sequence number of the next packet in the MySQL protocol.
	next    byte
	learned func(string)
}

var errEnough = errors.New("enough was sent")

// Write writes bytes to the client, up to a limit.
func (c *client) Write(p []byte) (int, error) {
	if c.sent += len(p); c.sent > most {
		return 0, errEnough
	}
	return c.Conn.Write(p)
}

// learn calls learned with a password that the client has sent, and returns the password.
func (c *client) learn(password []byte) string {
	out := string(bytes.TrimRight(password, "\x00"))
	if c.learned != nil {
		c.learned(out)
	}
	return out
}

// sendPacket sends a packet of the MySQL protocol with the given payload.
func (c *client) sendPacket(payload ...byte) error {
	_, err := c.Write(c.packet(payload))
	return err
}

func (c *client) packet(payload []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(payload))) //nolint:gosec // Three bytes hold every length.
	out[3] = c.next
	c.next++
	return append(out, payload...)
}

// receivePacket receives a packet from the client and returns its payload. It sets next to the following sequence
// number.
func (c *client) receivePacket() ([]byte, error) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, header); err != nil {
		return nil, err
	}
	c.next = header[3] + 1
	header[3] = 0
	payload := make([]byte, binary.LittleEndian.Uint32(header))
	_, err := io.ReadFull(c.Conn, payload)
	return payload, err
}

// scramble is the challenge in each greeting, with which a client hashes its password. A real server sends random
// data.
var scramble = []byte("abcdefghijklmnopqrst")

// greeting returns the server's first packet of a connection. plugin is the authentication plugin, and extra contains
// additional capability flags.
func greeting(plugin string, extra uint32) []byte {
	flags := binary.LittleEndian.AppendUint32(nil, capabilities|extra)
	return slices.Concat([]byte{greetingVersion}, []byte("8.4.6\x00"), []byte{1, 0, 0, 0}, scramble[:8], []byte{0},
		flags[:2], []byte{0xff, 2, 0}, flags[2:],
		[]byte{21}, make([]byte, 10), scramble[8:], []byte{0}, []byte(plugin), []byte{0})
}

// okPacket returns an OK packet with additional status flags.
func okPacket(status byte) []byte { return []byte{headerOK, 0, 0, 2 | status, 0, 0, 0} }

// refusal returns the payload of an error packet with an error number and a message.
func refusal(number uint16, text string) []byte {
	return slices.Concat(binary.LittleEndian.AppendUint16([]byte{headerError}, number), []byte("#HY000"), []byte(text))
}

// admit lets the client log in with any password.
func (c *client) admit() error {
	if err := c.sendPacket(greeting(cachingSHA2, 0)...); err != nil {
		return err
	}
	if _, err := c.receivePacket(); err != nil {
		return err
	}
	if err := c.sendPacket(1, authenticated); err != nil {
		return err
	}
	return c.sendPacket(okPacket(0)...)
}

// answerStatements lets the client log in. It accepts the first pass statements, and then calls answer for each further
// one.
func (c *client) answerStatements(pass int, answer func() error) error {
	if err := c.admit(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if _, err := c.receivePacket(); err != nil {
			return err
		}
		if n < pass {
			if err := c.sendPacket(okPacket(0)...); err != nil {
				return err
			}
			continue
		}
		if err := answer(); err != nil {
			return err
		}
	}
}
