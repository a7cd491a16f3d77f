package reconciler

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// pageSize is how many MySQLBackups are held at a time of a list of all of them: a cluster may have tens of thousands.
const pageSize = 500

// eachBackup calls look for each MySQLBackup that the API server has, one page at a time.
func eachBackup(ctx context.Context, from client.Reader, look func(*v1.MySQLBackup)) error {
	for next := ""; ; {
		l := &v1.MySQLBackupList{}
		if err := from.List(ctx, l, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("cannot list MySQLBackups: %w", err)
		}
		for i := range l.Items {
			look(&l.Items[i])
		}
		if next = l.Continue; next == "" {
			return nil
		}
	}
}

// eachCachedBackup calls look for each MySQLBackup of a cache. Nothing of them is copied, so look must change nothing.
func eachCachedBackup(ctx context.Context, cache client.Reader, look func(*v1.MySQLBackup)) error {
	l := &v1.MySQLBackupList{}
	if err := cache.List(ctx, l, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("cannot list MySQLBackups: %w", err)
	}
	for i := range l.Items {
		look(&l.Items[i])
	}
	return nil
}
