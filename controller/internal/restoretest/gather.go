package restoretest

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// An Attempt is what there is of the attempt to start a server from a backup.
type Attempt struct {
	// Home is the life that was backed up while it is being deleted, and once it is
	// gone the empty one of that name. While another life is there, or about to be, or the
	// same goes on, it has the volumes: Home is nil then, and that life for a backup in a store.
	Home *instance.State
	// Job has the name of the one that unpacks the backup and starts the server,
	// whoever made it. Volume is that of the backups, which the copy is unpacked on,
	// where the backup lies there.
	// Each is nil where there is none.
	Job    *instance.Job
	Volume *corev1.PersistentVolume
	// Access of the Job to a store, as far as it is known whose it is; nil where there is none.
	Access *metav1.PartialObjectMetadata
	// Reports of the Job's containers, by their names.
	Reports map[string]agent.Report
}

// ReadState of the backup of an instance that is to be tried, and of what is tried with it, beside what others try, and
// how many may.
func ReadState(ctx context.Context, g *instance.Gatherer, k instance.Key, others Turns, atOnce int) (*State, error) {
	records, err := instance.Records(ctx, g.Reader, k.Life(""))
	if err != nil {
		return nil, err
	}
	s := &State{Now: g.Clock(), Others: others, AtOnce: atOnce, AgentImage: g.Settings.AgentImage, JobResources: g.Settings.JobResources, NewTurn: uuid.NewUUID(), Record: backupToTry(records)}
	s.Siblings = slices.DeleteFunc(slices.Clone(records), func(r v1.MySQLBackup) bool { return s.Record != nil && r.Name == s.Record.Name })
	if s.Attempt, err = readAttempt(ctx, g, k, s.Record); err != nil {
		return nil, err
	}
	s.readNote(ctx, g.Stores)
	if slices.ContainsFunc(records, func(r v1.MySQLBackup) bool { return r.InStore() && r.Status.RestoreTest != nil }) {
		s.Access, err = readAccess(ctx, g, k.Life(""))
	}
	return s, err
}

// readAccess to a store. One that is not the instance's, or that nobody lets the controller see, is none.
func readAccess(ctx context.Context, g *instance.Gatherer, of v1.Instance) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	switch err := g.Reader.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Accesses().RestoreTest()}, m); {
	case kerrors.IsNotFound(err), kerrors.IsForbidden(err):
		return nil, nil //nolint:nilnil // None, and no error.
	case err != nil:
		return nil, fmt.Errorf("cannot get Secret %s/%s: %w", of.Namespace, of.Accesses().RestoreTest(), err)
	}
	if m.Labels[v1.LabelInstance] != of.Key() {
		return nil, nil //nolint:nilnil // None of ours.
	}
	return m, nil
}

// readNote of a backup in a store, whose archive is about to be read.
func (s *State) readNote(ctx context.Context, all instance.Stores) {
	if all == nil || !s.isOpen() || s.Home == nil || s.Job != nil || !s.Record.InStore() || s.mustYield() {
		return
	}
	if _, waits := s.waitsForTurn(); waits {
		return
	}
	var err error
	if s.Note, err = all.ReadNote(ctx, s.Record.Spec.Archive.Store, s.Record.Spec.Instance, s.Record.Name); err != nil {
		s.StoreFailure = v1.PrintableText(err.Error(), v1.MaxForeignText)
	}
}

// readAttempt with a backup of a life of the instance; with none where there is
// only what one left.
func readAttempt(ctx context.Context, g *instance.Gatherer, k instance.Key, record *v1.MySQLBackup) (*Attempt, error) {
	lives, err := g.GatherInstalled(ctx, k)
	if err != nil {
		return nil, err
	}
	out := &Attempt{Home: homeOf(lives, record), Reports: map[string]agent.Report{}}
	j := &batchv1.Job{}
	switch err := g.Reader.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Life("").Jobs().RestoreTest()}, j); {
	case kerrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("cannot get Job %s/%s: %w", k.Namespace, k.Life("").Jobs().RestoreTest(), err)
	default:
		out.Job = instance.NewJob(j)
		if err := readReports(ctx, g, out); err != nil {
			return nil, err
		}
	}
	if out.Home == nil || record != nil && record.InStore() || out.Home.BackupPVC == nil || out.Home.BackupPVC.Spec.VolumeName == "" {
		return out, nil
	}
	v, err := g.Volume(ctx, out.Home.BackupPVC.Spec.VolumeName)
	if err != nil || v == nil || !instance.Bound(v, out.Home.BackupPVC) {
		return out, err
	}
	out.Volume = v
	return out, nil
}

// homeOf a backup: the life at whose end it was taken as long as that has not ended, and
// then the name's, if no other life has it. One in a store needs nothing that another has.
func homeOf(lives []*instance.State, record *v1.MySQLBackup) *instance.State {
	for _, s := range lives {
		if record != nil && endsWith(s, record) {
			return s
		}
	}
	if s := lives[0]; isNameFree(s) || record != nil && record.InStore() {
		return s
	}
	return nil
}

// endsWith is true of a life that is being deleted, and whose last backup this is.
func endsWith(s *instance.State, record *v1.MySQLBackup) bool {
	return s.IsDeleting() && s.IsOwn(record) && s.Attempt().Record == record.Name
}

// isNameFree is true where no life has the name, nor is about to.
func isNameFree(s *instance.State) bool {
	return s.Life.XR == "" && (s.Claim == nil || s.Claim.IsDeleting())
}

// readReports reads what the Job's containers report. Only pods that the Job controls
// are heard: labels are anybody's.
func readReports(ctx context.Context, g *instance.Gatherer, a *Attempt) error {
	j := a.Job
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(j.Namespace)); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	j.Pods = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	for i := range j.Pods {
		p := &j.Pods[i].Status
		j.NotePodFailure(p)
		for _, c := range slices.Concat(p.InitContainerStatuses, p.ContainerStatuses) {
			if r := instance.ReportOf(&j.Pods[i], &c); r != nil {
				a.Reports[c.Name] = *r
			}
		}
	}
	return nil
}
