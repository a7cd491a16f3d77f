package logarchive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// An overwrittenBucket is a store without conditional writes, in which another archiver overwrites each manifest.
type overwrittenBucket struct{ bucket }

func (b overwrittenBucket) PutIf(ctx context.Context, key string, raw []byte, etag string) error {
	err := b.bucket.PutIf(ctx, key, raw, etag)
	return errors.Join(err, b.Put(ctx, key, []byte("another manifest")))
}

// TestOverwrittenManifest checks that an archiver does not report a manifest that another archiver has overwritten.
func TestOverwrittenManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		a := m.newArchiver(0)
		a.Bucket = overwrittenBucket{a.Bucket}
		time.AfterFunc(5*time.Second, func() { m.server.Commit(10, 0) })
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := a.Run(ctx); !errors.Is(err, errRival) || m.latest[0].Number > 0 {
			t.Errorf("%v, %+v", err, m.latest[0])
		}
	})
}

// TestHeld checks that an archiver ends without a further write of the head if it has lost its prefix.
func TestHeld(t *testing.T) {
	errLost := errors.New("the prefix belongs to another cluster")
	for name, commits := range map[string]bool{"WithSegments": true, "WithoutSegments": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(7, nil)
				a := m.newArchiver(0)
				lostAt, heads := time.Now().Add(5*time.Minute), 0
				a.Held = func(context.Context) error {
					if time.Now().Before(lostAt) {
						return nil
					}
					return errLost
				}
				a.Bucket = &fakelog.Bucket{Objects: m.objects, Inject: func(_, key string) fakelog.Fault {
					if strings.HasSuffix(key, "/"+headName) && !time.Now().Before(lostAt) {
						heads++
					}
					return fakelog.Fault{}
				}}
				if commits {
					time.AfterFunc(5*time.Second, func() { m.server.Commit(10, 0) })
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				err := a.Run(ctx)
				if late := time.Since(lostAt); !errors.Is(err, errLost) || late > 2*headTime || heads > 0 {
					t.Errorf("%v after %s, %d requests for the head", err, late, heads)
				}
			})
		})
	}
}
