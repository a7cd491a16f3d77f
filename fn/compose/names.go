package compose

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// namesOf returns the kind and the name of each composed resource that the instance may have.
func namesOf(r *resolved) map[string]Requirement {
	i, ns := r.instance, r.instance.Namespace
	out := map[string]Requirement{
		v1.ResourceDataPVC:      {APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: ns, Name: i.DataPVCName()},
		v1.ResourceRootPassword: {APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: i.RootSecretName()},
		v1.ResourceConfig:       {APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: i.ConfigMapName()},
		v1.ResourceDeployment: {APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Namespace: ns,
			Name: i.DeploymentName()},
		v1.ResourceService: {APIVersion: "v1", Kind: "Service", Namespace: ns, Name: i.ServiceName()},
		v1.ResourceDataPV:  {APIVersion: "v1", Kind: "PersistentVolume", Name: i.DataPVName()},
		v1.ResourceSettingsCheck: {APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: ns,
			Name: i.Jobs().SettingsCheck()},
		v1.ResourceRestore: {APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: ns,
			Name: i.Jobs().Restore()},
	}
	for name, policy := range map[string]string{v1.ResourceJobPolicy: i.JobPolicyName(),
		v1.ResourceServerPolicy: i.ServerPolicyName()} {
		out[name] = Requirement{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy", Namespace: ns,
			Name: policy}
	}
	maps.DeleteFunc(out, func(name string, _ Requirement) bool { return !mayHave(r, name) })
	return out
}

// checkNames refuses an instance if another object already has the name of one of its composed resources. Crossplane
// would silently adopt such an object if it has no controller.
func checkNames(r *resolved) error {
	for _, name := range ResourceNames() {
		if err := checkName(r, name); err != nil {
			return err
		}
	}
	return nil
}

// checkName returns an error if another object has the name of a resource that does not exist yet.
func checkName(r *resolved, name string) error {
	o := r.Required.Existing[name].firstItem()
	if o == nil || r.Observed.hasResource(name) || r.owns(o) {
		return nil
	}
	n, wanted := namesOf(r)[name]
	if !wanted {
		return nil
	}
	return newRefusal(v1.ReasonNameTaken,
		"%s %s exists and does not belong to this %s, so it is not changed. Delete it, or give the claim another name%s",
		n.Kind, qualifiedName(n.Namespace, n.Name), r.instance.Kind, inBrackets(r.XR.Status.BlockedBy))
}

// owns reports whether the XR controls the object.
func (r *resolved) owns(o *metav1.PartialObjectMetadata) bool {
	c := metav1.GetControllerOf(o)
	return c != nil && c.UID != "" && c.UID == r.instance.XR
}

// ResourceNames returns the names of all composed resources. Name conflicts are checked in this order.
func ResourceNames() []string {
	return []string{
		v1.ResourceDataPV, v1.ResourceDataPVC, v1.ResourceRootPassword, v1.ResourceConfig,
		v1.ResourceDeployment, v1.ResourceService, v1.ResourceRestore,
		v1.ResourceJobPolicy, v1.ResourceServerPolicy, v1.ResourceSettingsCheck,
	}
}
