package store

import (
	"context"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
)

const (
	// MaxParts is the maximum number of parts: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html.
	MaxParts = 10_000
	// minPart is the minimum size in bytes of all parts except the last.
	minPart = 5 << 20
)

// A Part is an uploaded part of an object.
type Part struct {
	Number int    `json:"number"`
	ETag   string `json:"etag"`
}

// BeginUpload starts an upload in parts. The object is invisible until the upload is complete.
func (b *Bucket) BeginUpload(ctx context.Context, key string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	core, err := b.connect(ctx)
	if err == nil {
		id, err = core.NewMultipartUpload(ctx, b.bucket, b.name(key),
			minio.PutObjectOptions{ContentType: "application/octet-stream"})
	}
	return id, b.explain("write", key, err)
}

// PutPart uploads a part. It does not retry, and sends ContentMD5 if the checksum is known. A later upload of the
// same part replaces it.
func (b *Bucket) PutPart(ctx context.Context, key, id string, number int, body io.Reader, size int64, md5 string) (Part,
	error) {
	core, err := b.connect(ctx)
	if err != nil {
		return Part{}, b.explain("write", key, err)
	}
	ctx, w := watchStall(ctx, b.stall)
	defer w.end()
	p, err := core.PutObjectPart(ctx, b.bucket, b.name(key), id, number, moving{body, w}, size,
		minio.PutObjectPartOptions{Md5Base64: md5})
	return Part{Number: number, ETag: p.ETag}, b.explain("write", key, w.cause(err))
}

// CompleteUpload creates the object from its parts. It returns an Exists error if an object with this name exists and
// the store detects that. It returns a NoUpload error if the upload is unknown, aborted, or already complete.
func (b *Bucket) CompleteUpload(ctx context.Context, key, id string, parts []Part) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	ps := make([]minio.CompletePart, 0, len(parts))
	for _, p := range parts {
		ps = append(ps, minio.CompletePart{PartNumber: p.Number, ETag: p.ETag})
	}
	// S3 combines the parts before it sends the result. Meanwhile it sends only spaces.
	ctx, cancel := context.WithTimeout(ctx, 5*answerTimeout)
	defer cancel()
	core, err := b.connect(ctx)
	if err == nil {
		_, err = core.CompleteMultipartUpload(ctx, b.bucket, b.name(key), id, ps, o)
	}
	return b.explain("write", key, err)
}

// AbortUpload deletes the uploaded parts. It returns no error if the upload is unknown.
func (b *Bucket) AbortUpload(ctx context.Context, key, id string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	core, err := b.connect(ctx)
	if err == nil {
		err = core.AbortMultipartUpload(ctx, b.bucket, b.name(key), id)
	}
	err = b.explain("abort the upload of", key, err)
	if Is(err, NoUpload) || Is(err, NotFound) {
		return nil
	}
	return err
}

// An Upload is an incomplete upload.
type Upload struct {
	Key, ID string
}

// Uploads returns incomplete uploads below a prefix, up to the limit.
func (b *Bucket) Uploads(ctx context.Context, dir string, limit int) ([]Upload, error) {
	core, err := b.connect(ctx)
	if err != nil {
		return nil, b.explain("list the uploads below", dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	found := core.ListIncompleteUploads(ctx, b.bucket, b.name(dir)+"/", true)
	defer endListing(cancel, found)
	out := []Upload{}
	for u := range found {
		if u.Err != nil {
			return nil, b.explain("list the uploads below", dir, u.Err)
		}
		key, ok := b.key(u.Key)
		switch {
		case !ok:
			return nil, fmt.Errorf("the store listed an upload of %.200q, which is not below %q", u.Key, b.name(dir))
		case len(out) == limit:
			return out, nil
		}
		out = append(out, Upload{Key: key, ID: u.UploadID})
	}
	return out, ctx.Err()
}
