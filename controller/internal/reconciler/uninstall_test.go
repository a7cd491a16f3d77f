package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// An uninstallingServer is an API server that deletes the kind of the XRs before they are listed. It lists claims
// only after the XRs were requested, and has no other objects.
type uninstallingServer struct {
	kind  instance.Kind
	asked func()
	gone  <-chan struct{}
}

func (s *uninstallingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case resource == resourceOf(s.kind.XR):
		s.asked()
		answer(w, http.StatusNotFound,
			&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		return
	case r.URL.Query().Get("sendInitialEvents") == "true":
		answer(w, http.StatusUnprocessableEntity,
			&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid,
				Code: http.StatusUnprocessableEntity})
		return
	case r.URL.Query().Get("watch") == "true":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	l := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	switch resource {
	case resourceOf(s.kind.Object):
		select {
		case <-s.gone:
		case <-r.Context().Done():
		}
		l.Items = []metav1.PartialObjectMetadata{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "uid"}}}
	case resourceOf(v1.GroupVersion.WithKind(v1.KindBackupRecord)): // They are listed as complete objects.
		l.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindBackupRecord + "List"))
	case resourceOf(v1.GroupVersion.WithKind(v1.KindBackup)):
		l.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindBackup + "List"))
	}
	answer(w, http.StatusOK, l)
}

func answer(w http.ResponseWriter, code int, o runtime.Object) {
	b, err := json.Marshal(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b) // The client may have disconnected.
}

// A heard is a reader without objects. It calls a function when it is read.
type heard func()

func (h heard) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	h()
	return errors.New("there is nothing to read")
}

func (h heard) List(context.Context, client.ObjectList, ...client.ListOption) error {
	h()
	return errors.New("there is nothing to list")
}

// TestUninstalledKind deletes an XRD while the controller starts, so that the XRs can never be listed. Claims and
// restore tests must still be reconciled, because they do not need the XRs.
func TestUninstalledKind(t *testing.T) {
	kind := instance.Kinds()[0]
	gone := make(chan struct{})
	server := httptest.NewServer(&uninstallingServer{kind: kind, asked: sync.OnceFunc(func() { close(gone) }), gone: gone})
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	mgr := managerOf(t, server.URL, kind)
	all, told := reconcilersToldOf(t, mgr)
	if err := all.watchKind(mgr, kind, 1); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	for subject, heard := range told {
		select {
		case <-heard:
		case <-ctx.Done():
			t.Errorf("no claim is looked after by the reconciler of %s", subject)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// managerOf returns a manager for an API server that serves a kind of claims.
func managerOf(t *testing.T, host string, kind instance.Kind) ctrl.Manager {
	t.Helper()
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind.Object, meta.RESTScopeNamespace)
	mapper.Add(kind.XR, meta.RESTScopeRoot)
	mapper.Add(v1.GroupVersion.WithKind(v1.KindBackupRecord), meta.RESTScopeRoot)
	mapper.Add(v1.GroupVersion.WithKind(v1.KindBackup), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), meta.RESTScopeNamespace)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mgr, err := ctrl.NewManager(&rest.Config{Host: host}, ctrl.Options{
		Scheme:         scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// reconcilersToldOf returns reconcilers of instances and restore tests that report their first reconcile on a
// channel.
func reconcilersToldOf(t *testing.T, mgr ctrl.Manager) (*reconcilers, map[string]<-chan struct{}) {
	t.Helper()
	c, err := newComposites(mgr)
	if err != nil {
		t.Fatal(err)
	}
	ofInstances, ofTests := make(chan struct{}), make(chan struct{})
	return &reconcilers{
		instances: &instanceReconciler{
			gather: &instance.Gatherer{Reader: heard(sync.OnceFunc(func() { close(ofInstances) })), Clock: time.Now},
			events: events.NewFakeRecorder(10), meter: newMeter(prometheus.NewRegistry()), turns: newTurns(1),
			reported: map[instance.Key]map[types.UID]lastReported{},
		},
		passwords: &passwordReconciler{retries: newRetries()},
		archives:  &archiveReconciler{},
		archiving: &archivingReconciler{changed: map[string]chan event.TypedGenericEvent[instance.Key]{}},
		growth:    &growthReconciler{changed: map[string]chan event.TypedGenericEvent[instance.Key]{}},
		restoreTests: restoreTestReconciler{cache: heard(sync.OnceFunc(func() { close(ofTests) })), clock: time.Now,
			failed: &sync.Map{}},
		composites: c,
	}, map[string]<-chan struct{}{"instances": ofInstances, "restore tests": ofTests}
}

func resourceOf(kind schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource
}
