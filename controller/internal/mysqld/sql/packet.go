package sql

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
)

// These constants limit a packet and the response to one statement.
const (
	maxPacket  = 64 << 10
	maxColumns = 16
	maxRows    = 200
)

// A packet is a packet of the MySQL protocol, including its header. The header consists of a length of three bytes
// and a sequence number (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html).
type packet []byte

const (
	headerLength = 4
	// firstNumber is the number of a response's first packet. The driver refuses a response that begins with another
	// number. Packet numbers restart after 255, but maxRows keeps responses shorter than that.
	firstNumber = 1
)

// Kinds of packets. The first byte of a packet determines its kind.
const (
	kindOK     = 0x00
	kindMore   = 0x01
	kindFile   = 0xfb
	kindSwitch = 0xfe
	kindError  = 0xff
)

func (p packet) number() byte    { return p[headerLength-1] }
func (p packet) payload() []byte { return p[headerLength:] }
func (p packet) kind() byte      { return p[headerLength] }

// readPacket reads a packet with at least one byte. It allocates no memory for a packet that is too long.
func readPacket(r io.Reader) (packet, error) {
	header := [headerLength]byte{}
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32([]byte{header[0], header[1], header[2], 0})
	switch {
	case length > maxPacket:
		return nil, ErrTooMuch
	case length == 0:
		return nil, ErrNonsense
	}
	p := make(packet, headerLength+length)
	copy(p, header[:])
	_, err := io.ReadFull(r, p.payload())
	return p, err
}

// lengthOfGreeting is the length of a greeting after the server's version.
const lengthOfGreeting = 44

// checkGreeting checks the greeting of a server. Like the following functions, it checks all positions where the
// driver would otherwise read past the end of a packet
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html).
func checkGreeting(p packet) error {
	if p.kind() == kindError {
		return checkError(p)
	}
	_, rest, ended := bytes.Cut(p.payload(), []byte{0})
	if !ended || len(rest) < lengthOfGreeting {
		return ErrNonsense
	}
	return nil
}

// capabilities returns the lower half of the capabilities in a valid greeting.
func (p packet) capabilities() uint16 {
	_, rest, _ := bytes.Cut(p.payload(), []byte{0})
	return binary.LittleEndian.Uint16(rest[offsetOfCapabilities:])
}

// checkLogin checks the packets of a server between its greeting and the result of the login.
func checkLogin(p packet) error {
	switch p.kind() {
	case kindOK:
		return checkOK(p)
	case kindError:
		return checkError(p)
	case kindSwitch:
		return checkSwitch(p)
	case kindMore:
		return checkMore(p)
	}
	return ErrNonsense
}

// checkSwitch checks a request to use another authentication plugin
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_auth_switch_request.html).
func checkSwitch(p packet) error {
	plugin, scramble, _ := bytes.Cut(p.payload()[1:], []byte{0})
	if string(plugin) == native && len(bytes.TrimSuffix(scramble, []byte{0})) < 20 {
		return ErrNonsense
	}
	return nil
}

// checkMore checks additional login data: one byte, or the public key of the server.
func checkMore(p packet) error {
	extra := p.payload()[1:]
	if len(extra) <= 1 {
		return nil
	}
	block, _ := pem.Decode(extra)
	if block == nil {
		return ErrNonsense
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if _, ok := key.(*rsa.PublicKey); err != nil || !ok {
		return ErrNonsense
	}
	return nil
}

// checkAnswer checks the response to a statement. The first packet contains the number of columns, or it is the
// complete response.
func checkAnswer(p packet) error {
	if p.number() != firstNumber {
		return nil
	}
	switch kind := p.kind(); {
	case kind == kindOK:
		return checkOK(p)
	case kind == kindError:
		return checkError(p)
	case kind == kindFile: // The server requests a local file.
		return ErrNonsense
	case kind > maxColumns:
		return ErrTooMuch
	}
	return nil
}

// checkError checks an error packet with its number and optional state
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html).
func checkError(p packet) error {
	const marker, length, withState = 3, 4, 9
	if e := p.payload(); len(e) < length || e[marker] == '#' && len(e) < withState {
		return ErrNonsense
	}
	return nil
}

// moreResults is the status flag for further results. No statement of this package has further results.
const moreResults = 1 << 3

// checkOK checks an OK packet with its two numbers, the status and the warnings
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html).
func checkOK(p packet) error {
	rest := p.payload()[1:]
	for range 2 {
		n := lengthOfNumber(rest)
		if n > len(rest) {
			return ErrNonsense
		}
		rest = rest[n:]
	}
	switch {
	case len(rest) < 2:
		return ErrNonsense
	case rest[0]&moreResults != 0:
		return ErrTooMuch
	}
	return nil
}

// lengthOfNumber returns the length of a number in bytes, according to its first byte
// (https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html).
func lengthOfNumber(b []byte) int {
	if len(b) == 0 {
		return 1
	}
	switch b[0] {
	case 0xfc:
		return 3
	case 0xfd:
		return 4
	case 0xfe:
		return 9
	}
	return 1
}
