package compose

import (
	"maps"

	storagev1 "k8s.io/api/storage/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Keys of required resources.
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
	// RequiredExisting is followed by the name of a composed resource.
	RequiredExisting = "existing-"
)

// requirementsOf an instance. They depend on nothing that is required, so that
// two passes are enough.
func requirementsOf(r *resolved, s storage) map[string]Requirement {
	ns := r.instance.Namespace
	out := map[string]Requirement{RequiredPlatform: platformRequirement()}
	if r.engine.password {
		out[RequiredConnection] = Requirement{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: r.instance.ConnectionSecretName()}
	}
	if ref := r.password.Secret; ref != nil {
		out[RequiredPassword] = Requirement{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: ref.Name}
	}
	if s.volume != "" && r.Observed.DataPV == nil {
		out[RequiredVolume] = Requirement{APIVersion: "v1", Kind: "PersistentVolume", Name: s.volume}
	}
	if s.growsWith != "" {
		out[RequiredClass] = Requirement{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass", Name: s.growsWith}
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

// platformRequirement is the one that each instance has.
func platformRequirement() Requirement {
	return Requirement{APIVersion: v1.GroupVersion.String(), Kind: v1.KindMySQLPlatform, Name: v1.PlatformName}
}

// historyRequirements are those on which the first start depends.
func historyRequirements(r *resolved) map[string]Requirement {
	gv := v1.GroupVersion.String()
	out := map[string]Requirement{
		RequiredRecords:   {APIVersion: gv, Kind: v1.KindMySQLBackup, Labels: map[string]string{v1.LabelInstance: r.instance.Key()}},
		RequiredNamespace: {APIVersion: "v1", Kind: "Namespace", Name: r.instance.Namespace},
	}
	switch from := r.spec.Restore.Import; {
	case from == nil:
	case from.Server != nil:
		out[RequiredImport] = Requirement{APIVersion: "v1", Kind: "Secret", Namespace: r.instance.Namespace, Name: from.Server.SecretName}
	case from.Volume != nil:
		out[RequiredImport] = Requirement{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: r.instance.Namespace, Name: from.Volume.PVCName}
	}
	if b := r.spec.Restore.Backup; b != nil {
		out[RequiredNamed] = Requirement{APIVersion: gv, Kind: v1.KindMySQLBackup, Name: *b}
	} else if r.spec.Restore.From != nil {
		out[RequiredNamed] = Requirement{APIVersion: gv, Kind: v1.KindMySQLBackup, Labels: map[string]string{v1.LabelInstance: otherClaim(r).Key()}}
	}
	return out
}
