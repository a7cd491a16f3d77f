package v1

// Labels of the objects of an instance.
const (
	// LabelApp selects the server's pods: app=NAME.
	LabelApp = "app"
	// LabelComponent is the role of a pod or Job. Its value is a Component constant.
	LabelComponent = "app.kubernetes.io/component"
	// LabelName is the name of the application: mysql or database.
	LabelName = "app.kubernetes.io/name"
	// LabelManagedBy is the name of this product, ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelInstance is Instance.Key. The controller uses it to find the BackupRecords, volumes and Jobs of an instance
	// and of its previous instances. It is only a search key. The spec of an object decides which instance the object
	// belongs to.
	LabelInstance = Group + "/instance"
	// LabelBackup of a BackupRecord is its BackupKey. The function uses it to find the backup that spec.restore.backup
	// names.
	LabelBackup = Group + "/backup"
	// LabelXR is the UID of the composite resource. It distinguishes an instance from previous instances of the same
	// name.
	LabelXR = Group + "/xr"
	// LabelUndo marks the temporary instances with which the plugin undoes a transaction. Its value is the name of the
	// instance.
	LabelUndo = Group + "/undo"
	// LabelPolicyVersion of the ValidatingAdmissionPolicy ProtectionPolicy is its version, ProtectionPolicyVersion.
	LabelPolicyVersion = Group + "/policy-version"
	// LabelPassword with the value "true" on a Secret allows claims in its namespace to use it as the password of root.
	// It is required if the Platform sets requirePasswordLabel.
	LabelPassword = Group + "/password"
)

// ProtectionPolicy is the name of a ValidatingAdmissionPolicy and of its binding. For a MySQL without a claim, the
// policy allows only Crossplane and the controller to write fields on which the safety of the data depends.
// ProtectionPolicyVersion is increased when the function relies on a new rule of the policy.
const (
	ProtectionPolicy        = "crossplane-mysql-protect-mysqls"
	ProtectionPolicyVersion = "1"
)

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "crossplane-mysql"

// Values of LabelComponent.
const (
	ComponentServer      = "server"
	ComponentRestore     = "restore"
	ComponentBackup      = "backup"
	ComponentErase       = "wipe"
	ComponentPrune       = "prune"
	ComponentRestoreTest = "restore-test"
	// ComponentRemoval is a Job that deletes an archive after a user has deleted its BackupRecord and allowed the
	// deletion of the archive.
	ComponentRemoval = "erase"
	// ComponentSurvey is a Job that lists the content of a backup volume.
	ComponentSurvey = "survey"
	// ComponentSettings is a Job that validates new settings.
	ComponentSettings = "settings-check"
	// ComponentDatabase is the server of a Database. It differs from ComponentServer, so that the Service of a MySQL
	// never selects the server of a Database with the same name, and vice versa.
	ComponentDatabase = "database"
)

// JobComponents returns the values of LabelComponent for all Jobs of this product.
func JobComponents() []string {
	return []string{ComponentRestore, ComponentBackup, ComponentErase, ComponentPrune, ComponentRestoreTest,
		ComponentRemoval,
		ComponentSurvey, ComponentSettings}
}

// Annotations of PersistentVolumes, PersistentVolumeClaims, pods and Jobs.
const (
	// AnnotationClaimKind, AnnotationClaimNamespace and AnnotationClaimName identify the claim whose data a volume
	// contains. They remain when the claim and the composite resource are deleted.
	AnnotationClaimKind      = Group + "/claim-kind"
	AnnotationClaimNamespace = Group + "/claim-namespace"
	AnnotationClaimName      = Group + "/claim-name"
	// AnnotationImage is the image of the server that uses a volume.
	AnnotationImage = Group + "/image"
	// AnnotationBackupStore is the name of the BackupStore that backups of a volume are written to. It is unset or
	// empty if backups are written to a volume.
	AnnotationBackupStore = Group + "/backup-store"
	// AnnotationVersion is the version that the server reports. The controller writes it.
	AnnotationVersion = Group + "/version"
	// AnnotationDeletionPolicy is the instance's deletion policy.
	AnnotationDeletionPolicy = Group + "/deletion-policy"
	// AnnotationBackupNumber is the number that the instance's next backup will have.
	AnnotationBackupNumber = Group + "/backup-number"
	// AnnotationFirstBackupNumber is the backup number that the instance started with, if the number has changed since.
	AnnotationFirstBackupNumber = Group + "/first-backup-number"
	// AnnotationChoice is the restore source that the instance was created with.
	AnnotationChoice = Group + "/choice"
	// AnnotationNodes of a volume is the NodePlacement of the Jobs that read it, as JSON.
	AnnotationNodes = Group + "/nodes"
	// AnnotationPullSecrets of a volume contains the names of the image pull secrets of its instance, separated by
	// commas.
	AnnotationPullSecrets = Group + "/image-pull-secrets"
	// AnnotationRestore is the RestoreStatus that a restore Job was created for, as JSON.
	AnnotationRestore = Group + "/restore"
	// AnnotationRestoreTest is the ID of the restore test that a Job was created for.
	AnnotationRestoreTest = Group + "/restore-test"
	// AnnotationConfigHash of a server's pod is the hash of its my.cnf, so that a change of my.cnf restarts the server.
	AnnotationConfigHash = Group + "/config-hash"
	// AnnotationSettings of a Job is the ID of the settings that it validates. AnnotationConfig of its pod is the my.cnf
	// with these settings. The pod mounts the annotation as a file, so that the Job cannot validate other settings.
	AnnotationSettings = Group + "/settings"
	AnnotationConfig   = Group + "/config"
	// AnnotationRevision of a Deployment contains two digests: of the data from which the pod template was created, and
	// of the template. With them, the function recognizes a template of an earlier release, and does not restart the
	// server.
	AnnotationRevision = Group + "/revision"
	// AnnotationStarted of a Deployment means that the function has allowed the server to start. Its value contains the
	// UID of the composite resource. The number of replicas does not prove this, because users can scale a Deployment.
	AnnotationStarted = Group + "/started"
	// AnnotationSkipBackup on a composite resource, a claim or a volume allows the deletion of the instance without a
	// backup. Its value is the UID of the composite resource.
	AnnotationSkipBackup = Group + "/skip-backup"
	// AnnotationWithoutOutside on a composite resource, a claim or a volume allows backups without the data that is
	// stored outside of the data directory. That data is lost. Its value is the UID of the composite resource.
	AnnotationWithoutOutside = Group + "/without-outside-data"
	// AnnotationNothingToLose on a composite resource or a PersistentVolumeClaim means that a Job found no database on
	// its volume after the server was fenced. Its value is the UID of the composite resource. The controller writes it,
	// so that the result is kept when the Job is deleted.
	AnnotationNothingToLose = Group + "/nothing-to-lose"
	// AnnotationRetainedPV of a backup PersistentVolumeClaim names its volume, which the controller retains.
	AnnotationRetainedPV = Group + "/retained-volume"
	// AnnotationMadeFor of a backup PersistentVolumeClaim is the UID of the composite resource that it was created for.
	// A later instance may run on a node that cannot use the volume. If the volume contains no backups, the controller
	// then replaces it.
	AnnotationMadeFor = Group + "/made-for"
	// AnnotationRefusedSize of a backup PersistentVolumeClaim is the size that its storage class refused.
	AnnotationRefusedSize = Group + "/refused-size"
	// AnnotationPVCs of a Job contains the UIDs of the PersistentVolumeClaims that it was created for, as JSON. The
	// keys are the names of the volumes in the pod.
	AnnotationPVCs = Group + "/pvcs"
	// AnnotationPruned of a prune Job lists the BackupRecords whose directories it removes, as JSON. The controller
	// reads it back once the Job is complete.
	AnnotationPruned = Group + "/pruned"
	// AnnotationAccessTo of the Secret of a restore is the object in a store that the Secret gives access to.
	AnnotationAccessTo = Group + "/access-to"
	// AnnotationAccessUntil of the Secret of a backup Job is the time at which the Job's access to the store expires, in
	// RFC 3339. The controller renews the access while the Job runs.
	AnnotationAccessUntil = Group + "/access-until"
	// AnnotationRemoves of a Job names the PersistentVolumeClaim that the Job mounts, and the volume to which the
	// PersistentVolumeClaim was bound at that time. The result of the Job applies only to that volume.
	AnnotationRemoves = Group + "/erases"
	// AnnotationPublished identifies the archive that this cluster is about to publish in a store. Its value is
	// BackupEntry.PublishedArchive. The controller sets it on the composite resource, the data volume and the data
	// PersistentVolumeClaim before it writes the backup metadata to the store. If the metadata in the store differs, it
	// was written by another cluster, or before this cluster was restored from an etcd snapshot.
	AnnotationPublished = Group + "/published-archive"
	// AnnotationReclaimPolicy of a volume is its reclaim policy before the controller set it to Retain. The controller
	// restores that policy when the volume is released.
	AnnotationReclaimPolicy = Group + "/reclaim-policy"
	// AnnotationMarkedUID of a retained volume and of its PersistentVolumeClaim is the UID of the object that it was
	// written on. If the object's own UID differs, the object was cloned, or restored from a backup of a cluster's
	// objects. The labels of such an object may be outdated, or belong to another cluster.
	AnnotationMarkedUID = Group + "/marked-uid"
	// AnnotationTakeOver on a cloned or restored object makes the controller adopt it: the data is backed up and the
	// volume is released. Its value is the object's own UID.
	AnnotationTakeOver = Group + "/take-over"
	// AnnotationLeaveAlone on a cloned or restored object makes the controller ignore it. The object is kept, and the
	// controller removes its own finalizer and label from it. Its value is the object's own UID.
	AnnotationLeaveAlone = Group + "/leave-alone"
	// AnnotationNamespaceUID of a volume is the UID of the namespace whose data or backups the volume contains. A later
	// namespace of the same name may have a different owner.
	AnnotationNamespaceUID = Group + "/namespace-uid"
	// AnnotationEarlierNamespaces of a backup volume contains the UIDs of earlier namespaces of the same name whose
	// backups it also contains, separated by commas.
	AnnotationEarlierNamespaces = Group + "/earlier-namespace-uids"
)

// Annotations of a backup volume. They apply even without a BackupRecord, because setting them requires the
// permission to change PersistentVolumes.
const (
	// AnnotationBackupPrefix, followed by the name of a BackupRecord, contains the metadata of its backup: a
	// BackupEntry, as JSON. It is written before the phase of the BackupRecord becomes BackupVerified, and remains as long
	// as the archive exists.
	AnnotationBackupPrefix = "backup." + Group + "/"
	// AnnotationForgetPrefix, followed by the name of a BackupRecord, allows the next instance to start without that
	// backup. Its value is the UID in the backup's metadata.
	AnnotationForgetPrefix = "forget." + Group + "/"
	// AnnotationMakeRecord makes the controller recreate a missing BackupRecord from the metadata of its backup. Its
	// value is the name of the BackupRecord, or MakeAllRecords.
	AnnotationMakeRecord = Group + "/make-record"
)

// AnnotationForgetPrefix and AnnotationMakeRecord can also be set on a BackupStore. They then refer to a backup in
// the store. For AnnotationMakeRecord, the value is then the prefix that StorePrefix returns, because another cluster
// may have written a backup with the same name.

// AnnotationTakeOverPrefix on a BackupStore names the current holder of its bucket and prefix, which this cluster is
// to replace. A user sets it after verifying that no other cluster writes there. The condition Reachable contains the
// ID of the holder.
const AnnotationTakeOverPrefix = Group + "/take-over-prefix"

// MakeAllRecords as the value of AnnotationMakeRecord requests the BackupRecords of all backups on a volume.
const MakeAllRecords = "all"

// AnnotationDeleteArchive on a BackupRecord makes the controller delete the archive together with the BackupRecord.
// Its value is the BackupRecord's own UID. Without the annotation, the archive is kept.
const AnnotationDeleteArchive = Group + "/delete-archive"

// AnnotationIssuer of the Secret with a server's certificate names the issuer that signed the certificate. After a
// change to the instance's own certificate authority, the annotation names the previous issuer for as long as clients
// still trust it.
const AnnotationIssuer = Group + "/issuer"

// Annotations of the connection Secret and of the pending Secret. They are not published to clients, unlike the keys.
const (
	// AnnotationPasswordChangedAt of the connection Secret is the time at which its password was last changed.
	AnnotationPasswordChangedAt = Group + "/password-changed-at"
	// AnnotationPasswordStagedAt of the pending Secret is the time at which a password change started.
	AnnotationPasswordStagedAt = Group + "/password-staged-at"
	// AnnotationPasswordWindow of the connection Secret is the longest time for which the server refused its password
	// during the last change. It is set for servers without dual passwords.
	AnnotationPasswordWindow = Group + "/password-window"
)

// Finalizer of composite resources, claims, volumes and BackupRecords. Only the controller removes it: from the data
// once a backup is verified, and from a BackupRecord once its archive is deleted or kept.
const Finalizer = Group + "/protect-data"

// Key returns the value of LabelInstance, which is the same for all instances of a claim name.
func (i Instance) Key() string { return hash(i.Kind, i.Namespace, i.Name) }

// OlderKey returns the value of LabelInstance for BackupRecords that the function does not read. A new instance never
// starts from such an old backup, and the size of a request to a function is limited.
func (i Instance) OlderKey() string { return i.Key() + ".older" }

// BackupKey returns the value of LabelBackup for the BackupRecord of a Backup.
func BackupKey(namespace, name string) string { return hash(namespace, name) }

// Labels returns the labels of the objects of the instance.
func (i Instance) Labels() map[string]string {
	name := "mysql"
	if isDatabase(i.Kind) {
		name = "database"
	}
	l := map[string]string{
		LabelName:      name,
		LabelManagedBy: ManagedBy,
		LabelInstance:  i.Key(),
	}
	if i.XR != "" {
		l[LabelXR] = string(i.XR)
	}
	return l
}

// ServerSelector returns the labels that select the server's pods. They must never change, because the selector of a
// Deployment is immutable.
func (i Instance) ServerSelector() map[string]string {
	component := ComponentServer
	if isDatabase(i.Kind) {
		component = ComponentDatabase
	}
	return map[string]string{LabelApp: i.AppLabel(), LabelComponent: component}
}
