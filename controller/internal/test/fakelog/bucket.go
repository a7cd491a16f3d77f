package fakelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// Objects are the objects of a bucket in memory.
type Objects struct {
	mu      sync.Mutex
	content map[string][]byte
	uploads map[string]map[int][]byte
	counter int
}

// NewObjects returns an empty bucket.
func NewObjects() *Objects {
	return &Objects{content: map[string][]byte{}, uploads: map[string]map[int][]byte{}}
}

// Keys returns the keys of all objects.
func (o *Objects) Keys() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.content))
}

// Get returns the content of an object, or nil.
func (o *Objects) Get(key string) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.content[key]
}

// Set replaces an object, or deletes it if the content is nil.
func (o *Objects) Set(key string, raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.content[key] = raw; raw == nil {
		delete(o.content, key)
	}
}

// Clone returns a copy of the bucket's objects.
func (o *Objects) Clone() *Objects {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &Objects{content: maps.Clone(o.content), uploads: map[string]map[int][]byte{}}
}

// A Fault is a simulated fault of a request.
type Fault struct {
	// Fails is true if the client gets an error. IsDone is true if the request has its effect nevertheless. The effect
	// occurs after Delay.
	Fails, IsDone bool
	Delay         time.Duration
	// Crashes is true if the client process ends at this request.
	Crashes bool
}

// A Bucket is a client of a bucket in memory. It implements the interface bucket of package logarchive.
type Bucket struct {
	*Objects

	// Inject returns the fault of a request. It may be nil.
	Inject func(verb, key string) Fault
	// IsDead is true after a crash.
	IsDead bool
}

var errInjected = &store.Error{Kind: store.Busy, Verb: "use", Err: errors.New("an injected error")}

func missing(verb, key string) error {
	return &store.Error{Kind: store.NotFound, Verb: verb, Key: key, Err: errors.New("no such key")}
}

// ReadSmall implements the interface bucket of package logarchive.
func (b *Bucket) ReadSmall(ctx context.Context, key string, _ int64) (out []byte, err error) {
	err = b.run(ctx, "read", key, func() error {
		raw, ok := b.content[key]
		if !ok {
			return missing("read", key)
		}
		out = slices.Clone(raw)
		return nil
	})
	return out, err
}

// Put implements the interface bucket of package logarchive.
func (b *Bucket) Put(ctx context.Context, key string, raw []byte) error {
	raw = slices.Clone(raw)
	return b.run(ctx, "put", key, func() error {
		b.content[key] = raw
		return nil
	})
}

// PutIf implements the interface bucket of package logarchive. The ETag must be empty.
func (b *Bucket) PutIf(ctx context.Context, key string, raw []byte, _ string) error {
	raw = slices.Clone(raw)
	return b.run(ctx, "putIf", key, func() error {
		if _, ok := b.content[key]; ok {
			return &store.Error{Kind: store.Exists, Verb: "write", Key: key, Err: errors.New("it exists")}
		}
		b.content[key] = raw
		return nil
	})
}

// BeginUpload implements the interface bucket of package logarchive.
func (b *Bucket) BeginUpload(ctx context.Context, key string) (id string, err error) {
	err = b.run(ctx, "begin", key, func() error {
		b.counter++
		id = fmt.Sprint("upload-", b.counter)
		b.uploads[id] = map[int][]byte{}
		return nil
	})
	return id, err
}

// PutPart implements the interface bucket of package logarchive.
func (b *Bucket) PutPart(ctx context.Context, key, id string, number int, body io.Reader, size int64,
	_ string) (store.Part, error) {
	raw, err := io.ReadAll(body)
	if err != nil || int64(len(raw)) != size {
		return store.Part{}, fmt.Errorf("%d bytes instead of %d: %w", len(raw), size, err)
	}
	return store.Part{Number: number}, b.run(ctx, "part", key, func() error {
		if b.uploads[id] == nil {
			return missing("part", key)
		}
		b.uploads[id][number] = raw
		return nil
	})
}

// CompleteUpload implements the interface bucket of package logarchive.
func (b *Bucket) CompleteUpload(ctx context.Context, key, id string, parts []store.Part) error {
	return b.run(ctx, "complete", key, func() error {
		raw := []byte{}
		for _, p := range parts {
			raw = append(raw, b.uploads[id][p.Number]...)
		}
		b.content[key] = raw
		delete(b.uploads, id)
		return nil
	})
}

// AbortUpload implements the interface bucket of package logarchive.
func (b *Bucket) AbortUpload(ctx context.Context, key, id string) error {
	return b.run(ctx, "abort", key, func() error {
		delete(b.uploads, id)
		return nil
	})
}

// Find implements the interface bucket of package logarchive.
func (b *Bucket) Find(ctx context.Context, dir string, limit int, isWanted func(string) bool) (out []store.Object,
	hasMore bool, err error) {
	err = b.run(ctx, "find", dir, func() error {
		for _, key := range slices.Sorted(maps.Keys(b.content)) {
			if strings.HasPrefix(key, dir+"/") && isWanted(key) {
				out = append(out, store.Object{Key: key, Size: int64(len(b.content[key]))})
			}
		}
		return nil
	})
	return out[:min(limit, len(out))], len(out) > limit, err
}

// Prefixes implements the interface bucket of package logarchive.
func (b *Bucket) Prefixes(ctx context.Context, dir string, _ int) (out []string, err error) {
	err = b.run(ctx, "folders", dir, func() error {
		for key := range b.content {
			rest, isBelow := strings.CutPrefix(key, dir+"/")
			if first, _, isDeeper := strings.Cut(rest, "/"); isBelow && isDeeper && !slices.Contains(out, first) {
				out = append(out, first)
			}
		}
		return nil
	})
	return out, err
}

// Delete implements the interface bucket of package logarchive.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	return b.run(ctx, "delete", key, func() error {
		delete(b.content, key)
		return nil
	})
}

// Stat implements the interface bucket of package logarchive.
func (b *Bucket) Stat(ctx context.Context, key string) (out store.Object, err error) {
	err = b.run(ctx, "stat", key, func() error {
		raw, ok := b.content[key]
		if !ok {
			return missing("stat", key)
		}
		out = store.Object{Key: key, Size: int64(len(raw))}
		return nil
	})
	return out, err
}

// run executes the request, unless the fault that Inject returns prevents it.
func (b *Bucket) run(ctx context.Context, verb, key string, request func() error) error {
	var f Fault
	switch {
	case b.IsDead:
		return errInjected
	case ctx.Err() != nil:
		return ctx.Err()
	case b.Inject != nil:
		f = b.Inject(verb, key)
	}
	locked := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		return request()
	}
	switch {
	case f.Crashes || f.Fails:
		b.IsDead = b.IsDead || f.Crashes
		if f.IsDone && f.Delay > 0 {
			time.AfterFunc(f.Delay, func() { _ = locked() })
		} else if f.IsDone {
			_ = locked()
		}
		return errInjected
	case f.Delay > 0:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.Delay):
		}
	}
	return locked()
}
