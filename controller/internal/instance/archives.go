package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

// Archives contains all backups of an instance: the BackupRecords, and the catalog entries on volumes and in stores.
type Archives struct {
	// Settings are the settings of the controller.
	Settings Settings
	// Instance identifies the instance. Its XR is empty, because the backups belong to all instances with the same kind,
	// namespace and name.
	Instance v1.Instance
	// Now is the time of the read.
	Now time.Time
	// Instances are the existing instances with this name. The reconcile of each instance handles the BackupRecord of its
	// current backup.
	Instances []*State
	// Records are the BackupRecords and Entries the catalog entries, both newest first.
	Records []v1.BackupRecord
	Entries []Entry
	// Volumes are the volumes with backups of the instance.
	Volumes []corev1.PersistentVolume
	// PVC is the backup PVC in the instance's own namespace, or nil if it does not exist.
	PVC *corev1.PersistentVolumeClaim
	// Erasing maps names of BackupRecords to the Jobs that delete their archives.
	Erasing map[string]*Job
	// Restoring maps the name of a backup to the composite resource of the namespace that is about to be restored from
	// it. The composite resource may belong to any instance. Restoring is read only if an archive must be deleted.
	Restoring map[string]string
	// Rules are the quotas and limits of the namespace that Jobs must comply with. They are read with Restoring.
	Rules *nsrules.Rules
	// Unasked contains the names of BackupRecords if their store did not report whether they are verified.
	Unasked map[string]bool
}

// Archives returns the backups of an instance.
func (g *Gatherer) Archives(ctx context.Context, k Key) (*Archives, error) {
	instances, err := g.GatherInstalled(ctx, k)
	if err != nil {
		return nil, err
	}
	a := &Archives{Settings: g.Settings, Instance: k.Instance(""), Now: g.Clock(), Instances: instances, Erasing: map[string]*Job{},
		Unasked: map[string]bool{}}
	if a.Records, err = Records(ctx, g.Reader, a.Instance); err != nil {
		return nil, err
	}
	if a.Volumes, err = backupPVs(ctx, g.Reader, a.Instance); err != nil {
		return nil, err
	}
	if a.PVC, err = readPVC(ctx, g.Reader, k.Namespace, a.Instance.BackupPVCName()); err != nil {
		return nil, err
	}
	a.sortEntries()
	readUnproven(ctx, g.Stores, a)
	if slices.ContainsFunc(a.Records, func(r v1.BackupRecord) bool {
		return r.DeletionTimestamp != nil && r.MayDeleteArchive()
	}) {
		if a.Restoring, err = restoring(ctx, g.Reader, k.Namespace, a.Records); err != nil {
			return nil, err
		}
		if a.Rules, err = nsrules.Read(ctx, g.Reader, k.Namespace); err != nil {
			return nil, err
		}
	}
	return a, readRemovalJobs(ctx, g.Reader, a)
}

// readUnproven reads the catalog entries of unverified BackupRecords that name an archive in a store. Such a
// BackupRecord was created again by a user. A store that does not respond is read only once, so that it does not
// delay the others.
func readUnproven(ctx context.Context, stores Stores, a *Archives) {
	silent := map[string]bool{}
	for i := range a.Records {
		r := &a.Records[i]
		if stores == nil || r.IsVerified() || !r.InStore() || a.InstanceOf(r.Spec.Instance.XR) != nil {
			continue
		}
		in := r.Spec.Archive.Store
		if silent[in] {
			a.Unasked[r.Name] = true
			continue
		}
		switch n, err := stores.ReadEntry(ctx, in, r.Spec.Instance, r.Name); {
		case err != nil:
			log.FromContext(ctx).Error(err, "Cannot read from the store whether the backup is verified", "store", in, "backup",
				r.Name)
			_, answers := errors.AsType[*UnreadableEntryError](err)
			a.Unasked[r.Name], silent[in] = true, !answers
		case n != nil:
			a.Entries = append(a.Entries, Entry{BackupEntry: n.BackupEntry, Name: n.Name, Store: in})
		}
	}
}

// ArchivesOf returns the backups of an instance without its instances, Jobs and PVCs. This is enough to decide
// whether there is anything to do.
func ArchivesOf(k Key, records []v1.BackupRecord, volumes []metav1.PartialObjectMetadata) *Archives {
	a := &Archives{Instance: k.Instance(""), Records: records}
	for i := range volumes {
		a.Volumes = append(a.Volumes, corev1.PersistentVolume{ObjectMeta: volumes[i].ObjectMeta})
	}
	a.sortEntries()
	return a
}

// readRemovalJobs reads the Jobs that delete archives, and the reports of their pods.
func readRemovalJobs(ctx context.Context, reader client.Reader, a *Archives) error {
	for i := range a.Records {
		r := &a.Records[i]
		if r.DeletionTimestamp == nil {
			continue
		}
		instanceID := a.Instance
		instanceID.XR = r.Spec.Instance.XR
		j, err := readJob(ctx, reader, instanceID, instanceID.Namespace, v1.RemovalJobName(r.Name))
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		a.Erasing[r.Name] = j
		if err := readJobReport(ctx, reader, j, v1.ComponentRemoval); err != nil {
			return err
		}
	}
	return nil
}

// readJobReport reads from the pods of a Job why they are not running.
func readJobReport(ctx context.Context, r client.Reader, j *Job, component string) error {
	l := &corev1.PodList{}
	if err := r.List(ctx, l, client.InNamespace(j.Namespace),
		client.MatchingLabels{v1.LabelXR: j.Labels[v1.LabelXR], v1.LabelComponent: component}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		j.RecordPodFailure(&l.Items[i].Status)
	}
	return nil
}

// Entry returns the catalog entry of a BackupRecord, or nil.
func (a *Archives) Entry(r *v1.BackupRecord) *Entry {
	for i := range a.Entries {
		if n := &a.Entries[i]; n.Of(r) {
			return n
		}
	}
	return nil
}

// Record returns the BackupRecord of a catalog entry, or nil.
func (a *Archives) Record(n *Entry) *v1.BackupRecord {
	for i := range a.Records {
		if r := &a.Records[i]; n.Of(r) {
			return r
		}
	}
	return nil
}

// VolumeOf returns the volume whose catalog contains the backup. If there is none, it returns the backup volume of
// the backup's namespace, or nil.
func (a *Archives) VolumeOf(r *v1.BackupRecord) *corev1.PersistentVolume {
	if r.InStore() {
		return nil
	}
	n := a.Entry(r)
	for i := range a.Volumes {
		v := &a.Volumes[i]
		if n != nil && v.Name == n.Volume || n == nil && HasBackupsOf(v, r.Spec.Instance.NamespaceUID) {
			return v
		}
	}
	return nil
}

// InstanceOf returns the instance of an XR, or nil if it no longer exists.
func (a *Archives) InstanceOf(xr types.UID) *State {
	for _, s := range a.Instances {
		if s.Instance.XR != "" && s.Instance.XR == xr {
			return s
		}
	}
	return nil
}

func (a *Archives) sortEntries() {
	newestFirst(a.Records)
	a.Entries = EntriesOf(a.Volumes, a.Instance)
}
