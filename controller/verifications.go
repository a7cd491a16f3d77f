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
	jobs := &metav1.PartialObjectMetadataList{}
	jobs.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	if err := r.cache.List(ctx, jobs, client.MatchingLabels{v1.LabelComponent: v1.ComponentVerify}); err != nil {
		return reconcile.Result{}, err
	}
	mine := 0
	for i := range jobs.Items {
		if jobs.Items[i].Labels[v1.LabelInstance] == k.Life("").Key() {
			mine++
		}
	}
	newest, err := r.newest(ctx, r.cache, k)
	if err != nil || newest == nil {
		return reconcile.Result{}, err
	}
	ends, err := r.ends(ctx, k)
	if err != nil || mine == 0 && verify.Decided(newest, ends) {
		return reconcile.Result{}, err
	}
	if newest, err = r.newest(ctx, r.reader, k); err != nil || newest == nil {
		return reconcile.Result{}, err
	}
	s := &verify.State{Now: r.clock(), Record: newest, Elsewhere: len(jobs.Items) - mine, AtOnce: r.atOnce}
	if s.Verification, err = r.gather.Verification(ctx, k, newest); err != nil {
		return reconcile.Result{}, err
	}
	step := verify.Next(s)
	if step.Action != verify.Rest && step.Action != verify.Wait {
		log.FromContext(ctx).Info(string(step.Action), "backup", newest.Name, "restorable", step.Verdict.Status, "message", step.Verdict.Message)
	}
	switch err := r.perform.Perform(ctx, s, step); {
	case kerrors.IsConflict(err), kerrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if step.Action == verify.Conclude {
		r.say(newest, step)
	}
	return reconcile.Result{RequeueAfter: step.After}, nil
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
	l := &v1.MySQLBackupList{}
	if err := from.List(ctx, l, client.MatchingLabels{v1.LabelInstance: k.Life("").Key()}); err != nil {
		return nil, err
	}
	var ours []v1.MySQLBackup
	for i := range l.Items {
		if b := &l.Items[i]; b.Spec.Instance.Kind == k.Kind && b.Spec.Instance.Namespace == k.Namespace && b.Spec.Instance.Name == k.Name {
			ours = append(ours, *b)
		}
	}
	return verify.Newest(ours), nil
}

// say it beside the record: the claim may be gone.
func (r *Verifications) say(b *v1.MySQLBackup, step verify.Step) {
	kind := corev1.EventTypeNormal
	if step.Verdict.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(b, nil, kind, step.Verdict.Reason, string(step.Action), "%s", clip(step.Verdict.Message))
}
