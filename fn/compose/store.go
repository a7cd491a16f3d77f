package compose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// resolveStore returns the BackupStore, or "" for a volume or an instance without backups. If the store in the spec
// is not allowed, the instance keeps its previous store.
func resolveStore(r *resolved, path *field.Path) (string, *field.Error) {
	if r.ephemeral || r.spec.DeletionPolicy == v1.DeletionDiscard {
		return "", nil
	}
	if !r.Required.Platform.Known {
		return r.XR.Status.BackupStore, nil
	}
	if store, allowed := r.platform.BackupStore(&r.spec.Backup); allowed {
		return store, nil
	}
	named, name := path.Child("volume"), v1.StoreVolume
	if ref := r.spec.Backup.StoreRef; ref != nil {
		named, name = path.Child("storeRef", "name"), ref.Name
	}
	return r.XR.Status.BackupStore, notAllowed(named, name, r.platform.AllowedBackupStores)
}

// usesStore reports whether a Job of the instance connects to a store: for a backup, a restore, or a restore test.
func usesStore(r *resolved) bool {
	from, foreign := r.XR.Status.Restore, importUnderWay(r)
	return r.store != "" || from != nil && from.Archive.Store != "" || foreign != nil && foreign.Dump != nil ||
		slices.ContainsFunc(ownBackups(r.instance, r.Required.Records.Items),
			func(b v1.BackupRecord) bool { return b.InStore() })
}

// toTheGateway allows connections to the backup gateway as it is installed (controller/deploy/gateway). The rule
// selects the gateway's pods, although Jobs connect to the address of its Service.
func toTheGateway() []networkingv1.NetworkPolicyEgressRule {
	port, protocol := intstr.FromInt32(agent.GatewayPort), corev1.ProtocolTCP
	return []networkingv1.NetworkPolicyEgressRule{{
		Ports: []networkingv1.NetworkPolicyPort{{Port: &port, Protocol: &protocol}},
		To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: "crossplane-mysql-system"}},
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelName: "crossplane-mysql-gateway"}},
		}},
	}}
}

// whereArchiveIs returns the volume that contains the archive, or the volume with the Secret for access to its store.
// It also sets the location in u.
func whereArchiveIs(r *resolved, a *v1.Archive, u *agent.Unpacking) (corev1.Volume, corev1.VolumeMount) {
	if a.Store != "" {
		u.Object = a.Path
		return agent.AccessVolume(r.instance.Accesses().Restore()), corev1.VolumeMount{Name: agent.AccessVolumeName,
			MountPath: agent.AccessDir, ReadOnly: true}
	}
	u.Archive = archivePath + "/" + a.Path
	volume := agent.PVCVolume("backup", a.PVCName)
	volume.PersistentVolumeClaim.ReadOnly = true
	return volume, corev1.VolumeMount{Name: "backup", MountPath: archivePath, ReadOnly: true}
}

// checkPlace returns an error unless an archive has exactly one location: a volume or a BackupStore.
func checkPlace(backup string, a *v1.Archive) error {
	if (a.PVCName == "") == (a.Store == "") {
		return newRefusal(v1.ReasonInvalid, "BackupRecord %q: archive must have either pvcName or store", backup)
	}
	return nil
}
