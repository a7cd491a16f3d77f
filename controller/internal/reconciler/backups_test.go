package reconciler

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A pagedReader serves the number of BackupRecords in backups. It returns at most one page at a time, as the API
// server does.
type pagedReader struct {
	client.Reader

	backups, largest, lists int
	shared                  bool
}

func (r *pagedReader) List(_ context.Context, target client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	l, ok := target.(*v1.BackupRecordList)
	if !ok {
		return fmt.Errorf("a list of %T", target)
	}
	begin, _ := strconv.Atoi(o.Continue) // An empty token means the beginning.
	end := r.backups
	if o.Limit > 0 {
		end = min(begin+int(o.Limit), r.backups)
	}
	l.Items = make([]v1.BackupRecord, end-begin)
	if end < r.backups {
		l.Continue = strconv.Itoa(end)
	}
	for i := range l.Items {
		if (begin+i)%1000 == 0 {
			l.Items[i].Status.RestoreTest = &v1.RestoreTest{}
		}
	}
	r.lists, r.largest, r.shared = r.lists+1, max(r.largest, len(l.Items)), o.UnsafeDisableDeepCopy != nil &&
		*o.UnsafeDisableDeepCopy
	return nil
}

// TestAllBackupsArePaged checks that the complete list of BackupRecords is never in memory, and is not copied from a
// cache.
func TestAllBackupsArePaged(t *testing.T) {
	n := 0
	count := func(*v1.BackupRecord) { n++ }
	r := &pagedReader{backups: 3*pageSize + 1}
	if err := eachBackup(t.Context(), r, count); err != nil || n != r.backups || r.largest != pageSize || r.lists != 4 {
		t.Errorf("%d of %d backups in %d lists of up to %d, %v", n, r.backups, r.lists, r.largest, err)
	}
	n = 0
	if err := eachCachedBackup(t.Context(), r, count); err != nil || n != r.backups || !r.shared {
		t.Errorf("%d of %d backups of the cache, shared %t, %v", n, r.backups, r.shared, err)
	}
}
