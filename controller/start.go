package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/doctor"
	"github.com/crossplane-mysql/crossplane-mysql/controller/finalize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/rotate"
)

// startCommand is `controller start`.
type startCommand struct {
	LeaderElection     bool   `help:"Wait until no other controller runs, and only then begin. For more than one replica, and for updates without two at once." negatable:""`
	MetricsAddress     string `default:"0" help:"Address to serve Prometheus metrics on, such as :8080. 0 serves none."`
	HealthAddress      string `default:"0" help:"Address to serve /healthz and /readyz on, such as :8081. 0 serves none."`
	AgentImage         string `default:"ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0" env:"AGENT_IMAGE" help:"Image of the backup Jobs: this product's."`
	BackupStorageClass string `help:"Storage class of the volumes that hold backups. Without it, that of the data."`
	Namespace          string `default:"crossplane-mysql-system" env:"POD_NAMESPACE" help:"The controller's own namespace. The passwords of backups are kept there."`
	MaxConcurrent      int    `default:"10" help:"Number of instances that are looked after at the same time."`
	RestoreTestsAtOnce int    `default:"2" help:"Number of backups that a server is started from at the same time, to see that they restore, one of a namespace. With 0 this is only done where backup.requireRestorable says so, which needs no turn of these."`
	Debug              bool   `help:"Log what a developer wants to know, as text." short:"d"`

	PasswordGrace time.Duration `default:"${grace}" env:"PASSWORD_GRACE" help:"How long an old password goes on to work after a change, for clients that do not have the new one yet, such as 10m. At least ${settle}; ${default} is longer than a Secret takes into a running pod."`
}

// Validate the flags.
func (c *startCommand) Validate() error {
	if c.RestoreTestsAtOnce < 0 {
		return fmt.Errorf("--restore-tests-at-once=%d cannot be: say 0 for none, or how many", c.RestoreTestsAtOnce)
	}
	if c.PasswordGrace < rotate.DefaultSettle {
		return fmt.Errorf("--password-grace=%s is too short: a client takes up to %s from reading the Secret to logging in; say at least that", c.PasswordGrace, rotate.DefaultSettle)
	}
	return nil
}

// Limits on the calls to the API server, in a second and at once. A deletion has
// about twenty steps, before each of which all is read anew.
const (
	qps   = 100
	burst = 200
)

const (
	// installPollInterval is for kinds that are not installed yet: the controller may be there
	// before the Configuration.
	installPollInterval = 5 * time.Second
	// patience with a kind that is taken away again before all of it was read once.
	// When it is over the whole controller ends.
	patience = 365 * 24 * time.Hour
)

// Run the controller until it is told to stop.
func (c *startCommand) Run(ctx context.Context) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(c.Debug)))
	cfg, err := config.GetConfig()
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = qps, burst
	mgr, err := c.newManager(cfg)
	if err != nil {
		return err
	}
	pods, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	p := &finalize.Performer{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), AgentImage: c.AgentImage, SystemNamespace: c.Namespace}
	if c.BackupStorageClass != "" {
		p.BackupClass = &c.BackupStorageClass
	}
	g := &instance.Gatherer{Reader: mgr.GetAPIReader(), Logs: podLogs{pods}, SystemNamespace: c.Namespace, Clock: time.Now}
	r := &Reconciler{
		gather:   g,
		perform:  p,
		events:   mgr.GetEventRecorder("crossplane-mysql"),
		meter:    newMeter(metrics.Registry, time.Now),
		reported: map[instance.Key]map[types.UID]lastReported{},
	}
	k := &Credentials{
		gather: r.gather, reader: mgr.GetAPIReader(), kube: mgr.GetClient(), status: p, events: r.events, keeper: c.Namespace, clock: time.Now,
		rotator: &rotate.Rotator{
			Kube: apiClient{mgr.GetClient(), mgr.GetAPIReader()}, Dial: dialServer(cfg, pods),
			Grace: c.PasswordGrace, Settle: rotate.DefaultSettle,
		},
		asked: map[instance.Key]asking{}, meter: r.meter, turns: newTurns(c.MaxConcurrent), strains: newStrains(), retries: newRetries(),
	}
	b := RestoreTests{
		gather: g, perform: &restoretest.Performer{Client: mgr.GetClient(), AgentImage: c.AgentImage},
		cache: mgr.GetClient(), reader: mgr.GetAPIReader(), events: r.events, atOnce: c.RestoreTestsAtOnce, clock: time.Now,
		turns: &sync.Mutex{},
	}
	a := &Archives{gather: g, perform: p, cache: mgr.GetClient(), events: r.events}
	for _, of := range instance.Kinds() {
		b := b // Each has a kind of its own.
		b.kind = of
		tests, err := b.watchBackups(mgr)
		if err != nil {
			return err
		}
		err = mgr.Add(whenInstalled(mgr, of, func() error {
			return errors.Join(c.watchKind(mgr, of, r), c.watchCredentials(mgr, of, k), watchLives(mgr, of, tests))
		}))
		if err := errors.Join(err, a.watchArchives(mgr, of, c.MaxConcurrent)); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// whenInstalled watches a kind as soon as it is there. That may be never: a
// platform need not offer both APIs.
func whenInstalled(mgr ctrl.Manager, of instance.Kind, watch func() error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, installPollInterval, true, func(context.Context) (bool, error) {
			for _, k := range []schema.GroupVersionKind{of.Claim, of.XR} {
				if _, err := mgr.GetRESTMapper().RESTMapping(k.GroupKind(), k.Version); err != nil {
					mgr.GetLogger().V(1).Info("Waiting for a kind that is not installed", "kind", k.Kind, "error", err.Error())
					return false, nil // It is looked for again, whatever it was.
				}
			}
			return true, watch()
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The controller was told to stop.
		}
		return err
	}
}

func (c *startCommand) newManager(cfg *rest.Config) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	ours := labels.SelectorFromSet(labels.Set{v1.LabelManagedBy: v1.ManagedBy})
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: c.MetricsAddress},
		HealthProbeBindAddress:        c.HealthAddress,
		LeaderElection:                c.LeaderElection,
		LeaderElectionID:              doctor.Lease,
		LeaderElectionNamespace:       c.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// The cache is a source of events only: what is decided on is read from the
		// API server.
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

// newScheme has the types that are read and written as Go types. Claims and XRs
// are not among them.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(v1.GroupVersion, &v1.MySQLBackup{}, &v1.MySQLBackupList{})
	metav1.AddToGroupVersion(scheme, v1.GroupVersion)
	return scheme, nil
}

// watchKind watches all that may change what is to be done, by its metadata where
// that is enough to know whose it is. Deployments and pods are not watched: while a
// pod is to start or to stop, each look asks for the next. Each kind has a controller
// of its own.
func (c *startCommand) watchKind(mgr ctrl.Manager, of instance.Kind, r *Reconciler) error {
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(strings.ToLower(of.Claim.Kind)).
		WatchesMetadata(objectOfKind(of.Claim), enqueueKeys(of.OfClaim)).
		WatchesMetadata(objectOfKind(of.XR), enqueueKeys(of.OfXR)).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&corev1.PersistentVolume{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(of.OfAnnotated)).
		Watches(&v1.MySQLBackup{}, enqueueKeys(of.OfRecord)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: c.MaxConcurrent, CacheSyncTimeout: patience}).
		WithLogConstructor(logFor(mgr)).
		Complete(r)
}

// watchCredentials beside the rest, with workers of their own: a server that
// does not answer holds no deletion up.
func (c *startCommand) watchCredentials(mgr ctrl.Manager, of instance.Kind, r *Credentials) error {
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(strings.ToLower(of.Claim.Kind)+"-credentials").
		WatchesMetadata(objectOfKind(of.XR), enqueueKeys(of.OfXR)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: c.MaxConcurrent, RateLimiter: r.retries, CacheSyncTimeout: patience}).
		WithLogConstructor(logFor(mgr)).
		Complete(r)
}

// watchLives for restore tests: one waits while a deletion goes first, or ends where
// the name is needed again.
func watchLives(mgr ctrl.Manager, of instance.Kind, tests controller.TypedController[instance.Key]) error {
	watch := func(kind schema.GroupVersionKind, keys func(client.Object) []instance.Key) error {
		return tests.Watch(source.TypedKind(mgr.GetCache(), objectOfKind(kind), enqueueKeys(keys)))
	}
	return errors.Join(watch(of.Claim, of.OfClaim), watch(of.XR, of.OfXR))
}

func logFor(mgr ctrl.Manager) func(*instance.Key) logr.Logger {
	return func(k *instance.Key) logr.Logger {
		if k == nil {
			return mgr.GetLogger()
		}
		return mgr.GetLogger().WithValues("instance", k.String())
	}
}

// An apiClient reads from the API server, and not from a cache.
type apiClient struct {
	client.Client

	live client.Reader
}

// Get from the API server.
func (c apiClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.live.Get(ctx, key, o, opts...)
}

// List from the API server.
func (c apiClient) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.live.List(ctx, l, opts...)
}

func objectOfKind(k schema.GroupVersionKind) client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(k)
	return m
}

func enqueueKeys(of func(client.Object) []instance.Key) handler.TypedEventHandler[client.Object, instance.Key] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []instance.Key { return of(o) })
}

// podLogs reads the logs of Jobs.
type podLogs struct{ kubernetes.Interface }

// tail in bytes of a log that progress is looked for in.
const tail int64 = 1024

// Tail of a container's log.
func (l podLogs) Tail(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error) {
	lines := int64(5)
	limit := tail
	return l.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: &lines, LimitBytes: &limit}).Stream(ctx)
}
