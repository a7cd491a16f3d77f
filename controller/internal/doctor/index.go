package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// An index finds the objects of each instance among the objects of a cluster.
type index struct {
	*Cluster

	volumes  map[string]*corev1.PersistentVolume
	pvcs     map[client.ObjectKey]*corev1.PersistentVolumeClaim
	subjects map[instance.Key]*subject
	// living contains the UIDs of all XRs. orphaned contains the UIDs of deleted XRs whose data still exists.
	living, orphaned map[types.UID]bool
}

// A subject contains the objects of all instances that have the same kind, namespace and name.
type subject struct {
	key   instance.Key
	claim *instance.Composite
	xrs   []*instance.Composite
	// holders are the objects that have the product's finalizer and an annotation with the UID of an XR: first the
	// volumes, then the PVCs. dataPVs are the volumes among them.
	holders []client.Object
	dataPVs []*corev1.PersistentVolume
	// backupPVs are the backup volumes.
	backupPVs []*corev1.PersistentVolume
	// records are the BackupRecords, newest first.
	records []*v1.BackupRecord
}

// newIndex assigns the objects of a cluster to instances.
func newIndex(c *Cluster) *index {
	x := &index{
		Cluster: c, volumes: map[string]*corev1.PersistentVolume{},
		pvcs:     map[client.ObjectKey]*corev1.PersistentVolumeClaim{},
		subjects: map[instance.Key]*subject{}, living: map[types.UID]bool{}, orphaned: map[types.UID]bool{},
	}
	for _, c := range x.Claims {
		x.subjectOf(instance.Key{Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName()}).claim = c
	}
	for _, xr := range x.XRs {
		x.living[xr.GetUID()] = true
		if k, ok := xr.Key(); ok {
			p := x.subjectOf(k)
			p.xrs = append(p.xrs, xr)
		}
	}
	for i := range x.Records {
		r := &x.Records[i]
		origin := r.Spec.Instance
		p := x.subjectOf(instance.Key{Kind: origin.Kind, Namespace: origin.Namespace, Name: origin.Name})
		p.records = append(p.records, r)
	}
	x.indexVolumes()
	for _, p := range x.subjects {
		slices.SortFunc(p.records, v1.NewestFirst)
	}
	return x
}

func (x *index) indexVolumes() {
	for i := range x.Volumes {
		v := &x.Volumes[i]
		x.volumes[v.Name] = v
		switch k, ok := keyOf(v); {
		case ok && instance.IsForBackups(v):
			p := x.subjectOf(k)
			p.backupPVs = append(p.backupPVs, v)
		case ok && instance.HoldsData(v):
			p := x.subjectOf(k)
			p.dataPVs = append(p.dataPVs, v)
			x.addHolder(p, v)
		}
	}
	for i := range x.PVCs {
		c := &x.PVCs[i]
		x.pvcs[client.ObjectKeyFromObject(c)] = c
		if k, ok := keyOf(c); ok && instance.HoldsData(c) {
			x.addHolder(x.subjectOf(k), c)
		}
	}
}

func (x *index) addHolder(p *subject, o client.Object) {
	p.holders = append(p.holders, o)
	x.orphaned[instance.XROf(o)] = !x.living[instance.XROf(o)]
}

func (x *index) subjectOf(k instance.Key) *subject {
	if x.subjects[k] == nil {
		x.subjects[k] = &subject{key: k}
	}
	return x.subjects[k]
}

func (x *index) inOrder() []*subject {
	out := make([]*subject, 0, len(x.subjects))
	for _, p := range x.subjects {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name),
			cmp.Compare(a.key.Kind, b.key.Kind))
	})
	return out
}

// keyOf returns the key of the instance that the labels and annotations of an object refer to.
func keyOf(o client.Object) (instance.Key, bool) {
	for _, kind := range instance.Kinds() {
		if keys := kind.OfAnnotated(o); len(keys) > 0 {
			return keys[0], true
		}
	}
	return instance.Key{}, false
}

// stateOfXR returns the state from which the findings about an existing instance are derived.
func (x *index) stateOfXR(p *subject, xr *instance.Composite) *instance.State {
	s := x.stateOfInstance(p, xr.GetUID())
	s.XR = xr
	if p.claim.IsBoundTo(xr) {
		s.Claim = p.claim
	}
	s.DataPV, _ = instance.FindDataPV(x.readVolumes(), &s.Subject, s.DataPVC) // The volumes are already read.
	return s
}

// stateOfInstance returns the state of an instance without its composite resource and its data volume.
func (x *index) stateOfInstance(p *subject, uid types.UID) *instance.State {
	s := instance.NewState(instance.Subject{Instance: p.key.Instance(uid), Now: x.Now})
	s.Records, s.Entries = p.recordsByValue(), p.backupEntries()
	if c := x.pvcs[client.ObjectKey{Namespace: p.key.Namespace, Name: s.Instance.DataPVCName()}]; c != nil &&
		instance.Owns(s.Instance, c) {
		s.DataPVC = c
	}
	return s
}

// readVolumes returns functions that find volumes among the volumes that the doctor has already read.
func (x *index) readVolumes() instance.Volumes {
	return instance.Volumes{
		ByName: func(name string) (*corev1.PersistentVolume, error) { return x.volumes[name], nil },
		OfInstance: func(xr types.UID) ([]corev1.PersistentVolume, error) {
			return slices.DeleteFunc(slices.Clone(x.Volumes), func(v corev1.PersistentVolume) bool {
				return instance.XROf(&v) != xr
			}), nil
		},
	}
}

// ageOf returns the time since a timestamp.
func (x *index) ageOf(timestamp metav1.Time) string { return x.textSince(timestamp.Time) }

// textSince returns how long ago a time is, in kubectl's format.
func (x *index) textSince(timestamp time.Time) string {
	return duration.HumanDuration(x.Now.Sub(timestamp))
}

func (x *index) isOlder(timestamp metav1.Time, than time.Duration) bool {
	return x.Now.Sub(timestamp.Time) > than
}

// unfinishedRecord reports an unverified backup. The severity depends on its age.
func (x *index) unfinishedRecord(r *v1.BackupRecord) Finding {
	phase := r.Status.Phase
	if phase == "" {
		phase = v1.BackupPending
	}
	text := fmt.Sprintf("backup %s is %s, %s after its BackupRecord was created", r.Name, phase, x.ageOf(r.CreationTimestamp))
	if r.Status.Message != "" {
		text += ": " + r.Status.Message
	}
	f := Finding{Severity: Entry, Text: text}
	switch {
	case phase == v1.BackupFailed:
		f.Severity, f.Advice = Wrong, "fix the cause; the controller retries the backup"
	case phase == v1.BackupRunning && !x.isOlder(r.CreationTimestamp, endless):
	case x.isOlder(r.CreationTimestamp, long):
		f.Severity, f.Advice = Wrong, "find out what it waits for: kubectl get pods --all-namespaces --selector "+v1.LabelXR+"="+
			string(r.Spec.Instance.XR)
	}
	return f
}

// askController returns the advice to read the controller's log. It is used if the controller has not done its work
// in time.
func (x *index) askController(does string) string {
	return fmt.Sprintf("the controller normally %s within seconds; find out why it does not: kubectl logs "+
		"--namespace %s deployment/crossplane-mysql", does, x.SystemNamespace)
}
