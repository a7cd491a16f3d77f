package compose

import (
	"fmt"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// chooseStart of a new instance: what it starts from.
func chooseStart(r *resolved, password string) (start, error) {
	if r.ephemeral {
		return startEmpty(r, password), nil
	}
	own := ownBackups(r.instance, r.Required.Records.Items)
	unfinished := v1.LatestBackup(own, isUnfinished)
	if s, ok := waitsForChoice(r, password); ok && (unfinished == nil || r.XR.Status.PreviousBackup != "") {
		return s, nil
	}
	if b := unfinished; b != nil { // The controller waits for it, too.
		return holdServer(v1.ReasonWaiting, "Backup %q of an earlier %s of this name is not finished (%s): the server starts after it%s", b.Name, r.instance.Kind, phaseOf(b), inSentence(b.Status.Message)), nil
	}
	switch last := v1.LatestBackup(own, isFinished); {
	case r.XR.Status.PreviousBackup != v1.PreviousHeld && isChoiceUsed(&r.spec.Restore, last):
		out, err := chooseLatest(r, own)
		out.message = withUsedChoice(out.message, &r.spec.Restore, last)
		return out, err
	case r.spec.Restore.Backup != nil:
		return chooseNamed(r, *r.spec.Restore.Backup)
	case r.spec.Restore.From != nil:
		return chooseFrom(r)
	case r.spec.Restore.Import != nil:
		return chooseImport(r)
	case r.spec.Restore.Policy == v1.RestoreNever:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	}
	return chooseLatest(r, own)
}

// isChoiceUsed is true if the instance that the newest backup is of began with the same choice
// as the spec has: it was written for that one, and who made it may be a repository that
// nobody has edited since. A claim never goes back to what is older by itself.
func isChoiceUsed(spec *v1.RestoreSpec, last *v1.MySQLBackup) bool {
	choice := spec.Choice()
	switch {
	case choice == "" || last == nil || last.Name == choice:
		return false
	case spec.InsteadOf != nil:
		return *spec.InsteadOf != last.Name
	}
	return last.Spec.Choice == choice
}

// withUsedChoice says that a choice does not count, and how it would.
func withUsedChoice(message string, spec *v1.RestoreSpec, last *v1.MySQLBackup) string {
	field := "spec.restore.policy: Never"
	switch {
	case spec.Backup != nil:
		field = "spec.restore.backup: " + *spec.Backup
	case spec.From != nil:
		field = "spec.restore.from: " + *spec.From
	case spec.Import != nil:
		field = "spec.restore.import (" + spec.Import.String() + ")"
	}
	return fmt.Sprintf("%s. %s was the choice of an earlier %s of this name, whose backup %q is newer: it counts again with spec.restore.insteadOf: %s",
		message, field, last.Spec.Instance.Kind, last.Name, last.Name)
}

// isFinished is true of a backup that is proven, or has failed.
func isFinished(b *v1.MySQLBackup) bool { return !isUnfinished(b) }

// startEmpty for an instance that keeps nothing: it needs no controller's word.
func startEmpty(r *resolved, password string) start {
	if r.engine.password && password == "" {
		return waitForPassword(r)
	}
	return start{replicas: 1, reason: v1.ReasonNothingToRestore}
}

// waitForPassword that is in no Secret yet, or in one that is not known yet.
func waitForPassword(r *resolved) start {
	if r.password.Generated && r.Required.Password.Known {
		return holdServer(v1.ReasonWaiting, "Waiting for the controller to make a password, in Secret %s; is it running?", qualifiedName(r.instance.Namespace, r.password.Secret.Name))
	}
	return holdServer(v1.ReasonWaiting, "Looking for the Secret that holds the password")
}

// waitsForChoice is true while what the choice depends on is not known.
func waitsForChoice(r *resolved, password string) (start, bool) {
	switch {
	case r.XR.Status.PreviousBackup == "":
		return holdServer(v1.ReasonWaiting, "Waiting for the controller to look for backups of an earlier %s of this name (status.previousBackup); is it running?", r.instance.Kind), true
	case r.XR.Status.PreviousBackup == v1.PreviousHeld && !leavesHeldAside(r):
		return holdServer(v1.ReasonWaiting, "A backup of an earlier %s of this name is there without its record: no server starts empty beside it", r.instance.Kind), true
	case !r.Required.Records.Known || !r.Required.Namespace.Known || (r.spec.Restore.Backup != nil || r.spec.Restore.From != nil) && !r.Required.Named.Known:
		return holdServer(v1.ReasonWaiting, "Looking for backups of an earlier %s of this name", r.instance.Kind), true
	case r.engine.password && password == "":
		return waitForPassword(r), true
	}
	return start{}, false
}

// leavesHeldAside is true if the spec names the backup that has no record as the one that it
// does not want. Whether an instance began with the same choice nobody can see in a record
// that is not there.
func leavesHeldAside(r *resolved) bool {
	of := &r.spec.Restore
	return of.Choice() != "" && of.InsteadOf != nil && *of.InsteadOf == r.XR.Status.HeldBackup
}

// chooseNamed restores the backup that the spec names, which may be of another
// claim of the same namespace.
func chooseNamed(r *resolved, name string) (start, error) {
	const field = "spec.restore.backup"
	b := r.Required.Named.firstItem()
	switch {
	case b == nil || b.Name != name:
		return start{}, newRefusal(v1.ReasonInvalid, "%s: MySQLBackup %q does not exist: name one of those that `kubectl get mysqlbackups` shows for this namespace, or remove the field", field, name)
	case b.Spec.Instance.Namespace != r.instance.Namespace:
		return start{}, newRefusal(v1.ReasonInvalid, "%s: MySQLBackup %q belongs to another namespace: name one of this namespace's, or remove the field", field, name)
	case (b.Spec.Instance.Kind == v1.KindDatabase) != r.database:
		return start{}, newRefusal(v1.ReasonInvalid, "%s: MySQLBackup %q is a %s's, which has other files than a %s: name another one, or remove the field", field, name, b.Spec.Instance.Kind, r.instance.Kind)
	case !b.IsProven():
		return start{}, newRefusal(v1.ReasonInvalid, "%s: MySQLBackup %q is not proven (%s): name one that is, or remove the field", field, name, phaseOf(b))
	case b.DeletionTimestamp != nil:
		return start{}, newRefusal(v1.ReasonInvalid, "%s: MySQLBackup %q is being deleted: name another one, or remove the field", field, name)
	}
	return startFrom(r, b)
}

// otherClaim is the instance whose newest backup is wanted.
func otherClaim(r *resolved) v1.Instance {
	return v1.Instance{Kind: r.instance.Kind, Namespace: r.instance.Namespace, Name: *r.spec.Restore.From}
}

// waitsForSource reports whether it is unknown what is the newest backup of the other claim: only the controller sees what
// volumes and stores have, and a MySQLBackup that was deleted is no reason to restore an older one.
func waitsForSource(r *resolved, other v1.Instance) (start, bool) {
	switch found := r.XR.Status.RestoreSource; {
	case found == nil || found.From != other.Name:
		return holdServer(v1.ReasonWaiting, "Waiting for the controller to look for backups of %s %q (status.restoreSource); is it running?", other.Kind, other.Name), true
	case found.NewestBackup == v1.PreviousHeld:
		return holdServer(v1.ReasonWaiting, "Backup %q of %s %q is the newest one, and its MySQLBackup is missing. No older backup is restored in its place. The condition Blocked says how to make the MySQLBackup again. To restore an older backup, set spec.restore.backup to its name",
			found.HeldBackup, other.Kind, other.Name), true
	}
	return start{}, false
}

// chooseFrom restores the newest proven backup of another claim. What that is about to have is waited for, and its claim may go on meanwhile.
func chooseFrom(r *resolved) (start, error) {
	const field = "spec.restore.from"
	other := otherClaim(r)
	all := ownBackups(other, r.Required.Named.Items)
	b := v1.LatestBackup(all, (*v1.MySQLBackup).IsProven)
	newest := v1.LatestBackup(all, func(*v1.MySQLBackup) bool { return true })
	if other.Name == r.instance.Name {
		return start{}, newRefusal(v1.ReasonInvalid, "%s: %q is this claim, which starts from its own newest backup in any case: name another one, or remove the field", field, other.Name)
	}
	if s, ok := waitsForSource(r, other); ok {
		return s, nil
	}
	switch {
	case newest == nil:
		return start{}, newRefusal(v1.ReasonInvalid, "%s: there is no backup of %s %q in this namespace (kubectl get mysqlbackups): name another claim, or remove the field", field, other.Kind, other.Name)
	case isUnfinished(newest):
		return holdServer(v1.ReasonWaiting, "Backup %q of %s %q is not finished (%s): the server starts after it%s", newest.Name, other.Kind, other.Name, phaseOf(newest), inSentence(newest.Status.Message)), nil
	case b == nil || newest != b:
		return holdServer(v1.ReasonWaiting, "Backup %q of %s %q has failed: mend it (kubectl describe msb %s), or set spec.restore.backup to an older one",
			newest.Name, other.Kind, other.Name, newest.Name), nil
	case b.DeletionTimestamp != nil:
		return holdServer(v1.ReasonWaiting, "Backup %q is being deleted: set spec.restore.backup to another one", b.Name), nil
	case b.Name != r.XR.Status.RestoreSource.NewestBackup:
		return holdServer(v1.ReasonWaiting, "The newest verified backup of %s %q is %q for the function and %q for the controller: the server starts when they agree",
			other.Kind, other.Name, b.Name, r.XR.Status.RestoreSource.NewestBackup), nil
	}
	if rival := rivalOf(b, all); rival != nil {
		return holdServer(v1.ReasonWaiting, "Backups %q and %q of %s %q are of two instances that lived beside each other, and neither has the other's rows: set spec.restore.backup to the one to start from",
			b.Name, rival.Name, other.Kind, other.Name), nil
	}
	return startFrom(r, b)
}

// chooseLatest restores the newest proven backup, if controller and function
// agree which one that is.
func chooseLatest(r *resolved, own []v1.MySQLBackup) (start, error) {
	b, failed := v1.LatestBackup(own, (*v1.MySQLBackup).IsProven), v1.LatestBackup(own, func(b *v1.MySQLBackup) bool { return b.Status.Phase == v1.BackupFailed })
	name := v1.PreviousNone
	if b != nil {
		name = b.Name
	}
	switch {
	case failed != nil && (b == nil || failed.After(b) || failed.IsRivalOf(b)):
		return holdServer(v1.ReasonWaiting, "Backup %q of an earlier %s of this name has failed, and its data is still on its volume: mend it (kubectl describe msb %s), or set spec.restore.backup to an older one, or spec.restore.policy to Never for an empty server",
			failed.Name, r.instance.Kind, failed.Name), nil
	case name != r.XR.Status.PreviousBackup:
		return holdServer(v1.ReasonWaiting, "The newest proven backup is %q here and %q for the controller: the server starts when they agree", name, r.XR.Status.PreviousBackup), nil
	case b == nil:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	}
	rival := rivalOf(b, own)
	switch {
	case rival != nil:
		return holdServer(v1.ReasonWaiting, "Backups %q and %q are of two instances of this name that lived beside each other, and neither has the other's rows: set spec.restore.backup to the one to start from",
			b.Name, rival.Name), nil
	case b.DeletionTimestamp != nil:
		return holdServer(v1.ReasonWaiting, "Backup %q is being deleted: when it is gone the controller says what there is to start from, or set spec.restore.backup to another one", b.Name), nil
	}
	return startFrom(r, b)
}

// rivalOf a backup: the newest proven one that lived beside it, or nil.
func rivalOf(b *v1.MySQLBackup, among []v1.MySQLBackup) *v1.MySQLBackup {
	return v1.LatestBackup(among, func(r *v1.MySQLBackup) bool { return r.IsProven() && r.IsRivalOf(b) })
}

// startFrom a backup, if it is fit for this instance.
func startFrom(r *resolved, b *v1.MySQLBackup) (start, error) {
	if !mayRestore(r, b) {
		return holdServer(v1.ReasonWaiting, "Backup %q is from an earlier namespace %q, which may have had another owner: ask the platform team to allow it (reusableNamespaces of MySQLPlatform crossplane-mysql), or set spec.restore.policy to Never for an empty server",
			b.Name, r.instance.Namespace), nil
	}
	if b.Spec.Archive == nil {
		return start{}, newRefusal(v1.ReasonInvalid, "MySQLBackup %q is proven but says no archive: set spec.restore.backup to another one, or spec.restore.policy to Never for an empty server", b.Name)
	}
	if err := checkArchive(b.Name, b.Spec.Archive); err != nil {
		return start{}, err
	}
	if err := checkFits(r, b); err != nil {
		return start{}, err
	}
	return startAfter(r, &v1.RestoreStatus{
		Backup:        b.Name,
		Phase:         v1.RestoreRunning,
		Version:       b.Spec.Version,
		CleanShutdown: b.Spec.CleanShutdown,
		Archive:       *b.Spec.Archive,
	}), nil
}

// checkFits refuses to ask for less than the volume had that a backup is from. On
// hostPath the size is the node's.
func checkFits(r *resolved, b *v1.MySQLBackup) error {
	have, err := v1.ParseSize(b.Spec.StorageSize)
	if err != nil || r.hostPath || r.size.Cmp(have) >= 0 {
		return nil //nolint:nilerr // A backup without a size sets no bound; the restore Job checks the room itself.
	}
	_, field := r.spec.Size()
	return newRefusal(v1.ReasonInvalid, "spec.%s: %s is smaller than %s, the volume that backup %q is from: set it to %s or more", field, r.size.String(), have.String(), b.Name, have.String())
}
