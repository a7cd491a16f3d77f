package main

import (
	"context"
	"errors"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/finalize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// Archives reconciles records with the archives that they are about.
type Archives struct {
	gather  *instance.Gatherer
	perform *finalize.Performer
	// cache tells where there is nothing to do. What is decided on is read from the
	// API server.
	cache  client.Reader
	events events.EventRecorder
}

// Reconcile the records of an instance. They are sources of its events, and so are
// volumes and Jobs.
func (r *Archives) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	if idle, err := r.isIdle(ctx, k); err != nil || idle {
		return reconcile.Result{}, err
	}
	for range maxSteps {
		after, acted, err := r.runPass(ctx, k)
		switch {
		case kerrors.IsConflict(err), kerrors.IsNotFound(err):
			return reconcile.Result{RequeueAfter: time.Second}, nil
		case err != nil:
			return reconcile.Result{}, err
		case !acted:
			return reconcile.Result{RequeueAfter: after}, nil
		}
	}
	return reconcile.Result{}, errors.New("cannot come to an end: something undoes each step")
}

// watchArchives watches what may say something of archives. The kind of their
// claims need not be installed: the backups are there all the same.
func (r *Archives) watchArchives(mgr ctrl.Manager, of instance.Kind, atOnce int) error {
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(strings.ToLower(of.Claim.Kind)+"-archives").
		WatchesMetadata(&corev1.PersistentVolume{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(of.OfAnnotated)).
		Watches(&v1.MySQLBackup{}, enqueueKeys(of.OfRecord)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce, CacheSyncTimeout: patience}).
		WithLogConstructor(logFor(mgr)).
		Complete(r)
}

// isIdle is true where neither records nor volumes ask for anything.
func (r *Archives) isIdle(ctx context.Context, k instance.Key) (bool, error) {
	records, err := instance.Records(ctx, r.cache, k.Life(""))
	if err != nil {
		return false, err
	}
	volumes := &metav1.PartialObjectMetadataList{}
	volumes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeList"))
	if err := r.cache.List(ctx, volumes, client.MatchingLabels{v1.LabelInstance: k.Life("").Key(), v1.LabelComponent: v1.ComponentBackup}); err != nil {
		return false, err
	}
	return len(finalize.NextOfArchives(instance.ArchivesOf(k, records, volumes.Items))) == 0, nil
}

// runPass over all records once.
func (r *Archives) runPass(ctx context.Context, k instance.Key) (after time.Duration, acted bool, err error) {
	a, err := r.gather.Archives(ctx, k)
	if err != nil {
		return 0, false, err
	}
	for _, step := range finalize.NextOfArchives(a) {
		if step.Action == finalize.Wait {
			if after == 0 || step.After < after {
				after = step.After
			}
			continue
		}
		r.announceStep(ctx, step)
		if err := r.perform.PerformOnArchive(ctx, a, step); err != nil {
			return 0, false, err
		}
		acted = true
	}
	return after, acted, nil
}

// announceStep says what is done to a record, in an event of the record's own: the
// claim may be gone.
func (r *Archives) announceStep(ctx context.Context, step finalize.ArchiveStep) {
	log.FromContext(ctx).Info(string(step.Action), "message", step.Message)
	if step.Record != nil && step.Message != "" {
		sendEvent(r.events, step.Record, eventsOfArchives[step.Action], string(step.Action), step.Message)
	}
}
