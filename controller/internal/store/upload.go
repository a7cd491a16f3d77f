package store

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// MaxParts of an upload: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html.
	MaxParts = 10_000
	// minPart in bytes of all parts but the last.
	minPart = 5 << 20
)

// A Part of an object that has been sent.
type Part struct {
	Number int    `json:"number"`
	ETag   string `json:"etag"`
}

// BeginUpload of an object in parts. Nobody sees it before it is complete.
func (b *Bucket) BeginUpload(ctx context.Context, key string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	id, err = b.core.NewMultipartUpload(ctx, b.bucket, b.name(key), minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return id, b.explain("write", key, err)
}

// PutPart of an upload, with its ContentMD5 as far as that is known. It is sent once; a part that is sent again takes the earlier one's
// place.
func (b *Bucket) PutPart(ctx context.Context, key, id string, number int, body io.Reader, size int64, md5 string) (Part, error) {
	ctx, w := watchStall(ctx, b.stall)
	defer w.end()
	p, err := b.core.PutObjectPart(ctx, b.bucket, b.name(key), id, number, moving{body, w}, size, minio.PutObjectPartOptions{Md5Base64: md5})
	return Part{Number: number, ETag: p.ETag}, b.explain("write", key, w.cause(err))
}

// CompleteUpload makes the object of its parts. The error is of Exists where there is one of its name already, if the store
// knows how to tell, and of NoUpload where the upload is unknown: ended, or complete.
func (b *Bucket) CompleteUpload(ctx context.Context, key, id string, parts []Part) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	ps := make([]minio.CompletePart, 0, len(parts))
	for _, p := range parts {
		ps = append(ps, minio.CompletePart{PartNumber: p.Number, ETag: p.ETag})
	}
	// S3 puts the parts together before it answers, and says nothing meanwhile but spaces.
	ctx, cancel := context.WithTimeout(ctx, 5*answerTimeout)
	defer cancel()
	_, err := b.core.CompleteMultipartUpload(ctx, b.bucket, b.name(key), id, ps, o)
	return b.explain("write", key, err)
}

// AbortUpload removes what was sent. One that is unknown is no error.
func (b *Bucket) AbortUpload(ctx context.Context, key, id string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := b.explain("end the upload of", key, b.core.AbortMultipartUpload(ctx, b.bucket, b.name(key), id))
	if Is(err, NoUpload) || Is(err, NotFound) {
		return nil
	}
	return err
}

// An Upload that is not complete.
type Upload struct {
	Key, ID string
	Begun   time.Time
}

// Uploads below a folder that are not complete, and so many at most.
func (b *Bucket) Uploads(ctx context.Context, folder string, limit int) ([]Upload, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	found := b.core.ListIncompleteUploads(ctx, b.bucket, b.name(folder)+"/", true)
	defer endListing(cancel, found)
	out := []Upload{}
	for u := range found {
		if u.Err != nil {
			return nil, b.explain("list the uploads below", folder, u.Err)
		}
		key, ok := b.key(u.Key)
		switch {
		case !ok:
			return nil, fmt.Errorf("the store lists an upload of %.200q below %q", u.Key, b.name(folder))
		case len(out) == limit:
			return out, nil
		}
		out = append(out, Upload{Key: key, ID: u.UploadID, Begun: u.Initiated})
	}
	return out, ctx.Err()
}
