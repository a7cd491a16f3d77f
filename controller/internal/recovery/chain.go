package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A Source reads manifests and segments of an archived binary log from a store.
type Source interface {
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// Decrypt returns a reader of the decrypted content of an object. raw is the object's encrypted content.
	Decrypt(ctx context.Context, key string, raw io.Reader) (io.Reader, error)
}

// A Log is the part of an archived binary log that a recovery reads: a timeline up to its segment Last. The controller
// has verified the signature of that segment's manifest.
type Log struct {
	Timeline logarchive.Timeline
	// Last is the number of the last segment, and Digest the checksum of its manifest.
	Last   int64
	Digest string
	// Until is a time up to which the segments contain all transactions, in microseconds since 1970.
	Until uint64
}

// readChain returns the manifests with the transactions that the backup (base) does not contain, in the order of the
// log. It reads them from the last one backwards. Each contains the checksum of the previous one, so no signature is
// needed.
func (l Log) readChain(ctx context.Context, s Source, base binlog.Set) ([]logarchive.Manifest, error) {
	backwards := []logarchive.Manifest{}
	digest := l.Digest
	for n := l.Last; n > 0; n-- {
		raw, err := readAll(ctx, s, l.Timeline.ManifestKey(n))
		if err != nil {
			return nil, err
		}
		if got := logarchive.Digest(raw); got != digest {
			return nil, exit.Damaged("the manifest of segment %d was replaced: its checksum is %s, but the next manifest "+
				"says %s", n, got, digest)
		}
		m, err := logarchive.ParseTrusted(raw, n)
		if err != nil {
			return nil, exit.Damaged("segment %d: %w", n, err)
		}
		backwards = append(backwards, *m)
		digest = m.Previous
		if before, err := m.BeforeSegment(); err != nil || base.Contains(before) {
			if err != nil {
				return nil, exit.Damaged("segment %d: %w", n, err)
			}
			break
		}
	}
	out := make([]logarchive.Manifest, 0, len(backwards))
	for i := len(backwards) - 1; i >= 0; i-- {
		out = append(out, backwards[i])
	}
	return out, checkOrder(out)
}

// checkOrder returns an error unless the GTIDs of each segment continue the GTIDs of the previous segment.
func checkOrder(all []logarchive.Manifest) error {
	for i := 1; i < len(all); i++ {
		before, err1 := all[i].BeforeSegment()
		until, err2 := binlog.ParseSet(all[i-1].Until)
		if err1 != nil || err2 != nil || !before.Equal(until) {
			return exit.Damaged("segment %d does not continue segment %d", all[i].Number, all[i-1].Number)
		}
	}
	return nil
}

// openObject opens an object of the archive.
func openObject(ctx context.Context, s Source, key string) (io.ReadCloser, error) {
	r, err := s.Open(ctx, key)
	switch {
	case store.Is(err, store.NotFound):
		return nil, exit.With(agent.ExitMissing, "%s does not exist, but a later part of the archived log refers to it: "+
			"restore it, or use a later backup", key)
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", key, err)
	}
	return r, nil
}

func readAll(ctx context.Context, s Source, key string) ([]byte, error) {
	r, err := openObject(ctx, s, key)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(io.LimitReader(r, store.MaxSigned+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", key, err)
	}
	if !json.Valid(raw) {
		return nil, exit.Damaged("%s is not a manifest", key)
	}
	return raw, nil
}
