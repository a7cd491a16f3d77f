package logarchive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// partSize is the size in bytes up to which a segment stays in memory. A segment with a large transaction is sent
	// in parts of this size.
	partSize = 8 << 20
	// window is the size of the compression window in bytes. It determines the memory of each archiver.
	window = 1 << 20
)

// A bucket stores the objects of an archive. *store.Bucket implements it, and tests use a fake.
type bucket interface { //nolint:interfacebloat // A fake of the tests has all of them.
	ReadSmall(ctx context.Context, key string, limit int64) ([]byte, error)
	Put(ctx context.Context, key string, raw []byte) error
	PutIf(ctx context.Context, key string, raw []byte, etag string) error
	BeginUpload(ctx context.Context, key string) (string, error)
	PutPart(ctx context.Context, key, id string, number int, body io.Reader, size int64, md5 string) (store.Part, error)
	CompleteUpload(ctx context.Context, key, id string, parts []store.Part) error
	AbortUpload(ctx context.Context, key, id string) error
	Find(ctx context.Context, dir string, limit int, isWanted func(key string) bool) ([]store.Object, bool, error)
	Prefixes(ctx context.Context, dir string, limit int) ([]string, error)
	Delete(ctx context.Context, key string) error
	Stat(ctx context.Context, key string) (store.Object, error)
}

// An upload writes one object. Small objects stay in memory until createObject.
type upload struct {
	ctx    context.Context //nolint:containedctx // An upload is one request.
	bucket bucket
	key    string

	// isInMemory is true if createObject stores nothing, because the content becomes a part of another object.
	isInMemory bool

	buffer bytes.Buffer
	sum    hash.Hash
	size   int64
	id     string
	parts  []store.Part
}

func newUpload(ctx context.Context, b bucket, key string) *upload {
	return &upload{ctx: ctx, bucket: b, key: key, sum: sha256.New()}
}

// newMemoryUpload returns an upload that only computes the content of the object.
func newMemoryUpload() *upload { return &upload{isInMemory: true, sum: sha256.New()} }

// Write adds bytes to the object, and sends each full part to the bucket.
func (u *upload) Write(p []byte) (int, error) {
	u.sum.Write(p)
	u.size += int64(len(p))
	u.buffer.Write(p)
	for u.buffer.Len() > partSize {
		if err := u.sendPart(u.buffer.Next(partSize)); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (u *upload) sendPart(raw []byte) (err error) {
	if u.id == "" {
		if u.id, err = u.bucket.BeginUpload(u.ctx, u.key); err != nil {
			return err
		}
	}
	p, err := u.bucket.PutPart(u.ctx, u.key, u.id, len(u.parts)+1, bytes.NewReader(raw), int64(len(raw)),
		store.ContentMD5(raw))
	u.parts = append(u.parts, p)
	return err
}

// createObject stores the object, either with a single request or by completing the upload of its parts.
func (u *upload) createObject(ctx context.Context) error {
	if u.isInMemory {
		return nil
	}
	if u.id == "" {
		return u.bucket.Put(ctx, u.key, u.buffer.Bytes())
	}
	if err := u.sendPart(u.buffer.Bytes()); err != nil {
		return err
	}
	err := u.bucket.CompleteUpload(ctx, u.key, u.id, u.parts)
	if err == nil {
		u.id = ""
	}
	return err
}

// deleteParts aborts the upload, so that the store deletes the parts that were sent.
func (u *upload) deleteParts(ctx context.Context) {
	if u.id != "" {
		_ = u.bucket.AbortUpload(ctx, u.key, u.id) // The store's own rules delete the parts later.
	}
}

// A segment collects transactions, compresses and encrypts them, and uploads them until it is published.
type segment struct {
	manifest Manifest
	set      binlog.Set
	format   binlog.Format
	// known is a time up to which the previous segments were known to contain all transactions.
	known uint64

	upload    *upload
	encrypted io.WriteCloser
	packed    *zstd.Encoder
	file      *binlog.Writer
	digest    hash.Hash
}

// newSegment begins a segment after the previous one, which may be nil.
func newSegment(u *upload, f binlog.Format, before binlog.Set, recipients []age.Recipient) (*segment, error) {
	s := &segment{set: binlog.Set{}, format: f, upload: u, encrypted: nopCloser{u}, digest: sha256.New()}
	var err error
	if len(recipients) > 0 {
		if s.encrypted, err = age.Encrypt(u, recipients...); err != nil {
			return nil, err
		}
	}
	s.packed, err = zstd.NewWriter(s.encrypted, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window),
		zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	s.file, err = f.NewFile(s.packed, before)
	return s, err
}

type nopCloser struct{ io.Writer }

// Close does nothing, because the upload is finished by createObject.
func (nopCloser) Close() error { return nil }

// addPart appends a part of a transaction to the segment.
func (s *segment) addPart(p binlog.Part) error {
	if b := p.Begin; b != nil {
		s.digest.Reset()
		s.set.Add(b.GTID)
		m := &s.manifest
		if m.FirstTime == 0 || b.Time < m.FirstTime {
			m.FirstTime = b.Time
		}
		if b.Time < max(m.MaxTime, s.known) {
			m.SteppedAt, m.MaxTime = m.Number, max(m.MaxTime, s.known)
		}
		m.LastTime, m.MaxTime, m.LastGTID = max(m.LastTime, b.Time), max(m.MaxTime, b.Time), b.GTID.String()
		m.Transactions++
	}
	s.digest.Write(p.Raw)
	_, err := s.file.Write(p.Raw)
	return err
}

// finishSegment writes the end of the segment, and fills its manifest.
func (s *segment) finishSegment(ctx context.Context) error {
	if err := s.packed.Close(); err != nil {
		return err
	}
	if err := s.encrypted.Close(); err != nil {
		return err
	}
	if err := s.upload.createObject(ctx); err != nil {
		return err
	}
	m := &s.manifest
	m.SHA256, m.Size = hex.EncodeToString(s.upload.sum.Sum(nil)), s.upload.size
	m.Bytes = s.file.Bytes
	m.TotalBytes += m.Bytes
	m.TotalSize += m.Size
	m.GTIDs, m.LastDigest = s.set.String(), hex.EncodeToString(s.digest.Sum(nil))
	return nil
}
