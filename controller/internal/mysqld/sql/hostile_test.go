package sql

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

// A countedConn counts the bytes that are read.
type countedConn struct {
	net.Conn

	bytes *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// stage starts a server that calls play with the connection of each client.
func stage(t *testing.T, play func(net.Conn)) (s Server, read *atomic.Int64) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go play(c)
		}
	}()
	read = &atomic.Int64{}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return countedConn{c, read}, err
	}
	return Server{Address: l.Addr().String(), Dial: dial, Trust: Trust{AnyServer: true},
		Times: &Times{Handshake: time.Minute, Session: 2 * time.Minute}}, read
}

const secret = Password("correct horse")

// session runs the same operations as a password change.
func session(ctx context.Context, s Server) error {
	in, err := s.Login(ctx, secret)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.Lock(ctx); err != nil {
		return err
	}
	_, err = in.RootAccounts(ctx)
	return err
}

// TestHostileServer checks that a hostile server cannot crash the program, or exceed the limits of size and time.
// Error messages must be short and printable, and must not contain the password.
func TestHostileServer(t *testing.T) {
	misbehaves := IsMisbehaviour
	isSlow := func(err error) bool { return errors.Is(err, ErrSlow) && IsUnreachable(err) }
	own := func(err error) bool { return hasNumber(err, 1045, 1105) }
	cases := map[string]struct {
		reason string
		check  func(error) bool
		most   int64
	}{
		"silent":      {"It says nothing.", isSlow, 0},
		"drip":        {"Its greeting would take two minutes.", isSlow, 100},
		"flood":       {"The first packet is longer than any.", misbehaves, headerLength},
		"short":       {"The driver would read past the end of its greeting.", misbehaves, 16},
		"text":        {"A text of megabytes is none of an error.", misbehaves, headerLength},
		"unprintable": {"A terminal would obey.", own, 2000},
		"echo":        {"It repeats the password.", own, 4000},
		"key":         {"It repeats the password, which was encrypted with a key of its own.", own, 4000},
		"clear":       {"It would have the password in clear text.", misbehaves, 4000},
		"switches":    {"It never lets anybody in.", misbehaves, 4000},
		"file":        {"It would have a file of the controller.", misbehaves, 4000},
		"columns":     {"The driver would make room for them.", misbehaves, 4000},
		"rows":        {"They have no end.", misbehaves, maxBytes},
		"results":     {"They have no end.", misbehaves, 4000},
		"dreamer":     {"It answers nothing after the login.", isSlow, 4000},
	}
	for _, trick := range hostile.Tricks() {
		tc, ok := cases[trick.Name]
		if !ok {
			t.Errorf("nothing is expected of %q", trick.Name)
			continue
		}
		t.Run(trick.Name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			s, read := stage(t, hostile.Server{Trick: trick}.Play)
			if slices.Contains([]string{"silent", "drip", "dreamer"}, trick.Name) {
				s.Times = &Times{Handshake: time.Second, Session: 2 * time.Second}
			}
			err := session(t.Context(), s)
			if err == nil || !tc.check(err) || errors.Is(err, errPanic) {
				t.Fatalf("%s Got %v", tc.reason, err)
			}
			if n := read.Load(); n > tc.most {
				t.Errorf("%s It was read for %d bytes, want %d at most", tc.reason, n, tc.most)
			}
			text := err.Error()
			if len(text) > v1.MaxForeignText+100 || strings.Contains(text, string(secret)) ||
				strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s It says %q", tc.reason, text)
			}
			ended(t, before)
		})
	}
}

// ended checks that all goroutines of a session exit after the server has closed the connection.
func ended(t *testing.T, before int) {
	t.Helper()
	for range 1000 {
		if runtime.NumGoroutine() <= before+1 { // The listener is still running.
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	stack := make([]byte, 1<<20)
	t.Errorf("%d goroutines are left of it:\n%s", runtime.NumGoroutine()-before-1, stack[:runtime.Stack(stack, true)])
}

// TestTimes checks the default timeouts. Other tests use shorter ones.
func TestTimes(t *testing.T) {
	if HandshakeTime != 5*time.Second || sessionTime > time.Minute || maxBytes != 1<<20 {
		t.Errorf("a handshake has %s, a session %s and %d bytes", HandshakeTime, sessionTime, maxBytes)
	}
}

// TestRows checks that a result with more than maxRows rows is refused, even if it is below the other limits.
func TestRows(t *testing.T) {
	for _, trick := range hostile.Tricks() {
		if trick.Name != "rows" {
			continue
		}
		s, _ := stage(t, hostile.Server{Trick: trick}.Play)
		in, err := s.Login(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		n := 0
		var text anything
		if err := in.queryRows(t.Context(), []sql.Scanner{&text}, func() { n++ }, "SELECT 1"); !errors.Is(err, ErrTooMuch) ||
			n != maxRows {
			t.Errorf("%d rows, %v", n, err)
		}
		return
	}
	t.Error("there is no such trick")
}

// anything is a sql.Scanner that accepts any column value.
type anything struct{}

func (*anything) Scan(any) error { return nil }

// TestBudget checks that a session is closed when it reaches the limit of bytes or packets.
func TestBudget(t *testing.T) {
	for name, size := range map[string]int{"Bytes": 32 << 10, "Packets": 1} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			read := &atomic.Int64{}
			g, forDriver := startGuard(countedConn{client, read}, Trust{AnyServer: true}, time.Now().Add(time.Minute))
			defer g.endSession(nil)
			greeting := append([]byte("\x0a8.4.6\x00"), make([]byte, lengthOfGreeting)...)
			go func() {
				_, _ = server.Write(numbered(0, greeting))
				_, _ = server.Read(make([]byte, 64))
				_, _ = server.Write(numbered(2, []byte{kindOK, 0, 0, 2, 0, 0, 0}))
				for {
					if _, err := server.Write(numbered(7, bytes.Repeat([]byte{1}, size))); err != nil {
						return
					}
				}
			}()
			buffer := make([]byte, maxPacket)
			if _, err := forDriver.Read(buffer); err != nil {
				t.Fatal(err)
			}
			if _, err := forDriver.Write(numbered(1, []byte("response"))); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := forDriver.Read(buffer); err != nil {
					break
				}
			}
			if err := g.endCause(); !errors.Is(err, ErrTooMuch) || read.Load() > maxBytes {
				t.Errorf("after %d bytes: %v", read.Load(), err)
			}
		})
	}
}

func numbered(number byte, payload []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(payload))) //nolint:gosec // A packet is small.
	out[3] = number
	return append(out, payload...)
}

// FuzzLogin checks that no response to a login or a query leaves a goroutine behind. A panic of the driver during
// login would leave one.
func FuzzLogin(f *testing.F) {
	for _, trick := range hostile.Tricks() {
		f.Add(record(trick))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		s, read := stage(t, func(c net.Conn) {
			defer c.Close()                       //nolint:errcheck // The test is complete.
			_, _ = c.Write(sent)                  // The client may have disconnected.
			_ = c.(*net.TCPConn).CloseWrite()     // The client reads the end of the response.
			_, _ = c.Read(make([]byte, 1<<16))    // The client sends data before it reads the end.
			_ = c.SetDeadline(time.Now().Add(-1)) // All later reads and writes fail.
		})
		s.Times = &Times{Handshake: time.Second, Session: 2 * time.Second}
		in, err := s.openSession(t.Context(), secret)
		if errors.Is(err, errPanic) {
			t.Fatalf("the driver panics while it logs in, on %q", sent)
		}
		if err == nil {
			_, _ = in.RootAccounts(t.Context())
			in.Close()
		}
		if read.Load() > maxBytes {
			t.Errorf("%d bytes were read", read.Load())
		}
	})
}

// record returns the first bytes that a simulated hostile server sends to a client. They are seeds for the fuzz test.
func record(trick hostile.Trick) []byte {
	client, server := net.Pipe()
	defer client.Close() //nolint:errcheck // The recording is complete.
	go hostile.Server{Trick: trick}.Play(server)
	_ = client.SetDeadline(time.Now().Add(200 * time.Millisecond))
	go func() { _, _ = client.Write(bytes.Repeat(numbered(1, []byte("xxxx")), 4)) }()
	out := make([]byte, 512)
	n := 0
	for n < len(out) {
		m, err := client.Read(out[n:])
		if n += m; err != nil {
			break
		}
	}
	return out[:n]
}
