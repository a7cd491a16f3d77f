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

// An index of what there is in a cluster.
type index struct {
	*Cluster

	volumes  map[string]*corev1.PersistentVolume
	pvcs     map[client.ObjectKey]*corev1.PersistentVolumeClaim
	subjects map[instance.Key]*subject
	// living are the UIDs of all XRs, orphaned those whose XR is gone and whose data
	// is not.
	living, orphaned map[types.UID]bool
}

// A subject is all that there is of one instance.
type subject struct {
	key   instance.Key
	claim *instance.Composite
	xrs   []*instance.Composite
	// dataPVs and dataPVCs have our finalizer and name an XR.
	dataPVs  []*corev1.PersistentVolume
	dataPVCs []*corev1.PersistentVolumeClaim
	// backupPVs are the volumes for backups.
	backupPVs []*corev1.PersistentVolume
	// records, newest first.
	records []*v1.MySQLBackup
}

// newIndex finds what belongs to which instance.
func newIndex(c *Cluster) *index {
	x := &index{
		Cluster: c, volumes: map[string]*corev1.PersistentVolume{}, pvcs: map[client.ObjectKey]*corev1.PersistentVolumeClaim{},
		subjects: map[instance.Key]*subject{}, living: map[types.UID]bool{}, orphaned: map[types.UID]bool{},
	}
	for _, c := range x.Claims {
		x.subjectOf(instance.Key{Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName()}).claim = c
	}
	for _, xr := range x.XRs {
		x.living[xr.GetUID()] = true
		if k, ok := xr.ClaimKey(); ok {
			p := x.subjectOf(k)
			p.xrs = append(p.xrs, xr)
		}
	}
	for i := range x.Records {
		r := &x.Records[i]
		of := r.Spec.Instance
		p := x.subjectOf(instance.Key{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name})
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
			x.orphaned[instance.XROf(v)] = !x.living[instance.XROf(v)]
		}
	}
	for i := range x.PVCs {
		c := &x.PVCs[i]
		x.pvcs[client.ObjectKeyFromObject(c)] = c
		if k, ok := keyOf(c); ok && instance.HoldsData(c) {
			p := x.subjectOf(k)
			p.dataPVCs = append(p.dataPVCs, c)
			x.orphaned[instance.XROf(c)] = !x.living[instance.XROf(c)]
		}
	}
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
		return cmp.Or(cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name), cmp.Compare(a.key.Kind, b.key.Kind))
	})
	return out
}

// keyOf the instance that an object says it belongs to.
func keyOf(o client.Object) (instance.Key, bool) {
	for _, kind := range instance.Kinds() {
		if keys := kind.OfAnnotated(o); len(keys) > 0 {
			return keys[0], true
		}
	}
	return instance.Key{}, false
}

// stateOfLife of an instance, as far as a finding can depend on it.
func (x *index) stateOfLife(p *subject, xr *instance.Composite) *instance.State {
	s := &instance.State{Life: p.key.Life(xr.GetUID()), Now: x.Now, XR: xr}
	if p.claim.IsBoundTo(xr) {
		s.Claim = p.claim
	}
	for _, r := range p.records {
		s.Records = append(s.Records, *r)
	}
	if c := x.pvcs[client.ObjectKey{Namespace: p.key.Namespace, Name: s.Life.DataPVCName()}]; c != nil && s.OwnsObject(c) {
		s.DataPVC = c
	}
	s.DataPV, _ = instance.FindDataPV(x.readVolumes(), s) // What was read gives no error.
	return s
}

// readVolumes are those that were read.
func (x *index) readVolumes() instance.Volumes {
	return instance.Volumes{
		ByName: func(name string) (*corev1.PersistentVolume, error) { return x.volumes[name], nil },
		OfLife: func(xr types.UID) ([]corev1.PersistentVolume, error) {
			return slices.DeleteFunc(slices.Clone(x.Volumes), func(v corev1.PersistentVolume) bool { return instance.XROf(&v) != xr }), nil
		},
	}
}

// ageOf of an object.
func (x *index) ageOf(at metav1.Time) string { return x.textSince(at.Time) }

// textSince is how long ago a time is, as kubectl writes it.
func (x *index) textSince(at time.Time) string { return duration.HumanDuration(x.Now.Sub(at)) }

func (x *index) isOlder(at metav1.Time, than time.Duration) bool { return x.Now.Sub(at.Time) > than }

// unfinishedRecord of a backup that is not proven: whether that is wrong depends on how
// long it has been so.
func (x *index) unfinishedRecord(r *v1.MySQLBackup) Finding {
	phase := r.Status.Phase
	if phase == "" {
		phase = v1.BackupPending
	}
	text := fmt.Sprintf("backup %s is %s, %s after it was announced", r.Name, phase, x.ageOf(r.CreationTimestamp))
	if r.Status.Message != "" {
		text += ": " + r.Status.Message
	}
	f := Finding{Severity: Note, Text: text}
	switch {
	case phase == v1.BackupFailed:
		f.Severity, f.Advice = Wrong, "it is tried again by itself, and succeeds when the cause is gone"
	case phase == v1.BackupRunning && !x.isOlder(r.CreationTimestamp, endless):
	case x.isOlder(r.CreationTimestamp, long):
		f.Severity, f.Advice = Wrong, "see what it waits for: kubectl get pods --all-namespaces --selector "+v1.LabelXR+"="+string(r.Spec.Instance.XR)
	}
	return f
}

// askController why it does not do what it does by itself.
func (x *index) askController(does string) string {
	return fmt.Sprintf("the controller %s within seconds; see why it does not: kubectl logs --namespace %s deployment/crossplane-mysql", does, x.SystemNamespace)
}
