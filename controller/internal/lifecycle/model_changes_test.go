package lifecycle

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// The model applies the changes of the controller. This file translates a changed object back into the state of the
// model. It does the opposite of the method objects, which creates the objects from the state.

// written returns the state of the model after each of the changes, because the controller may crash after any of
// them. It omits states that are equal to the previous one. All changes were decided from the state m.
func (m model) written(subject string, changes []change.Change) []move {
	var out []move
	w := m
	for i, c := range changes {
		if _, possible := w.elsewhere(c); !possible {
			if c.MayFail {
				continue
			}
			break // The later changes depend on this one.
		}
		if c.Verb == change.OfferClone { // The account in the server is created before the Secret.
			half := w
			half.instances[numberOf(c.Server.Of.XR)].image.cloner = true
			out = append(out, move{name: subject + " (the account, and no Secret)", next: half})
		}
		before := w
		if w.write(c); w != before {
			out = append(out, move{name: subject + " (" + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(changes)) + ")",
				next: w})
		}
	}
	return out
}

// elsewhere reports whether a change is written outside of the API server, and whether it is possible now.
func (m model) elsewhere(c change.Change) (elsewhere, possible bool) {
	switch {
	case c.Remote != nil && c.Verb == change.Publish && m.instances[numberOfObject(c.Object)].foreign != foreignNone:
		return true, false // The store already contains another catalog entry.
	case c.Remote != nil:
		return true, !m.down
	case c.Verb == change.CheckData:
		return true, true // The controller also stops a server that does not respond.
	case c.Server != nil:
		return true, m.instances[numberOf(c.Server.Of.XR)].pod
	}
	return false, true
}

// holds reports whether the API server accepts a change of an object. now is the current object, or nil if it is
// deleted.
func holds(c change.Change, now client.Object) bool {
	switch {
	case c.Verb == change.Create:
		return true
	case now == nil:
		return c.MayBeGone
	case c.If == change.OfName:
		return true
	case c.If == change.AsRead && c.Verb == change.Delete:
		return reflect.DeepEqual(now, c.Object)
	case c.If == change.AsRead && c.Fields == nil:
		return reflect.DeepEqual(now, c.Read)
	case c.If == change.AsRead:
		return reflect.DeepEqual(now, c.Object)
	case kindOf(now) == "PersistentVolumeClaim": // All PVCs of a name have the same UID.
		return reflect.DeepEqual(now, c.Object)
	}
	return now.GetUID() == c.Object.GetUID() && reflect.DeepEqual(now.GetLabels(), c.Object.GetLabels())
}

// find returns the object that has the kind, namespace and name of like, or nil.
func find(existing []client.Object, like client.Object) client.Object {
	n := slices.IndexFunc(existing, func(o client.Object) bool {
		return kindOf(o) == kindOf(like) && o.GetNamespace() == like.GetNamespace() && o.GetName() == like.GetName()
	})
	if n < 0 {
		return nil
	}
	return existing[n]
}

// writtenAnnotations lists the annotations that the controller may write. The model reads some of them back. The
// others have no effect on its events.
var writtenAnnotations = []string{
	v1.AnnotationNothingToLose, v1.AnnotationNamespaceUID, v1.AnnotationMakeRecord, v1.AnnotationDeleteArchive,
	v1.AnnotationRetainedPV, v1.AnnotationMarkedUID,
	v1.AnnotationReclaimPolicy, v1.AnnotationDeletionPolicy, v1.AnnotationBackupNumber, v1.AnnotationFirstBackupNumber,
	v1.AnnotationEarlierNamespaces, v1.AnnotationClaimKind, v1.AnnotationClaimNamespace, v1.AnnotationClaimName,
	v1.AnnotationBackupStore, v1.AnnotationPublished,
}

// unknownAnnotation returns an annotation that a patch changes and the model does not contain, or "".
func unknownAnnotation(c change.Change) string {
	if c.Verb != change.Patch {
		return ""
	}
	before, after := c.Read.GetAnnotations(), c.Object.GetAnnotations()
	for key := range maps.Keys(mergedKeys(before, after)) {
		known := slices.Contains(writtenAnnotations, key) || strings.HasPrefix(key, v1.AnnotationBackupPrefix) ||
			strings.HasPrefix(key, v1.AnnotationForgetPrefix)
		if before[key] != after[key] && !known {
			return key
		}
	}
	return ""
}

func mergedKeys(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// write updates the model in the way in which a change would update a real cluster. The precondition of the change must
// hold.
func (m *model) write(c change.Change) {
	if key := unknownAnnotation(c); key != "" {
		m.broken = "the model does not know annotation " + key
	}
	if f := removedForeignFinalizer(c); f != "" {
		m.broken = "the controller removes finalizer " + f + ", which is not its own"
	}
	n := numberOfObject(c.Object)
	if c.Remote != nil {
		m.writeStore(n, c)
		return
	}
	if c.Server != nil {
		m.writeServer(numberOf(c.Server.Of.XR), c.Verb)
		return
	}
	switch o := c.Object.(type) {
	case *corev1.PersistentVolume:
		if i := volumeNumber(o.Name); i >= 0 {
			m.writeBackupPV(&m.volumes[i], c)
			return
		}
		m.writeDataPV(slices.Index(volumeNames, o.Name), c)
	case *corev1.PersistentVolumeClaim:
		m.writePVC(n, c, o)
	case *v1.BackupRecord:
		m.writeRecord(n, c)
	case *batchv1.Job:
		m.writeJob(n, c, o)
	case *appsv1.Deployment:
		if c.Verb == change.Delete {
			m.instances[n].deployment = none
			return
		}
		m.instances[n].deployment = int8(*o.Spec.Replicas) + 1 //nolint:gosec // It is 0 or 1.
	default:
		switch gvk := c.Object.GetObjectKind().GroupVersionKind(); gvk.Kind {
		case v1.KindMySQL:
			if gvk == ownKind {
				m.writeXR(n, c)
			} else if c.Verb == change.Patch {
				m.claimOurs = instance.HasFinalizer(c.Object)
			}
		case v1.KindXMySQL:
			m.writeXR(n, c)
		case "Deployment": // Leftovers are deleted as objects with metadata only.
			m.instances[n].deployment = none
		case "Service":
			m.instances[n].service = false
		case "Secret":
			m.instances[n].image.access = false
		default:
			m.broken = "the model does not know how to " + string(c.Verb) + " a " + kindOf(c.Object)
		}
	}
}

// numberOfObject returns the index of the instance that an object belongs to, or -1 if it is unknown.
func numberOfObject(o client.Object) int {
	switch n := numberOf(types.UID(o.GetLabels()[v1.LabelXR])); {
	case n >= 0:
		return n
	case numberOf(o.GetUID()) >= 0:
		return numberOf(o.GetUID())
	}
	return numberWith(o.GetName(), v1.Instance.RecordName)
}

// differs reports whether a patch changes the value that read extracts from the object.
func differs[T comparable](c change.Change, read func(client.Object) T) bool {
	return read(c.Read) != read(c.Object)
}

func annotationOf(key string) func(client.Object) string {
	return func(o client.Object) string { return o.GetAnnotations()[key] }
}

func (m *model) writeXR(n int, c change.Change) {
	l := &m.instances[n]
	switch c.Verb { //nolint:exhaustive // The controller creates no XR.
	case change.Delete:
		if l.xr = dying1; l.own {
			m.broken = "the controller deletes the object of a user"
		}
	case change.Patch:
		if differs(c, instance.HasFinalizer) {
			l.ours = instance.HasFinalizer(c.Object)
		}
		if differs(c, annotationOf(v1.AnnotationNothingToLose)) {
			l.marked = true
		}
		if differs(c, annotationOf(v1.AnnotationPublished)) {
			l.xrMark = publishedNumber(n, c.Object)
		}
	case change.PatchStatus:
		m.writeXRStatus(l, c.Fields)
	}
}

// writeXRStatus stores the status fields of the XR that later decisions depend on. All other fields are only shown to
// users.
func (m *model) writeXRStatus(l *modelInstance, status map[string]any) {
	fields, _ := status[v1.StatusInternal].(map[string]any)
	for field := range status {
		if !slices.Contains([]string{v1.StatusInternal, "message", "reason", "backups", "deletion"}, field) {
			m.broken = "the model does not know status." + field
		}
	}
	for field, value := range fields {
		switch field {
		case "previousBackup":
			l.looked, l.previous = true, m.numberNamed(value)
			if held := m.numberNamed(fields["heldBackup"]); value == v1.PreviousHeld {
				l.previous = -held
			}
		case "heldBackup": // It is written together with previousBackup.
		case "backupNumber":
			l.image.counted = l.image.counted || fields["previousBackup"] == nil && value != int64(1)
		case "firstBackupNumber": // It is written together with a greater number.
		case "backupSchedule":
			l.image.due = false // Each new value is about the next scheduled backup.
		case "requestedBackup", "scheduledBackup":
			l.image.writeRequestStatus(value)
		case "imageChange":
			l.image.writeImageStatus(value)
		case "pvcDeleted":
			l.fenced = value == true
		// These fields are about events that the model does not contain, such as pods that never terminate.
		case "blockedBy", "restoredBy", "restoreSource", "recoverySource", "backupNeeds", "backupWarning", "backupNodes", "crossplaneWarning",
			"refusedService":
		default:
			m.broken = "the model does not know status.internal." + field
		}
	}
}

// numberNamed returns the number of the instance whose BackupRecord has the given name. The first instance has the
// number 1, and 0 means that there is none.
func (m *model) numberNamed(name any) int8 {
	for i := range m.instances {
		if name == m.instanceOf(i).RecordName() {
			return int8(i + 1)
		}
	}
	return 0
}

func isRetained(o client.Object) bool {
	v, ok := o.(*corev1.PersistentVolume)
	// A volume without the finalizer can be deleted.
	return ok && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && instance.HasFinalizer(v)
}

func claimRefOf(o client.Object) corev1.ObjectReference {
	if v, ok := o.(*corev1.PersistentVolume); ok && v.Spec.ClaimRef != nil {
		return *v.Spec.ClaimRef
	}
	return corev1.ObjectReference{}
}

// placeOfObject returns the location of a PVC with data, from its namespace and name.
func placeOfObject(namespace, name, atHomeName string) int8 {
	switch {
	case namespace == v1.RecoveryNamespace:
		return atRecovery
	case name == atHomeName:
		return atHome
	}
	return besideHome
}

func (m *model) writeDataPV(n int, c change.Change) {
	l := &m.instances[n]
	if differs(c, isRetained) {
		if l.retain = isRetained(c.Object); !l.retain && m.atStake(l) {
			m.broken = "a volume gets its reclaim policy back before the backup of its data is proven"
		}
	}
	if differs(c, instance.HasFinalizer) {
		l.held = instance.HasFinalizer(c.Object)
		if !l.held && m.required && l.xr != none && l.record == recordVerified && !l.ran {
			m.broken = "the data goes before a server has run on its backup"
		}
	}
	if differs(c, annotationOf(v1.AnnotationNamespaceUID)) {
		l.labelled = true
	}
	if differs(c, annotationOf(v1.AnnotationPublished)) {
		l.pvMark = publishedNumber(n, c.Object)
	}
	if ref := claimRefOf(c.Object); differs(c, claimRefOf) {
		if m.binds(n) {
			m.broken = "a claim loses the volume that it is bound to"
		}
		l.ref, l.refPlace = refFree, placeOfObject(ref.Namespace, ref.Name, m.instanceOf(n).DataPVCName())
	}
}

// atStake reports whether the volume of an instance has rows and no verified backup of them exists.
func (m *model) atStake(l *modelInstance) bool {
	return l.rows > 0 && l.noted == 0 && l.record != recordVerified
}

func (m *model) writeBackupPV(v *modelVolume, c change.Change) {
	if differs(c, isRetained) {
		v.retained = isRetained(c.Object)
	}
	if differs(c, claimRefOf) {
		ref := claimRefOf(c.Object)
		v.namespace, v.free = atHome, true
		if ref.Namespace == v1.RecoveryNamespace {
			v.namespace = atRecovery
		}
	}
	if o := as[*corev1.PersistentVolume](c.Object); differs(c, annotationOf(v1.AnnotationNamespaceUID)) {
		v.owner = namespaceNumber(instance.NamespaceOf(o))
		if earlier := instance.EarlierNamespaces(o); len(earlier) > 0 {
			v.from = namespaceNumber(types.UID(earlier[0]))
		}
	}
	if differs(c, annotationOf(v1.AnnotationMakeRecord)) {
		v.asked = 0
	}
	for n := range m.instances {
		m.writeEntry(n, c)
	}
}

func (m *model) writeEntry(n int, c change.Change) {
	l, name := &m.instances[n], m.instanceOf(n).RecordName()
	if key := v1.AnnotationBackupPrefix + l.recordNameOfImage(n); differs(c, annotationOf(key)) {
		l.image.noted = annotationOf(key)(c.Object) != ""
	}
	if key := v1.AnnotationBackupPrefix + name; differs(c, annotationOf(key)) {
		l.noted = 0
		if text := annotationOf(key)(c.Object); text != "" {
			entry := v1.BackupEntry{}
			if err := json.Unmarshal([]byte(text), &entry); err != nil {
				m.broken = "a note cannot be read"
			}
			l.noted = recordNumber(n, entry.Record)
		} else if l.archived > 0 {
			m.broken = "the note of an archive goes, and the archive does not"
		}
	}
	if key := v1.AnnotationForgetPrefix + name; differs(c, annotationOf(key)) {
		l.forgotten = 0
	}
}

func (m *model) writePVC(n int, c change.Change, o *corev1.PersistentVolumeClaim) {
	if isBackupPVC(o) {
		m.writeBackupPVC(c, o)
		return
	}
	l := &m.instances[n]
	state, held := &m.pvc, &m.pvcHeld
	place := placeOfObject(o.Namespace, o.Name, m.instanceOf(n).DataPVCName())
	if place != atHome {
		state, held = &l.handle, &l.handleBlocked
	}
	switch c.Verb { //nolint:exhaustive // The controller writes no status of a PVC.
	case change.Create:
		if *state != none {
			return
		}
		l.claimMark = 0
		if *state, *held = alive1, true; place == atHome {
			m.pvcInstance = int8(n + 1) //nolint:gosec // There are two.
		} else {
			l.handlePlace = place
		}
	case change.Delete:
		*state = dying1
	case change.Patch:
		*held = instance.HasFinalizer(o)
		if place == atHome && differs(c, annotationOf(v1.AnnotationMarkedUID)) {
			m.pvcMarked = true
		}
		if differs(c, annotationOf(v1.AnnotationNothingToLose)) {
			l.claimMarked = true
		}
		if differs(c, annotationOf(v1.AnnotationPublished)) {
			l.claimMark = publishedNumber(n, o)
		}
	}
}

// isBackupPVC reports whether a PVC is the usual backup PVC, or one in the recovery namespace.
func isBackupPVC(o *corev1.PersistentVolumeClaim) bool {
	return o.Name == key().Instance("").BackupPVCName() || o.Name == ownKey().Instance("").BackupPVCName() ||
		rescuedBackups(o) >= 0
}

// rescuedBackups returns the index of the instance that owns this backup PVC in the recovery namespace. It returns -1
// for the usual backup PVC.
func rescuedBackups(o *corev1.PersistentVolumeClaim) int {
	return numberWith(o.Name, func(i v1.Instance) string { return i.RecoveryName("backups") })
}

func (m *model) writeBackupPVC(c change.Change, o *corev1.PersistentVolumeClaim) {
	switch c.Verb { //nolint:exhaustive // The controller writes no status of a PVC.
	case change.Create:
		if m.backup == none {
			m.bindBackups(o)
		}
	case change.Delete:
		m.backup = dying1
	case change.Patch:
		m.backupRetained = o.Annotations[v1.AnnotationRetainedPV] != ""
	}
}

// bindBackups binds a new backup PVC, as Kubernetes does. The PVC gets the volume that it names, or a new volume. The
// new volume is provisioned immediately, or when a pod mounts the PVC.
func (m *model) bindBackups(o *corev1.PersistentVolumeClaim) {
	m.backup, m.backupRetained, m.backupAt = alive1, false, atHome
	if o.Namespace == v1.RecoveryNamespace {
		m.backupAt = atRecovery
	}
	m.backupOn = max(volumeNumber(o.Spec.VolumeName), 0)
	if o.Spec.VolumeName == "" && m.volumes[0].made > 0 {
		m.backupOn = 1
	}
	if m.backupPending = m.late && o.Spec.VolumeName == ""; !m.backupPending {
		m.makeBackupVolume()
	}
}

// makeBackupVolume provisions the volume of the backup PVC, if it does not exist yet.
func (m *model) makeBackupVolume() {
	m.backupPending = false
	v := &m.volumes[m.backupOn]
	if v.namespace, v.free = m.backupAt, false; v.made == 0 {
		if v.made = m.current; m.backupAt == atRecovery {
			v.made = m.instances[m.rescued()].born
		}
		v.owner = v.made
	}
}

func (m *model) writeRecord(n int, c change.Change) {
	l := &m.instances[n]
	if c.Object.GetName() == l.recordNameOfImage(n) {
		m.writeImageRecord(n, c)
		return
	}
	switch c.Verb { //nolint:exhaustive // The controller uses no other verb.
	case change.Create:
		l.makeRecord()
	case change.Delete:
		l.recordDying = true
	case change.Patch:
		if differs(c, annotationOf(v1.AnnotationDeleteArchive)) {
			l.markedForRemoval = true
		}
		if l.recordHeld = instance.HasFinalizer(c.Object); l.recordDying && !l.recordHeld {
			if l.turn != turnNone {
				m.broken = "a record goes before its restore test has ended, and nobody knows the Job any more"
			}
			l.loseRecord()
		}
	case change.PatchStatus:
		m.writeRecordStatus(l, c)
	}
}

func (m *model) writeRecordStatus(l *modelInstance, c change.Change) {
	if phase := as[*v1.BackupRecord](c.Object).Status.Phase; phase != "" {
		if phase == v1.BackupVerified && l.record != recordVerified && l.foreign != foreignNone {
			m.broken = "a record is proven by the note of another cluster"
		}
		l.record = phaseNumber(phase)
	}
	if differs(c, turnIn) {
		l.turn = turnIn(c.Object)
	}
	if differs(c, concludedIn) {
		l.verdict = verdictIn(c.Object)
	}
	if differs(c, isConcluded) {
		l.heard = isConcluded(c.Object)
	}
}

func phaseNumber(p v1.BackupPhase) int8 { return int8(slices.Index(recordPhases, p)) } //nolint:gosec // There are five.

// turnIn returns the progress of the restore test in a BackupRecord: turnNone, turnTaken or turnNamed.
func turnIn(o client.Object) int8 {
	switch t := as[*v1.BackupRecord](o).Status.RestoreTest; {
	case t == nil:
		return turnNone
	case t.Job == "":
		return turnTaken
	}
	return turnNamed
}

// isConcluded reports whether the restore test in a BackupRecord has a result.
func isConcluded(o client.Object) bool {
	t := as[*v1.BackupRecord](o).Status.RestoreTest
	return t != nil && t.Concluded
}

// concludedIn returns the time at which a BackupRecord got the result of its restore test.
func concludedIn(o client.Object) metav1.Time {
	c := apimeta.FindStatusCondition(as[*v1.BackupRecord](o).Status.Conditions, v1.ConditionRestorable)
	if c == nil {
		return metav1.Time{}
	}
	return c.LastTransitionTime
}

// verdictIn returns the result of the restore test in a BackupRecord.
func verdictIn(o client.Object) int8 {
	c := apimeta.FindStatusCondition(as[*v1.BackupRecord](o).Status.Conditions, v1.ConditionRestorable)
	if c == nil {
		return verdictNone
	}
	return verdictOf(c.Status)
}

func (m *model) writeJob(n int, c change.Change, o *batchv1.Job) {
	l := &m.instances[n]
	deleted := c.Verb == change.Delete
	switch o.Name {
	case v1.RemovalJobName(m.instanceOf(n).RecordName()):
		if l.erase = alive1; deleted {
			l.erase = dying1
			return
		}
		l.erased = false
	case m.instanceOf(n).Jobs().ImageChange(), m.instanceOf(n).Jobs().Request():
		m.writeImageJob(n, c)
	case m.instanceOf(n).Jobs().Restore():
		l.restoreJob = false
	case m.instanceOf(n).Jobs().RestoreTest():
		if deleted {
			m.trial.job = dying1
			return
		}
		if m.trial.job == none {
			m.trial = modelTrial{job: alive1, backup: int8(n + 1)} //nolint:gosec // There are two.
		}
	case m.instanceOf(n).Jobs().Backup(), m.instanceOf(n).RecoveryName(v1.ComponentBackup):
		if deleted {
			l.job = dying1
			return
		}
		if l.job == none {
			l.job, l.jobPlace, l.jobDone, l.jobFailed, l.jobMoved = alive1, placeOfObject(o.Namespace, o.Name,
				m.instanceOf(n).Jobs().Backup()), false, false, false
		}
	default:
		m.broken = "the model does not know Job " + o.Name
	}
}

func namespaceNumber(uid types.UID) int8 {
	n, _ := strconv.Atoi(strings.TrimPrefix(string(uid), "ns-"))
	return int8(n) //nolint:gosec // There are two.
}

// publishedNumber returns the generation of the BackupRecord that AnnotationPublished of an object names, see
// recordNumber.
func publishedNumber(n int, o client.Object) int8 {
	uid, _, _ := strings.Cut(o.GetAnnotations()[v1.AnnotationPublished], " ")
	return recordNumber(n, types.UID(uid))
}

// recordNumber returns the generation of an instance's BackupRecord from its UID. The first one has generation 1, and
// each one that is created again has the next generation.
func recordNumber(n int, uid types.UID) int8 {
	suffix := strings.TrimPrefix(string(uid), "record-"+uidOf(n))
	return int8(1 + strings.Count(suffix, "-again")) //nolint:gosec // There are few.
}
