package binlog

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	// loginTime is the timeout for a login, and for each query before the stream begins.
	loginTime = 30 * time.Second
	// heartbeat is the interval of the server's heartbeats on an idle connection.
	heartbeat = 2 * time.Second
	// silence is the maximum time without an event or a heartbeat. After it, the connection is considered broken.
	silence = 30 * time.Second
)

// A Source describes how to connect to the MySQL server whose binary log is read.
type Source struct {
	redact.All

	// Address is the host and the port of the server, or the path of a socket.
	Address string
	// TLS verifies the server. It is nil only for a socket.
	TLS            *tls.Config
	User, Password string
	// ServerID identifies this client among the replicas of the server. It must differ from the server's own.
	ServerID uint32
	// Dial opens the connection. If nil, the operating system's dialer is used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A State is the state of the binary log that a server reports.
type State struct {
	ServerUUID string
	// Executed are all transactions of the server. Purged are those that are no longer in its binary log.
	Executed, Purged Set
	// Now is the server's time in microseconds since 1970, from before it read the sets.
	Now uint64
	// ExpireAfter is the time after which the server deletes its binary log files. 0 means never.
	ExpireAfter time.Duration
	// CanWait is true if the server was started for durability Store. Waits is true if commits wait until Acknowledge is
	// called for them.
	CanWait, Waits bool
}

// A Stream is a connection on which a server sends its binary log.
type Stream struct {
	// State is the state of the server at the time of the login.
	State State

	conn  *client.Conn
	limit *loginConn
	scan  scanner
	id    uint32
	// file is the name of the file of the log that the server sends.
	file string
	// isMarked is true if the last event had a semi-synchronous header.
	isMarked bool
	// closed is a channel that Close closes, so that a packet stops waiting for memory.
	closed  chan struct{}
	closing sync.Once
}

// ErrUnsuitable is the error for a server whose settings do not allow a complete archive of its binary log.
var ErrUnsuitable = errors.New("the settings of the server do not allow it to archive its binary log")

// Connect logs in to a server and reads its state. The caller must close the stream.
func Connect(ctx context.Context, s Source) (*Stream, error) {
	network := "tcp"
	if strings.HasPrefix(s.Address, "/") {
		network = "unix"
	}
	dial := s.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: loginTime}).DialContext
	}
	out := &Stream{id: s.ServerID, scan: scanner{isSent: true}, closed: make(chan struct{})}
	unregister := func() bool { return true }
	limited := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		out.limit = newLoginConn(c)
		// The client library does not stop a login when ctx ends, so the connection is closed.
		unregister = context.AfterFunc(ctx, func() { _ = c.Close() })
		return out.limit, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	c, err := client.ConnectWithDialer(ctx, network, s.Address, s.User, s.Password, "", limited, func(c *client.Conn) error {
		if s.TLS != nil {
			c.SetTLSConfig(s.TLS)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.conn = c
	if err = out.readState(); err == nil && !unregister() {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close() // Nothing was written.
		return nil, err
	}
	return out, nil
}

// Start makes the server send all transactions that are not in the given set.
func (s *Stream) Start(after Set) error {
	_ = s.conn.SetDeadline(time.Now().Add(loginTime))
	replica := 0
	if s.State.CanWait {
		replica = 1
	}
	for _, statement := range []string{
		// With this value, the server sends the checksums of its files. Other values make it recompute or remove them.
		"SET @source_binlog_checksum = @@GLOBAL.binlog_checksum, @master_binlog_checksum = @@GLOBAL.binlog_checksum",
		fmt.Sprintf("SET @source_heartbeat_period = %d, @master_heartbeat_period = %d", heartbeat, heartbeat),
		fmt.Sprintf("SET @replica_uuid = '%s', @slave_uuid = @replica_uuid", uuid.NewString()),
		fmt.Sprintf("SET @rpl_semi_sync_replica = %d, @rpl_semi_sync_slave = %d", replica, replica),
	} {
		if _, err := s.conn.Execute(statement); err != nil {
			return fmt.Errorf("cannot prepare the connection for the binary log: %w", err)
		}
	}
	encoded, err := after.encodeSet()
	if err != nil {
		return err
	}
	request := make([]byte, 4, 64+len(encoded)) // WritePacket needs four bytes before the packet.
	request = append(request, mysql.COM_BINLOG_DUMP_GTID, 0, 0)
	request = binary.LittleEndian.AppendUint32(request, s.id)
	request = binary.LittleEndian.AppendUint32(request, 0)                    // The length of a file name.
	request = binary.LittleEndian.AppendUint64(request, 4)                    // The position in the file.
	request = binary.LittleEndian.AppendUint32(request, uint32(len(encoded))) //nolint:gosec // At most MaxSet.
	request = append(request, encoded...)
	s.limit.lift()
	s.conn.ResetSequence()
	if err := s.conn.WritePacket(request); err != nil {
		return fmt.Errorf("cannot request the binary log: %w", err)
	}
	return nil
}

// A Part is a part of a transaction, or a heartbeat.
type Part struct {
	// Begin is the transaction that begins with this part, or nil.
	Begin *Begin
	// Raw contains the bytes of the part. It is empty for a heartbeat.
	Raw []byte
	// IsEnd is true for the last part of a transaction.
	IsEnd bool
	// Format is the format of the transaction. It is empty for a heartbeat.
	Format Format
	// IsMarked is true if the server marks the transactions for which a commit waits. Waits is the position to acknowledge
	// if a commit waits for this transaction, or nil. Only the last part of a transaction has it.
	IsMarked bool
	Waits    *Position
	// Done is called when the part is no longer needed, or is nil.
	Done func()
}

// Release releases the memory of the part. The caller of Next must call it after it has stored or dropped the part. If
// the part is large, no other stream can receive a large part until then.
func (p Part) Release() {
	if p.Done != nil {
		p.Done()
	}
}

// Next waits for the next part. It returns an error if the connection is silent for longer than a few heartbeats.
func (s *Stream) Next() (Part, error) {
	for {
		_ = s.conn.SetDeadline(time.Now().Add(silence))
		received := &packet{conn: s.conn, closed: s.closed, begin: 1}
		if s.isMarked {
			received.begin += semiSyncHeader
		}
		p, ok, err := s.readPart(received)
		if err != nil || !ok {
			received.release()
		}
		if err != nil {
			return Part{}, err
		}
		if ok {
			p.Done = received.release
			return p, nil
		}
	}
}

// Close closes the connection. A concurrent Next returns an error.
func (s *Stream) Close() {
	s.closing.Do(func() { close(s.closed) })
	_ = s.conn.Conn.Conn.Close()
}

// readPart reads the next packet. It returns false if the packet is not a part.
func (s *Stream) readPart(p *packet) (part Part, ok bool, err error) {
	err = s.conn.ReadPacketTo(p)
	switch {
	case p.failure != nil:
		return Part{}, false, p.failure
	case err != nil:
		return Part{}, false, fmt.Errorf("the connection for the binary log is broken: %w", err)
	case len(p.raw) == 0:
		return Part{}, false, errors.New("the server sent an empty packet")
	case p.raw[0] == mysql.ERR_HEADER:
		return Part{}, false, s.conn.HandleErrorPacket(p.raw)
	case p.raw[0] != mysql.OK_HEADER:
		return Part{}, false, errors.New("the server has ended the binary log")
	}
	e, isMarked, waits := cutSemiSync(p.raw[1:])
	if s.isMarked = isMarked; waits {
		// The server begins to count the packets again. See readSlaveReply in plugin/semisync/semisync_source.cc of MySQL.
		s.conn.Sequence = 1
	}
	part, ok, err = s.parsePart(e)
	if part.IsMarked = isMarked; waits && part.IsEnd {
		part.Waits = s.position(e)
	}
	return part, ok, err
}

func (s *Stream) readState() error {
	_ = s.conn.SetDeadline(time.Now().Add(loginTime))
	r, err := s.conn.Execute("SELECT @@server_uuid, @@gtid_executed, @@gtid_purged, @@gtid_mode, @@log_bin, " +
		"@@binlog_expire_logs_seconds, @@server_id, " +
		// UNIX_TIMESTAMP(NOW(6)) would be wrong in the hour in which the daylight saving time of the server ends.
		"TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))")
	if err != nil {
		return fmt.Errorf("cannot read the state of the binary log: %w", err)
	}
	defer r.Close()
	text := make([]string, 7)
	for k := range text {
		if text[k], err = r.GetString(0, k); err != nil {
			return fmt.Errorf("cannot read the state of the binary log: %w", err)
		}
	}
	expire, err := r.GetInt(0, 5)
	if err == nil {
		s.State.Now, err = r.GetUint(0, 7)
	}
	if err != nil {
		return fmt.Errorf("cannot read the state of the binary log: %w", err)
	}
	s.State.ServerUUID = text[0]
	if s.State.ExpireAfter, err = s.readExpiry(expire); err != nil {
		return err
	}
	if err := s.readWaits(); err != nil {
		return err
	}
	switch {
	case text[3] != "ON":
		return fmt.Errorf("%w: gtid_mode is %s, but must be ON", ErrUnsuitable, text[3])
	case text[4] != "1":
		return fmt.Errorf("%w: log_bin is OFF", ErrUnsuitable)
	case text[6] == strconv.FormatUint(uint64(s.id), 10):
		return fmt.Errorf("%w: its server_id is %s, which is the server_id of the archiver", ErrUnsuitable, text[6])
	}
	if s.State.Executed, err = ParseSet(text[1]); err != nil {
		return err
	}
	s.State.Purged, err = ParseSet(text[2])
	return err
}

// readExpiry returns the time after which the server deletes its binary log files, or 0 if it does not delete them.
func (s *Stream) readExpiry(seconds int64) (time.Duration, error) {
	r, err := s.conn.Execute("SHOW VARIABLES LIKE 'binlog_expire_logs_auto_purge'") // Only MySQL 8.0.29 and later have it.
	if err != nil {
		return 0, fmt.Errorf("cannot read the state of the binary log: %w", err)
	}
	defer r.Close()
	if value, err := r.GetString(0, 1); err == nil && value == "OFF" {
		return 0, nil
	}
	return time.Duration(seconds) * time.Second, nil
}

// readWaits reads whether commits wait until they are acknowledged.
func (s *Stream) readWaits() error {
	r, err := s.conn.Execute("SHOW VARIABLES LIKE 'rpl_semi_sync_source_%'")
	if err != nil {
		return fmt.Errorf("cannot read the state of the binary log: %w", err)
	}
	defer r.Close()
	values := map[string]string{}
	for k := range r.RowNumber() {
		name, err1 := r.GetString(k, 0)
		value, err2 := r.GetString(k, 1)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("cannot read the state of the binary log: %w", err)
		}
		values[name] = value
	}
	s.State.CanWait = values["rpl_semi_sync_source_timeout"] == v1.CommitTimeout
	s.State.Waits = s.State.CanWait && values["rpl_semi_sync_source_enabled"] == "ON"
	return nil
}

func (s *Stream) parsePart(e event) (p Part, ok bool, err error) {
	if len(e) >= headerSize && (e.eventType() == typeHeartbeat || e.eventType() == typeHeartbeatV2) {
		return Part{}, true, nil
	}
	// The first event is an artificial rotation, which precedes the format description.
	if len(e) >= headerSize && e.eventType() == typeRotate && s.scan.rest == 0 {
		return Part{}, false, s.recordFile(e)
	}
	step, err := s.scan.nextStep(e)
	if err != nil || !step.isPart {
		return Part{}, false, err
	}
	return Part{Begin: step.begin, Raw: e, IsEnd: step.isEnd, Format: Format{s.scan.format}}, true, nil
}

// IsPurged reports whether an error means that the server has already deleted the requested transactions
// (ER_SOURCE_FATAL_ERROR_READING_BINLOG).
func IsPurged(err error) bool {
	e := new(mysql.MyError)
	return errors.As(err, &e) && e.Code == mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG
}

// IsServerError reports whether the server itself has sent an error, for example because it refused the login.
func IsServerError(err error) bool { return errors.As(err, new(*mysql.MyError)) }
