package lifecycle

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// key returns the key of a claim, and ownKey the key of a MySQL without a claim.
func key() instance.Key { return instance.Key{Kind: v1.KindMySQL, Namespace: "default", Name: "db"} }

func ownKey() instance.Key {
	return instance.Key{Kind: ownKind.GroupKind().String(), Namespace: "default", Name: "db"}
}

// ownKind is the kind of a MySQL without a claim.
var ownKind = v1.GroupVersion.WithKind(v1.KindMySQL)

func uidType(s string) types.UID { return types.UID(s) }

// A modelReader serves the objects of a model to the real Gatherer.
type modelReader struct {
	world   model
	objects []client.Object
}

// Get reads an object without a deep copy, because no caller modifies it.
func (r modelReader) Get(_ context.Context, k client.ObjectKey, target client.Object, _ ...client.GetOption) error {
	kind := kindOf(target)
	for _, o := range r.objects {
		if kindOf(o) == kind && o.GetNamespace() == k.Namespace && o.GetName() == k.Name {
			fill(target, o)
			return nil
		}
	}
	return kerrors.NewNotFound(schema.GroupResource{Resource: kind}, k.Name)
}

// A worldReader serves the objects of a model like an API server. The fake store reads its contents from the model.
type worldReader interface {
	client.Reader
	// model returns the state that the model has reached, from which the fake store derives its contents.
	model() model
}

// List lists objects by namespace and labels.
func (r modelReader) List(_ context.Context, l client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	kind := strings.TrimSuffix(listKind(l), "List")
	for _, object := range r.objects {
		if kindOf(object) != kind || o.Namespace != "" && o.Namespace != object.GetNamespace() || o.LabelSelector != nil &&
			!o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		switch l := l.(type) {
		case *corev1.PersistentVolumeList:
			l.Items = append(l.Items, *as[*corev1.PersistentVolume](object))
		case *corev1.PersistentVolumeClaimList:
			l.Items = append(l.Items, *as[*corev1.PersistentVolumeClaim](object))
		case *corev1.PodList:
			l.Items = append(l.Items, *as[*corev1.Pod](object))
		case *batchv1.JobList:
			l.Items = append(l.Items, *as[*batchv1.Job](object))
		case *v1.BackupList:
			l.Items = append(l.Items, *as[*v1.Backup](object))
		case *v1.BackupRecordList:
			l.Items = append(l.Items, *as[*v1.BackupRecord](object))
		case *unstructured.UnstructuredList:
			l.Items = append(l.Items, *as[*unstructured.Unstructured](object))
		case *metav1.PartialObjectMetadataList:
			m := metav1.PartialObjectMetadata{}
			fill(&m, object)
			l.Items = append(l.Items, m)
		}
	}
	return nil
}

func (r modelReader) model() model { return r.world }

func as[T client.Object](o client.Object) T {
	t, ok := o.(T)
	if !ok {
		panic(fmt.Sprintf("the model has a %T", o))
	}
	return t
}

func kindOf(o client.Object) string {
	if k := o.GetObjectKind().GroupVersionKind().Kind; k != "" {
		return k
	}
	return reflect.TypeOf(o).Elem().Name()
}

func listKind(l client.ObjectList) string {
	if k := l.GetObjectKind().GroupVersionKind().Kind; k != "" {
		return k
	}
	return reflect.TypeOf(l).Elem().Name()
}

// fill copies an object to the target of a read.
func fill(target, from client.Object) {
	switch target := target.(type) {
	case *metav1.PartialObjectMetadata:
		target.Name, target.Namespace, target.UID = from.GetName(), from.GetNamespace(), from.GetUID()
		target.Labels, target.Annotations, target.Finalizers = from.GetLabels(), from.GetAnnotations(), from.GetFinalizers()
		target.DeletionTimestamp = from.GetDeletionTimestamp()
	case *unstructured.Unstructured:
		target.Object = as[*unstructured.Unstructured](from).Object
	case *corev1.PersistentVolume:
		*target = *as[*corev1.PersistentVolume](from)
	case *corev1.PersistentVolumeClaim:
		*target = *as[*corev1.PersistentVolumeClaim](from)
	case *corev1.Namespace:
		*target = *as[*corev1.Namespace](from)
	case *v1.Backup:
		*target = *as[*v1.Backup](from)
	case *v1.Platform:
		*target = *as[*v1.Platform](from)
	case *appsv1.Deployment:
		*target = *as[*appsv1.Deployment](from)
	case *batchv1.Job:
		*target = *as[*batchv1.Job](from)
	default:
		panic(fmt.Sprintf("nobody asked for a %T before", target))
	}
}

// gather returns the instances of the model as the real Gatherer reads them.
func (m model) gather() ([]*instance.State, error) {
	return gatherListed(m.gatherer(), m.key())
}

// gatherListed reads the instances, and adds the current list of backups to their status. No decision depends on that
// list, so the model does not contain it.
func gatherListed(g *instance.Gatherer, k instance.Key) ([]*instance.State, error) {
	instances, err := g.Gather(context.Background(), k)
	for _, s := range instances {
		if s.XR != nil {
			s.XR.Status.Backups = &v1.BackupsStatus{Recent: v1.ListBackups(s.Records)}
		}
	}
	return instances, err
}

func (m model) gatherer() *instance.Gatherer { return gathererOf(modelReader{m, m.objects()}) }

// gathererOf returns a Gatherer that reads the objects and the store of a model.
func gathererOf(r worldReader) *instance.Gatherer {
	g := gathererFrom(r)
	g.Stores = modelStores{r}
	return g
}

func gathererFrom(r client.Reader) *instance.Gatherer {
	return &instance.Gatherer{Reader: r, Settings: instance.Settings{AgentImage: "agent"},
		Clock: func() time.Time { return now }}
}

// restoreTestState returns the input of restoretest.Next, which the real reader reads from the objects of the model.
func (m model) restoreTestState() (*restoretest.State, error) {
	s, err := restoretest.ReadState(context.Background(), m.gatherer(), m.key(), restoretest.Turns{}, 1)
	if err != nil {
		return nil, err
	}
	s.NewTurn = ""
	if s.Record != nil {
		s.NewTurn = turnOf(numberOf(s.XR()))
	}
	return s, nil
}

var verdicts = []metav1.ConditionStatus{verdictUnknown: metav1.ConditionUnknown, verdictFalse: metav1.ConditionFalse,
	verdictTrue: metav1.ConditionTrue}

func verdictOf(s metav1.ConditionStatus) int8 { return int8(slices.Index(verdicts, s)) } //nolint:gosec // There are three.

// trialObjects returns the Job of a restore test and its pod.
func (m model) trialObjects() []client.Object {
	if m.trial.job == none {
		return nil
	}
	n := int(m.trial.backup) - 1
	instanceID := m.instanceOf(n)
	labels := instanceID.Labels()
	labels[v1.LabelComponent] = v1.ComponentRestoreTest
	meta := metav1.ObjectMeta{Namespace: "default", Name: instanceID.Jobs().RestoreTest(), UID: trialOf(n), Labels: labels,
		Annotations: map[string]string{v1.AnnotationRestoreTest: string(turnOf(n))}, CreationTimestamp: metav1.NewTime(now),
		DeletionTimestamp: deletedAt(m.trial.job)}
	j := &batchv1.Job{ObjectMeta: meta}
	j.Spec.Template.Spec.Volumes = []corev1.Volume{agent.PVCVolume("backup", "backups")}
	j.Annotations[v1.AnnotationPVCs] = fmt.Sprintf(`{"backup":%q}`, backupsUID)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "trial", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}}
	if m.trial.says == verdictNone {
		return []client.Object{j, p}
	}
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	message := map[int8]string{
		verdictTrue:    `{"command":"bootcheck","ok":true}`,
		verdictUnknown: `{"command":"bootcheck","exitCode":1,"error":"killed"}`,
		verdictFalse:   fmt.Sprintf(`{"command":"bootcheck","exitCode":%d,"error":"corrupt"}`, agent.ExitBroken),
	}[m.trial.says]
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "bootcheck", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}}
	return []client.Object{j, p}
}

func deletedAt(state int8) *metav1.Time {
	if state != dying1 {
		return nil
	}
	timestamp := metav1.NewTime(now.Add(-time.Hour))
	return &timestamp
}

func ourFinalizer(present bool) []string {
	if !present {
		return nil
	}
	return []string{v1.Finalizer}
}

// objects returns the Kubernetes objects of a cluster that is in the state of the model.
func (m model) objects() []client.Object {
	out := []client.Object{&v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName},
		Spec: v1.PlatformSpec{AllowedBackupStores: []string{modelStore}}}}
	if m.namespace != none {
		out = append(out, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "default", UID: namespaceUID(m.current),
				DeletionTimestamp: deletedAt(m.namespace)}})
	}
	if m.claim != none {
		out = append(out, m.claimObject())
	}
	if m.pvc != none {
		l := m.instanceOf(int(m.pvcInstance) - 1)
		c := m.claimOf(int(m.pvcInstance)-1, "default", l.DataPVCName(), "home", m.pvc, m.pvcHeld)
		if m.pvcMarked {
			steps.MarkUID(c)
		}
		out = append(out, c)
	}
	for i, v := range m.volumes {
		if v.made > 0 {
			out = append(out, m.backupPV(i))
		}
	}
	if m.backup != none {
		out = append(out, m.backupPVC())
	}
	out = append(out, m.trialObjects()...)
	out = append(out, m.backupObjects()...)
	for n := range m.instances {
		out = append(out, m.instances[n].objects(n, m.required)...)
		out = append(out, m.removeObject(n)...)
		if l := m.instances[n]; l.handle != none {
			out = append(out, m.claimOf(n, placeName(l.handlePlace), m.instanceOf(n).RecoveryName("data"), handleUID, l.handle,
				l.handleBlocked))
		}
	}
	return out
}

// turnOf returns the ID of the restore test of an instance, and trialOf returns the UID of its Job.
func turnOf(n int) types.UID { return types.UID("turn-" + uidOf(n)) }

func trialOf(n int) types.UID { return types.UID("trial-" + uidOf(n)) }

func placeName(place int8) string {
	if place == atRecovery {
		return v1.RecoveryNamespace
	}
	return "default"
}

func (m model) claimObject() client.Object {
	u := ofKind(instance.ClaimKind)
	u.SetNamespace("default")
	u.SetName("db")
	u.SetFinalizers(ourFinalizer(m.claimOurs))
	u.SetDeletionTimestamp(deletedAt(m.claim))
	spec := map[string]any{"storageSize": "1Gi", "deletionPolicy": "Backup",
		"backup": map[string]any{"finalBackup": map[string]any{"requireRestoreTest": m.required}}}
	if m.claimXR > 0 {
		spec["resourceRef"] = map[string]any{"name": "x" + strconv.Itoa(int(m.claimXR))}
	}
	u.Object["spec"] = spec
	return u
}

func (m model) claimOf(n int, namespace, name, uid string, state int8, held bool) *corev1.PersistentVolumeClaim {
	instanceID, l := m.instanceOf(n), m.instances[n]
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), Labels: instanceID.Labels(), Annotations: agent.Annotations(instanceID),
		Finalizers: ourFinalizer(held), DeletionTimestamp: deletedAt(state),
	}}
	if l.claimMarked {
		c.Annotations[v1.AnnotationNothingToLose] = uidOf(n)
	}
	if l.claimMark > 0 {
		c.Annotations[v1.AnnotationPublished] = l.published(n, l.claimMark)
	}
	if l.toStore {
		c.Annotations[v1.AnnotationBackupStore] = modelStore
	}
	c.Spec.StorageClassName = new("fast")
	c.Status.Phase = corev1.ClaimPending
	if l.pv {
		c.Spec.VolumeName = volumeNames[n]
	}
	home := atHome
	if uid == handleUID {
		home = l.handlePlace
	}
	if l.pv && l.ref == refBound && l.refPlace == home {
		c.Status.Phase = corev1.ClaimBound
	}
	return c
}

var volumeNames = []string{"pv-1", "pv-2"}

func namespaceUID(n int8) types.UID { return types.UID("ns-" + strconv.Itoa(int(n))) }

var backupPVNames = []string{"pv-b", "pv-c"}

func volumeNumber(name string) int8 { return int8(slices.Index(backupPVNames, name)) } //nolint:gosec // There are two.

func (m model) backupPV(n int) client.Object {
	volume := m.volumes[n]
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: backupPVNames[n], Finalizers: ourFinalizer(volume.retained),
			Annotations: map[string]string{}}}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if volume.retained {
		v.Labels, v.Spec.PersistentVolumeReclaimPolicy = steps.BackupLabels(m.instanceOf(0)), corev1.PersistentVolumeReclaimRetain
		v.Annotations[v1.AnnotationNamespaceUID], v.Annotations[v1.AnnotationReclaimPolicy] = string(
			namespaceUID(volume.owner)), string(corev1.PersistentVolumeReclaimDelete)
	}
	if volume.from > 0 {
		v.Annotations[v1.AnnotationEarlierNamespaces] = string(namespaceUID(volume.from))
	}
	m.annotated(v, n)
	v.Spec.ClaimRef = steps.ReservedFor(placeName(volume.namespace), m.backupName(volume.namespace))
	if !volume.free {
		v.Spec.ClaimRef.UID = backupsUID
	}
	return v
}

func (m model) backupName(namespace int8) string {
	if namespace == atRecovery {
		return m.rescuing().RecoveryName("backups")
	}
	return m.instanceOf(0).BackupPVCName()
}

// rescuing returns the instance that is backed up in the recovery namespace.
func (m model) rescuing() v1.Instance { return m.instanceOf(m.rescued()) }

func (m model) rescued() int {
	return max(slices.IndexFunc(m.instances[:], func(l modelInstance) bool {
		return l.handlePlace == atRecovery && l.handle != none
	}), 0)
}

func (m model) backupPVC() client.Object {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: placeName(m.backupAt), Name: m.backupName(m.backupAt), UID: backupsUID,
			DeletionTimestamp: deletedAt(m.backup)}}
	c.Spec.StorageClassName, c.Status.Phase = new("fast"), corev1.ClaimPending
	if !m.backupPending {
		c.Spec.VolumeName, c.Status.Phase = backupPVNames[m.backupOn], corev1.ClaimBound
	}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if m.backupRetained {
		c.Annotations = map[string]string{v1.AnnotationRetainedPV: c.Spec.VolumeName}
	}
	return c
}

// objects returns the Kubernetes objects that exist for one instance of the model.
func (l modelInstance) objects(n int, required bool) []client.Object {
	instanceID := l.instanceOf(n)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "db", Labels: instanceID.Labels()}
	var out []client.Object
	if l.xr != none {
		out = append(out, l.xrObject(n, required))
	}
	if l.deployment != none {
		out = append(out, &appsv1.Deployment{ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(l.deployment - 1))}})
	}
	if l.service {
		out = append(out, &corev1.Service{ObjectMeta: meta})
	}
	if l.pod {
		p := &corev1.Pod{ObjectMeta: meta, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		p.Spec.Volumes = []corev1.Volume{agent.PVCVolume("data", instanceID.DataPVCName())}
		out = append(out, p)
	}
	if l.pv {
		out = append(out, l.volumeObject(n))
	}
	if l.record != recordNone {
		out = append(out, l.recordObject(n, l.recordNo))
	}
	if l.restoreJob {
		out = append(out, l.restoreObjects(n)...)
	}
	return append(append(out, l.imageObjects(n)...), l.jobObjects(n)...)
}

func (l modelInstance) xrObject(n int, required bool) client.Object {
	u := l.newXR(n)
	finalizers := ourFinalizer(l.ours)
	if l.cross {
		finalizers = append(finalizers, instance.FinalizerCrossplane)
	}
	if l.cascade == cascadeForeground {
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	u.SetFinalizers(finalizers)
	u.SetDeletionTimestamp(deletedAt(l.xr))
	remembered := map[string]any{"started": l.started, "pvcDeleted": l.fenced}
	status := map[string]any{v1.StatusInternal: remembered}
	if l.volume {
		status["volume"] = volumeNames[n]
	}
	if l.toStore {
		remembered["backupStore"] = modelStore
	}
	if l.looked {
		remembered["previousBackup"], remembered["backupNumber"] = v1.PreviousNone, l.backupNumber()
		if l.image.counted {
			remembered["firstBackupNumber"] = l.backupNumber() - 1
		}
		if l.previous < 0 {
			remembered["previousBackup"], remembered["heldBackup"] = v1.PreviousHeld, l.instanceOf(int(-l.previous-1)).RecordName()
		}
		if l.previous > 0 {
			remembered["previousBackup"] = l.instanceOf(int(l.previous - 1)).RecordName()
		}
	}
	if l.restore > 0 {
		phase := v1.RestoreRunning
		if l.restored {
			phase = v1.RestoreSucceeded
		}
		status["restore"] = map[string]any{"backup": l.instanceOf(int(l.restore - 1)).RecordName(), "phase": string(phase)}
	}
	l.statusOfImage(status, remembered)
	marks := map[string]string{}
	if l.marked {
		marks[v1.AnnotationNothingToLose] = uidOf(n)
	}
	if l.xrMark > 0 {
		marks[v1.AnnotationPublished] = l.published(n, l.xrMark)
	}
	if len(marks) > 0 {
		u.SetAnnotations(marks)
	}
	u.Object["spec"] = map[string]any{"storageSize": "1Gi", "deletionPolicy": "Backup",
		"backup": map[string]any{"finalBackup": map[string]any{"requireRestoreTest": required}}}
	if !l.own {
		u.Object["spec"].(map[string]any)["claimRef"] = map[string]any{
			"kind": v1.KindMySQL, "namespace": "default", "name": "db"}
	}
	l.image.showRequest(u.Object["spec"].(map[string]any))
	u.Object["status"] = status
	return u
}

// backupNumber returns the number of the instance's next backup. The final backups of the first and the second instance
// have the numbers 1 and 2, unless counted is true.
func (l modelInstance) backupNumber() int64 {
	n := int64(max(l.previous, -l.previous)) + 1
	if l.image.counted {
		n++
	}
	return n
}

func (l modelInstance) volumeObject(n int) client.Object {
	instanceID := l.instanceOf(n)
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeNames[n], Finalizers: ourFinalizer(l.held),
			Annotations: map[string]string{}}}
	v.Spec.PersistentVolumeReclaimPolicy, v.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeBound
	if l.retain {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if l.labelled {
		v.Labels = instanceID.Labels()
		v.Annotations = agent.Annotations(instanceID)
		v.Annotations[v1.AnnotationNamespaceUID], v.Annotations[v1.AnnotationDeletionPolicy] = string(
			namespaceUID(l.born)), "Backup"
		v.Annotations[v1.AnnotationReclaimPolicy] = "Delete"
		if l.toStore {
			v.Annotations[v1.AnnotationBackupStore] = modelStore
		}
		if l.looked { // The controller updates the annotation if the number has changed.
			v.Annotations[v1.AnnotationBackupNumber] = strconv.FormatInt(l.backupNumber(), 10)
			if l.image.counted {
				v.Annotations[v1.AnnotationFirstBackupNumber] = strconv.FormatInt(l.backupNumber()-1, 10)
			}
		}
	}
	if l.pvMark > 0 {
		v.Annotations[v1.AnnotationPublished] = l.published(n, l.pvMark)
	}
	name, uid := instanceID.DataPVCName(), "home"
	if l.refPlace != atHome {
		name, uid = instanceID.RecoveryName("data"), handleUID
	}
	v.Spec.ClaimRef = steps.ReservedFor(placeName(l.refPlace), name)
	switch l.ref {
	case refBound:
		v.Spec.ClaimRef.UID = types.UID(uid)
	case refStale:
		v.Spec.ClaimRef.UID = "gone"
	}
	return v
}

// modelFailure is the error in the report of a failed Job.
const modelFailure = "the volume is full"

// UIDs of the PVC for the data of a deleted instance, and of the backup PVC.
const (
	handleUID  = "handle"
	backupsUID = "backups"
)

// jobPVCs returns the annotation of the backup Job with the UIDs of the PVCs that it was created for.
func (l modelInstance) jobPVCs() string {
	data, backups := "home", backupsUID
	if l.jobPlace != atHome {
		data = handleUID
	}
	if l.jobMoved {
		backups = "earlier"
	}
	if l.toStore {
		return fmt.Sprintf(`{"data":%q}`, data)
	}
	return fmt.Sprintf(`{"data":%q,"backup":%q}`, data, backups)
}

// restoreObjects returns the Job of a completed restore and its pod.
func (l modelInstance) restoreObjects(n int) []client.Object {
	instanceID := l.instanceOf(n)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: instanceID.Jobs().Restore(),
		UID: types.UID("restore-" + uidOf(n)), Labels: instanceID.Labels()}}
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "restore-" + uidOf(n),
		Labels: instanceID.Labels(), OwnerReferences: []metav1.OwnerReference{{UID: j.UID, Controller: new(true)}}}}
	p.Spec.Volumes = []corev1.Volume{agent.PVCVolume("data", instanceID.DataPVCName())}
	p.Status.Phase = corev1.PodSucceeded
	return []client.Object{j, p}
}

func (l modelInstance) jobObjects(n int) []client.Object {
	if l.job == none {
		return nil
	}
	name := l.instanceOf(n).Jobs().Backup()
	if l.jobPlace != atHome {
		name = l.instanceOf(n).RecoveryName(v1.ComponentBackup)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: placeName(l.jobPlace), Name: name,
		UID: types.UID("job-" + uidOf(n)), Labels: l.instanceOf(n).Labels(), DeletionTimestamp: deletedAt(l.job)}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: "agent-" + uidOf(n),
		OwnerReferences: []metav1.OwnerReference{{UID: j.UID, Controller: new(true)}}}}
	mounts := l.instanceOf(n).DataPVCName()
	if l.jobPlace != atHome {
		mounts = l.instanceOf(n).RecoveryName("data")
	}
	p.Spec.Volumes = []corev1.Volume{agent.PVCVolume("data", mounts)}
	j.Spec.Template.Spec.Volumes = []corev1.Volume{agent.PVCVolume(steps.VolumeData, mounts),
		agent.PVCVolume(steps.VolumeBackup, "backups")}
	if l.toStore {
		j.Spec.Template.Spec.Volumes = j.Spec.Template.Spec.Volumes[:1]
	}
	j.Annotations = map[string]string{v1.AnnotationPVCs: l.jobPVCs()}
	if !l.jobDone {
		return []client.Object{j, p}
	}
	endJob(j, p, l.jobFailed)
	if end := p.Status.ContainerStatuses[0].State.Terminated; l.toStore {
		end.Message = strings.Replace(end.Message, `"`+catalog.ArchiveName+`"`, `"aaaaaaaaaa.tar.zst","manifest":{}`, 1)
	}
	return []client.Object{j, p}
}
