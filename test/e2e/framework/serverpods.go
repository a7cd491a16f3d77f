package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods gives a test access to the pods of a claim: the pods of its server and of its Jobs.
type Pods struct{ server *Server }

// Of returns the pods of a component, such as server, restore or backup.
func (p Pods) Of(ctx context.Context, component string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := Suite.Kube.List(ctx, &list, client.InNamespace(p.server.Namespace),
		client.MatchingLabels{"app.kubernetes.io/component": component})
	return list.Items, err
}

// WaitFor waits for a pod of the component for which matches returns true, and returns it.
func (p Pods) WaitFor(t *testing.T, component string, matches func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	Eventually(t, "the pod", func(ctx context.Context) error {
		pods, err := p.Of(ctx, component)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return matches(&p) }); i >= 0 {
			found = &pods[i]
			return nil
		}
		if len(pods) == 0 {
			return errors.New("there is none of " + component)
		}
		return fmt.Errorf("it is %s: %+v", pods[0].Status.Phase, pods[0].Status.ContainerStatuses)
	})
	return found
}

// FindServer returns the running pod of the server.
func (p Pods) FindServer(ctx context.Context) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := Suite.Kube.List(ctx, list, client.InNamespace(p.server.Namespace),
		client.MatchingLabels{"app": p.server.Name}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("none of %d pods runs", len(list.Items))
}

// MustFindServer returns the running pod of the server, and ends the test if there is none.
func (p Pods) MustFindServer(t *testing.T) *corev1.Pod {
	t.Helper()
	server, err := p.FindServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// ForwardMetrics forwards a port to the exporter in a server's pod, and returns the URL of the metrics.
func (p Pods) ForwardMetrics(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	return "http://" + forward(t, pod, 9104) + "/metrics"
}
