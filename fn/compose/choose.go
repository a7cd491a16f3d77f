package compose

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// checkController is the last sentence of a message about information that the controller has not reported yet.
const checkController = "Check that the controller is running"

// chooseStart decides what a new instance starts from: a backup, an import or an empty database.
func chooseStart(r *resolved, password string) (start, error) {
	if r.ephemeral {
		return startEmpty(r, password), nil
	}
	own := ownBackups(r.instance, r.Required.Records.Items)
	unfinished := v1.LatestBackup(own, isUnfinished)
	if s, ok := waitsForChoice(r, password); ok && (unfinished == nil || r.XR.Status.PreviousBackup != "") {
		return s, nil
	}
	if b := unfinished; b != nil { // The controller also waits for the unfinished backup.
		return blockServer(v1.ReasonWaiting,
			"Backup %q of a previous %s with this name is not finished (%s). The server starts after the backup%s",
			b.BackupName(), r.instance.Kind, phaseOf(b), inSentence(b.Status.Message)), nil
	}
	switch last := v1.LatestBackup(own, isFinished); {
	case r.XR.Status.PreviousBackup != v1.PreviousHeld && isChoiceUsed(&r.spec.Restore, last):
		out, err := chooseLatest(r, own)
		out.message = withUsedChoice(out.message, &r.spec.Restore, last)
		return out, err
	case r.spec.Restore.Backup != nil:
		return chooseNamed(r, *r.spec.Restore.Backup)
	case r.spec.Restore.At != nil:
		return chooseRecovery(r)
	case r.spec.Restore.From != nil:
		return chooseFrom(r)
	case r.spec.Restore.Import != nil:
		return chooseImport(r)
	case r.spec.Restore.Policy == v1.RestoreNever:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	}
	return chooseLatest(r, own)
}

// isChoiceUsed reports whether the restore source in the spec was already applied to the instance of the newest
// backup. The manifest may not have been edited since then, and a claim must not return to older data unless a user
// requests it again.
func isChoiceUsed(spec *v1.RestoreSpec, last *v1.BackupRecord) bool {
	choice := spec.Choice()
	switch {
	case choice == "" || last == nil || last.Name == choice || last.BackupName() == choice:
		return false
	case spec.InsteadOf != nil:
		return *spec.InsteadOf != last.Name && *spec.InsteadOf != last.BackupName()
	}
	return last.Spec.Choice == choice
}

// withUsedChoice adds to a message why the restore source is ignored, and how to apply it again.
func withUsedChoice(message string, spec *v1.RestoreSpec, last *v1.BackupRecord) string {
	field := "spec.restore.policy: Never"
	switch {
	case spec.Backup != nil:
		field = "spec.restore.backup: " + *spec.Backup
	case spec.At != nil:
		field = "spec.restore.at: " + *spec.At
	case spec.From != nil:
		field = "spec.restore.from: " + *spec.From
	case spec.Import != nil:
		field = "spec.restore.import (" + spec.Import.String() + ")"
	}
	return fmt.Sprintf("%s. %s is ignored, because a previous %s with this name already applied it and has the newer "+
		"backup %q. To apply it again, set spec.restore.insteadOf: %s",
		message, field, last.Spec.Instance.Kind, last.BackupName(), last.BackupName())
}

// isFinished reports whether a backup is verified or has failed.
func isFinished(b *v1.BackupRecord) bool { return !isUnfinished(b) }

// startEmpty starts an instance without persistent data, which need not wait for the controller.
func startEmpty(r *resolved, password string) start {
	if r.engine.password && password == "" {
		return waitForPassword(r)
	}
	return start{replicas: 1, reason: v1.ReasonNothingToRestore}
}

// waitForPassword returns a start with which the server waits for its password, because the Secret does not exist or
// has not been read yet.
func waitForPassword(r *resolved) start {
	if r.password.Generated && r.Required.Password.Known {
		return blockServer(v1.ReasonWaiting, "Waiting for the controller to create a password in Secret %s. "+checkController,
			qualifiedName(r.instance.Namespace, r.password.Secret.Name))
	}
	return blockServer(v1.ReasonWaiting, "Waiting for Crossplane to read the Secret with the password")
}

// waitsForProtection reports whether a MySQL without a claim must wait because users of its namespace may be able to
// write its status. With a changed status, they could start an empty server although backups exist.
func waitsForProtection(r *resolved) (start, bool) {
	const remedy = "Ask the platform team to apply controller/deploy/controller of this release"
	policy, binding := r.Required.Policy.firstItem(), r.Required.Binding.firstItem()
	switch {
	case !r.instance.IsNamespaced():
		return start{}, false
	case !r.Required.Policy.Known || !r.Required.Binding.Known:
		return blockServer(v1.ReasonWaiting, "Waiting for Crossplane to read "+
			"ValidatingAdmissionPolicy %s", v1.ProtectionPolicy), true
	case policy == nil || policy.DeletionTimestamp != nil:
		return blockServer(v1.ReasonWaiting,
			"ValidatingAdmissionPolicy %s is missing. It protects the status of this instance. %s", v1.ProtectionPolicy,
			remedy), true
	case policy.Labels[v1.LabelPolicyVersion] != v1.ProtectionPolicyVersion:
		return blockServer(v1.ReasonWaiting, "ValidatingAdmissionPolicy %s has version %q, but version %q is required. %s",
			v1.ProtectionPolicy, policy.Labels[v1.LabelPolicyVersion], v1.ProtectionPolicyVersion, remedy), true
	case binding == nil || binding.DeletionTimestamp != nil || binding.Spec.PolicyName != v1.ProtectionPolicy ||
		binding.Spec.MatchResources != nil || !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny):
		return blockServer(v1.ReasonWaiting,
			"ValidatingAdmissionPolicyBinding %s is missing, or does not deny requests "+
				"in all namespaces. %s", v1.ProtectionPolicy,
			remedy), true
	}
	return start{}, false
}

// waitsForChoice reports whether the function needs more information before it can choose a restore source.
func waitsForChoice(r *resolved, password string) (start, bool) {
	if s, ok := waitsForProtection(r); ok {
		return s, true
	}
	switch {
	case r.XR.Status.PreviousBackup == "":
		return blockServer(v1.ReasonWaiting,
			"Waiting for the controller to look for backups of a previous %s with this name. "+checkController,
			r.instance.Kind), true
	case r.XR.Status.PreviousBackup == v1.PreviousHeld && !ignoresHeldBackup(r):
		return blockServer(v1.ReasonWaiting,
			"A backup of a previous %s with this name exists, but its BackupRecord is missing. No empty server is started. "+
				"The condition Blocked says how to recreate the BackupRecord",
			r.instance.Kind), true
	case !r.Required.Records.Known || !r.Required.Namespace.Known ||
		(r.spec.Restore.Backup != nil || r.spec.Restore.From != nil) && !r.Required.Named.Known:
		return blockServer(v1.ReasonWaiting, "Waiting for Crossplane to read the backups of a "+
			"previous %s with this name", r.instance.Kind), true
	case r.engine.password && password == "":
		return waitForPassword(r), true
	}
	return start{}, false
}

// ignoresHeldBackup reports whether the spec explicitly overrides the backup whose BackupRecord is missing. Without
// that BackupRecord, the function does not know whether an instance was already restored from the same source.
func ignoresHeldBackup(r *resolved) bool {
	restore := &r.spec.Restore
	return restore.Choice() != "" && restore.InsteadOf != nil && *restore.InsteadOf == r.XR.Status.HeldBackup
}

// chooseNamed restores the backup that the spec names. The backup may belong to another claim in the namespace.
func chooseNamed(r *resolved, name string) (start, error) {
	const field = "spec.restore.backup"
	b := v1.LatestBackup(r.Required.Named.Items, func(b *v1.BackupRecord) bool {
		return b.BackupName() == name && b.Spec.Instance.Namespace == r.instance.Namespace
	})
	switch {
	case b == nil:
		return start{}, newRefusal(v1.ReasonInvalid,
			"%s: there is no backup %q in this namespace. Use a name that `kubectl get backups.%s` lists, or remove the field",
			field, name, v1.Group)
	case (b.Spec.Instance.Kind == v1.KindDatabase) != r.database:
		return start{}, newRefusal(v1.ReasonInvalid,
			"%s: backup %q contains the data of a %s, which a %s cannot restore. Choose another "+
				"backup, or remove the field", field, name,
			b.Spec.Instance.Kind, r.instance.Kind)
	case !b.IsVerified():
		return start{}, newRefusal(v1.ReasonInvalid,
			"%s: backup %q is not verified (%s). Choose a verified backup, or remove the field", field, name, phaseOf(b))
	case b.DeletionTimestamp != nil:
		return start{}, newRefusal(v1.ReasonInvalid,
			"%s: backup %q is being deleted. Choose another backup, or remove the field", field, name)
	}
	return startFrom(r, b)
}

// otherClaim returns the instance that spec.restore.from names, whose newest backup is to be restored.
func otherClaim(r *resolved) v1.Instance {
	return r.spec.Restore.Source(r.instance)
}

// waitsForSource reports whether the newest backup of the other claim is unknown. Only the controller reads the
// catalogs on volumes and in stores. If the newest BackupRecord was deleted, no older backup must be restored in its
// place.
func waitsForSource(r *resolved, other v1.Instance) (start, bool) {
	switch found := r.XR.Status.RestoreSource; {
	case found == nil || found.From != r.spec.Restore.FromText():
		return blockServer(v1.ReasonWaiting,
			"Waiting for the controller to look for backups of %s %q. "+checkController, other.Kind,
			other.Name), true
	case found.NewestBackup == v1.PreviousHeld:
		return blockServer(v1.ReasonWaiting,
			"Backup %q is the newest backup of %s %q, but its BackupRecord is missing. No older backup is restored instead. "+
				"The condition Blocked says how to recreate the BackupRecord. To restore an older backup, set "+
				"spec.restore.backup to its name",
			found.HeldBackup, other.Kind, other.Name), true
	}
	return start{}, false
}

// chooseFrom restores the newest verified backup of another claim. It waits for a backup that is in progress. The
// other claim may continue to run.
func chooseFrom(r *resolved) (start, error) {
	const field = "spec.restore.from"
	other := otherClaim(r)
	all := ownBackups(other, r.Required.Named.Items)
	b := v1.LatestBackup(all, (*v1.BackupRecord).IsVerified)
	newest := v1.LatestBackup(all, func(*v1.BackupRecord) bool { return true })
	if other.Key() == r.instance.Key() {
		return start{}, newRefusal(v1.ReasonInvalid,
			"%s: %q is this claim itself, which restores its own newest backup by default. Choose another claim, or remove "+
				"the field",
			field, other.Name)
	}
	if s, ok := waitsForSource(r, other); ok {
		return s, nil
	}
	switch {
	case newest == nil:
		return start{}, newRefusal(v1.ReasonInvalid,
			"%s: there is no backup of %s %q in this namespace (kubectl get backups.crossplane-mysql.io). Choose another "+
				"claim, or remove the field", field, other.Kind, other.Name)
	case isUnfinished(newest):
		return blockServer(v1.ReasonWaiting, "Backup %q of %s %q is not finished (%s). The server starts after the backup%s",
			newest.BackupName(), other.Kind, other.Name, phaseOf(newest), inSentence(newest.Status.Message)), nil
	case b == nil || newest != b:
		return blockServer(v1.ReasonWaiting,
			"Backup %q of %s %q has failed. To see why, run: kubectl describe backups.crossplane-mysql.io %s. To restore an "+
				"older backup, set spec.restore.backup to its name",
			newest.BackupName(), other.Kind, other.Name, newest.BackupName()), nil
	case b.DeletionTimestamp != nil:
		return blockServer(v1.ReasonWaiting, "Backup %q is being deleted. Set spec.restore.backup to another backup",
			b.BackupName()), nil
	case b.Name != r.XR.Status.RestoreSource.NewestBackup:
		return blockServer(v1.ReasonWaiting,
			"The newest verified backup of %s %q is %q according to the function, but %q according to the controller. The "+
				"server starts when both agree",
			other.Kind, other.Name, b.BackupName(), r.backupName(r.XR.Status.RestoreSource.NewestBackup)), nil
	}
	if rival := rivalOf(b, all); rival != nil {
		return blockServer(v1.ReasonWaiting,
			"Backups %q and %q of %s %q are from two instances that existed at the same time. Neither backup contains the "+
				"rows of the other. Set spec.restore.backup to the backup to restore",
			b.BackupName(), rival.BackupName(), other.Kind, other.Name), nil
	}
	return startFrom(r, b)
}

// chooseLatest restores the newest verified backup, if the controller and the function agree which one it is.
func chooseLatest(r *resolved, own []v1.BackupRecord) (start, error) {
	b, failed := v1.LatestBackup(own, (*v1.BackupRecord).IsVerified), v1.LatestBackup(own,
		func(b *v1.BackupRecord) bool { return b.Status.Phase == v1.BackupFailed })
	name := v1.PreviousNone
	if b != nil {
		name = b.Name
	}
	switch {
	case failed != nil && (b == nil || failed.After(b) || failed.IsRivalOf(b)):
		return blockServer(v1.ReasonWaiting,
			"Backup %q of a previous %s with this name has failed, and the data is still on its volume. To see why, run: "+
				"kubectl describe msb %s. Fix the cause, or set spec.restore.backup to an older backup. For an empty server, "+
				"set spec.restore.policy to Never",
			failed.BackupName(), r.instance.Kind, failed.BackupName()), nil
	case name != r.XR.Status.PreviousBackup:
		return blockServer(v1.ReasonWaiting,
			"The newest verified backup is %q according to the function, but %q according to the controller. The server "+
				"starts when both agree",
			r.backupName(name), r.backupName(r.XR.Status.PreviousBackup)), nil
	case b == nil:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	}
	rival := rivalOf(b, own)
	switch {
	case rival != nil:
		return blockServer(v1.ReasonWaiting,
			"Backups %q and %q are from two instances with this name that existed at the same time. Neither backup contains "+
				"the rows of the other. Set spec.restore.backup to the backup to restore",
			b.BackupName(), rival.BackupName()), nil
	case b.DeletionTimestamp != nil:
		return blockServer(v1.ReasonWaiting,
			"Backup %q is being deleted. After the deletion, the controller looks for another backup to restore. To choose "+
				"the backup, set spec.restore.backup to its name", b.BackupName()), nil
	}
	return startFrom(r, b)
}

// rivalOf returns the newest verified backup of another instance that existed at the same time as the instance of b,
// or nil.
func rivalOf(b *v1.BackupRecord, among []v1.BackupRecord) *v1.BackupRecord {
	return v1.LatestBackup(among, func(r *v1.BackupRecord) bool { return r.IsVerified() && r.IsRivalOf(b) })
}

// startFrom decides to restore a backup. The server does not start if the backup is from an earlier namespace that the
// platform has not allowed. It returns an error if the backup cannot be restored.
func startFrom(r *resolved, b *v1.BackupRecord) (start, error) {
	if !mayRestore(r, b) {
		return blockServer(v1.ReasonWaiting,
			"Backup %q is from an earlier namespace %q, which may have had another owner. Ask the platform team to allow the "+
				"restore (reusableNamespaces of Platform crossplane-mysql). For an empty server, set spec.restore.policy to "+
				"Never",
			b.BackupName(), r.instance.Namespace), nil
	}
	if b.Spec.Archive == nil {
		return start{}, newRefusal(v1.ReasonInvalid,
			"BackupRecord %q is verified but does not specify where its archive is. Set spec.restore.backup to another "+
				"backup. For an empty server, set spec.restore.policy to Never", b.Name)
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

// checkFits refuses to restore a backup to a volume that is smaller than the volume that was backed up. It ignores a
// hostPath, which has no size.
func checkFits(r *resolved, b *v1.BackupRecord) error {
	current, err := v1.ParseSize(b.Spec.StorageSize)
	if err != nil || r.hostPath || r.size.Cmp(current) >= 0 {
		return nil //nolint:nilerr // A backup without a size sets no minimum. The restore Job checks the space.
	}
	_, field := r.spec.Size()
	return newRefusal(v1.ReasonInvalid,
		"spec.%s: %s is smaller than the volume of backup %q, which has a size of %s. Set it to %s or more%s",
		field, r.size.String(), b.BackupName(), current.String(), current.String(), whyNotGrown(r))
}
