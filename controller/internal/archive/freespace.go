package archive

import (
	"context"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

const mebi = 1 << 20

// What is left free on a volume, and what an entry takes besides its content.
const (
	slackBytes = 4 << 20
	entryBytes = 4096
)

// samples of the data, each a chunk, that are compressed to estimate the whole.
const samples = 64

// checkSpace fails if the archive certainly does not fit on its volume. Where the data
// would fit even as it is, there is nothing to find out; otherwise samples from
// all of it say how far it can be compressed. The estimate may be a quarter too
// high before it counts.
func (t tree) checkSpace(ctx context.Context, root *os.Root, outline Contents) error {
	have, err := freeSpace(root)
	if err != nil {
		return err
	}
	if outline.DataBytes+outline.Entries*entryBytes+slackBytes <= have {
		return nil
	}
	ratio, err := t.sampleRatio(ctx, outline.DataBytes)
	if err != nil {
		return err
	}
	need := int64(float64(outline.DataBytes)*ratio) + outline.Entries*100
	if need-need/4 <= have {
		return nil
	}
	why := fmt.Errorf("the backup needs about %d MiB, and its volume has %d MiB free", need/mebi+1, have/mebi)
	return &agent.ExitError{Code: agent.ExitNoSpace, Err: why, Lacks: need - have}
}

// sampleRatio says how much smaller the data becomes: 1 is not at all.
func (t tree) sampleRatio(ctx context.Context, total int64) (float64, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(chunkSize))
	if err != nil {
		return 0, err
	}
	defer encoder.Close() //nolint:errcheck // It writes nowhere.
	raw, packed := make([]byte, chunkSize), []byte(nil)
	seen, became, position, next := 0, 0, int64(0), int64(0)
	err = t.walkEntries(ctx, func(e *entry) error {
		if !e.mode.IsRegular() {
			return nil
		}
		for ; next < position+e.size; next += max(total/samples, chunkSize) {
			n, err := t.peekAt(e, raw, next-position)
			if err != nil {
				return err
			}
			packed = encoder.EncodeAll(raw[:n], packed[:0])
			seen, became = seen+n, became+len(packed)
		}
		position += e.size
		return nil
	})
	if err != nil || seen == 0 {
		return 1, err
	}
	return float64(became) / float64(seen), nil
}

func (t tree) peekAt(e *entry, raw []byte, at int64) (int, error) {
	f, err := t.openEntry(e)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	n, err := f.ReadAt(raw, at)
	if n > 0 {
		return n, nil
	}
	return 0, err
}
