package reconciler

import (
	"context"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// metricsOptions returns the options of the metrics endpoint. Metrics contain the names of instances in all
// namespaces. A client must therefore present a token with the permissions of the ClusterRole
// crossplane-mysql-metrics. The endpoint uses TLS with a certificate that is created at startup.
func metricsOptions(address string) metricsserver.Options {
	return metricsserver.Options{BindAddress: address, SecureServing: true,
		FilterProvider: filters.WithAuthenticationAndAuthorization}
}

func (o Options) newManager(cfg *rest.Config) (ctrl.Manager, error) {
	scheme, err := instance.NewScheme()
	if err != nil {
		return nil, err
	}
	ours := labels.SelectorFromSet(labels.Set{v1.LabelManagedBy: v1.ManagedBy})
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsOptions(o.MetricsAddress),
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              doctor.Lease,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// The cache only triggers reconciles. Decisions are based on reads from the API server.
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.PersistentVolumeClaim{}: {Label: ours},
				&corev1.PersistentVolume{}:      {Label: ours},
				&batchv1.Job{}:                  {Label: ours},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

// An apiClient reads from the API server and not from a cache.
type apiClient struct {
	client.Client

	live client.Reader
}

// Get reads from the API server.
func (c apiClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.live.Get(ctx, key, o, opts...)
}

// List reads from the API server.
func (c apiClient) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.live.List(ctx, l, opts...)
}

// podLogs reads the logs of Jobs and servers.
type podLogs struct{ kubernetes.Interface }

// tail is the number of bytes at the end of a log that are searched for progress and for the last output of a server.
const tail int64 = 8192

// crashLines is the number of lines of a log that are searched for the errors of a crashed server. The errors come
// before the stack trace.
const crashLines int64 = 200

// OfEnded returns the last lines of a terminated container's log, or of the log of its previous run.
func (l podLogs) OfEnded(ctx context.Context, namespace, pod, container string, previous bool) (io.ReadCloser, error) {
	lines := crashLines
	return l.CoreV1().Pods(namespace).
		GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &lines, Previous: previous}).Stream(ctx)
}

// Tail returns the end of a container's log.
func (l podLogs) Tail(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error) {
	lines := int64(20)
	limit := tail
	return l.CoreV1().Pods(namespace).
		GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &lines, LimitBytes: &limit}).Stream(ctx)
}
