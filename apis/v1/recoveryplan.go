package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A RecoveryPlan describes a recovery to a time or a GTID before it begins.
type RecoveryPlan struct {
	// At is the time or the GTID of spec.restore.at. A time is in UTC.
	At string `json:"at"`
	// Backup is the name of the backup with which the recovery begins.
	Backup string `json:"backup"`
	// BackupTime is the time at which that backup was completed.
	BackupTime metav1.Time `json:"backupTime"`
	// Segments is the number of segments of the archived binary log that are read. They begin with the segment that was
	// written when the backup began.
	Segments int64 `json:"segments"`
	// Transactions is the number of transactions in these segments. Those after the end of the recovery are not included.
	// The backup may already contain the first ones.
	Transactions int64 `json:"transactions"`
	// FetchSize is the size of the backup and of the segments in the store, as a quantity.
	FetchSize string `json:"fetchSize"`
	// ApplySize is the size of the uncompressed segments, as a quantity. The volume needs this space in addition to the
	// data.
	ApplySize string `json:"applySize"`
	// EstimatedDuration is a rough estimate of the duration, such as 2m30s. It uses speeds that were measured on two cores.
	EstimatedDuration string `json:"estimatedDuration"`
	// LastTransaction is the last transaction that will be included. Unset if the archived binary log contains no
	// transaction before the end of the recovery. The recovered data is then the data of the backup.
	//
	// +optional
	LastTransaction *PlannedTransaction `json:"lastTransaction,omitempty"`
	// NextTransaction is the first transaction that will not be included. Unset if the archived binary log contains no
	// later transaction.
	//
	// +optional
	NextTransaction *PlannedTransaction `json:"nextTransaction,omitempty"`
	// Message describes what the plan does not contain, and why. Empty if the plan is complete.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// A PlannedTransaction is the first or last transaction of a part of the archived binary log.
type PlannedTransaction struct {
	// GTID of the transaction. Empty if it is unknown.
	//
	// +optional
	GTID string `json:"gtid,omitempty"`
	// CommitTime is the time of the commit with microseconds, by the clock of the server. Empty if it is unknown.
	//
	// +optional
	CommitTime string `json:"commitTime,omitempty"`
}

// HasPlanOf reports whether an earlier result of the search has a complete plan for the same recovery.
func (s *RecoverySource) HasPlanOf(previous *RecoverySource) bool {
	return s.isSameRecovery(previous) && previous.Plan != nil && previous.Plan.Message == ""
}

// isSameRecovery reports whether two search results choose the same backup and the same archived binary log.
func (s *RecoverySource) isSameRecovery(previous *RecoverySource) bool {
	return previous != nil && previous.Choice == s.Choice && previous.Backup != "" && previous.Backup == s.Backup &&
		previous.Recovery != nil && s.Recovery != nil && previous.Recovery.Timeline == s.Recovery.Timeline
}

// IsNews reports whether this search result must replace the previous one in the status. More segments in the archive
// are no news, but a complete plan instead of an incomplete one is. A missing plan is ignored, because the CRD of an
// earlier release does not have the field.
func (s *RecoverySource) IsNews(previous *RecoverySource) bool {
	return !s.isSameRecovery(previous) ||
		previous.Plan != nil && previous.Plan.Message != "" && s.Plan != nil && s.Plan.Message == ""
}
