package instance

import (
	"context"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// needsRecovery reports whether an instance will be recovered to a time but has not chosen a backup yet.
func needsRecovery(s *Subject) bool {
	return s.XR != nil && !s.IsDeleting() && !s.XR.Status.Started && s.XR.Status.Restore == nil && s.XR.Spec.Restore.At != nil
}

// readRecovery looks for the backup and the binary log for spec.restore.at. source is the instance that
// spec.restore.from names, or nil. storeFailure is the error of an earlier read from a store, or "". If it is set,
// readRecovery reads no store and returns it. Otherwise readRecovery returns the error of its own read.
func readRecovery(ctx context.Context, stores Stores, basis *Basis, source *Source,
	storeFailure string) (*v1.RecoverySource, string) {
	restore := &basis.XR.Spec.Restore
	records := basis.Records
	if restore.From != nil && source == nil || stores == nil || storeFailure != "" {
		return nil, storeFailure
	}
	if source != nil {
		records = source.Records
	}
	out, err := stores.FindRecovery(ctx, restore.Choice(), *restore.At, basis.XR.Status.RecoverySource, records)
	if err != nil {
		return nil, v1.PrintableText(err.Error(), v1.MaxForeignText)
	}
	return out, ""
}
