package compose

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Keys of needs.
const (
	NeedRecords    = "records"
	NeedNamed      = "named-backup"
	NeedConnection = "connection"
	NeedPassword   = "password"
	NeedNamespace  = "namespace"
	NeedVolume     = "volume"
	NeedClass      = "storage-class"
	// NeedExisting is followed by the name of a composed resource.
	NeedExisting = "existing-"
)

// needs of the instance. They depend on nothing that an answer changes, so that
// two passes are enough.
func (p *plan) needs() map[string]Need {
	ns := p.instance.Namespace
	out := map[string]Need{}
	if p.engine.password {
		out[NeedConnection] = Need{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: p.instance.ConnectionSecretName()}
	}
	if ref := p.spec.PasswordSecretRef; ref != nil {
		out[NeedPassword] = Need{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: ref.Name}
	}
	if p.volume != "" && p.Observed.DataPV == nil {
		out[NeedVolume] = Need{APIVersion: "v1", Kind: "PersistentVolume", Name: p.volume}
	}
	if c := p.growing(); c != nil {
		out[NeedClass] = Need{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass", Name: *c.Spec.StorageClassName}
	}
	for name, n := range p.names() {
		if !p.Observed.has(name) {
			out[NeedExisting+name] = n
		}
	}
	if !p.started() && !p.ephemeral() {
		p.historyNeeds(out)
	}
	return out
}

// historyNeeds are what the first start depends on.
func (p *plan) historyNeeds(out map[string]Need) {
	gv := v1.GroupVersion.String()
	out[NeedRecords] = Need{APIVersion: gv, Kind: v1.KindMySQLBackup, Labels: map[string]string{v1.LabelInstance: p.instance.Key()}}
	out[NeedNamespace] = Need{APIVersion: "v1", Kind: "Namespace", Name: p.instance.Namespace}
	if b := p.spec.Restore.Backup; b != nil {
		out[NeedNamed] = Need{APIVersion: gv, Kind: v1.KindMySQLBackup, Name: *b}
	}
}

// names of the composed resources that the instance has or may get.
func (p *plan) names() map[string]Need {
	i, ns := p.instance, p.instance.Namespace
	out := map[string]Need{
		v1.ResourceDataPVC:      {APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: ns, Name: i.DataPVCName()},
		v1.ResourceRootPassword: {APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: i.RootSecretName()},
		v1.ResourceConfig:       {APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: i.ConfigMapName()},
		v1.ResourceDeployment:   {APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Namespace: ns, Name: i.DeploymentName()},
		v1.ResourceService:      {APIVersion: "v1", Kind: "Service", Namespace: ns, Name: i.ServiceName()},
		v1.ResourceDataPV:       {APIVersion: "v1", Kind: "PersistentVolume", Name: i.DataPVName()},
		v1.ResourceRestore:      {APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: ns, Name: i.RestoreJobName()},
	}
	maps.DeleteFunc(out, func(name string, _ Need) bool { return !p.wants(name) })
	return out
}

// checkNames refuses to adopt: Crossplane silently takes over an object without
// a controller that has the name of a composed one.
func (p *plan) checkNames() error {
	for _, name := range ResourceNames() {
		if err := p.unlessStarted(p.taken(name)); err != nil {
			return err
		}
	}
	return nil
}

// taken says who has the name of a resource that does not exist yet, if somebody
// does.
func (p *plan) taken(name string) error {
	o := p.Answers.Existing[name].first()
	if o == nil || p.Observed.has(name) || p.owns(o) {
		return nil
	}
	n, wanted := p.names()[name]
	if !wanted {
		return nil
	}
	return refuse(v1.ReasonNameTaken, "%s %s exists and does not belong to this %s, which would take it over: rename or delete it, or give the claim another name",
		n.Kind, qualified(n.Namespace, n.Name), p.instance.Kind)
}

// owns is true if the XR controls the object.
func (p *plan) owns(o *metav1.PartialObjectMetadata) bool {
	c := metav1.GetControllerOf(o)
	return c != nil && c.UID != "" && c.UID == p.instance.XR
}

// ResourceNames are the names of all resources that an instance may have, in the
// order in which they are checked.
func ResourceNames() []string {
	return []string{
		v1.ResourceDataPV, v1.ResourceDataPVC, v1.ResourceRootPassword, v1.ResourceConfig,
		v1.ResourceDeployment, v1.ResourceService, v1.ResourceRestore,
	}
}
