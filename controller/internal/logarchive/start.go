package logarchive

import (
	"context"
	"errors"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A Start is the state of a server when a timeline began. Without it, an idle server would get another timeline, and
// therefore another backup, each time the archiver connects.
type Start struct {
	ServerUUID string `json:"serverUUID"`
	// Executed are the transactions before the timeline. Purged are those that the server had deleted from its log.
	Executed string `json:"executed"`
	Purged   string `json:"purged"`
	// Now is the server's time in microseconds since 1970.
	Now uint64 `json:"now"`
	// Gap is the reason why the timeline is new. It is reported until the timeline has a segment.
	Gap string `json:"gap"`
}

// writeStart stores start.json: the state of the server when the new timeline begins.
func (s *session) writeStart(ctx context.Context) error {
	key := s.line.startKey()
	raw, err := s.Key.Sign(key, Start{ServerUUID: s.state.ServerUUID, Executed: s.state.Executed.String(),
		Purged: s.state.Purged.String(), Now: s.state.Now, Gap: s.gap})
	if err != nil {
		return err
	}
	return s.putOnce(ctx, key, raw)
}

// resumeStart continues the newest timeline if it has no segment yet and the server has no new transactions. It returns
// false if this is not possible. With new transactions, the archiver could not know whether the log was reset, because
// it has no transaction to compare. A reset empties gtid_purged, too.
func (s *session) resumeStart(ctx context.Context) (bool, error) {
	if s.newest.Prefix == "" || s.last != nil && s.last.Timeline == s.newest {
		return false, nil
	}
	key, found := s.newest.startKey(), Start{}
	raw, err := s.Bucket.ReadSmall(ctx, key, store.MaxSigned)
	if store.Is(err, store.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = s.Key.Open(key, raw, &found)
	executed, err1 := binlog.ParseSet(found.Executed)
	purged, err2 := binlog.ParseSet(found.Purged)
	if errors.Join(err, err1, err2) != nil || found.ServerUUID != s.state.ServerUUID || !executed.Equal(s.state.Executed) ||
		!s.state.Purged.Contains(purged) {
		return false, nil //nolint:nilerr // A damaged start has no transactions, so another timeline begins.
	}
	s.line, s.last, s.start, s.until = s.newest, nil, executed, executed.Clone()
	s.state.Now, s.gap = found.Now, found.Gap
	return true, nil
}
