package compose

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/durability"
)

// checkAt validates spec.restore.at.
func checkAt(r *resolved, fldPath *field.Path) field.ErrorList {
	restore := &r.spec.Restore
	if restore.At == nil {
		return nil
	}
	var errs field.ErrorList
	if !v1.IsMoment(*restore.At) {
		errs = append(errs, field.Invalid(fldPath, clipText(*restore.At),
			"must be a time, such as 2026-11-22T18:00:00.25Z, the GTID of a transaction, before: and a GTID, or Latest"))
	}
	if r.database {
		errs = append(errs, field.Forbidden(fldPath, "is supported only for a MySQL, and not for a Database. Remove it"))
	}
	if restore.Backup != nil || restore.Import != nil || restore.Policy == v1.RestoreNever {
		errs = append(errs, field.Forbidden(fldPath, "backup, import or policy Never is also set. Remove one of them"))
	}
	return errs
}

// checkContinuous validates spec.backup.continuous. A volume cannot contain the binary log.
func checkContinuous(r *resolved, fldPath *field.Path) field.ErrorList {
	errs := durability.CheckFields(r.spec.Backup.Continuous, fldPath)
	switch {
	case !r.spec.Backup.RequiresArchive() || !r.Required.Platform.Known:
		return errs
	case r.database:
		return append(errs, field.Forbidden(fldPath, "is supported only for a MySQL, and not for a Database. Remove it"))
	case r.spec.DeletionPolicy == v1.DeletionDiscard:
		errs = append(errs, field.Forbidden(fldPath,
			"is not possible with deletionPolicy Discard, with which no backups are taken. Remove one of them"))
	case r.store == "" && r.storeRefused == nil: // Another message says which stores are allowed.
		errs = append(errs, field.Forbidden(fldPath,
			"requires a BackupStore. Set spec.backup.storeRef, or remove continuous"))
	}
	if r.spec.Backup.RequiresStoreDurability() {
		errs = append(errs, durability.CheckServer(durability.Server{Image: r.wantedImage, HasGTIDs: r.hasGTIDs,
			Config: r.spec.Config}, field.NewPath("spec"))...)
	}
	return errs
}

// archivesLog reports whether the binary log of the instance is archived, if its server supports it.
func archivesLog(r *resolved) bool { return !r.database && r.store != "" && r.spec.AllowsArchive() }

// chooseRecovery restores the backup with which the recovery to the requested time begins.
func chooseRecovery(r *resolved) (start, error) {
	const fldPath = "spec.restore.at"
	found := r.XR.Status.RecoverySource
	switch {
	case found == nil || found.Choice != r.spec.Restore.Choice():
		return blockServer(v1.ReasonWaiting, "Waiting for the controller to find a backup and a binary log for %s. "+
			checkController, fldPath), nil
	case found.Backup == "" || found.Recovery == nil:
		return start{}, newRefusal(v1.ReasonInvalid, "%s: %s. Change the field, or remove it", fldPath,
			found.Message)
	}
	among := r.Required.Records.Items
	if r.spec.Restore.From != nil {
		among = r.Required.Named.Items
	}
	b := v1.LatestBackup(among, func(b *v1.BackupRecord) bool { return b.Name == found.Backup })
	switch {
	case b == nil:
		return blockServer(v1.ReasonWaiting, "Waiting for Crossplane to read backup %q, with which the recovery begins",
			found.Backup), nil
	case !b.IsVerified() || b.DeletionTimestamp != nil:
		return blockServer(v1.ReasonWaiting, "Backup %q, with which the recovery begins, is being deleted. The controller looks "+
			"for another one", b.BackupName()), nil
	}
	out, err := startFrom(r, b)
	if out.restore != nil {
		out.restore.Recovery = found.Recovery.DeepCopy()
		if err := checkRecovery(out.restore, b); err != nil {
			return start{}, err
		}
		out = startAfter(r, out.restore)
	}
	return out, err
}

// isPlanned reports whether the instance only plans a recovery. It then has no objects, so a plan uses no resources and
// can be deleted immediately.
func isPlanned(r *resolved) bool {
	return r.spec.Suspend && r.spec.Restore.At != nil && !r.started && r.XR.Status.Restore == nil && r.Observed.Restore == nil
}

// planRecovery makes the same checks as a recovery, but restores nothing. The controller has not looked for the
// backups of a previous instance with this name yet, so the restore source is chosen again when the instance is
// resumed.
func planRecovery(r *resolved) (start, error) {
	const prefix = "Suspended: nothing is restored or created until spec.suspend is false. "
	if !r.Required.Records.Known || !r.Required.Namespace.Known || r.spec.Restore.From != nil && !r.Required.Named.Known {
		return blockServer(v1.ReasonSuspended, prefix+"Waiting for Crossplane to read the backups"), nil
	}
	last := v1.LatestBackup(ownBackups(r.instance, r.Required.Records.Items), isFinished)
	if isChoiceUsed(&r.spec.Restore, last) {
		return blockServer(v1.ReasonSuspended, "%s", withUsedChoice(prefix+"Then the newest backup is restored", &r.spec.Restore,
			last)), nil
	}
	out, err := chooseRecovery(r)
	if err != nil {
		return start{}, err
	}
	if out.restore == nil {
		return blockServer(v1.ReasonSuspended, prefix+"%s", out.message), nil
	}
	return blockServer(v1.ReasonSuspended, prefix+"status.backups.recoveryPlan describes the recovery"), nil
}

// recoveryPlan returns the plan for spec.restore.at, or nil if there is none or if the instance has started.
func recoveryPlan(r *resolved) *v1.RecoveryPlan {
	found := r.XR.Status.RecoverySource
	if found == nil || r.started || found.Choice != r.spec.Restore.Choice() {
		return nil
	}
	return found.Plan.DeepCopy()
}

// checkRecovery returns an error unless a recovery applies the binary log of the instance that was backed up.
func checkRecovery(from *v1.RestoreStatus, b *v1.BackupRecord) error {
	if c := from.Recovery; c != nil && (!v1.IsLogOf(c, b) || from.Archive.Store == "" ||
		!sha256Pattern.MatchString(c.Digest) || c.Segment < 1) {
		return newRefusal(v1.ReasonInvalid, "The binary log for the recovery does not belong to backup %q", b.BackupName())
	}
	return nil
}

// recoveryPod returns the pod that unpacks a backup and applies the archived binary log to it with the server's image.
// A container of the product then verifies the result and makes it the data of the instance.
func recoveryPod(r *resolved, from *v1.RestoreStatus) corev1.PodSpec {
	importing := agent.Importing{Volume: dataPath, XR: r.instance.XR, Name: from.Backup + v1.ChoiceAt + from.Recovery.At}
	unpacking := agent.Unpacking{SHA256: from.Archive.SHA256, Version: from.Version, Clean: from.CleanShutdown}
	access, accessMount := whereArchiveIs(r, &from.Archive, &unpacking)
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	tools := agent.ToolsMount()
	tools.ReadOnly = true
	base := agent.Container("restore-base", r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath),
		[]corev1.VolumeMount{tools, data, accessMount}, importing.Base(unpacking)...)
	apply := agent.Container("apply-log", r.templateInput.Image, agent.ServerMemory, agent.ServerSecurity(),
		[]corev1.VolumeMount{tools, data, accessMount}, importing.ApplyLog(from.Recovery)...)
	lay(&apply.Resources, r.resources)
	pod := corev1.PodSpec{
		SecurityContext: agent.PodSecurity(r.hostPath),
		InitContainers: append(append([]corev1.Container{agent.ToolsContainer(r.platform.AgentImage),
			agent.VersionContainer(r.templateInput.Image), base}, ownData(r, data)...), apply),
		Containers: []corev1.Container{
			agent.Container(v1.ComponentRestore, r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath),
				[]corev1.VolumeMount{tools, data}, importing.Import()...)},
		Volumes: []corev1.Volume{agent.ToolsVolume(), agent.PVCVolume("data", r.instance.DataPVCName()), access},
	}
	schedule(r.serverInput, &pod)
	return pod
}

// archivingCondition returns the condition Archiving from what the controller reports.
func archivingCondition(a *v1.ArchivingStatus) Condition {
	out := Condition{Type: v1.ConditionArchiving}
	switch {
	case a == nil:
		out.Reason, out.Message = v1.ReasonNotStarted, "Waiting for the controller to archive the binary log. "+checkController
	case a.Unsupported:
		out.Reason, out.Message = v1.ReasonArchiveUnsupported, a.Message
	case a.Suspended:
		out.Reason, out.Message = v1.ReasonStoreDurabilitySuspended, a.Message
	case !a.OK:
		out.Reason, out.Message = v1.ReasonArchiveFailing, a.Message
	default:
		out.True, out.Reason, out.Message = true, v1.ReasonArchived, a.Message
	}
	return out
}
