package compose

import (
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A start says whether the server may run, and what from.
type start struct {
	// replicas of the Deployment: 0 or 1.
	replicas int32
	// restore is the backup that this instance is made from; nil where it is made
	// from nothing, or where that is not decided.
	restore *v1.RestoreStatus
	// reason of the condition Restored, or ReasonFenced.
	reason string
	// message says why the server may not run, and what to do.
	message string
}

// hold the server back.
func hold(reason, format string, args ...any) start {
	return start{reason: reason, message: fmt.Sprintf(format, args...)}
}

// decide whether the server may run. The choice of what it starts from is made
// once: afterwards it is read back from the restore Job or the status.
//
//	fenced ────────────────────────────▶ 0
//	volume not seen yet ───────────────▶ 0
//	started ───────────────────────────▶ 1   never restores again
//	chosen ── running, failed ─────────▶ 0
//	       └─ succeeded ───────────────▶ 1
//	else ──── any doubt ───────────────▶ 0
//	       ├─ a backup to restore ─────▶ 0   and the Job is made
//	       └─ the controller: None ────▶ 1
func (p *plan) decide() error {
	chosen, err := p.chosen()
	if err != nil {
		return err
	}
	switch {
	case p.fenced():
		p.start = hold(v1.ReasonFenced, "PersistentVolumeClaim %s was deleted: the server is stopped until it is back on its volume", qualified(p.instance.Namespace, p.instance.DataPVCName()))
	case p.blind():
		p.start = hold(v1.ReasonWaiting, "Looking for volume %q, which holds this instance's data", p.XR.Status.Volume)
	case p.started():
		p.start = start{replicas: 1, reason: v1.ReasonNothingToRestore}
		if chosen != nil {
			p.start.reason = v1.ReasonRestored
		}
	case chosen != nil:
		p.start = restoring(p, chosen)
	default:
		p.start, err = p.choose()
	}
	if p.start.restore == nil {
		p.start.restore = chosen
	}
	return err
}

// fenced is true while the server must not run although the XR lives.
func (p *plan) fenced() bool {
	d := p.XR.Status.Deletion
	return d != nil && d.Fence
}

// blind is true while it is not known whether the volume that holds the data
// exists, and no server runs on it yet.
func (p *plan) blind() bool {
	d := p.Observed.Deployment
	runs := d != nil && d.Spec.Replicas != nil && *d.Spec.Replicas > 0
	return (!runs || !p.started()) && p.XR.Status.Volume != "" && p.Observed.DataPV == nil && !p.Answers.Volume.Known
}

// chosen is the backup that was chosen earlier, with the phase that the Job
// shows; nil where none was.
func (p *plan) chosen() (*v1.RestoreStatus, error) {
	r, j := p.XR.Status.Restore.DeepCopy(), p.Observed.Restore
	if j != nil {
		said, err := p.chosenByJob(j)
		if err != nil {
			return nil, err
		}
		if r == nil {
			r = said
		}
	}
	if r == nil {
		return nil, nil //nolint:nilnil // No choice has been made yet; that is no error.
	}
	if j != nil {
		r.Phase = jobPhase(j)
	}
	if p.started() {
		r.Phase = v1.RestoreSucceeded
	}
	return r, checkArchive(r.Backup, &r.Archive)
}

// chosenByJob is the choice as the Job has it, which counts where the status could
// not be written; nil where it is not known whether it may have been made. The Job
// is in the claim's namespace, where others may write: what it says is believed of
// this namespace's backups only.
func (p *plan) chosenByJob(j *batchv1.Job) (*v1.RestoreStatus, error) {
	r, job := &v1.RestoreStatus{}, qualified(j.Namespace, j.Name)
	if err := json.Unmarshal([]byte(j.Annotations[v1.AnnotationRestore]), r); err != nil || r.Backup == "" {
		return nil, refuse(v1.ReasonNotSupported, "Job %s: its annotation %s does not say which backup it restores: delete the Job, and it is made again",
			job, v1.AnnotationRestore)
	}
	if p.started() || p.XR.Status.Restore != nil {
		return r, nil
	}
	if !p.Answers.Records.Known || !p.Answers.Namespace.Known {
		return nil, nil //nolint:nilnil // The Job stays, and is read again when they are.
	}
	for _, of := range slices.Concat(p.Answers.Records.Items, p.Answers.Named.Items) {
		if of.Name == r.Backup && !p.mayRestore(&of) {
			return nil, refuse(v1.ReasonNotSupported, "Job %s: its annotation %s names backup %q, which is from an earlier namespace %q: delete the Job, and it is made again",
				job, v1.AnnotationRestore, r.Backup, p.instance.Namespace)
		}
	}
	return r, nil
}

// mayRestore is true if a record is of this very namespace, or the platform
// allows others.
func (p *plan) mayRestore(r *v1.MySQLBackup) bool {
	ns := p.Answers.Namespace.first()
	return p.Settings.NamespaceReuse == v1.NamespaceReuseAllow || ns != nil && ns.UID != "" && ns.UID == r.Spec.Instance.NamespaceUID
}

func jobPhase(j *batchv1.Job) v1.RestorePhase {
	switch {
	case jobComplete(j):
		return v1.RestoreSucceeded
	case jobCondition(j, batchv1.JobFailed) != nil:
		return v1.RestoreFailed
	}
	return v1.RestoreRunning
}

// restoring says what a chosen restore means for the server.
func restoring(p *plan, r *v1.RestoreStatus) start {
	s := start{restore: r, reason: v1.ReasonRestoring, message: fmt.Sprintf("Restoring backup %q: the server starts when every row is back", r.Backup)}
	switch r.Phase {
	case v1.RestoreSucceeded:
		return start{restore: r, replicas: 1, reason: v1.ReasonRestored}
	case v1.RestoreFailed:
		if p.Observed.Restore == nil {
			// The failed Job was deleted, which asks for another try.
			r.Phase = v1.RestoreRunning
			return s
		}
		s.reason = v1.ReasonRestoreFailed
		s.message = restoreFailure(p.Observed.Restore, r.Backup)
	case v1.RestoreRunning:
	}
	return s
}

// choose what a new instance starts from.
func (p *plan) choose() (start, error) {
	if p.ephemeral() {
		return p.chooseNothing(), nil
	}
	if s, ok := p.waits(); ok {
		return s, nil
	}
	own := ownRecords(p.instance, p.Answers.Records.Items)
	if r := newest(own, unfinished); r != nil {
		return hold(v1.ReasonWaiting, "Backup %q of an earlier %s of this name is not finished (%s): the server starts after it", r.Name, p.instance.Kind, phaseOf(r)), nil
	}
	if p.spec.Restore.Backup != nil {
		return p.chooseNamed(*p.spec.Restore.Backup)
	}
	if p.spec.Restore.Policy == v1.RestoreNever {
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	}
	return p.chooseLatest(own)
}

// chooseNothing for an instance that keeps nothing: it needs no controller's word.
func (p *plan) chooseNothing() start {
	if p.engine.password && p.password == "" {
		return hold(v1.ReasonWaiting, "Looking for the Secret that holds the password")
	}
	return start{replicas: 1, reason: v1.ReasonNothingToRestore}
}

// waits is true while what the choice depends on is not known.
func (p *plan) waits() (start, bool) {
	switch {
	case p.XR.Status.PreviousBackup == "":
		return hold(v1.ReasonWaiting, "Waiting for the controller to look for backups of an earlier %s of this name (status.previousBackup); is it running?", p.instance.Kind), true
	case p.XR.Status.PreviousBackup == v1.PreviousHeld && p.spec.Restore.Backup == nil:
		return hold(v1.ReasonWaiting, "A backup of an earlier %s of this name is there without its record: no server starts empty beside it", p.instance.Kind), true
	case !p.Answers.Records.Known || !p.Answers.Namespace.Known || p.spec.Restore.Backup != nil && !p.Answers.Named.Known:
		return hold(v1.ReasonWaiting, "Looking for backups of an earlier %s of this name", p.instance.Kind), true
	case p.engine.password && p.password == "":
		return hold(v1.ReasonWaiting, "Looking for the Secret that holds the password"), true
	}
	return start{}, false
}

// chooseNamed restores the backup that the spec names, which may be of another
// claim of the same namespace.
func (p *plan) chooseNamed(name string) (start, error) {
	const field = "spec.restore.backup"
	r := p.Answers.Named.first()
	switch {
	case r == nil || r.Name != name:
		return start{}, refuse(v1.ReasonInvalid, "%s: MySQLBackup %q does not exist: name one of those that `kubectl get mysqlbackups` shows for this namespace, or remove the field", field, name)
	case r.Spec.Instance.Namespace != p.instance.Namespace:
		return start{}, refuse(v1.ReasonInvalid, "%s: MySQLBackup %q belongs to another namespace: name one of this namespace's, or remove the field", field, name)
	case (r.Spec.Instance.Kind == v1.KindDatabase) != p.database():
		return start{}, refuse(v1.ReasonInvalid, "%s: MySQLBackup %q is a %s's, which has other files than a %s: name another one, or remove the field", field, name, r.Spec.Instance.Kind, p.instance.Kind)
	case !proven(r):
		return start{}, refuse(v1.ReasonInvalid, "%s: MySQLBackup %q is not proven (%s): name one that is, or remove the field", field, name, phaseOf(r))
	case r.DeletionTimestamp != nil:
		return start{}, refuse(v1.ReasonInvalid, "%s: MySQLBackup %q is being deleted: name another one, or remove the field", field, name)
	}
	return p.restore(r)
}

// chooseLatest restores the newest proven backup, if controller and function
// agree which one that is.
func (p *plan) chooseLatest(own []v1.MySQLBackup) (start, error) {
	r, failed := newest(own, proven), newest(own, func(r *v1.MySQLBackup) bool { return r.Status.Phase == v1.BackupFailed })
	name := v1.PreviousNone
	if r != nil {
		name = r.Name
	}
	switch {
	case failed != nil && (r == nil || failed.After(r)):
		return hold(v1.ReasonWaiting, "Backup %q of an earlier %s of this name has failed, and its data is still on its volume: mend it (kubectl describe msb %s), or set spec.restore.backup to an older one, or spec.restore.policy to Never for an empty server",
			failed.Name, p.instance.Kind, failed.Name), nil
	case name != p.XR.Status.PreviousBackup:
		return hold(v1.ReasonWaiting, "The newest proven backup is %q here and %q for the controller: the server starts when they agree", name, p.XR.Status.PreviousBackup), nil
	case r == nil:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	case r.DeletionTimestamp != nil:
		return hold(v1.ReasonWaiting, "Backup %q is being deleted: when it is gone the controller says what there is to start from, or set spec.restore.backup to another one", r.Name), nil
	}
	return p.restore(r)
}

// restore the record, if it is fit for this instance.
func (p *plan) restore(r *v1.MySQLBackup) (start, error) {
	if !p.mayRestore(r) {
		return hold(v1.ReasonWaiting, "Backup %q is from an earlier namespace %q, which may have had another owner: ask the platform team to allow it (namespaceReuse: Allow in the Composition's input), or set spec.restore.policy to Never for an empty server",
			r.Name, p.instance.Namespace), nil
	}
	if r.Spec.Archive == nil {
		return start{}, refuse(v1.ReasonInvalid, "MySQLBackup %q is proven but says no archive: set spec.restore.backup to another one, or spec.restore.policy to Never for an empty server", r.Name)
	}
	if err := checkArchive(r.Name, r.Spec.Archive); err != nil {
		return start{}, err
	}
	if err := p.fitsRecord(r); err != nil {
		return start{}, err
	}
	return restoring(p, &v1.RestoreStatus{
		Backup:        r.Name,
		Phase:         v1.RestoreRunning,
		Version:       r.Spec.Version,
		CleanShutdown: r.Spec.CleanShutdown,
		Archive:       *r.Spec.Archive,
	}), nil
}
