package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// A Finding describes what a probe has found out about a store.
type Finding struct {
	// WritesOnce is true if the store can refuse to overwrite an object.
	WritesOnce bool
	// Deletes is true if the store deletes objects. Otherwise expired backups stay in the store.
	Deletes bool
}

// absent is the suffix of a key that never exists, because no BackupStore has a name with this suffix.
const absent = "_absent"

// Probe tests all operations that backups need. It writes an object with one request and in parts, and reads, lists,
// overwrites and deletes it. It also reads an object that does not exist.
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

// holds returns an error unless an object has this content and is listed.
func (b *Bucket) holds(ctx context.Context, key string, want []byte) error {
	got, err := b.ReadSmall(ctx, key, int64(len(want)))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the store returned different content for %q than was written", key)
	}
	dir, _ := splitKey(key)
	existing, err := b.List(ctx, dir, 1000)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(existing, func(o Object) bool { return o.Key == key }) {
		return fmt.Errorf("the store does not list %q, which was written a moment ago: its lists are not consistent", key)
	}
	return nil
}

// lacks returns an error unless the store reports that an object does not exist. Without the permission to list
// objects, S3 responds to the read with "access denied" (GetObject of the S3 API).
func (b *Bucket) lacks(ctx context.Context, key string) error {
	_, err := b.ReadSmall(ctx, key, 1)
	switch {
	case Is(err, NotFound):
		return nil
	case Is(err, Denied):
		return fmt.Errorf("the credentials may not list objects (s3:ListBucket), so the store does not report that "+
			"an object is missing, and no backup could start: %w", err)
	case err != nil:
		return err
	}
	return fmt.Errorf("the store reports an object %q that was never written", key)
}

// probeUpload replaces the existing object with an upload in parts. It also starts another upload and aborts it.
func (b *Bucket) probeUpload(ctx context.Context, key string, raw []byte) error {
	for _, complete := range []bool{false, true} {
		id, err := b.BeginUpload(ctx, key)
		if err != nil {
			return err
		}
		p, err := b.PutPart(ctx, key, id, 1, bytes.NewReader(raw), int64(len(raw)), ContentMD5(raw))
		if err != nil {
			_ = b.AbortUpload(ctx, key, id) // The first error is returned.
			return err
		}
		if !complete {
			if err := b.AbortUpload(ctx, key, id); err != nil {
				return err
			}
			continue
		}
		// Some stores refuse to complete an upload if the object already exists.
		if err := b.CompleteUpload(ctx, key, id, []Part{p}); err != nil {
			_ = b.AbortUpload(ctx, key, id) // The first error is returned.
			if !Is(err, Exists) {
				return err
			}
		}
	}
	return b.holds(ctx, key, raw)
}
