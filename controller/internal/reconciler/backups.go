package reconciler

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// pageSize is the page size for lists of all BackupRecords. A cluster may have tens of thousands of them.
const pageSize = 500

// eachBackup calls visit for each BackupRecord on the API server, one page at a time.
func eachBackup(ctx context.Context, from client.Reader, visit func(*v1.BackupRecord)) error {
	for next := ""; ; {
		l := &v1.BackupRecordList{}
		if err := from.List(ctx, l, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("cannot list BackupRecords: %w", err)
		}
		for i := range l.Items {
			visit(&l.Items[i])
		}
		if next = l.Continue; next == "" {
			return nil
		}
	}
}

// eachCachedBackup calls visit for each BackupRecord in a cache. The objects are not copied, so visit must not change
// them.
func eachCachedBackup(ctx context.Context, cache client.Reader, visit func(*v1.BackupRecord)) error {
	l := &v1.BackupRecordList{}
	if err := cache.List(ctx, l, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("cannot list BackupRecords: %w", err)
	}
	for i := range l.Items {
		visit(&l.Items[i])
	}
	return nil
}
