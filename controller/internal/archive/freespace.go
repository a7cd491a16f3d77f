package archive

import (
	"context"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

const mebi = 1 << 20

// slackBytes is the space in bytes that must remain free on a volume. entryBytes is the estimated space for an
// entry's metadata.
const (
	slackBytes = 4 << 20
	entryBytes = 4096
)

// samples is the maximum number of chunks of the data directory that are compressed to estimate the compression ratio.
const samples = 64

// checkSpace returns an error if the archive certainly does not fit on its volume. It compresses samples only if the
// uncompressed data would not fit. It accepts an estimate that exceeds the free space by up to a third, because the
// estimate may be too high.
func (t tree) checkSpace(ctx context.Context, root *os.Root, outline Contents) error {
	free, err := freeSpace(root)
	if err != nil {
		return err
	}
	if outline.DataBytes+outline.Entries*entryBytes+slackBytes <= free {
		return nil
	}
	ratio, err := t.sampleRatio(ctx, outline.DataBytes)
	if err != nil {
		return err
	}
	need := int64(float64(outline.DataBytes)*ratio) + outline.Entries*100
	if need-need/4 <= free {
		return nil
	}
	cause := fmt.Errorf("the backup needs about %d MiB, but its volume has only %d MiB free", need/mebi+1, free/mebi)
	return &agent.ExitError{Code: agent.ExitNoSpace, Err: cause, Lacks: need - free}
}

// sampleRatio estimates the compressed size as a fraction of the data: 1 means that the data does not compress.
func (t tree) sampleRatio(ctx context.Context, total int64) (float64, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(chunkSize))
	if err != nil {
		return 0, err
	}
	defer encoder.Close() //nolint:errcheck // The encoder has no output file.
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

func (t tree) peekAt(e *entry, raw []byte, offset int64) (int, error) {
	f, err := t.openEntry(e)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	n, err := f.ReadAt(raw, offset)
	if n > 0 {
		return n, nil
	}
	return 0, err
}
