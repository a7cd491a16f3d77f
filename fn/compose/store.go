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

// resolveStore that backups go to; empty for a volume, and for what has none. What is not allowed changes nothing.
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
	return r.XR.Status.BackupStore, notAllowed(path, *r.spec.Backup.Store, r.platform.BackupStores)
}

// usesStore is true if a Job of the instance speaks with one: a backup that will be taken, a restore, or the restore test of a backup there.
func usesStore(r *resolved) bool {
	from, foreign := r.XR.Status.Restore, importUnderWay(r)
	return r.store != "" || from != nil && from.Archive.Store != "" || foreign != nil && foreign.Dump != nil ||
		slices.ContainsFunc(ownBackups(r.instance, r.Required.Records.Items), func(b v1.MySQLBackup) bool { return b.InStore() })
}

// toTheGateway of stores, as it is installed (controller/deploy/gateway). It is named by its pods: Jobs have its address.
func toTheGateway() []networkingv1.NetworkPolicyEgressRule {
	port, protocol := intstr.FromInt32(agent.GatewayPort), corev1.ProtocolTCP
	return []networkingv1.NetworkPolicyEgressRule{{
		Ports: []networkingv1.NetworkPolicyPort{{Port: &port, Protocol: &protocol}},
		To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "crossplane-mysql-system"}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelName: "crossplane-mysql-gateway"}},
		}},
	}}
}

// whereArchiveIs mounts it, or the way to it, and says so in the command.
func whereArchiveIs(r *resolved, a *v1.Archive, u *agent.Unpacking) (corev1.Volume, corev1.VolumeMount) {
	if a.Store != "" {
		u.Object = a.Path
		return agent.AccessVolume(r.instance.Accesses().Restore()), corev1.VolumeMount{Name: agent.AccessVolumeName, MountPath: agent.AccessFolder, ReadOnly: true}
	}
	u.Archive = archivePath + "/" + a.Path
	volume := agent.PVCVolume("backup", a.PVCName)
	volume.PersistentVolumeClaim.ReadOnly = true
	return volume, corev1.VolumeMount{Name: "backup", MountPath: archivePath, ReadOnly: true}
}

// checkPlace refuses an archive that is in two places, or in none.
func checkPlace(backup string, a *v1.Archive) error {
	if (a.PVCName == "") == (a.Store == "") {
		return newRefusal(v1.ReasonInvalid, "MySQLBackup %q: archive has either pvcName or store", backup)
	}
	return nil
}
