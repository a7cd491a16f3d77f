package doctor

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

const (
	// soon is how long the controller may take for what it does within seconds.
	soon = time.Minute
	// long is more than what takes a while should take.
	long = 10 * time.Minute
)

// An checker of a cluster.
type checker struct {
	*Cluster

	volumes  map[string]*corev1.PersistentVolume
	handles  map[client.ObjectKey]*corev1.PersistentVolumeClaim
	subjects map[instance.Key]*subject
	// living are the UIDs of all XRs, lost those whose XR is gone and whose data is
	// not.
	living, lost map[types.UID]bool
}

// A subject is all that there is of one instance.
type subject struct {
	key   instance.Key
	claim *instance.Composite
	xrs   []*instance.Composite
	// data are volumes, and handles PVCs, that have our finalizer and name an XR.
	data    []*corev1.PersistentVolume
	handles []*corev1.PersistentVolumeClaim
	// backups are the volumes for backups.
	backups []*corev1.PersistentVolume
	// records, newest first.
	records []*v1.MySQLBackup
}

// Examine what there is of ours in a cluster.
func Examine(c *Cluster) *Report {
	x := &checker{
		Cluster: c, volumes: map[string]*corev1.PersistentVolume{}, handles: map[client.ObjectKey]*corev1.PersistentVolumeClaim{},
		subjects: map[instance.Key]*subject{}, living: map[types.UID]bool{}, lost: map[types.UID]bool{},
	}
	x.indexInstances()
	r := &Report{Cluster: x.examineController(), Instances: []Instance{}, Rest: x.examineLeftovers()}
	for _, p := range x.inOrder() {
		r.Instances = append(r.Instances, x.examineInstance(p))
	}
	return r
}

// indexInstances finds what belongs to an instance.
func (x *checker) indexInstances() {
	for _, c := range x.Claims {
		x.subjectOf(instance.Key{Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName()}).claim = c
	}
	for _, xr := range x.XRs {
		x.living[xr.GetUID()] = true
		if ref := xr.Spec.ClaimRef; ref != nil {
			p := x.subjectOf(instance.Key{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
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
}

func (x *checker) indexVolumes() {
	for i := range x.Volumes {
		v := &x.Volumes[i]
		x.volumes[v.Name] = v
		switch k, ok := keyOf(v); {
		case ok && isBackup(v):
			p := x.subjectOf(k)
			p.backups = append(p.backups, v)
		case ok && holdsData(v):
			p := x.subjectOf(k)
			p.data = append(p.data, v)
			x.lost[xrOf(v)] = !x.living[xrOf(v)]
		}
	}
	for i := range x.PVCs {
		c := &x.PVCs[i]
		x.handles[client.ObjectKeyFromObject(c)] = c
		if k, ok := keyOf(c); ok && holdsData(c) && !isBackup(c) {
			p := x.subjectOf(k)
			p.handles = append(p.handles, c)
			x.lost[xrOf(c)] = !x.living[xrOf(c)]
		}
	}
}

func (x *checker) subjectOf(k instance.Key) *subject {
	if x.subjects[k] == nil {
		x.subjects[k] = &subject{key: k}
	}
	return x.subjects[k]
}

func (x *checker) inOrder() []*subject {
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

func xrOf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1.LabelXR]) }

func isBackup(o client.Object) bool { return o.GetLabels()[v1.LabelComponent] == v1.ComponentBackup }

// holdsData is true if our finalizer is on it, and it names its XR.
func holdsData(o client.Object) bool { return instance.HasFinalizer(o) && xrOf(o) != "" }

// stateOfLife of an instance, as far as a finding can depend on it.
func (x *checker) stateOfLife(p *subject, xr *instance.Composite) *instance.State {
	s := &instance.State{Life: p.key.Life(xr.GetUID()), Now: x.Now, XR: xr}
	if p.claim != nil && p.claim.Composite == xr.GetName() {
		s.Claim = p.claim
	}
	for _, r := range p.records {
		s.Records = append(s.Records, *r)
	}
	s.DataPVC = x.handles[client.ObjectKey{Namespace: p.key.Namespace, Name: s.Life.DataPVCName()}]
	if s.DataPVC != nil && xrOf(s.DataPVC) != "" && xrOf(s.DataPVC) != xr.GetUID() {
		s.DataPVC = nil // It is another life's.
	}
	s.DataPV = x.dataPV(p, s)
	return s
}

// dataPV that the data PVC is bound to, or was.
func (x *checker) dataPV(p *subject, s *instance.State) *corev1.PersistentVolume {
	switch {
	case s.DataPVC != nil && s.DataPVC.Spec.VolumeName != "":
		return x.volumes[s.DataPVC.Spec.VolumeName]
	case s.XR.Status.Volume != "":
		return x.volumes[s.XR.Status.Volume]
	}
	for _, v := range p.data {
		if xrOf(v) == s.XR.GetUID() {
			return v
		}
	}
	return nil
}

// ageOf of an object.
func (x *checker) ageOf(at metav1.Time) string { return x.textSince(at.Time) }

// textSince is how long ago a time is, as kubectl writes it.
func (x *checker) textSince(at time.Time) string { return duration.HumanDuration(x.Now.Sub(at)) }

func (x *checker) isOlder(at metav1.Time, than time.Duration) bool { return x.Now.Sub(at.Time) > than }
