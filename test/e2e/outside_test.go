package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestOutsideDoesNotStopServing checks three problems outside of the instance. A load balancer gets no address, a
// quota refuses a load balancer, and another object has the name of a connection Secret. The claim must report each
// problem. Meanwhile, the server must accept clients in the cluster, and its password can be changed.
func TestOutsideDoesNotStopServing(t *testing.T) {
	framework.Repeats(t, "TestOutsideDoesNotStopServing of fn/compose has each decision")
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["service"] = map[string]any{"type": "LoadBalancer"}
	s.Spec["writeConnectionSecretToRef"] = map[string]any{"name": s.Name + "-connection"}
	quota := newQuota(t, s, "no-load-balancers",
		corev1.ResourceList{corev1.ResourceServicesLoadBalancers: resource.MustParse("0")})
	s.Create(t)
	s.Client().TypeSession(t)
	s.Says(t, "does not match spec.service")
	s.Says(t, "exceeded quota: "+quota.Name)
	hasServiceType(t, s, corev1.ServiceTypeClusterIP)
	s.Says(t, "spec.writeConnectionSecretToRef.name: the controller creates Secret "+s.Namespace+"/"+s.Name+
		"-connection, so Crossplane cannot write connection details into it")
	s.Client().ChangePassword(t, "behind a quota")

	liftQuota(t, quota)
	s.Set(t, map[string]any{"service": map[string]any{"type": "NodePort"}})
	hasServiceType(t, s, corev1.ServiceTypeNodePort)
	s.Set(t, map[string]any{"service": map[string]any{"type": "LoadBalancer"},
		"writeConnectionSecretToRef": map[string]any{"name": "for-clients"}})
	s.Says(t, "has no address yet")
	s.Client().ChangePassword(t, "without an address")
	framework.Eventually(t, "Crossplane to publish the password", func(ctx context.Context) error {
		secret := &corev1.Secret{}
		err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "for-clients"}, secret)
		if err == nil && string(secret.Data["password"]) != "without an address" {
			err = errors.New("it has another password")
		}
		return err
	})
	isServing(t, s)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
}

// TestCrashSaysWhatTheServerPrinted checks that the claim's message contains mysqld's own error if the server crashes
// repeatedly. If the server exceeds its memory limit, the message names the field to raise. Invalid settings must be
// refused, with mysqld's error message.
func TestCrashSaysWhatTheServerPrinted(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestCrashSaysWhatTheServerPrinted of controller/internal/instance has the words")
	s := framework.NewServer(t, framework.ClassComposition)
	rows := s.Begin(t)
	s.Set(t, map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "96Mi"}}})
	s.Says(t, "was OOMKilled (exit code ")
	s.Says(t, "its memory limit of 96Mi is too low. Raise spec.resources.limits.memory of the claim")
	s.Set(t, map[string]any{"resources": nil})
	s.Client().SeesRows(t, rows)

	s.Set(t, map[string]any{"config": map[string]any{"innodb_buffer_pool_size": "64T"}})
	settingsAre(t, s, "SettingsRefused", "[MY-")
	s.Set(t, map[string]any{"config": nil})
	s.Client().SeesRows(t, rows)
}

func hasServiceType(t *testing.T, s *framework.Server, want corev1.ServiceType) {
	t.Helper()
	s.Eventually(t, "the Service's type", func(ctx context.Context) error {
		service := &corev1.Service{}
		err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, service)
		if err == nil && service.Spec.Type != want {
			err = fmt.Errorf("want %s, got %s", want, service.Spec.Type)
		}
		return err
	})
}

func isServing(t *testing.T, s *framework.Server) {
	t.Helper()
	for _, kind := range []string{"Serving", "Ready"} {
		framework.Eventually(t, "the condition "+kind, func(ctx context.Context) error {
			return framework.HasCondition(ctx, s.Claim, kind)
		})
	}
}
