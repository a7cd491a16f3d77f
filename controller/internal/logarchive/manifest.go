package logarchive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// Names of objects in a timeline.
const (
	manifestSuffix = ".json"
	// segmentSuffix and encryptedSuffix are the suffixes of segments.
	segmentSuffix   = ".binlog.zst"
	encryptedSuffix = ".age"
	headName        = "head" + manifestSuffix
	startName       = "start" + manifestSuffix
)

// A Manifest describes a segment. Times are in microseconds since 1970, by the clock of the server.
type Manifest struct {
	// Number is the position in the timeline. The first segment has number 1.
	Number int64 `json:"number"`
	// Previous is the SHA-256 checksum of the content of the previous manifest. It is empty for the first segment.
	Previous string `json:"previous,omitempty"`
	// Segment is the name of the object with the transactions. SHA256 and Size are the checksum and the size of that
	// object.
	Segment string `json:"segment"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`

	ServerUUID    string `json:"serverUUID"`
	ServerVersion string `json:"serverVersion"`
	// Start is the set of the transactions before the timeline. It is the same in all of its segments.
	Start string `json:"start"`
	// GTIDs are the transactions of the segment. Until are all transactions up to the end of the segment.
	GTIDs string `json:"gtids"`
	Until string `json:"until"`
	// FirstTime and LastTime are the earliest and the latest commit time in the segment.
	FirstTime uint64 `json:"firstTime"`
	LastTime  uint64 `json:"lastTime"`
	// BeforeTime is a time before which all transactions before the segment were committed. For the first segment, it
	// is the server's time when the timeline began. For other segments, it is MaxTime of the previous one.
	BeforeTime uint64 `json:"beforeTime"`
	// MaxTime is the latest of BeforeTime and of the commit times in the segment. SteppedAt is the number of the last
	// segment in which a transaction has an earlier time than its predecessors, or 0. A transaction may also have a time
	// for which the archive was already complete. MaxTime then includes the time up to which it was complete.
	MaxTime   uint64 `json:"maxTime"`
	SteppedAt int64  `json:"steppedAt,omitempty"`
	// Bytes is the size of the transactions before compression. TotalBytes, TotalSize and Transactions are the sums of
	// Bytes, of Size, and of the numbers of transactions, from the beginning of the timeline.
	Bytes        int64 `json:"bytes"`
	TotalBytes   int64 `json:"totalBytes"`
	TotalSize    int64 `json:"totalSize"`
	Transactions int64 `json:"transactions"`
	// LastDigest is the SHA-256 checksum of the last transaction. The archiver compares it with the server's log.
	LastDigest string `json:"lastDigest"`
	// LastGTID is the GTID of the last transaction.
	LastGTID string `json:"lastGTID"` //nolint:tagliatelle // GTID is an initialism.
}

// A Head is the content of head.json. It is only a hint for the number of the last segment, because the archiver writes
// it less often than segments.
type Head struct {
	// Number is the number of the last segment at that time. Until is a time up to which the segments contain all
	// transactions.
	Number int64  `json:"number"`
	Until  uint64 `json:"until"`
	// First is the number of the first segment that was not pruned, or 0 if none was.
	First int64 `json:"first,omitempty"`
}

var (
	sumPattern     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	segmentPattern = regexp.MustCompile(`^\d{10}-[a-z0-9]{10}\.binlog\.zst(\.age)?$`)
	timelineName   = regexp.MustCompile(`^\d{14}-[a-z0-9]{10}$`)
)

// Digest returns the SHA-256 checksum of a manifest as it is in the store.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func numberText(number int64) string { return fmt.Sprintf("%010d", number) }

// timelineTime is the format of the time in the name of a timeline.
const timelineTime = "20060102150405"

// A Timeline identifies a timeline by its prefix in the bucket.
type Timeline struct{ Prefix string }

// newTimeline returns a timeline that begins now. Its name follows the name of the newest timeline even if the clock
// does not, because the order of the names is the order of the timelines.
func newTimeline(log string, newest Timeline, now time.Time, random string) Timeline {
	if last, err := newest.Begun(); err == nil && !now.After(last.Add(time.Second)) {
		now = last.Add(time.Second)
	}
	return Timeline{path.Join(log, now.UTC().Format(timelineTime)+"-"+random)}
}

// Begun returns the time at which the timeline began.
func (t Timeline) Begun() (time.Time, error) {
	text, _, _ := strings.Cut(t.Name(), "-")
	return time.Parse(timelineTime, text)
}

// Name returns the name of the timeline, which is the last part of the prefix.
func (t Timeline) Name() string { return path.Base(t.Prefix) }

// ManifestKey returns the key in the bucket of the manifest of a segment.
func (t Timeline) ManifestKey(number int64) string {
	return path.Join(t.Prefix, numberText(number)+manifestSuffix)
}

// SegmentKey returns the key in the bucket of the object with the transactions of a segment.
func (t Timeline) SegmentKey(m *Manifest) string { return path.Join(t.Prefix, m.Segment) }

func (t Timeline) headKey() string { return path.Join(t.Prefix, headName) }

func (t Timeline) startKey() string { return path.Join(t.Prefix, startName) }

// numberOf returns the number of the manifest with this key, or false for other objects.
func numberOf(key string) (int64, bool) {
	text, ok := strings.CutSuffix(path.Base(key), manifestSuffix)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil && n > 0 && text == numberText(n)
}

// openManifest verifies the signature of a manifest with the signing key of the store, and checks its fields.
func openManifest(k store.SigningKey, t Timeline, number int64, raw []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := k.Open(t.ManifestKey(number), raw, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := m.checkFields(number); err != nil {
		return nil, fmt.Errorf("%w: the manifest of segment %d is wrong: %w", ErrDamaged, number, err)
	}
	return m, nil
}

// ParseTrusted parses a manifest whose checksum the caller has verified.
func ParseTrusted(raw []byte, number int64) (*Manifest, error) {
	m := &Manifest{}
	if err := store.ParseTrusted(raw, m); err != nil {
		return nil, err
	}
	return m, m.checkFields(number)
}

// BeforeSegment returns the set of all transactions before the segment.
func (m *Manifest) BeforeSegment() (binlog.Set, error) {
	set, err1 := binlog.ParseSet(m.GTIDs)
	until, err2 := binlog.ParseSet(m.Until)
	return until.Without(set), errors.Join(err1, err2)
}

// MakesAmbiguous reports whether the clock of the server went backwards in the segment, so that transactions before and
// after a time are not in the order of their times.
func (m *Manifest) MakesAmbiguous(micros uint64) bool {
	return m.SteppedAt == m.Number && micros >= m.FirstTime && micros < m.MaxTime
}

// IsEncrypted reports whether the segment is encrypted with age.
func (m *Manifest) IsEncrypted() bool { return strings.HasSuffix(m.Segment, encryptedSuffix) }

// checkFields returns an error if the fields of a manifest contradict each other.
func (m *Manifest) checkFields(number int64) error {
	set, err1 := binlog.ParseSet(m.GTIDs)
	until, err2 := binlog.ParseSet(m.Until)
	_, err3 := binlog.ParseSet(m.Start)
	last, err4 := binlog.ParseGTID(m.LastGTID)
	switch {
	case m.Number != number:
		return fmt.Errorf("it has number %d", m.Number)
	case (m.Previous == "") != (number == 1) || m.Previous != "" && !sumPattern.MatchString(m.Previous):
		return errors.New("it does not identify the previous segment")
	case !segmentPattern.MatchString(m.Segment) || !sumPattern.MatchString(m.SHA256) ||
		!strings.HasPrefix(m.Segment, numberText(number)):
		return errors.New("it does not identify its segment")
	case errors.Join(err1, err2, err3, err4) != nil:
		return errors.Join(err1, err2, err3, err4)
	case set.IsEmpty() || !until.Contains(set) || !set.Has(last):
		return errors.New("its GTIDs contradict each other")
	}
	return nil
}
