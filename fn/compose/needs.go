package compose

import (
	"maps"

	storagev1 "k8s.io/api/storage/v1"

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

// needsOf an instance. They depend on nothing that an answer changes, so that
// two passes are enough.
func needsOf(r *resolved, s storage) map[string]Need {
	ns := r.instance.Namespace
	out := map[string]Need{}
	if r.engine.password {
		out[NeedConnection] = Need{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: r.instance.ConnectionSecretName()}
	}
	if ref := r.spec.PasswordSecretRef; ref != nil {
		out[NeedPassword] = Need{APIVersion: "v1", Kind: "Secret", Namespace: ns, Name: ref.Name}
	}
	if s.volume != "" && r.Observed.DataPV == nil {
		out[NeedVolume] = Need{APIVersion: "v1", Kind: "PersistentVolume", Name: s.volume}
	}
	if s.growsWith != "" {
		out[NeedClass] = Need{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass", Name: s.growsWith}
	}
	for name, n := range namesOf(r) {
		if !r.Observed.has(name) {
			out[NeedExisting+name] = n
		}
	}
	if !r.started && !r.ephemeral {
		maps.Copy(out, historyNeeds(r))
	}
	return out
}

// historyNeeds are those on which the first start depends.
func historyNeeds(r *resolved) map[string]Need {
	gv := v1.GroupVersion.String()
	out := map[string]Need{
		NeedRecords:   {APIVersion: gv, Kind: v1.KindMySQLBackup, Labels: map[string]string{v1.LabelInstance: r.instance.Key()}},
		NeedNamespace: {APIVersion: "v1", Kind: "Namespace", Name: r.instance.Namespace},
	}
	if b := r.spec.Restore.Backup; b != nil {
		out[NeedNamed] = Need{APIVersion: gv, Kind: v1.KindMySQLBackup, Name: *b}
	}
	return out
}
