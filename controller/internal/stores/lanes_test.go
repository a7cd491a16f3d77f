package stores

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

// TestLanes checks the calls to a store that does not answer. At first, few calls are made at a time, and then none
// for a while. After the store answers, calls are made without delay.
func TestLanes(t *testing.T) {
	timestamp := now
	l := NewLanes(func() time.Time { return timestamp })
	backupStore := &v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "offsite"}}
	silent := &store.Error{Kind: store.Unreachable, Verb: "read", Key: "x", Err: context.DeadlineExceeded}
	release := make(chan struct{})
	var entered, all sync.WaitGroup
	entered.Add(maxAsking)
	for range maxAsking {
		all.Go(func() {
			_ = l.do(t.Context(), backupStore, func() error {
				entered.Done()
				<-release
				return silent
			})
		})
	}
	entered.Wait()
	begin := time.Now()
	if err := l.do(t.Context(), backupStore, func() error { return nil }); !store.Is(err, store.Busy) ||
		time.Since(begin) > 10*time.Second {
		t.Errorf("want that it is told soon, got %v after %s", err, time.Since(begin))
	}
	other := &v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if err := l.do(t.Context(), other, func() error { return nil }); err != nil {
		t.Errorf("another store is nobody's concern, got %v", err)
	}
	close(release)
	all.Wait()
	called := errors.New("called")
	ask := func() error { return l.do(t.Context(), backupStore, func() error { return called }) }
	if err := ask(); !store.Is(err, store.Unreachable) {
		t.Errorf("want that it fails at once, got %v", err)
	}
	if timestamp = timestamp.Add(restAfter); !errors.Is(ask(), called) {
		t.Error("want that it is asked again after a while")
	}
	_ = l.do(t.Context(), backupStore, func() error { return silent })
	l.Answered("offsite")
	if !errors.Is(ask(), called) {
		t.Error("want that it is asked after a probe that went well")
	}
	meta.SetStatusCondition(&backupStore.Status.Conditions,
		metav1.Condition{Type: v1.ConditionReachable, Status: metav1.ConditionFalse, Reason: string(store.Unreachable),
			Message: "no answer"})
	if err := ask(); !store.Is(err, store.Unreachable) {
		t.Errorf("a failed probe is a failure at once, got %v", err)
	}
	if backupStore.Generation++; !errors.Is(ask(), called) {
		t.Error("its settings are others since")
	}
}

// TestSwallowingStore checks that instances of one store do not wait for another store that drops packets.
func TestSwallowingStore(t *testing.T) {
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := make([]client.Object, 0, 6)
	for _, name := range []string{"good", "swallows"} {
		m := s3memory.New(t)
		if name == "swallows" {
			ended := make(chan struct{})
			t.Cleanup(func() { close(ended) })
			m.Seen = func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-r.Context().Done():
				case <-ended:
				}
				return true
			}
		}
		s, secrets := newBackupStore(nil, nil)
		settings := m.Settings()
		s.Name, s.Spec.Endpoint, s.Spec.CABundle, s.Spec.PathStyle, s.Spec.Bucket =
			name, settings.Endpoint, settings.CA, true, settings.Bucket
		for _, secret := range []*corev1.Secret{secrets.Credentials, secrets.Key} {
			secret.Namespace, secret.Name = systemNamespace, name+"-"+secret.Name
			objects = append(objects, secret)
		}
		s.Spec.CredentialsSecretRef.Name, s.Spec.KeySecretRef.Name = secrets.Credentials.Name, secrets.Key.Name
		objects = append(objects, s)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	c := Cluster{Reader: kube, Namespace: systemNamespace, Clock: time.Now, Lanes: NewLanes(time.Now)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	origin := newEntry("one", "x.tar.zst").Spec.Instance
	for range 20 {
		go func() { _, _ = c.ReadEntry(ctx, "swallows", origin, "one") }()
	}
	time.Sleep(4 * time.Second) // All callers except maxAsking have failed.
	begin := time.Now()
	if n, err := c.ReadEntry(ctx, "good", origin, "one"); n != nil || err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("want its answer, got %v, %v after %s", n, err, time.Since(begin))
	}
	begin = time.Now()
	if _, err := c.ReadEntry(ctx, "swallows", origin, "one"); err == nil || time.Since(begin) > 10*time.Second {
		t.Errorf("want that it fails soon, got %v after %s", err, time.Since(begin))
	}
}
