package compose

import (
	"maps"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Keys under which the function requires resources from Crossplane.
const (
	RequiredPlatform   = "platform"
	RequiredRecords    = "records"
	RequiredNamed      = "named-backup"
	RequiredConnection = "connection"
	RequiredPassword   = "password"
	RequiredNamespace  = "namespace"
	RequiredVolume     = "volume"
	RequiredClass      = "storage-class"
	RequiredImport     = "import"
	RequiredPolicy     = "protection-policy"
	RequiredBinding    = "protection-binding"
	// RequiredExisting is the prefix of keys that end with the name of a composed resource.
	RequiredExisting = "existing-"
)

// requirementsOf returns the required resources of an instance. They do not depend on other required resources, so
// that two calls are enough.
func requirementsOf(r *resolved, s storage) map[string]Requirement {
	ns := r.instance.Namespace
	out := map[string]Requirement{RequiredPlatform: platformRequirement()}
	if r.engine.password {
		out[RequiredConnection] = Requirement{APIVersion: "v1", Kind: "Secret", Namespace: ns,
			Name: r.instance.ConnectionSecretName()}
	}
	if ref := r.password.Secret; ref != nil {
		out[RequiredPassword] = Requirement{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: ref.Name}
	}
	if s.volume != "" && r.Observed.DataPV == nil {
		out[RequiredVolume] = Requirement{APIVersion: "v1", Kind: "PersistentVolume", Name: s.volume}
	}
	if s.growsWith != "" {
		out[RequiredClass] = Requirement{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass",
			Name: s.growsWith}
	}
	for name, n := range namesOf(r) {
		if !r.Observed.hasResource(name) {
			out[RequiredExisting+name] = n
		}
	}
	if !r.started && !r.ephemeral {
		maps.Copy(out, historyRequirements(r))
	}
	return out
}

// platformRequirement returns the requirement for the Platform, which every instance has.
func platformRequirement() Requirement {
	return Requirement{APIVersion: v1.GroupVersion.String(), Kind: v1.KindPlatform, Name: v1.PlatformName}
}

// historyRequirements returns the required resources that are needed only until the first start.
func historyRequirements(r *resolved) map[string]Requirement {
	gv := v1.GroupVersion.String()
	out := map[string]Requirement{
		RequiredRecords: {APIVersion: gv, Kind: v1.KindBackupRecord,
			Labels: map[string]string{v1.LabelInstance: r.instance.Key()}},
		RequiredNamespace: {APIVersion: "v1", Kind: "Namespace", Name: r.instance.Namespace},
	}
	if r.instance.IsNamespaced() {
		gv := admissionv1.SchemeGroupVersion.String()
		out[RequiredPolicy] = Requirement{APIVersion: gv, Kind: "ValidatingAdmissionPolicy", Name: v1.ProtectionPolicy}
		out[RequiredBinding] = Requirement{APIVersion: gv, Kind: "ValidatingAdmissionPolicyBinding", Name: v1.ProtectionPolicy}
	}
	switch from := r.spec.Restore.Import; {
	case from == nil:
	case from.Server != nil:
		out[RequiredImport] = Requirement{APIVersion: "v1", Kind: "Secret", Namespace: r.instance.Namespace,
			Name: from.Server.SecretRef.Name}
	case from.Volume != nil:
		out[RequiredImport] = Requirement{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: r.instance.Namespace,
			Name: from.Volume.PVCRef.Name}
	}
	if b := r.spec.Restore.Backup; b != nil {
		out[RequiredNamed] = Requirement{APIVersion: gv, Kind: v1.KindBackupRecord,
			Labels: map[string]string{v1.LabelBackup: v1.BackupKey(r.instance.Namespace, *b)}}
	} else if r.spec.Restore.From != nil {
		out[RequiredNamed] = Requirement{APIVersion: gv, Kind: v1.KindBackupRecord,
			Labels: map[string]string{v1.LabelInstance: otherClaim(r).Key()}}
	}
	return out
}
