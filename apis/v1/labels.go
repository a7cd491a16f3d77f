package v1

// Labels of everything that is made for an instance.
const (
	// LabelApp is what a user selects the server's pods by: app=NAME.
	LabelApp = "app"
	// LabelComponent is the role of a pod or Job: one of the Component constants.
	LabelComponent = "app.kubernetes.io/component"
	// LabelName is the name of the application: mysql, or database.
	LabelName = "app.kubernetes.io/name"
	// LabelManagedBy is this product's name, ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelInstance is Instance.Key, by which the records, volumes and Jobs of
	// all lives of an instance are found. It is a key to look for, never a proof:
	// what is found says in its spec what it is.
	LabelInstance = Group + "/instance"
	// LabelXR is the UID of the XR, which tells one life of an instance from the
	// next.
	LabelXR = Group + "/xr"
	// LabelPassword with the value "true" is on a Secret whose owner lets claims of its
	// namespace use it as the password of root, where the platform asks for that.
	LabelPassword = Group + "/password"
)

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "crossplane-mysql"

// Values of LabelComponent.
const (
	ComponentServer      = "server"
	ComponentRestore     = "restore"
	ComponentBackup      = "backup"
	ComponentWipe        = "wipe"
	ComponentPrune       = "prune"
	ComponentRestoreTest = "restore-test"
	// ComponentErase removes an archive whose record was deleted with the word that
	// it may go.
	ComponentErase = "erase"
	// ComponentSurvey looks at what lies on a backup volume.
	ComponentSurvey = "survey"
	// ComponentSettings validates new settings.
	ComponentSettings = "settings-check"
	// ComponentDatabase is the server of a Database: the Service of a MySQL of the
	// same name must not lead to it, nor the other way round.
	ComponentDatabase = "database"
)

// JobComponents are those of all Jobs of the product.
func JobComponents() []string {
	return []string{ComponentRestore, ComponentBackup, ComponentWipe, ComponentPrune, ComponentRestoreTest, ComponentErase, ComponentSurvey, ComponentSettings}
}

// Annotations of PersistentVolumes, PersistentVolumeClaims, pods and Jobs.
const (
	// AnnotationClaimKind, AnnotationClaimNamespace and AnnotationClaimName say
	// whose data a volume holds, also after claim and XR are gone.
	AnnotationClaimKind      = Group + "/claim-kind"
	AnnotationClaimNamespace = Group + "/claim-namespace"
	AnnotationClaimName      = Group + "/claim-name"
	// AnnotationImage is the image of the server that writes a volume.
	AnnotationImage = Group + "/image"
	// AnnotationBackupStore is the name of the BackupStore that backups of a volume go to;
	// unset, or empty, where they go to a volume.
	AnnotationBackupStore = Group + "/backup-store"
	// AnnotationVersion is what that server says of itself. The controller writes
	// it.
	AnnotationVersion = Group + "/version"
	// AnnotationDeletionPolicy is the instance's deletion policy.
	AnnotationDeletionPolicy = Group + "/deletion-policy"
	// AnnotationBackupNumber is the number that its backup will have.
	AnnotationBackupNumber = Group + "/backup-number"
	// AnnotationFirstBackupNumber is what that was when it began, where it is another one since.
	AnnotationFirstBackupNumber = Group + "/first-backup-number"
	// AnnotationChoice is the choice of what to start from that it began with.
	AnnotationChoice = Group + "/choice"
	// AnnotationNodes of a volume is the NodePlacement of the Jobs that read it, as JSON.
	AnnotationNodes = Group + "/nodes"
	// AnnotationRestore is the RestoreStatus that a restore Job was made for, as
	// JSON.
	AnnotationRestore = Group + "/restore"
	// AnnotationRestoreTest is the ID of the restore test that a Job was made for.
	AnnotationRestoreTest = Group + "/restore-test"
	// AnnotationConfigHash of a server's pod changes with its my.cnf, and so
	// restarts it.
	AnnotationConfigHash = Group + "/config-hash"
	// AnnotationSettings of a Job is the ID of the settings that it validates, and AnnotationConfig of its pod
	// is their my.cnf, which the pod mounts as a file. So the Job never validates other settings than its own.
	AnnotationSettings = Group + "/settings"
	AnnotationConfig   = Group + "/config"
	// AnnotationRevision of a Deployment has a digest of what its pod's template was
	// made for, and one of the template. The function reads it back, so that a newer
	// release restarts no server.
	AnnotationRevision = Group + "/revision"
	// AnnotationStarted of a Deployment, with the XR's UID as its value, says that
	// the function let the server start. The number of replicas does not: anybody
	// may scale.
	AnnotationStarted = Group + "/started"
	// AnnotationSkipBackup on an XR, a claim or a volume, with the XR's UID as its value, says
	// that the instance may go without a backup.
	AnnotationSkipBackup = Group + "/skip-backup"
	// AnnotationWithoutOutside on an XR, a claim or a volume, with the XR's UID as its value, says that
	// a backup may go without the data that is stored outside of the data directory. That data is given up.
	AnnotationWithoutOutside = Group + "/without-outside-data"
	// AnnotationNothingToLose on an XR or a PVC, with the XR's UID as its value, says that
	// the agent found no database on its volume after the fence. The controller
	// writes it, so that this word outlives the Job that gave it.
	AnnotationNothingToLose = Group + "/nothing-to-lose"
	// AnnotationRetainedPV of a backup PVC names the volume that was made to outlive
	// it.
	AnnotationRetainedPV = Group + "/retained-volume"
	// AnnotationMadeFor of a backup PVC is the UID of the XR that it was made for. Without
	// backups it is of no use to a later one, which may be elsewhere.
	AnnotationMadeFor = Group + "/made-for"
	// AnnotationRefusedSize of a backup PVC is the size that its class refused.
	AnnotationRefusedSize = Group + "/refused-size"
	// AnnotationPVCs of a Job is the UID of each PersistentVolumeClaim that it was made
	// for, by the name of its volume in the pod, as JSON.
	AnnotationPVCs = Group + "/pvcs"
	// AnnotationPruned of a prune Job lists the records whose folders it removes, as
	// JSON. It is read back once the Job is complete.
	AnnotationPruned = Group + "/pruned"
	// AnnotationAccessTo of the Secret of a restore is the object in a store that it is for.
	AnnotationAccessTo = Group + "/access-to"
	// AnnotationAccessUntil of the Secret of a backup Job is when its access to a store ends, in RFC 3339. The controller renews it while
	// the Job runs.
	AnnotationAccessUntil = Group + "/access-until"
	// AnnotationErases of a Job names the PVC that it mounts and the volume that this
	// was bound to: its end counts for no other.
	AnnotationErases = Group + "/erases"
	// AnnotationPublished of an XR, its data volume and the PVC of that identifies the archive that this cluster is about to publish in a store:
	// the value is BackupNote.PublishedArchive. The controller writes it before the note. A note in the store that
	// differs was written by another cluster, or before this cluster was set back.
	AnnotationPublished = Group + "/published-archive"
	// AnnotationReclaimPolicy of a volume is the reclaim policy that it had before
	// the controller made it Retain. It gets it back at its release.
	AnnotationReclaimPolicy = Group + "/reclaim-policy"
	// AnnotationMarkedUID of a volume that we keep and of its PersistentVolumeClaim is the UID of
	// the object that it was written on. One that was copied, or restored from a backup of a
	// cluster's objects, has another: what its labels say was true elsewhere, or once.
	AnnotationMarkedUID = Group + "/marked-uid"
	// AnnotationTakeOver on such an object, with its own UID as the value, says that its data
	// is to be backed up, and the volume released.
	AnnotationTakeOver = Group + "/take-over"
	// AnnotationLeaveAlone on such an object, with its own UID as the value, says that it is
	// nobody's: it stays, and loses our finalizer and label.
	AnnotationLeaveAlone = Group + "/leave-alone"
	// AnnotationNamespaceUID of a volume is the UID of the namespace that its data
	// or its backups are from. A later namespace of the same name may be another
	// owner's.
	AnnotationNamespaceUID = Group + "/namespace-uid"
	// AnnotationEarlierNamespaces of a backup volume are the UIDs, with commas
	// between, of earlier namespaces of the same name whose backups lie on it, too.
	AnnotationEarlierNamespaces = Group + "/earlier-namespace-uids"
)

// Annotations of a volume for backups. What they say of its archives is true also
// when no record is left: only those who may change a PersistentVolume write them.
const (
	// AnnotationBackupPrefix and the name of a record are the note of its backup: a
	// BackupNote, as JSON. It is there before the record is Proven, and as long as
	// the archive is.
	AnnotationBackupPrefix = "backup." + Group + "/"
	// AnnotationForgetPrefix and the name of a record, with the UID of its note as
	// the value, say that the next instance may go without that backup.
	AnnotationForgetPrefix = "forget." + Group + "/"
	// AnnotationMakeRecord asks for the record of a backup that has a note and no
	// record: by its name, or MakeAllRecords.
	AnnotationMakeRecord = Group + "/make-record"
)

// Annotations of a BackupStore, beside those of its challenge: AnnotationForgetPrefix and the
// name of a record say of a backup in it what they say of one on a volume. AnnotationMakeRecord has the
// folder of the backup, as StoreFolder makes it: names say nothing of what another cluster has written.

// AnnotationTakeOverPrefix on a BackupStore names the holder of its bucket and prefix that this cluster replaces. A person who knows that
// no other cluster writes there sets it. The condition Reachable has the ID.
const AnnotationTakeOverPrefix = Group + "/take-over-prefix"

// MakeAllRecords is the value of AnnotationMakeRecord that means each of a volume.
const MakeAllRecords = "all"

// AnnotationDeleteArchive on a record, with the record's own UID as its value, says
// that its archive goes with it when it is deleted. Without it the record goes, and
// the archive stays.
const AnnotationDeleteArchive = Group + "/delete-archive"

// AnnotationIssuer of the Secret with a server's certificate is the issuer that has signed it, or the one before it: there
// are authorities of it among those that clients know.
const AnnotationIssuer = Group + "/issuer"

// Annotations of the connection Secret and of the pending one. They are not
// published to clients, as the keys are.
const (
	// AnnotationPasswordChangedAt of the connection Secret is when it got its
	// password.
	AnnotationPasswordChangedAt = Group + "/password-changed-at"
	// AnnotationPasswordStagedAt of the pending Secret is when a change began.
	AnnotationPasswordStagedAt = Group + "/password-staged-at"
	// AnnotationPasswordWindow of the connection Secret is how long at most its
	// password was refused during the last change, by a server without dual
	// passwords.
	AnnotationPasswordWindow = Group + "/password-window"
)

// Finalizer of XR, claim, volumes and records. The controller removes it from the
// data after the proof of a backup and from a record once its archive needs no more
// of it, and nobody else does.
const Finalizer = Group + "/protect-data"

// Key of the instance, for LabelInstance. All lives of a claim share it.
func (i Instance) Key() string { return hash(i.Kind, i.Namespace, i.Name) }

// OlderKey is the value of LabelInstance of the MySQLBackups of the instance that the function does not ask for: a request to a
// function has a bound, and none of them is what a new instance starts from.
func (i Instance) OlderKey() string { return i.Key() + ".older" }

// Labels of everything that is made for the instance.
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

// ServerSelector selects the server's pods. A Deployment's selector cannot
// change, so neither may this.
func (i Instance) ServerSelector() map[string]string {
	component := ComponentServer
	if isDatabase(i.Kind) {
		component = ComponentDatabase
	}
	return map[string]string{LabelApp: i.AppLabel(), LabelComponent: component}
}
