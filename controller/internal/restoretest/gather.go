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

// An Attempt contains the objects of a restore test.
type Attempt struct {
	// Home is the instance whose volumes and settings the test uses. For the final backup of an instance that is being
	// deleted, Home is that instance. For a backup in a store, it is the existing instance with this name, if there is
	// one. If no instance has the name, Home is an empty State with the name. Otherwise another instance uses the
	// backup volume, and Home is nil.
	Home *instance.State
	// Job is the Job with the name of the test Job, even if another client created it. Volume is the backup volume. A
	// backup on this volume is also unpacked there. Job and Volume are nil if they do not exist.
	Job    *instance.Job
	Volume *corev1.PersistentVolume
	// Access is the Secret that gives the Job access to a store. It is nil if no such Secret has the labels of the
	// instance.
	Access *metav1.PartialObjectMetadata
	// Reports are the reports of the Job's containers by name.
	Reports map[string]agent.Report
}

// ReadState reads the backup of an instance that must be tested, and the objects of its test. others are the running
// tests of other instances, and atOnce is the maximum number of concurrent tests.
func ReadState(ctx context.Context, g *instance.Gatherer, k instance.Key, others Turns, atOnce int) (*State, error) {
	records, err := instance.Records(ctx, g.Reader, k.Instance(""))
	if err != nil {
		return nil, err
	}
	s := &State{Now: g.Clock(), Others: others, AtOnce: atOnce, AgentImage: g.Settings.AgentImage,
		JobResources: g.Settings.JobResources, NewTurn: uuid.NewUUID(), Record: backupToTry(records)}
	s.Siblings = slices.DeleteFunc(slices.Clone(records), func(r v1.BackupRecord) bool {
		return s.Record != nil && r.Name == s.Record.Name
	})
	if s.Attempt, err = readAttempt(ctx, g, k, s.Record); err != nil {
		return nil, err
	}
	s.readEntry(ctx, g.Stores)
	if slices.ContainsFunc(records, func(r v1.BackupRecord) bool { return r.InStore() && r.Status.RestoreTest != nil }) {
		s.Access, err = readAccess(ctx, g, k.Instance(""))
	}
	return s, err
}

// readAccess reads the Secret that gives access to a store. It returns nil if the Secret belongs to a different
// owner, or the controller may not read it.
func readAccess(ctx context.Context, g *instance.Gatherer, instance v1.Instance) (*metav1.PartialObjectMetadata,
	error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	switch err := g.Reader.Get(ctx,
		client.ObjectKey{Namespace: instance.Namespace, Name: instance.Accesses().RestoreTest()}, m); {
	case kerrors.IsNotFound(err), kerrors.IsForbidden(err):
		return nil, nil //nolint:nilnil // A missing or forbidden Secret is not an error.
	case err != nil:
		return nil, fmt.Errorf("cannot get Secret %s/%s: %w", instance.Namespace, instance.Accesses().RestoreTest(), err)
	}
	if m.Labels[v1.LabelInstance] != instance.Key() {
		return nil, nil //nolint:nilnil // It belongs to a different owner.
	}
	return m, nil
}

// readEntry reads the catalog entry of the backup to test from its store, if the test is about to start.
func (s *State) readEntry(ctx context.Context, all instance.Stores) {
	if all == nil || !s.isOpen() || s.Home == nil || s.Job != nil || !s.Record.InStore() || s.mustYield() {
		return
	}
	if _, waits := s.waitsForTurn(); waits {
		return
	}
	var err error
	if s.Entry, err = all.ReadEntry(ctx, s.Record.Spec.Archive.Store, s.Record.Spec.Instance, s.Record.Name); err != nil {
		s.StoreFailure = v1.PrintableText(err.Error(), v1.MaxForeignText)
	}
}

// readAttempt reads the objects of the restore test of a backup. Without a BackupRecord, it reads the objects that an
// earlier test has left.
func readAttempt(ctx context.Context, g *instance.Gatherer, k instance.Key, record *v1.BackupRecord) (*Attempt, error) {
	instances, err := g.GatherInstalled(ctx, k)
	if err != nil {
		return nil, err
	}
	out := &Attempt{Home: homeOf(instances, record), Reports: map[string]agent.Report{}}
	j := &batchv1.Job{}
	switch err := g.Reader.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Instance("").Jobs().RestoreTest()}, j); {
	case kerrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("cannot get Job %s/%s: %w", k.Namespace, k.Instance("").Jobs().RestoreTest(), err)
	default:
		out.Job = instance.NewJob(j)
		if err := readReports(ctx, g, out); err != nil {
			return nil, err
		}
	}
	if out.Home == nil || record != nil && record.InStore() || out.Home.BackupPVC == nil ||
		out.Home.BackupPVC.Spec.VolumeName == "" {
		return out, nil
	}
	v, err := g.Volume(ctx, out.Home.BackupPVC.Spec.VolumeName)
	if err != nil || v == nil || !instance.Bound(v, out.Home.BackupPVC) {
		return out, err
	}
	out.Volume = v
	return out, nil
}

// homeOf returns the Home of a restore test, see Attempt. A backup in a store needs no volume of another instance.
func homeOf(instances []*instance.State, record *v1.BackupRecord) *instance.State {
	for _, s := range instances {
		if record != nil && endsWith(s, record) {
			return s
		}
	}
	if s := instances[0]; isNameFree(s) || record != nil && record.InStore() {
		return s
	}
	return nil
}

// endsWith reports whether an instance is being deleted and the given backup is its final backup.
func endsWith(s *instance.State, record *v1.BackupRecord) bool {
	return s.IsDeleting() && s.IsOwn(record) && s.Attempt().Record == record.Name
}

// isNameFree reports whether no instance has this name or is about to be created with it.
func isNameFree(s *instance.State) bool {
	return s.Instance.XR == "" && (s.Claim == nil || s.Claim.IsDeleting())
}

// readReports reads the reports of the Job's containers. It reads only pods that the Job controls, because any user
// can set the labels of a pod.
func readReports(ctx context.Context, g *instance.Gatherer, a *Attempt) error {
	j := a.Job
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(j.Namespace)); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	j.Pods = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	for i := range j.Pods {
		p := &j.Pods[i].Status
		j.RecordPodFailure(p)
		for _, c := range slices.Concat(p.InitContainerStatuses, p.ContainerStatuses) {
			if r := instance.ReportOf(&j.Pods[i], &c); r != nil {
				a.Reports[c.Name] = *r
			}
		}
	}
	return nil
}
