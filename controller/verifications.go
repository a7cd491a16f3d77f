package main

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/verify"
)

// Verifications reconciles backups: a server is started from the newest one of
// each instance, once.
type Verifications struct {
	xr      schema.GroupVersionKind
	gather  *instance.Gatherer
	perform *verify.Performer
	// cache tells where there is nothing to do. What is decided on is read from the
	// API server.
	cache  client.Reader
	reader client.Reader
	events events.EventRecorder
	atOnce int
	clock  func() time.Time
}

// Reconcile the newest backup of an instance. Jobs and records are sources of its
// events.
func (r *Verifications) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	mine, elsewhere, err := r.jobs(ctx, k)
	if err != nil {
		return reconcile.Result{}, err
	}
	if mine == 0 {
		if idle, err := r.idle(ctx, k); err != nil || idle {
			return reconcile.Result{}, err
		}
	}
	s := &verify.State{Now: r.clock(), Elsewhere: elsewhere, AtOnce: r.atOnce}
	if s.Record, err = r.newest(ctx, r.reader, k); err != nil {
		return reconcile.Result{}, err
	}
	if s.Verification, err = r.gather.Verification(ctx, k, s.XR()); err != nil {
		return reconcile.Result{}, err
	}
	step := verify.Next(s)
	if step.Action != verify.Rest && step.Action != verify.Wait {
		log.FromContext(ctx).Info(string(step.Action), "xr", s.XR(), "restorable", step.Verdict.Status, "message", step.Verdict.Message)
	}
	switch err := r.perform.Perform(ctx, s, step); {
	case kerrors.IsConflict(err), kerrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if step.Action == verify.Conclude {
		r.say(s.Record, step)
	}
	return reconcile.Result{RequeueAfter: step.After}, nil
}

// jobs that verify: the instance's, and those of others.
func (r *Verifications) jobs(ctx context.Context, k instance.Key) (mine, elsewhere int, err error) {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	if err := r.cache.List(ctx, l, client.MatchingLabels{v1.LabelComponent: v1.ComponentVerify}); err != nil {
		return 0, 0, err
	}
	for i := range l.Items {
		if l.Items[i].Labels[v1.LabelInstance] == k.Life("").Key() {
			mine++
		}
	}
	return mine, len(l.Items) - mine, nil
}

// idle is true where there is nothing to verify.
func (r *Verifications) idle(ctx context.Context, k instance.Key) (bool, error) {
	newest, err := r.newest(ctx, r.cache, k)
	if err != nil || newest == nil {
		return true, err
	}
	ends, err := r.ends(ctx, k)
	return verify.Decided(newest, ends), err
}

// ends is true if a life of the instance is being deleted.
func (r *Verifications) ends(ctx context.Context, k instance.Key) (bool, error) {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(r.xr.GroupVersion().WithKind(r.xr.Kind + "List"))
	if err := r.cache.List(ctx, l, instance.XRsOf(k)); err != nil {
		return false, err
	}
	return slices.ContainsFunc(l.Items, func(x metav1.PartialObjectMetadata) bool { return x.DeletionTimestamp != nil }), nil
}

// newest proven backup of the instance.
func (r *Verifications) newest(ctx context.Context, from client.Reader, k instance.Key) (*v1.MySQLBackup, error) {
	records, err := instance.Records(ctx, from, k.Life(""))
	return verify.Newest(records), err
}

// say it beside the record: the claim may be gone.
func (r *Verifications) say(b *v1.MySQLBackup, step verify.Step) {
	kind := corev1.EventTypeNormal
	if step.Verdict.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(b, nil, kind, step.Verdict.Reason, string(step.Action), "%s", clip(step.Verdict.Message))
}
