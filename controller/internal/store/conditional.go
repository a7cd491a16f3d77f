package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
)

// ReadTagged returns the content of an object like ReadSmall. It also returns the object's ETag for PutIf.
func (b *Bucket) ReadTagged(ctx context.Context, key string, limit int64) (raw []byte, etag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	core, err := b.connect(ctx)
	if err != nil {
		return nil, "", b.explain("read", key, err)
	}
	body, info, _, err := core.GetObject(isContent(ctx), b.bucket, b.name(key), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.explain("read", key, err)
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	raw, err = io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, "", b.explain("read", key, err)
	case int64(len(raw)) > limit:
		return nil, info.ETag, fmt.Errorf("the object %q is larger than the maximum of %d bytes", key, limit)
	}
	return raw, info.ETag, nil
}

// PutIf writes a small object if the existing object has this ETag. If the ETag is empty, no object may exist. PutIf
// returns an Exists error if another client has written the object. If the store does not support the condition,
// PutIf checks the object before the write. Two concurrent clients may then both succeed, so the caller must read the
// object back to see which write was last.
func (b *Bucket) PutIf(ctx context.Context, key string, raw []byte, etag string) error {
	var o minio.PutObjectOptions
	if etag == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(etag)
	}
	err := b.putSmall(ctx, key, raw, o)
	if !Is(err, Unsupported) {
		return err
	}
	info, err := b.stat(ctx, key)
	switch {
	case err != nil && (!Is(err, NotFound) || etag != ""):
		return err
	case err == nil && info.ETag != etag:
		return &Error{Kind: Exists, Verb: "write", Key: key, Err: errReplaced}
	}
	return b.Put(ctx, key, raw)
}

var errReplaced = errors.New("another client has written it")
