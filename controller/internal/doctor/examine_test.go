package doctor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const systemNamespace = "crossplane-mysql-system"

var (
	now        = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key        = instance.Key{Kind: v1.KindMySQL, Namespace: "shop", Name: "orders"}
	instanceID = key.Instance("uid-1")
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func annotations(i v1.Instance) map[string]string {
	return map[string]string{v1.AnnotationClaimKind: i.Kind, v1.AnnotationClaimNamespace: i.Namespace,
		v1.AnnotationClaimName: i.Name, v1.AnnotationNamespaceUID: "ns-1"}
}

// object returns an object of a kind in the API for claims.
func object(kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v1.GroupVersionClaims.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetCreationTimestamp(ago(3 * time.Hour))
	u.SetFinalizers([]string{v1.Finalizer})
	return u
}

func claimObject() *unstructured.Unstructured {
	return object(v1.KindMySQL, "shop", "orders",
		map[string]any{"spec": map[string]any{"resourceRef": map[string]any{"name": "orders-x"}}})
}

func xrObject() *unstructured.Unstructured {
	u := object(v1.KindXMySQL, "", "orders-x", map[string]any{
		"spec": map[string]any{"claimRef": map[string]any{"kind": v1.KindMySQL, "namespace": "shop", "name": "orders"},
			"storage_size": "1Gi"},
		"status": map[string]any{
			"volume": "pv-data", "internal": map[string]any{"started": true},
			"conditions": []any{map[string]any{"type": v1.ConditionServing, "status": "True",
				"lastTransitionTime": "2026-03-01T09:00:00Z"}},
		},
	})
	u.SetUID("uid-1")
	return u
}

func decoded(u *unstructured.Unstructured) *instance.Composite {
	return instance.Decode(u)
}

func volume(name string, labels map[string]string) corev1.PersistentVolume {
	pvc := instanceID.DataPVCName()
	if labels[v1.LabelComponent] == v1.ComponentBackup {
		pvc = instanceID.BackupPVCName()
	}
	return corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations(instanceID),
			Finalizers: []string{"kubernetes.io/pv-protection", v1.Finalizer}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: instanceID.Namespace, Name: pvc},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func backupLabels() map[string]string {
	l := key.Instance("").Labels()
	l[v1.LabelComponent] = v1.ComponentBackup
	return l
}

func handle(name, volume string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: instanceID.Labels(),
			Annotations: annotations(instanceID), Finalizers: []string{v1.Finalizer}},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: volume},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

func backupHandle() corev1.PersistentVolumeClaim {
	c := handle(instanceID.BackupPVCName(), "pv-backup")
	c.Labels, c.Finalizers = backupLabels(), nil
	return c
}

// record returns a BackupRecord of an instance, with the given age.
func record(uid types.UID, phase v1.BackupPhase, since time.Duration) v1.BackupRecord {
	i := key.Instance(uid)
	return v1.BackupRecord{
		ObjectMeta: metav1.ObjectMeta{Name: i.RecordName(), Labels: i.Labels(), CreationTimestamp: ago(since)},
		Spec: v1.BackupRecordSpec{
			Instance: v1.BackedUpInstance{Kind: i.Kind, Namespace: i.Namespace, NamespaceUID: "ns-1", Name: i.Name, XR: uid}},
		Status: v1.BackupRecordStatus{Phase: phase},
	}
}

func job(uid types.UID) metav1.PartialObjectMetadata {
	i := key.Instance(uid)
	return metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backup-orders-job", Labels: i.Labels()}}
}

// healthy returns a cluster with one instance, and one backup of the previous instance.
func healthy() *Cluster {
	return &Cluster{
		Now: now, SystemNamespace: systemNamespace, Unread: map[string]string{},
		Claims: []*instance.Composite{decoded(claimObject())}, XRs: []*instance.Composite{decoded(xrObject())},
		Volumes: []corev1.PersistentVolume{volume("pv-data", instanceID.Labels()), volume("pv-backup", backupLabels())},
		PVCs:    []corev1.PersistentVolumeClaim{handle(instanceID.DataPVCName(), "pv-data"), backupHandle()},
		Records: []v1.BackupRecord{record("uid-0", v1.BackupVerified, 4*time.Hour)},
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("crossplane-mysql-1"), RenewTime: &metav1.MicroTime{Time: now.Add(-2 * time.Second)},
		}},
	}
}

// gone deletes the instance with its data, and leaves its backups.
func gone(c *Cluster) {
	c.Claims, c.XRs, c.Volumes, c.PVCs = nil, nil, c.Volumes[1:], c.PVCs[1:]
}

// lost deletes the claim and the XR without a backup, and leaves the data.
func lost(c *Cluster) { c.Claims, c.XRs = nil, nil }

// dying makes the instance one that is being deleted. step is the phase of its deletion.
func dying(c *Cluster, step string) {
	for _, o := range []*instance.Composite{c.Claims[0], c.XRs[0]} {
		o.SetDeletionTimestamp(new(ago(time.Minute)))
	}
	c.XRs[0].Status.Deletion = &v1.DeletionStatus{Phase: v1.DeletionPhase(step), Percent: 40,
		Message: "Volume is gone: bring it back"}
}

// ephemeral replaces the instance with a Database that has no volume.
func ephemeral(c *Cluster) {
	gone(c)
	c.Volumes, c.Records = nil, nil
	xr := xrObject()
	xr.SetGroupVersionKind(v1.GroupVersionDatabase.WithKind(v1.KindXDatabase))
	xr.SetFinalizers(nil)
	xr.Object["spec"] = map[string]any{"type": "mongo",
		"claimRef": map[string]any{"kind": v1.KindDatabase, "namespace": "shop", "name": "orders"}}
	unstructured.RemoveNestedField(xr.Object, "status", "volume")
	c.XRs = []*instance.Composite{decoded(xr)}
}

// said returns the findings of a report as lines with their advice.
func said(r *Report) []string {
	all := append(slices.Clone(r.Cluster), r.Rest...)
	for i := range r.Instances {
		all = append(all, r.Instances[i].Findings...)
	}
	out := make([]string, 0, len(all))
	for _, f := range all {
		out = append(out, string(f.Severity)+": "+f.Text+" | "+f.Advice)
	}
	return out
}

// noted adds the catalog entry of a backup to a volume.
func noted(v *corev1.PersistentVolume, r v1.BackupRecord) {
	r.Spec.Archive = &v1.Archive{Path: r.Name}
	text, err := json.Marshal(r.Entry())
	if err != nil {
		panic(err)
	}
	v.Annotations[v1.AnnotationBackupPrefix+r.Name] = string(text)
}

// inherited makes the backup volume belong to namespace ns-2, which was created after ns-1.
func inherited(v *corev1.PersistentVolume) {
	v.Annotations[v1.AnnotationNamespaceUID], v.Annotations[v1.AnnotationEarlierNamespaces] = "ns-2", "ns-1"
}

// TestExamine checks that each problem is reported exactly once.
func TestExamine(t *testing.T) {
	old := key.Instance("uid-0").RecordName()
	mine := instanceID.RecordName()
	cases := map[string]struct {
		change func(*Cluster)
		// want lists parts of each finding, separated by "…".
		want []string
	}{
		"Healthy":  {change: func(*Cluster) {}},
		"OnlyLeft": {change: gone},
		"XRUnprotected": {
			change: func(c *Cluster) { c.XRs[0].SetFinalizers(nil) },
			want: []string{"wrong: XMySQL orders-x has no finalizer crossplane-mysql.io/protect-data, 3h after … | the " +
				"controller normally adds it within seconds; … --namespace crossplane-mysql-system"},
		},
		"ClaimUnprotected": {
			change: func(c *Cluster) { c.Claims[0].SetFinalizers(nil) },
			want:   []string{"wrong: MySQL shop/orders has no finalizer"},
		},
		"YoungUnprotected": {
			change: func(c *Cluster) {
				c.XRs[0].SetFinalizers(nil)
				c.XRs[0].SetCreationTimestamp(ago(2 * time.Second))
			},
			want: []string{"note: XMySQL orders-x has no finalizer … 2s after … | check again in a minute"},
		},
		"DyingUnprotected": {
			change: func(c *Cluster) {
				dying(c, "Stopping")
				c.XRs[0].SetFinalizers(nil)
			},
			want: []string{"wrong: XMySQL orders-x has no finalizer"},
		},
		"Discard": {
			change: func(c *Cluster) { c.Claims[0].Spec.DeletionPolicy = v1.DeletionDiscard },
			want:   []string{"note: deletionPolicy is Discard"},
		},
		"Skipped": {
			change: func(c *Cluster) { c.XRs[0].SetAnnotations(map[string]string{v1.AnnotationSkipBackup: "uid-1"}) },
			want: []string{"note: the annotation crossplane-mysql.io/skip-backup is set … | … kubectl annotate xmysql orders-x " +
				"crossplane-mysql.io/skip-backup-"},
		},
		"SkippedByClaim": {
			change: func(c *Cluster) {
				c.Claims[0].SetAnnotations(map[string]string{v1.AnnotationSkipBackup: "uid-1"})
				c.XRs[0].SetAnnotations(map[string]string{v1.AnnotationSkipBackup: "uid-1"})
			},
			want: []string{"note: the annotation crossplane-mysql.io/skip-backup is set … | … kubectl annotate mysql orders " +
				"--namespace shop crossplane-mysql.io/skip-backup- && kubectl annotate xmysql orders-x crossplane-mysql.io/skip-backup-"},
		},
		"SkippedEarlierLife": {
			change: func(c *Cluster) { c.XRs[0].SetAnnotations(map[string]string{v1.AnnotationSkipBackup: "uid-0"}) },
		},
		"NotServing": {
			change: func(c *Cluster) {
				c.XRs[0].Conditions[0].Status, c.XRs[0].Conditions[0].LastTransitionTime = metav1.ConditionFalse, ago(time.Minute)
				c.XRs[0].Status.Message = "Starting"
			},
			want: []string{"note: the server has not accepted clients for 60s: Starting"},
		},
		"Suspended": {
			change: func(c *Cluster) {
				c.XRs[0].Spec.Suspend = true
				c.XRs[0].Conditions[0].Status, c.XRs[0].Conditions[0].Reason, c.XRs[0].Conditions[0].LastTransitionTime =
					metav1.ConditionFalse, v1.ReasonSuspended, ago(999*time.Hour)
			},
			want: []string{"note: the server is stopped, because spec.suspend is true"},
		},
		"SuspendedNoMore": {
			change: func(c *Cluster) {
				c.XRs[0].Conditions[0].Status, c.XRs[0].Conditions[0].Reason, c.XRs[0].Conditions[0].LastTransitionTime =
					metav1.ConditionFalse, v1.ReasonSuspended, ago(time.Minute)
				c.XRs[0].Status.Message = "spec.image: refused"
			},
			want: []string{"note: the server has not accepted clients for 60s: spec.image: refused"},
		},
		"NotServingForLong": {
			change: func(c *Cluster) { c.XRs[0].Conditions = nil },
			want: []string{"wrong: the server has not accepted clients for 3h: its status contains no reason | … kubectl " +
				"describe xmysql orders-x"},
		},
		"Certificate": {change: func(c *Cluster) { c.XRs[0].Status.TLS = &v1.TLSStatus{ExpirationTime: new(ago(-time.Hour))} }},
		"CertificateEnded": {
			change: func(c *Cluster) {
				c.XRs[0].Status.TLS = &v1.TLSStatus{ExpirationTime: new(ago(-time.Hour)), PresentedExpirationTime: new(ago(2 * time.Hour))}
			},
			want: []string{"wrong: the server's certificate expired 120m ago … | … --namespace " +
				"crossplane-mysql-system"},
		},
		"CertificateEndedOfAnIssuer": {
			change: func(c *Cluster) {
				c.XRs[0].Status.TLS = &v1.TLSStatus{ExpirationTime: new(ago(time.Hour)), IssuerMessage: "ask for approval"}
			},
			want: []string{"wrong: the server's certificate expired … | ask for approval"},
		},
		"CertificateIsNotRenewed": {
			change: func(c *Cluster) {
				c.XRs[0].Status.TLS = &v1.TLSStatus{ExpirationTime: new(ago(-time.Hour)), IssuerMessage: "ask for approval",
					Message: "restart it"}
			},
			want: []string{"note: the server's certificate expires at 2026-03-01T13:00:00Z … : ask for approval. " +
				"restart it"},
		},
		"ClaimGone": {
			change: func(c *Cluster) { c.Claims = nil },
			want: []string{"wrong: XMySQL orders-x is still running, but its claim no longer exists | … " +
				"kubectl delete xmysql orders-x"},
		},
		"ClaimGoneDiscard": {
			change: func(c *Cluster) { c.Claims, c.XRs[0].Spec.DeletionPolicy = nil, v1.DeletionDiscard },
			want: []string{"wrong: XMySQL orders-x is still running, but its claim no longer exists | " +
				"create the claim again",
				"note: deletionPolicy is Discard"},
		},
		"ClaimWithoutXR": {
			change: func(c *Cluster) {
				gone(c)
				c.Claims = []*instance.Composite{decoded(claimObject())}
			},
			want: []string{"wrong: MySQL shop/orders has no composite resource, 3h after … | … kubectl describe mysql orders " +
				"--namespace shop"},
		},
		"ClaimIsNotFreed": {
			change: func(c *Cluster) {
				gone(c)
				c.Claims = []*instance.Composite{decoded(claimObject())}
				c.Claims[0].SetDeletionTimestamp(new(ago(time.Hour)))
			},
			want: []string{"wrong: MySQL shop/orders is being deleted, and its composite resource is already deleted"},
		},
		"ClaimOfCrossplane": {
			change: func(c *Cluster) {
				gone(c)
				c.Claims = []*instance.Composite{decoded(claimObject())}
				c.Claims[0].SetDeletionTimestamp(new(ago(time.Hour)))
				c.Claims[0].SetFinalizers([]string{instance.FinalizerCrossplaneClaim})
			},
			want: []string{
				`wrong: MySQL shop/orders is being deleted. Crossplane has not removed its finalizer from MySQL orders. All other objects of the instance are already deleted. Check that Crossplane is running. … kubectl patch mysql orders --namespace shop --type json --patch '[{"op":"test","path":"/metadata/finalizers/0","value":"finalizer.apiextensions.crossplane.io"},{"op":"remove"`},
		},
		"ClaimOfCrossplaneForAMoment": {
			change: func(c *Cluster) {
				gone(c)
				c.Claims = []*instance.Composite{decoded(claimObject())}
				c.Claims[0].SetDeletionTimestamp(new(ago(time.Second)))
				c.Claims[0].SetFinalizers([]string{instance.FinalizerCrossplaneClaim})
			},
		},
		"ClaimWithoutXRD": {
			change: func(c *Cluster) {
				gone(c)
				c.Claims, c.Absent = []*instance.Composite{decoded(claimObject())}, []string{v1.KindXMySQL}
				c.Claims[0].SetDeletionTimestamp(new(ago(time.Hour)))
				c.Claims[0].SetFinalizers([]string{instance.FinalizerCrossplaneClaim})
				c.Claims[0].Status.Message = "Crossplane has not removed its finalizer from MySQL orders. All other objects of " +
					"the instance are already deleted. The XRD is being deleted or no longer exists. If Crossplane was started " +
					"after that, it never removes the finalizer. Remove it: " +
					"" + c.Claims[0].CommandToRemove(instance.FinalizerCrossplaneClaim)
			},
			want: []string{"note: these kinds are not installed",
				"wrong: MySQL shop/orders is being deleted. … The XRD is being deleted or no longer exists … kubectl patch " +
					"mysql orders --namespace shop"},
		},
		"ClaimOfAnother": {
			change: func(c *Cluster) {
				gone(c)
				c.Claims = []*instance.Composite{decoded(claimObject())}
				c.Claims[0].SetDeletionTimestamp(new(ago(time.Hour)))
				c.Claims[0].SetFinalizers([]string{"example.org/audit"})
			},
			want: []string{"wrong: MySQL shop/orders is being deleted and its other objects are already deleted, but it " +
				"still has the finalizers example.org/audit"},
		},
		"NotRetained": {
			change: func(c *Cluster) {
				c.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			},
			want: []string{"wrong: PersistentVolume pv-data with the data has the reclaim policy Delete … | kubectl patch pv " +
				"pv-data --patch '{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Retain\"}}'"},
		},
		"VolumeWithoutFinalizer": {
			change: func(c *Cluster) { c.Volumes[0].Finalizers = nil },
			want:   []string{"wrong: PersistentVolume pv-data with the data has no finalizer"},
		},
		"VolumeOfNobody": {
			change: func(c *Cluster) { c.Volumes[0].Labels = nil },
			want: []string{
				"wrong: PersistentVolume pv-data is not labeled as the data of this instance: its label " +
					"crossplane-mysql.io/xr is \"\", not \"uid-1\""},
		},
		"NotBoundYet": {
			change: func(c *Cluster) {
				c.Volumes[0].Status.Phase, c.PVCs[0].Status.Phase = corev1.VolumeAvailable, corev1.ClaimPending
				c.Volumes[0].Finalizers = nil
			},
		},
		"VolumeGone": {
			change: func(c *Cluster) { c.Volumes = c.Volumes[1:] },
			want: []string{"wrong: PersistentVolume pv-data, which contains the data, does not exist | restore it, " +
				"for example from a snapshot"},
		},
		"VolumeTaken": {
			change: func(c *Cluster) { c.Volumes[0].Spec.ClaimRef.Name = "somebody-else" },
			want: []string{"wrong: PersistentVolume pv-data, which contains the data, is bound to " +
				"PersistentVolumeClaim shop/somebody-else | "},
		},
		"StrayVolume": {
			change: func(c *Cluster) { c.Volumes = append(c.Volumes, volume("pv-other", instanceID.Labels())) },
			want: []string{
				"wrong: PersistentVolume pv-other is labeled as the data of XMySQL orders-x, which uses pv-data"},
		},
		"DataPVCGone": {
			change: func(c *Cluster) { c.PVCs = c.PVCs[1:] },
			want:   []string{"wrong: PersistentVolumeClaim shop/orders-pvc for the data does not exist; its volume is pv-data"},
		},
		"DataPVCTerminating": {
			change: func(c *Cluster) { c.PVCs[0].DeletionTimestamp = new(ago(time.Minute)) },
			want:   []string{"wrong: PersistentVolumeClaim shop/orders-pvc for the data has been in deletion for 60s"},
		},
		"Ephemeral": {
			change: ephemeral,
		},
		"EphemeralHeld": {
			change: func(c *Cluster) {
				ephemeral(c)
				c.XRs[0].SetDeletionTimestamp(new(ago(time.Hour)))
				c.XRs[0].Status.Deletion = &v1.DeletionStatus{Phase: v1.DeletionBlocked,
					Message: "Crossplane has not removed its finalizer"}
			},
			want: []string{"wrong: the deletion waits (Blocked): Crossplane has not removed its finalizer"},
		},
		"Dying": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Records = append(c.Records, record("uid-1", v1.BackupRunning, time.Minute))
			},
			want: []string{"note: backup " + mine + " is Running, 60s after its BackupRecord was created | "},
		},
		"Blocked": {
			change: func(c *Cluster) { dying(c, "Blocked") },
			want:   []string{"wrong: the deletion waits (Blocked): Volume is gone: bring it back"},
		},
		"DyingVolumeNotKept": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Volumes[0].Finalizers = nil
			},
			want: []string{"wrong: PersistentVolume pv-data with the data has no finalizer"},
		},
		"Releasing": {
			change: func(c *Cluster) {
				dying(c, "Releasing")
				c.Volumes[0].Finalizers = nil
				c.Records = append(c.Records, record("uid-1", v1.BackupVerified, time.Minute))
			},
		},
		"BackupLarge": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Records = append(c.Records, record("uid-1", v1.BackupRunning, 3*time.Hour))
			},
			want: []string{"note: backup " + mine + " is Running, 3h after its BackupRecord was created | "},
		},
		"BackupEndless": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Records = append(c.Records, record("uid-1", v1.BackupRunning, 50*time.Hour))
			},
			want: []string{"wrong: backup " + mine +
				" is Running, 2d2h after its BackupRecord was created | … kubectl get pods --all-namespaces --selector crossplane-mysql.io/xr=uid-1"},
		},
		"BackupSlow": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Records = append(c.Records, record("uid-1", "", time.Hour))
			},
			want: []string{"wrong: backup " + mine +
				" is Pending, 60m after its BackupRecord was created | … kubectl get pods --all-namespaces --selector crossplane-mysql.io/xr=uid-1"},
		},
		"BackupFailed": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Records = append(c.Records, record("uid-1", v1.BackupFailed, time.Minute))
				c.Records[1].Status.Message = "the volume is full"
			},
			want: []string{"wrong: backup " + mine +
				" is Failed, 60s after its BackupRecord was created: the volume is full | fix the cause"},
		},
		"BackupOfNothing": {
			change: func(c *Cluster) {
				gone(c)
				c.Records[0].Status.Phase = v1.BackupPending
			},
			want: []string{"wrong: backup " + old +
				" is Pending, 4h … It cannot finish, because neither its composite resource nor its volume exists, and the " +
				"next claim with this name waits for it | … kubectl delete backuprecord " + old},
		},
		"RescueUnannounced": {
			change: lost,
			want: []string{"wrong: PersistentVolume pv-data has data of a composite resource that no longer exists (uid-1), " +
				"and no backup of it has started"},
		},
		"RescueDiscards": {
			change: func(c *Cluster) {
				lost(c)
				c.Volumes[0].Annotations[v1.AnnotationDeletionPolicy] = string(v1.DeletionDiscard)
			},
			want: []string{"wrong: PersistentVolume pv-data has data of a composite resource that no longer exists (uid-1). " +
				"The data is deleted without a backup, because deletionPolicy is Discard"},
		},
		"RescueHeldByRecord": {
			change: func(c *Cluster) {
				lost(c)
				r := record("uid-1", v1.BackupVerified, time.Minute)
				r.Spec.Instance.XR = ""
				r.Unreadable = v1.UnreadableFields{{Path: []string{"spec", "instance"}, Why: "it must be an object"}}
				c.Records = append(c.Records, r)
			},
			want: []string{
				"wrong: BackupRecord " + mine + ": spec.instance",
				"wrong: PersistentVolume pv-data has data of a composite resource that no longer exists (uid-1).  … the " +
					"controller cannot determine whether it is the backup of this instance",
			},
		},
		"RescueHeld": {
			change: func(c *Cluster) {
				lost(c)
				c.Volumes[0].UID, c.Volumes[0].Annotations[v1.AnnotationMarkedUID] = "new", "old"
			},
			want: []string{"wrong: PersistentVolume pv-data is labeled as data of a previous instance with this name (composite resource " +
				"uid-1), but it was copied or restored from elsewhere … kubectl annotate pv pv-data " + v1.AnnotationTakeOver + "=new"},
		},
		"Rescue": {
			change: func(c *Cluster) {
				lost(c)
				c.Records = append(c.Records, record("uid-1", v1.BackupRunning, time.Minute))
			},
			want: []string{"note: PersistentVolume pv-data lost its composite resource, and its data is being " +
				"recovered: backup " + mine +
				" is Running, 60s"},
		},
		"RescueFailed": {
			change: func(c *Cluster) {
				lost(c)
				c.Records = append(c.Records, record("uid-1", v1.BackupFailed, time.Minute))
				c.Records[1].Status.Message = "the volume is full"
			},
			want: []string{"wrong: PersistentVolume pv-data lost its composite resource, and its data is being " +
				"recovered:  … the volume is full"},
		},
		"RescueNotKept": {
			change: func(c *Cluster) {
				lost(c)
				c.Records = append(c.Records, record("uid-1", v1.BackupRunning, time.Minute))
				c.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			},
			want: []string{"note: PersistentVolume pv-data lost",
				"wrong: PersistentVolume pv-data with the data has the reclaim policy Delete"},
		},
		"Rescued": {
			change: func(c *Cluster) {
				lost(c)
				c.Records = append(c.Records, record("uid-1", v1.BackupVerified, time.Minute))
			},
			want: []string{"note: PersistentVolume pv-data lost its composite resource. Its backup " + mine + " is verified"},
		},
		"RescueByClaim": {
			change: func(c *Cluster) {
				lost(c)
				c.Volumes = c.Volumes[1:]
			},
			want: []string{"wrong: PersistentVolumeClaim shop/orders-pvc has data of a composite resource that no longer exists (uid-1)"},
		},
		"BackupPVGone": {
			change: func(c *Cluster) { c.Volumes = c.Volumes[:1] },
			want: []string{"wrong: backup " + old +
				" is verified but cannot be restored: no volume is labeled as the backup volume of namespace shop (ns-1)"},
		},
		"InStore": {
			change: inStore(metav1.ConditionTrue),
		},
		"InLostStore": {
			change: inStore(metav1.ConditionFalse),
			want:   []string{"wrong: backup " + old + " is stored in BackupStore offsite, which is not reachable: no way there"},
		},
		"InNoStore": {
			change: func(c *Cluster) { inStore(metav1.ConditionTrue)(c); c.Stores = nil },
			want:   []string{"wrong: backup " + old + " cannot be restored, because its BackupStore offsite does not exist"},
		},
		"BackupPVOfAnotherNamespace": {
			change: func(c *Cluster) { c.Volumes[1].Annotations[v1.AnnotationNamespaceUID] = "ns-2" },
			want:   []string{"wrong: backup " + old + " is verified but cannot be restored: no volume is labeled"},
		},
		"BackupPVInherited": { // A later namespace with the same name owns the volume.
			change: func(c *Cluster) { inherited(&c.Volumes[1]) },
		},
		"BackupPVInheritedAndGone": { // The volume contains only backups of the previous namespace.
			change: func(c *Cluster) {
				gone(c)
				inherited(&c.Volumes[0])
			},
		},
		"BackupPVNotKept": {
			change: func(c *Cluster) {
				gone(c)
				c.Volumes[0].Finalizers = nil
				c.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			},
			want: []string{"wrong: PersistentVolume pv-backup with the backups has the reclaim policy Delete",
				"wrong: PersistentVolume pv-backup with the backups has no finalizer"},
		},
		"NotRestorable": {
			change: func(c *Cluster) {
				c.Records[0].Status.Conditions = []metav1.Condition{
					{Type: v1.ConditionRestorable, Status: metav1.ConditionFalse, Message: "table a.b is corrupt"}}
			},
			want: []string{"no server can start from backup … table a.b is corrupt"},
		},
		"RecordGone": {
			change: func(c *Cluster) {
				gone(c)
				noted(&c.Volumes[0], c.Records[0])
				c.Records = nil
			},
			want: []string{
				"wrong: backup " + old + " on PersistentVolume pv-backup has no BackupRecord: no claim with this name starts " +
					"until this is resolved | to restore it: kubectl annotate pv pv-backup --overwrite " +
					"crossplane-mysql.io/make-record=" + old +
					"; to start without it: kubectl annotate pv pv-backup forget.crossplane-mysql.io/" + old + "=",
			},
		},
		"RecordForgotten": {
			change: func(c *Cluster) {
				gone(c)
				noted(&c.Volumes[0], c.Records[0])
				c.Volumes[0].Annotations[v1.AnnotationForgetPrefix+old] = old
				c.Records = nil
			},
			want: []string{"note: backup " + old +
				" on PersistentVolume pv-backup has no BackupRecord | to create the BackupRecord again: kubectl " +
				"annotate pv"},
		},
		"RecordGoneUnreadable": {
			change: func(c *Cluster) {
				gone(c)
				noted(&c.Volumes[0], c.Records[0])
				c.Volumes[0].Annotations[v1.AnnotationBackupPrefix+old] = "{"
				c.Records = nil
			},
			want: []string{"cannot be read: no claim with this name starts until this is resolved | " +
				"to list the backups on the volume: kubectl mysql " +
				"adopt --namespace " + key.Namespace + " --volume " + key.Instance("").BackupPVCName() + " --kind " + key.Kind +
				" --name " + key.Name + " --dry-run; to start without them: kubectl annotate pv pv-backup forget"},
		},
		"RecordNoted": {change: func(c *Cluster) { noted(&c.Volumes[1], c.Records[0]) }},
		"RecordStays": {
			change: func(c *Cluster) {
				gone(c)
				c.Records[0].DeletionTimestamp, c.Records[0].Status.Message = new(
					ago(time.Hour)), "The deletion waits: its claim is gone"
			},
			want: []string{"wrong: backup " + old + " has been in deletion for 60m: The deletion waits: its claim is gone"},
		},
		"RescueBegun": {
			change: func(c *Cluster) {
				lost(c)
				c.Records = append(c.Records, record("uid-1", v1.BackupRunning, time.Minute))
			},
			want: []string{"note: PersistentVolume pv-data lost"},
		},
		"JobOfATest": {
			change: func(c *Cluster) {
				j := job("uid-9")
				j.UID, j.Labels[v1.LabelComponent] = "test", v1.ComponentRestoreTest
				c.Jobs = []metav1.PartialObjectMetadata{j}
				c.Records[0].Status.RestoreTest = &v1.RestoreTest{Job: "test"}
			},
		},
		"JobLeft": {
			change: func(c *Cluster) {
				c.Jobs = []metav1.PartialObjectMetadata{job("uid-9")}
			},
			want: []string{"note: Job shop/backup-orders-job was created for a composite resource that no longer exists " +
				"(uid-9) | kubectl delete job --namespace shop backup-orders-job"},
		},
		"EmptyBackupPV": {
			change: func(c *Cluster) {
				gone(c)
				c.Records = nil
			},
			want: []string{"note: PersistentVolume pv-backup is a backup volume without a claim, a BackupRecord or a " +
				"catalog entry | inspect it before you change it: kubectl describe pv pv-backup"},
		},
		"EmptyBackupPVOfALivingInstance": {
			change: func(c *Cluster) { c.Records = nil },
		},
		"SeveralBackupPVs": {
			change: func(c *Cluster) {
				c.Volumes = append(c.Volumes, volume("pv-earlier", backupLabels()))
				c.Volumes[2].Annotations[v1.AnnotationNamespaceUID] = "ns-0"
			},
			want: []string{"note: there are 2 backup volumes, from different namespaces with this name: pv-backup, " +
				"pv-earlier. … | kubectl get pv --selector crossplane-mysql.io/instance="},
		},
		"SeveralBackupPVsAndTodays": {
			change: func(c *Cluster) {
				c.Namespaces = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "ns-1"}}}
				c.Volumes = append(c.Volumes, volume("pv-earlier", backupLabels()))
				c.Volumes[2].Annotations[v1.AnnotationNamespaceUID] = "ns-0"
			},
			want: []string{"note: there are 2 backup volumes … pv-backup, pv-earlier (of a previous namespace). A claim"},
		},
		"EarlierNamespace": {
			change: func(c *Cluster) {
				gone(c)
				c.Namespaces = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "ns-2"}}}
			},
			want: []string{"note: the backups on pv-backup belong to a previous namespace with this name"},
		},
		"TodaysNamespace": {
			change: func(c *Cluster) {
				c.Namespaces = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "else", UID: "ns-2"}},
					{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "ns-1"}}}
			},
		},
		"XRWithoutClaim": {
			change: func(c *Cluster) {
				xr := xrObject()
				xr.SetName("alone")
				xr.SetUID("uid-2")
				unstructured.RemoveNestedField(xr.Object, "spec", "claimRef")
				c.XRs = append(c.XRs, decoded(xr))
			},
			want: []string{"wrong: XMySQL alone was created without a claim"},
		},
		"StrangeVolume": {
			change: func(c *Cluster) {
				c.Volumes = append(c.Volumes, volume("pv-strange", nil))
			},
			want: []string{"wrong: PersistentVolume pv-strange has the controller's finalizer but no labels of an instance … | … kubectl " +
				"get pv pv-strange --output yaml"},
		},
		"StrangePVC": {
			change: func(c *Cluster) {
				c.PVCs = append(c.PVCs, handle("strange", ""))
				c.PVCs[2].Annotations = nil
			},
			want: []string{"wrong: PersistentVolumeClaim shop/strange has the controller's finalizer but no labels of an instance"},
		},
		"SomebodyElsesVolume": {
			change: func(c *Cluster) {
				c.Volumes = append(c.Volumes, corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-else"}})
			},
		},
		"NoController": {
			change: func(c *Cluster) { c.Lease = nil },
			want: []string{"wrong: no controller is running, so no backup is taken (there is no lease " +
				"crossplane-mysql-system/controller.crossplane-mysql.io)"},
		},
		"ControllerStopped": {
			change: func(c *Cluster) { c.Lease.Spec.HolderIdentity = new("") },
			want:   []string{"wrong: no controller is running, so no backup is taken (the lease"},
		},
		"ControllerGone": {
			change: func(c *Cluster) { c.Lease.Spec.RenewTime.Time = now.Add(-5 * time.Minute) },
			want:   []string{"wrong: no controller is running, so no backup is taken … was renewed 5m ago)"},
		},
		"LeaseUnread": {
			change: func(c *Cluster) { c.Lease, c.Unread[kindLease] = nil, "forbidden" },
			want:   []string{"note: kind Lease was not checked: forbidden"},
		},
		"KindAbsent": {
			change: func(c *Cluster) { c.Absent = []string{v1.KindDatabase, v1.KindXDatabase} },
			want:   []string{"note: these kinds are not installed, so they were not checked: Database, XDatabase"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := healthy()
			tc.change(c)
			got := said(Examine(c))
			if len(got) != len(tc.want) {
				t.Fatalf("want %d findings, got\n%s", len(tc.want), strings.Join(got, "\n"))
			}
			for _, text := range got {
				for _, destroys := range []string{"delete pv", v1.AnnotationSkipBackup + "=", `"requireRestoreTest":false`} {
					if strings.Contains(text, destroys) {
						t.Errorf("want no command that can destroy the only copy of the data (%s), got\n%s", destroys, text)
					}
				}
			}
			for i, want := range tc.want {
				if !contains(got[i], want) {
					t.Errorf("want\n%s\ngot\n%s", want, got[i])
				}
			}
		})
	}
}

// namespacedObject returns an instance without a claim, whose server runs.
func namespacedObject() *unstructured.Unstructured {
	u := xrObject()
	u.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindMySQL))
	u.SetNamespace("shop")
	u.SetName("orders")
	u.SetUID("uid-9")
	u.Object["spec"] = map[string]any{"image": "mysql:8.4", "database": "shop", "storageSize": "1Gi"}
	unstructured.RemoveNestedField(u.Object, "status", "volume")
	unstructured.RemoveNestedField(u.Object, "status", "internal", "started")
	return u
}

// TestNamespaced checks an instance without a claim next to the instance of a claim with the same name. The doctor
// must show both, and must not report a missing claim.
func TestNamespaced(t *testing.T) {
	c := healthy()
	c.XRs = append(c.XRs, decoded(namespacedObject()))
	r := Examine(c)
	if got := said(r); len(got) > 0 {
		t.Errorf("want no findings, got\n%s", strings.Join(got, "\n"))
	}
	var kinds []string
	for _, i := range r.Instances {
		if i.Namespace == "shop" && i.Name == "orders" && i.State == "running" {
			kinds = append(kinds, i.Kind)
		}
	}
	if diff := cmp.Diff([]string{v1.KindMySQL, "MySQL.crossplane-mysql.io"}, kinds); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	xr := decoded(namespacedObject())
	xr.SetFinalizers(nil)
	c.XRs[1] = xr
	if got := said(Examine(c)); len(got) != 1 || !contains(got[0], "wrong: MySQL shop/orders has no finalizer") {
		t.Errorf("want its lost finalizer found, got %v", got)
	}
	if got, want := xr.InKubectl(), "mysqlinstances.crossplane-mysql.io orders --namespace shop"; got != want {
		t.Errorf("want kubectl to find %q, got %q", want, got)
	}
}

// contains reports whether a string contains all parts, which are separated by "…", in this order.
func contains(text, parts string) bool {
	for part := range strings.SplitSeq(parts, "…") {
		_, rest, found := strings.Cut(text, strings.TrimSpace(part))
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// TestLines checks the line of an instance in the report.
func TestLines(t *testing.T) {
	cases := map[string]struct {
		change func(*Cluster)
		want   Instance
	}{
		"Running": {
			change: func(c *Cluster) { c.Records[0].Status.CompletionTime = new(ago(90 * time.Minute)) },
			want: Instance{
				Severity: OK, State: "running", Data: &Data{Volume: "pv-data", ReclaimPolicy: "Retain", Finalizer: true},
				Backups: Backups{Verified: 1, Newest: "90m", Volumes: []string{"pv-backup"}},
			},
		},
		"Deleted": {
			change: gone,
			want: Instance{Severity: OK, State: "deleted",
				Backups: Backups{Verified: 1, Newest: "4h", Volumes: []string{"pv-backup"}}},
		},
		"Deleting": {
			change: func(c *Cluster) {
				dying(c, "BackingUp")
				c.Records = nil
			},
			want: Instance{
				Severity: OK, State: "deleting: BackingUp, 40%",
				Data:    &Data{Volume: "pv-data", ReclaimPolicy: "Retain", Finalizer: true},
				Backups: Backups{Volumes: []string{"pv-backup"}},
			},
		},
		"NewestFirst": {
			change: func(c *Cluster) {
				c.Records = append(c.Records, record("uid-8", v1.BackupVerified, time.Hour))
			},
			want: Instance{
				Severity: OK, State: "running", Data: &Data{Volume: "pv-data", ReclaimPolicy: "Retain", Finalizer: true},
				Backups: Backups{Verified: 2, Newest: "60m", Volumes: []string{"pv-backup"}},
			},
		},
		"Rescue": {
			change: lost,
			want: Instance{
				Severity: Wrong, State: "being recovered", Data: &Data{Volume: "pv-data", ReclaimPolicy: "Retain", Finalizer: true},
				Backups: Backups{Verified: 1, Newest: "4h", Volumes: []string{"pv-backup"}},
			},
		},
		"NotProtected": {
			change: func(c *Cluster) {
				c.XRs[0].Conditions = nil
				c.Volumes[0].Finalizers, c.Volumes[0].Spec.PersistentVolumeReclaimPolicy = nil, corev1.PersistentVolumeReclaimDelete
			},
			want: Instance{
				Severity: Wrong, State: "not running", Data: &Data{Volume: "pv-data", ReclaimPolicy: "Delete"},
				Backups: Backups{Verified: 1, Newest: "4h", Volumes: []string{"pv-backup"}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := healthy()
			tc.change(c)
			r := Examine(c)
			if len(r.Instances) != 1 {
				t.Fatalf("want one instance, got %+v", r.Instances)
			}
			got := r.Instances[0]
			got.Findings = nil
			tc.want.Kind, tc.want.Namespace, tc.want.Name = "MySQL", "shop", "orders"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// inStore moves the backup to a store, and removes its volume.
func inStore(reachable metav1.ConditionStatus) func(*Cluster) {
	return func(c *Cluster) {
		c.Volumes, c.PVCs = c.Volumes[:1], c.PVCs[:1]
		c.Records[0].Spec.Archive = &v1.Archive{Store: "offsite", Path: "v1/ns-1/x/y/x.tar.zst"}
		s := v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "offsite"}}
		s.Status.Conditions = []metav1.Condition{{Type: v1.ConditionReachable, Status: reachable, Message: "no way there"}}
		c.Stores = []v1.BackupStore{s}
	}
}
