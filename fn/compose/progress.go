package compose

import v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"

// ProgressConditions returns the conditions Stalled and Reconciling, which kstatus reads. Each has the reason and the
// message of the first other condition that needs manual action, or that shows a change in progress. The parameter
// changingImage is true while the server does not run the image of the spec yet.
func ProgressConditions(others []Condition, changingImage bool) []Condition {
	stalled, reconciling := Condition{Type: v1.ConditionStalled}, Condition{Type: v1.ConditionReconciling}
	for _, c := range others {
		switch {
		case needsAction(c) && !stalled.True:
			stalled.True, stalled.Reason, stalled.Message = true, c.Reason, c.Message
		case inProgress(c) && !reconciling.True:
			reconciling.True, reconciling.Reason, reconciling.Message = true, c.Reason, c.Message
		}
	}
	if changingImage && !reconciling.True {
		reconciling.True, reconciling.Reason = true, v1.ReasonImageChange
	}
	if stalled.True { // kstatus reads Reconciling first.
		reconciling = Condition{Type: v1.ConditionReconciling}
	}
	if !stalled.True {
		stalled.Reason = v1.ReasonNotStalled
	}
	if !reconciling.True {
		reconciling.Reason = v1.ReasonReconciled
	}
	return []Condition{stalled, reconciling}
}

// needsAction reports whether the instance does not continue until a user changes something.
func needsAction(c Condition) bool {
	switch c.Type {
	case v1.ConditionAccepted:
		return c.isFalse()
	case v1.ConditionRestored:
		return c.isFalse() && c.Reason == v1.ReasonRestoreFailed
	case v1.ConditionBlocked:
		return c.True
	case v1.ConditionPendingRestart:
		return c.Reason == v1.ReasonSettingsRefused || c.Reason == v1.ReasonSettingsTakenBack
	}
	return false
}

// inProgress reports whether the instance is changing and continues by itself.
func inProgress(c Condition) bool {
	switch c.Type {
	case v1.ConditionServing:
		return c.isFalse() && c.Reason != v1.ReasonSuspended
	case v1.ConditionPendingRestart:
		return c.Reason == v1.ReasonValidatingSettings || c.Reason == v1.ReasonSettingsOnTrial
	}
	return false
}
