package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Work contains the Deployment, Jobs and pods of an instance, and why they do not run. All fields are read during a
// deletion. Deployment, Jobs and pods are also read during an image change. Pods are also read while the data PVC is
// being deleted. RestoreJob is also read while the data PVC or the backup PVC is being deleted, or if there is an
// EarlierBackupPV. PodFailure is also read for an existing instance.
type Work struct {
	Jobs

	// PodFailure is the reason why a pod does not run or, during a deletion, why a pod that uses the data does not
	// terminate. It is empty if there is no failure. For an existing instance, it is read only while the server does
	// not accept clients.
	PodFailure string
	// Deployment is the Deployment of the server.
	Deployment *appsv1.Deployment
	// Pods are the pods that mount the data PVC, except for the pods of the product's Jobs.
	Pods []corev1.Pod
	// CloneAccess is the Secret with the account that may clone the server, or nil.
	CloneAccess client.Object
	// Leftovers are the Deployment, Service, NetworkPolicy, Secrets and other small objects that a deletion must also
	// delete.
	Leftovers []client.Object
	// Restoring maps the name of a backup to the composite resource of the namespace that is being restored from it. It
	// is read during a deletion once older backups may be deleted.
	Restoring map[string]string
}

// readWork reads the Work of an instance. If blockedReason is set, it already explains why the instance does not start,
// and readWork does not search the pods for a reason.
func readWork(ctx context.Context, l podReader, basis *Basis, volumes *BackupVolumes, blockedReason string) (Work, error) {
	lateVolume := l.whyBackupPVCWaits(ctx, volumes)
	switch {
	case basis.IsDeleting():
		return readForDeletion(ctx, l, basis, volumes.BackupPVC)
	case basis.IsBackedUpInstance():
		return readForBackup(ctx, l, basis, volumes.BackupPVC, lateVolume)
	}
	out := Work{PodFailure: cmp.Or(blockedReason, lateVolume)}
	var restore *Job
	var err error
	// A finished restore Job prevents the deletion of the data PVC and the backup PVC.
	if isTerminating(basis.DataPVC) || isTerminating(volumes.BackupPVC) || volumes.EarlierBackupPV != nil {
		if restore, err = readJob(ctx, l, basis.Instance, basis.Instance.Namespace, basis.Instance.Jobs().Restore()); err != nil {
			return out, err
		}
	}
	switch {
	case isTerminating(basis.DataPVC):
		var silentNode string
		out.Pods, silentNode, err = readPods(ctx, l, basis, volumes.BackupPVC, nil)
		out.PodFailure = cmp.Or(lateVolume, silentNode)
	case blockedReason == "" && isStarting(basis.XR):
		restore, out.PodFailure, err = readStart(ctx, l, basis, volumes.BackupPVC, restore, lateVolume)
	}
	out.Jobs = Jobs{RestoreJob: restore}
	return out, err
}

func isTerminating(c *corev1.PersistentVolumeClaim) bool {
	return c != nil && c.DeletionTimestamp != nil
}

// readForDeletion reads the objects that a deletion needs.
func readForDeletion(ctx context.Context, l podReader, basis *Basis,
	backupPVC *corev1.PersistentVolumeClaim) (Work, error) {
	var out Work
	var err error
	if out.Deployment, err = readDeployment(ctx, l, basis.Instance); err != nil {
		return out, err
	}
	if out.Jobs, err = readJobs(ctx, l, basis); err != nil {
		return out, err
	}
	if out.Pods, out.PodFailure, err = readPods(ctx, l, basis, backupPVC, jobsOnVolumes(&out.Jobs)); err != nil {
		return out, err
	}
	if out.Leftovers, err = readLeftovers(ctx, l, basis); err != nil {
		return out, err
	}
	if basis.XR != nil && isVerified(basis) && len(basis.Records) > 1 { // Older backups may be deleted.
		out.Restoring, err = restoring(ctx, l, basis.Instance.Namespace, basis.Records)
	}
	return out, err
}

// readForBackup reads the objects that a backup of a running instance needs. PodFailure reports that the backup
// volume is not provisioned in time, or else that a node does not respond.
func readForBackup(ctx context.Context, l podReader, basis *Basis, backupPVC *corev1.PersistentVolumeClaim,
	lateVolume string) (Work, error) {
	var out Work
	var err error
	if out.Deployment, err = readDeployment(ctx, l, basis.Instance); err != nil {
		return out, err
	}
	if out.Jobs, err = readJobs(ctx, l, basis); err != nil {
		return out, err
	}
	var silentNode string
	if out.Pods, silentNode, err = readPods(ctx, l, basis, backupPVC, jobsOnVolumes(&out.Jobs)); err != nil {
		return out, err
	}
	out.PodFailure = cmp.Or(lateVolume, silentNode)
	out.CloneAccess, err = readCloneAccess(ctx, l, &basis.Subject)
	return out, err
}

// readDeployment reads the Deployment of the server.
func readDeployment(ctx context.Context, r client.Reader, instanceID v1.Instance) (*appsv1.Deployment, error) {
	d, err := getObject(ctx, r, &appsv1.Deployment{}, instanceID.Namespace, instanceID.DeploymentName())
	if d == nil || err != nil || !Owns(instanceID, d) {
		return nil, err
	}
	return d, nil
}

// readPods reads the pods that mount a PVC of the data, and the pods of Jobs with their reports. If the node of a pod
// that mounts the data does not respond, silentNode explains it.
func readPods(ctx context.Context, l podReader, basis *Basis, backupPVC *corev1.PersistentVolumeClaim,
	jobs []*Job) (pods []corev1.Pod, silentNode string, err error) {
	home, location := basis.Instance.Namespace, basis.JobLocation()
	for _, namespace := range slices.Compact([]string{home, location.Namespace}) {
		list := &corev1.PodList{}
		if err := l.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, "", fmt.Errorf("cannot list pods: %w", err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			n := slices.IndexFunc(jobs, func(j *Job) bool { return metav1.IsControlledBy(p, j.Job) })
			switch {
			case n >= 0:
				jobs[n].Pods = append(jobs[n].Pods, *p)
			case namespace == home && mountsPVC(p, basis.Instance.DataPVCName()) && isOwnPod(basis, p),
				namespace == location.Namespace && mountsPVC(p, location.Data):
				pods = append(pods, *p)
			}
		}
	}
	for i := range pods {
		if silentNode == "" {
			silentNode = l.whyNodeIsSilent(ctx, &pods[i])
		}
	}
	for _, j := range jobs {
		j.PodFailure = l.whyNoPod(ctx, j)
		readReports(ctx, l, basis, backupPVC, j)
	}
	return pods, silentNode, nil
}

// isOwnPod reports whether a pod that mounts the usual data PVC uses the data of this instance. If this instance has
// lost its XR, the PVC with that name may belong to a later instance.
func isOwnPod(basis *Basis, p *corev1.Pod) bool {
	return basis.Orphan == nil || basis.OriginalPVC != nil && basis.OriginalPVC.Name == basis.Instance.DataPVCName() ||
		p.Labels[v1.LabelXR] == string(basis.Instance.XR)
}

// mountsPVC reports whether a pod mounts a PVC, and so may write to its volume.
func mountsPVC(p *corev1.Pod, pvcName string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == pvcName
	})
}

// restKinds returns the kinds of an instance's objects that the controller may list, except for volumes and Jobs.
func restKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	}
}

// readLeftovers reads the Deployment, Service, Secrets and other small objects that were created for this instance.
func readLeftovers(ctx context.Context, r client.Reader, basis *Basis) ([]client.Object, error) {
	var out []client.Object
	instanceID, home := basis.Instance, basis.Instance.Namespace
	for _, kind := range restKinds() {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.List(ctx, l, client.InNamespace(home), client.MatchingLabels{v1.LabelXR: string(instanceID.XR)}); err != nil {
			return nil, fmt.Errorf("cannot list the objects of the instance: %w", err)
		}
		for i := range l.Items {
			l.Items[i].SetGroupVersionKind(kind)
			out = append(out, &l.Items[i])
		}
	}
	configs, err := readNamed(ctx, r, instanceID, "ConfigMap", home, instanceID.ConfigMapName())
	access, aerr := readNamed(ctx, r, instanceID, "Secret", basis.JobLocation().Namespace, basis.Attempt().Access)
	secrets, serr := readNamed(ctx, r, instanceID, "Secret", home, instanceID.RootSecretName(), instanceID.ConnectionSecretName(),
		instanceID.PendingSecretName(), instanceID.GeneratedSecretName(), instanceID.TLSSecretName(), instanceID.MetricsSecretName(),
		instanceID.Accesses().Restore(),
		instanceID.Accesses().Clone())
	authorities, terr := readAuthorities(ctx, r, instanceID, basis.Settings.Namespace)
	return slices.Concat(out, configs, access, secrets, authorities), errors.Join(err, aerr, serr, terr)
}

// readCloneAccess reads the Secret of an online backup.
func readCloneAccess(ctx context.Context, r client.Reader, s *Subject) (client.Object, error) {
	if !HasCloneAccount(s.XR) {
		return nil, nil //nolint:nilnil // No online backup is in progress.
	}
	secret, err := getObject(ctx, r, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), s.Instance.Namespace,
		s.Instance.Accesses().Clone())
	switch {
	case kerrors.IsForbidden(err): // Without this permission, the controller cannot have created the Secret.
		return nil, nil //nolint:nilnil // There is no Secret.
	case err != nil || secret == nil || !Owns(s.Instance, secret):
		return nil, err
	}
	return secret, nil
}

// readAuthorities reads the server's certificate authorities in the controller's own namespace: the current one, the
// next one, and the ones from an issuer.
func readAuthorities(ctx context.Context, r client.Reader, instanceID v1.Instance,
	namespace string) ([]client.Object, error) {
	if namespace == "" {
		return nil, nil
	}
	return readNamed(ctx, r, instanceID, "Secret", namespace, instanceID.AuthorityName(1), instanceID.AuthorityName(2),
		instanceID.IssuerCAName(1), instanceID.IssuerCAName(2))
}

// readNamed reads objects by name, because listing them would require the permission to read all of them. If the
// namespace has not opted in, or is being deleted, the garbage collector deletes the objects together with the XR
// that owns them.
func readNamed(ctx context.Context, r client.Reader, instanceID v1.Instance, kind, namespace string,
	names ...string) ([]client.Object, error) {
	var out []client.Object
	for _, name := range names {
		o, err := getObject(ctx, r, metadataOf(corev1.SchemeGroupVersion.WithKind(kind)), namespace, name)
		if kerrors.IsForbidden(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if o != nil && Owns(instanceID, o) {
			out = append(out, o)
		}
	}
	return out, nil
}
