package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
)

// ReadTagged returns an object as ReadSmall does, with its ETag, by which PutIf replaces it.
func (b *Bucket) ReadTagged(ctx context.Context, key string, limit int64) (raw []byte, etag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, info, _, err := b.core.GetObject(isContent(ctx), b.bucket, b.name(key), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.explain("read", key, err)
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	raw, err = io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, "", b.explain("read", key, err)
	case int64(len(raw)) > limit:
		return nil, info.ETag, fmt.Errorf("the object %q is larger than the %d bytes that it may have", key, limit)
	}
	return raw, info.ETag, nil
}

// PutIf writes a small object over the one with this ETag or, if the ETag is empty, where there is none. The error is of Exists if
// there is another object by now. A store that does not know the condition is asked for the object first: of two clients that
// write at the same time both may succeed there, and the caller reads the object back to see whose it is.
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
	info, err := b.core.StatObject(ctx, b.bucket, b.name(key), minio.StatObjectOptions{})
	err = b.explain("look at", key, err)
	switch {
	case err != nil && (!Is(err, NotFound) || etag != ""):
		return err
	case err == nil && info.ETag != etag:
		return &Error{Kind: Exists, Verb: "write", Key: key, Err: errReplaced}
	}
	return b.Put(ctx, key, raw)
}

var errReplaced = errors.New("another client has written it")
