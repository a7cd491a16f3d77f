package compose

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// dataPVC is the handle of the data volume. It carries our finalizer from
// birth: whatever way it is deleted, the data waits for its backup.
func (p *plan) dataPVC() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: p.meta(p.instance.DataPVCName(), map[string]string{v1.LabelApp: p.instance.AppLabel()}),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: p.request()}},
			StorageClassName: p.storageClass(),
			VolumeName:       p.volume,
		},
	}
	c.Finalizers = []string{v1.Finalizer}
	c.Annotations = p.volumeAnnotations()
	return c
}

// growing is the observed claim, if it is to grow and can say whether it may.
func (p *plan) growing() *corev1.PersistentVolumeClaim {
	c := p.Observed.DataPVC
	if c == nil || p.hostPath() || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return nil
	}
	if have, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; !ok || p.size.Cmp(have) <= 0 {
		return nil
	}
	return c
}

// request of the data PVC. The API server refuses every change of a claim
// whose class does not let it grow, so what cannot grow keeps what it has.
func (p *plan) request() resource.Quantity {
	c := p.growing()
	if c == nil {
		return p.size
	}
	if class := p.Answers.Class.first(); class != nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
		return p.size
	}
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

// checkGrowth says that a volume cannot grow. That stops nothing else.
func (p *plan) checkGrowth() error {
	c := p.growing()
	if c == nil || !p.Answers.Class.Known {
		return nil
	}
	want, have := p.size, p.request()
	if have.Cmp(want) == 0 {
		return nil
	}
	_, field := p.spec.Size()
	p.trouble = &Refusal{Reason: v1.ReasonInvalid, Err: fmt.Errorf("spec.%s: the volume stays at %s: storage class %q does not let volumes grow (allowVolumeExpansion)", field, have.String(), *c.Spec.StorageClassName)}
	return nil
}

// dataPV is a folder of the node. Its name and its folder are of this life
// of the instance alone, and its claimRef keeps every other claim away.
func (p *plan) dataPV() *corev1.PersistentVolume {
	name := p.instance.DataPVName()
	v := &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.labels(nil), Annotations: p.volumeAnnotations(), Finalizers: []string{v1.Finalizer}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: p.size},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: p.instance.Namespace, Name: p.instance.DataPVCName(),
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
	}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{
		Path: path.Join(p.Settings.HostPathRoot, name),
		Type: new(corev1.HostPathDirectoryOrCreate),
	}
	if o := p.Observed.DataPV; o != nil && o.Spec.HostPath != nil {
		// A volume's folder cannot change, whatever becomes of the platform's root.
		v.Spec.HostPath = o.Spec.HostPath
	}
	if n := p.Settings.HostPathNode; n != "" {
		v.Spec.NodeAffinity = onNode(n)
	}
	return v
}

// onNode keeps pods that use a volume on its node.
func onNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}}
}

// volumeAnnotations say what the controller must know of a volume when claim
// and XR are gone.
func (p *plan) volumeAnnotations() map[string]string {
	a := p.claimAnnotations()
	a[v1.AnnotationImage] = p.image
	a[v1.AnnotationAgentImage] = p.Settings.AgentImage
	a[v1.AnnotationDeletionPolicy] = string(p.spec.DeletionPolicy)
	return a
}

// storageClass of the data PVC. It cannot change, so what is observed stays
// whatever becomes of the platform's default.
func (p *plan) storageClass() *string {
	if p.hostPath() {
		return new("")
	}
	if p.spec.StorageClassName != nil {
		return p.spec.StorageClassName
	}
	if c := p.Observed.DataPVC; c != nil {
		return c.Spec.StorageClassName
	}
	if v := p.latched(); v != nil {
		return &v.Spec.StorageClassName
	}
	return p.Settings.DefaultStorageClassName
}

// latched volume that a vanished claim is made again on, or nil.
func (p *plan) latched() *corev1.PersistentVolume {
	if p.XR.Status.Volume == "" {
		return nil
	}
	return p.Answers.Volume.first()
}

// checkStorage refuses what would lose sight of the data: another volume, no
// volume, a smaller one, another class or another kind of volume.
func (p *plan) checkStorage() error {
	if p.ephemeral() {
		return nil
	}
	p.volume = p.XR.Status.Volume
	if p.hostPath() && p.volume == "" {
		p.volume = p.instance.DataPVName()
	}
	if !p.hostPath() && p.Observed.DataPV != nil {
		return refuse(v1.ReasonNotSupported, "spec.compositionRef: this instance has a hostPath volume, which this Composition would delete: choose the Composition that it was made with")
	}
	if c := p.Observed.DataPVC; c != nil {
		if err := p.checkClaim(c); err != nil {
			return err
		}
	}
	return p.checkVolume()
}

// checkClaim holds the observed claim against what is wanted.
func (p *plan) checkClaim(c *corev1.PersistentVolumeClaim) error {
	if c.Status.Phase == corev1.ClaimLost {
		return refuse(v1.ReasonVolumeLost, "PersistentVolumeClaim %s has lost its volume %q: bring that PersistentVolume back, or delete the claim and create it again to restore the newest backup",
			qualified(c.Namespace, c.Name), c.Spec.VolumeName)
	}
	if v := c.Spec.VolumeName; v != "" {
		if p.volume != "" && v != p.volume {
			return refuse(v1.ReasonVolumeLost, "PersistentVolumeClaim %s is bound to volume %q, but this instance's data is on %q: nothing is changed until it is bound to that one",
				qualified(c.Namespace, c.Name), v, p.volume)
		}
		p.volume = v
	}
	if class := c.Spec.StorageClassName; p.hostPath() && class != nil && *class != "" {
		return refuse(v1.ReasonNotSupported, "spec.compositionRef: this instance's volume has storage class %q, which this hostPath Composition cannot keep: choose the Composition that it was made with", *class)
	}
	if want := p.spec.StorageClassName; !p.hostPath() && want != nil && c.Spec.StorageClassName != nil && *want != *c.Spec.StorageClassName {
		return refuse(v1.ReasonInvalid, "spec.storageClassName: %q cannot replace %q: set it back, or delete the claim (a backup is taken) and create it again", *want, *c.Spec.StorageClassName)
	}
	return p.checkSize(c)
}

// checkSize refuses to shrink. A hostPath volume cannot be resized, and has no
// need to be: its size is the node's.
func (p *plan) checkSize(c *corev1.PersistentVolumeClaim) error {
	have, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return nil
	}
	if p.size.Cmp(have) < 0 {
		_, field := p.spec.Size()
		return refuse(v1.ReasonInvalid, "spec.%s: %s is smaller than the volume, which has %s and cannot shrink: set it to %s or more", field, p.size.String(), have.String(), have.String())
	}
	if p.hostPath() || c.Status.Phase != corev1.ClaimBound {
		// Neither can be resized.
		p.size = have
	}
	return nil
}

// checkVolume refuses to go on without the volume that holds the data.
func (p *plan) checkVolume() error {
	latched := p.XR.Status.Volume
	if latched == "" {
		return p.checkUnseen()
	}
	v := p.Observed.DataPV
	if v == nil {
		if !p.Answers.Volume.Known {
			return nil
		}
		v = p.Answers.Volume.first()
	}
	if v == nil {
		return refuse(v1.ReasonVolumeLost, "PersistentVolume %q, which holds this instance's data, does not exist: bring it back, or delete the claim and create it again to restore the newest backup", latched)
	}
	if room, ok := v.Spec.Capacity[corev1.ResourceStorage]; ok && p.Observed.DataPVC == nil && p.size.Cmp(room) > 0 {
		// A claim that is made again binds its volume first, and grows then.
		p.size = room
	}
	if ref := v.Spec.ClaimRef; ref != nil && (ref.Namespace != p.instance.Namespace || ref.Name != p.instance.DataPVCName()) {
		return refuse(v1.ReasonVolumeLost, "PersistentVolume %q, which holds this instance's data, is bound to PersistentVolumeClaim %s: nothing is changed until it is free again",
			latched, qualified(ref.Namespace, ref.Name))
	}
	return nil
}

// checkUnseen refuses to make a new data PVC for a server that is ready or was
// restored: it has data on a volume whose name was never seen.
func (p *plan) checkUnseen() error {
	d, r := p.Observed.Deployment, p.XR.Status.Restore
	ready, restored := d != nil && d.Status.ReadyReplicas > 0, r != nil && r.Phase == v1.RestoreSucceeded
	if p.hostPath() || p.Observed.DataPVC != nil || !ready && !restored {
		return nil
	}
	return refuse(v1.ReasonVolumeLost, "the server has data but PersistentVolumeClaim %s is not there, and the name of its volume is not known: bring the claim back with the volume that the server's pod mounts",
		qualified(p.instance.Namespace, p.instance.DataPVCName()))
}

// fitsRecord refuses to ask for less than the volume had that a backup is from. On
// hostPath the size is the node's.
func (p *plan) fitsRecord(r *v1.MySQLBackup) error {
	have, err := v1.ParseSize(r.Spec.StorageSize)
	if err != nil || p.hostPath() || p.asked.Cmp(have) >= 0 {
		return nil //nolint:nilerr // A record without a size sets no bound; the restore Job checks the room itself.
	}
	_, field := p.spec.Size()
	return refuse(v1.ReasonInvalid, "spec.%s: %s is smaller than %s, the volume that backup %q is from: set it to %s or more", field, p.asked.String(), have.String(), r.Name, have.String())
}
