package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// A Finding of a probe.
type Finding struct {
	// WritesOnce is true of a store that refuses to write over an object where it is asked to.
	WritesOnce bool
	// Deletes is true of a store that deletes objects. Where it does not, what is too old stays.
	Deletes bool
}

// absent is what the key of an object ends with that is not there: no name of a BackupStore does.
const absent = "_absent"

// Probe does to one object what is done to backups: write it at once and in parts, read it, list it, write it
// again, and delete it; and read one that is not there.
func (b *Bucket) Probe(ctx context.Context, key string, raw []byte) (Finding, error) {
	var found Finding
	if err := b.Put(ctx, key, raw); err != nil {
		return found, err
	}
	if err := b.holds(ctx, key, raw); err != nil {
		return found, err
	}
	if err := b.lacks(ctx, key+absent); err != nil {
		return found, err
	}
	err := b.PutOnce(ctx, key, raw)
	found.WritesOnce = Is(err, Exists)
	if err != nil && !found.WritesOnce && !Is(err, Unsupported) {
		return found, err
	}
	if err := b.probeUpload(ctx, key, raw); err != nil {
		return found, err
	}
	err = b.Delete(ctx, key)
	found.Deletes = err == nil
	if err != nil && !Is(err, Denied) {
		return found, err
	}
	return found, nil
}

// holds is nil if an object has that content, and is listed where it is.
func (b *Bucket) holds(ctx context.Context, key string, want []byte) error {
	got, err := b.ReadSmall(ctx, key, int64(len(want)))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the store has other bytes in %q than were written", key)
	}
	folder, _ := splitKey(key)
	there, err := b.List(ctx, folder, 1000)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(there, func(o Object) bool { return o.Key == key }) {
		return fmt.Errorf("the store does not list %q, which was written a moment ago: it is not consistent enough", key)
	}
	return nil
}

// lacks is nil if the store says of an object that there is none. One whose credentials may not list it says that they may not read it
// (GetObject of the S3 API).
func (b *Bucket) lacks(ctx context.Context, key string) error {
	_, err := b.ReadSmall(ctx, key, 1)
	switch {
	case Is(err, NotFound):
		return nil
	case Is(err, Denied):
		return fmt.Errorf("the store does not say of what is not there that it is not there, as the credentials may not list it (s3:ListBucket), so that no backup could begin: %w", err)
	case err != nil:
		return err
	}
	return fmt.Errorf("the store has an object %q, which nobody has written", key)
}

// probeUpload writes the object in parts, over what is there, and ends another upload before its end.
func (b *Bucket) probeUpload(ctx context.Context, key string, raw []byte) error {
	for _, complete := range []bool{false, true} {
		id, err := b.BeginUpload(ctx, key)
		if err != nil {
			return err
		}
		p, err := b.PutPart(ctx, key, id, 1, bytes.NewReader(raw), int64(len(raw)), ContentMD5(raw))
		if err != nil {
			_ = b.AbortUpload(ctx, key, id) // The error is what counts.
			return err
		}
		if !complete {
			if err := b.AbortUpload(ctx, key, id); err != nil {
				return err
			}
			continue
		}
		// It may be refused, as there is an object.
		if err := b.CompleteUpload(ctx, key, id, []Part{p}); err != nil {
			_ = b.AbortUpload(ctx, key, id) // As above.
			if !Is(err, Exists) {
				return err
			}
		}
	}
	return b.holds(ctx, key, raw)
}
