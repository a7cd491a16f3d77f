package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/autogrow"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/volumestats"
)

// A kubeletStats is a fake Prometheus with the metrics of one volume.
type kubeletStats struct {
	namespace, pvc string
	// capacity and free are the size of the file system and its free space.
	capacity, free atomic.Int64
	// broken sends the responses instead of this fake, if it is set.
	broken http.HandlerFunc
	asked  atomic.Int64
}

func (p *kubeletStats) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	if p.broken != nil {
		p.broken(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var all []string
	for _, ns := range []string{"elsewhere", p.namespace} { // A volume of the same name in another namespace is full.
		free := p.free.Load()
		if ns != p.namespace {
			free = 0
		}
		for name, value := range map[string]int64{"available": free, "capacity": p.capacity.Load()} {
			all = append(all, fmt.Sprintf(`{"metric":{"__name__":"kubelet_volume_stats_%s_bytes","namespace":%q,`+
				`"persistentvolumeclaim":%q},"values":[[%d,"%d"]]}`, name, ns, p.pvc, p.asked.Load(), value))
		}
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(all, ",")) //nolint:errcheck // A test.
}

// A growthTest is a growthReconciler of one instance with a volume of 10Gi, and with a fake Prometheus.
type growthTest struct {
	*growthReconciler

	key      instance.Key
	state    *instance.State
	stats    *kubeletStats
	gauges   *gaugeTest
	kube     client.Client
	recorder *events.FakeRecorder
	// tried are the sizes of the dry runs. refuses is the error of a dry run, or nil.
	tried   []string
	refuses error
	// fails is the result of the next write of the status. wrote counts the writes.
	fails error
	wrote int
}

func newGrowthTest(t *testing.T) *growthTest {
	t.Helper()
	g := newGaugeTest()
	a := &growthTest{key: g.key(1), gauges: g, recorder: events.NewFakeRecorder(10)}
	a.state = archivedDatabase(a.key)
	a.state.XR.Spec.Backup.Continuous = nil
	a.state.XR.Spec.StorageSize = new("10Gi")
	a.state.XR.Spec.StorageAutogrow = &v1.StorageAutogrow{To: "20Gi"}
	a.stats = &kubeletStats{namespace: a.key.Namespace, pvc: a.state.Instance.DataPVCName()}
	a.stats.capacity.Store(10 << 30)
	a.stats.free.Store(5 << 30)
	server := httptest.NewServer(a.stats)
	t.Cleanup(server.Close)
	quantity := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: a.stats.pvc,
		Labels: map[string]string{v1.LabelXR: string(a.state.Instance.XR)}},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast"), Resources: corev1.VolumeResourceRequirements{Requests: quantity}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: quantity}}
	a.kube = fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(pvc).WithObjects(pvc,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: new(true)},
		&v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName}}).Build()
	tries := interceptor.NewClient(a.kube.(client.WithWatch), interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch,
		o client.Object, _ client.Patch, options ...client.PatchOption) error {
		if c, ok := o.(*corev1.PersistentVolumeClaim); ok && len(options) == 1 && options[0] == client.DryRunAll {
			a.tried = append(a.tried, c.Spec.Resources.Requests.Storage().String())
			return a.refuses
		}
		return errors.New("only a dry run is allowed")
	}})
	m := volumestats.NewMonitor(volumestats.Source{URL: server.URL})
	m.Now = func() time.Time { return g.now }
	a.growthReconciler = &growthReconciler{gather: &gatherArchived{instances: []*instance.State{a.state}}, reader: a.kube, kube: tries,
		writer: writerFn(a.write), monitor: m, clock: func() time.Time { return g.now }, events: a.recorder, meter: g.meter,
		changed: map[string]chan event.TypedGenericEvent[instance.Key]{
			a.key.Kind: make(chan event.TypedGenericEvent[instance.Key], 1)},
		watched: map[instance.Key]watchedVolume{}, memories: map[types.UID]autogrow.Memory{}}
	return a
}

// write replaces the writer: it applies the changes of the status to the instance in memory.
func (a *growthTest) write(changes []change.Change) error {
	if a.fails != nil {
		return a.fails
	}
	a.wrote++
	internal, _ := changes[0].Fields[v1.StatusInternal].(map[string]any)
	fields, _ := internal["storageGrowth"].(map[string]any)
	next := v1.StorageGrowthStatus{}
	if g := a.state.XR.Status.StorageGrowth; g != nil {
		next = *g
	}
	for name, target := range map[string]*string{"size": &next.Size, "fileSystem": &next.FileSystem, "reason": &next.Reason,
		"message": &next.Message} {
		if value, ok := fields[name]; ok {
			*target, _ = value.(string)
		}
	}
	a.state.XR.Status.StorageGrowth = &next
	return nil
}

// pass advances the clock, and then runs one query of Prometheus and one reconcile.
func (a *growthTest) pass(t *testing.T, after time.Duration) {
	t.Helper()
	a.gauges.now = a.gauges.now.Add(after)
	_ = a.monitor.Refresh(t.Context()) // The decision reports the error.
	if _, err := a.Reconcile(t.Context(), a.key); err != nil {
		t.Fatal(err)
	}
}

// resize sets the requested and the actual size of the volume, and the free space of its file system in percent.
func (a *growthTest) resize(t *testing.T, request, capacity, system string, free int64) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := a.kube.Get(t.Context(), client.ObjectKey{Namespace: a.key.Namespace, Name: a.stats.pvc}, c); err != nil {
		t.Fatal(err)
	}
	c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(request)
	if err := a.kube.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
	if err := a.kube.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	size := resource.MustParse(system)
	a.stats.capacity.Store(size.Value())
	a.stats.free.Store(size.Value() / 100 * free)
}

// has fails unless the status reports this reason and this size of the volume.
func (a *growthTest) has(t *testing.T, reason, size string) {
	t.Helper()
	got := v1.StorageGrowthStatus{}
	if g := a.state.XR.Status.StorageGrowth; g != nil {
		got = *g
	}
	if got.Reason != reason || got.Size != size {
		t.Fatalf("want %s and %q, got %+v", reason, size, got)
	}
}

// hasGrowths checks the counts of requested and failed growths in the metric.
func (a *growthTest) hasGrowths(t *testing.T, requested, failed float64) {
	t.Helper()
	got := map[string]float64{}
	families, err := a.gauges.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "crossplane_mysql_storage_growths_total" {
			continue
		}
		for _, series := range f.GetMetric() {
			got[series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
		}
	}
	if diff := cmp.Diff(map[string]float64{resultRequested: requested, resultFailed: failed}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// eventsOf returns the reasons of the events since the last call.
func (a *growthTest) eventsOf() (out []string) {
	for {
		select {
		case e := <-a.recorder.Events:
			out = append(out, strings.Fields(e)[1])
		default:
			return out
		}
	}
}

// TestGrowth fills a volume, and checks each step until it has its maximum size.
func TestGrowth(t *testing.T) {
	a := newGrowthTest(t)
	a.pass(t, 0)
	a.has(t, v1.ReasonMonitored, "")

	a.stats.free.Store(1 << 30)
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonGrowing, "12Gi")
	if got := a.state.XR.Status.StorageGrowth.FileSystem; got != "10Gi" {
		t.Errorf("got the file system %s", got)
	}
	if diff := cmp.Diff([]string{"StorageGrown"}, a.eventsOf()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}

	wrote := a.wrote
	a.pass(t, time.Minute)                     // The function has not requested it yet.
	a.resize(t, "12Gi", "10Gi", "10Gi", 1)     // The volume is resized.
	a.pass(t, time.Minute)                     //
	a.resize(t, "12Gi", "12Gi", "10Gi", 1)     // The measurement is old.
	a.pass(t, time.Minute)                     //
	if a.wrote != wrote || len(a.tried) != 1 { // Nothing happens in the meantime.
		t.Fatalf("it wrote %d times and tried %v", a.wrote-wrote, a.tried)
	}
	a.resize(t, "12Gi", "12Gi", "12Gi", 16)
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonMonitored, "12Gi")

	a.resize(t, "12Gi", "12Gi", "12Gi", 0)
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonGrowing, "15Gi")
	a.resize(t, "15Gi", "15Gi", "15Gi", 0)
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonGrowing, "18Gi")
	if got := a.state.XR.Status.StorageGrowth.Message; !strings.Contains(got, "from 15Gi to 18Gi") {
		t.Errorf("got the message of an earlier growth: %s", got)
	}
	a.resize(t, "18Gi", "18Gi", "18Gi", 0)
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonGrowing, "20Gi")
	a.resize(t, "20Gi", "20Gi", "20Gi", 0)
	a.eventsOf()
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonLimitReached, "20Gi")
	a.pass(t, time.Minute)
	if diff := cmp.Diff([]string{"StorageGrowthBlocked"}, a.eventsOf()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"12Gi", "15Gi", "18Gi", "20Gi"}, a.tried); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	a.hasGrowths(t, 4, 0)
}

// TestGrowthRefused checks that a size that a quota refuses is not recorded, because the function would request it
// forever. The controller must try the size again later.
func TestGrowthRefused(t *testing.T) {
	a := newGrowthTest(t)
	a.refuses = kerrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, a.stats.pvc,
		errors.New("exceeded quota: storage"))
	a.resize(t, "10Gi", "10Gi", "10Gi", 1)
	a.pass(t, 0)
	a.has(t, v1.ReasonGrowthRefused, "")
	if !strings.Contains(a.state.XR.Status.StorageGrowth.Message, "exceeded quota") {
		t.Errorf("got %+v", a.state.XR.Status.StorageGrowth)
	}
	a.pass(t, 30*time.Second)
	if len(a.tried) != 1 {
		t.Errorf("it does not wait before it tries again: %v", a.tried)
	}
	a.refuses = nil
	a.pass(t, time.Minute)
	a.has(t, v1.ReasonGrowing, "12Gi")
	if diff := cmp.Diff([]string{"StorageGrowthBlocked", "StorageGrown"}, a.eventsOf()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	a.hasGrowths(t, 1, 1)
}

// TestGrowthErrors checks errors that are no refusal by a quota or a policy. No size must be recorded, and the next
// reconcile must decide again.
func TestGrowthErrors(t *testing.T) {
	t.Run("Webhook", func(t *testing.T) { // It supports no dry run. The real request decides.
		a := newGrowthTest(t)
		a.refuses = kerrors.NewBadRequest("admission webhook does not support dry run")
		a.resize(t, "10Gi", "10Gi", "10Gi", 1)
		a.pass(t, 0)
		a.has(t, v1.ReasonGrowing, "12Gi")
	})
	t.Run("Try", func(t *testing.T) {
		a := newGrowthTest(t)
		a.refuses = kerrors.NewServiceUnavailable("etcd")
		a.resize(t, "10Gi", "10Gi", "10Gi", 1)
		_ = a.monitor.Refresh(t.Context())
		if _, err := a.Reconcile(t.Context(), a.key); err == nil || a.wrote != 0 {
			t.Errorf("got %v, and %d writes", err, a.wrote)
		}
	})
	t.Run("Write", func(t *testing.T) { // The controller could also stop between the dry run and the write.
		a := newGrowthTest(t)
		a.fails = kerrors.NewConflict(schema.GroupResource{}, "db", errBoom)
		a.resize(t, "10Gi", "10Gi", "10Gi", 1)
		_ = a.monitor.Refresh(t.Context())
		if got, err := a.Reconcile(t.Context(), a.key); err != nil || got.RequeueAfter != settle || len(a.eventsOf()) > 0 {
			t.Errorf("got %v and %v", got, err)
		}
		a.fails = nil
		a.pass(t, time.Minute)
		a.has(t, v1.ReasonGrowing, "12Gi")
	})
}

// TestGrowthUnmeasured checks Prometheus servers that fail in different ways. No volume must grow, and the reason must
// be reported after a grace period.
func TestGrowthUnmeasured(t *testing.T) {
	respond := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body) //nolint:errcheck // A test.
		}
	}
	for name, broken := range map[string]http.HandlerFunc{
		"HTML":  respond("text/html", "<html>"),
		"Empty": respond("application/json", ""),
		"None":  respond("application/json", `{"status":"success","data":{"resultType":"matrix","result":[]}}`),
		"NaN": respond("application/json", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":`+
			`"kubelet_volume_stats_available_bytes","namespace":"team","persistentvolumeclaim":"db-1-pvc"},"values":[[1,"NaN"]]},`+
			`{"metric":{"__name__":"kubelet_volume_stats_capacity_bytes","namespace":"team","persistentvolumeclaim":"db-1-pvc"},`+
			`"values":[[1,"100"]]}]}}`),
		"Types":  respond("application/json", `{"status":"success","data":{"resultType":"matrix","result":[{"values":[["a",1]]}]}}`),
		"Closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newGrowthTest(t)
			a.pass(t, 0)
			a.stats.broken = broken
			a.stats.free.Store(0)
			for range 14 {
				a.has(t, v1.ReasonMonitored, "")
				a.pass(t, time.Minute)
				if a.state.XR.Status.StorageGrowth.Reason == v1.ReasonNotMeasured {
					break
				}
			}
			a.has(t, v1.ReasonNotMeasured, "")
			if diff := cmp.Diff([]string{"StorageGrowthBlocked"}, a.eventsOf()); diff != "" || len(a.tried) > 0 {
				t.Errorf("it tried %v. -want, +got:\n%s", a.tried, diff)
			}
			a.stats.broken = nil
			a.pass(t, time.Minute)
			a.has(t, v1.ReasonGrowing, "12Gi")
		})
	}
}

// TestGrowthLimits checks the limits that prevent a growth, such as a StorageClass or the maximum size of the
// platform.
func TestGrowthLimits(t *testing.T) {
	class := func(change func(*storagev1.StorageClass)) func(*testing.T, *growthTest) {
		return func(t *testing.T, a *growthTest) {
			t.Helper()
			c := &storagev1.StorageClass{}
			if err := a.kube.Get(t.Context(), client.ObjectKey{Name: "fast"}, c); err != nil {
				t.Fatal(err)
			}
			change(c)
			if err := a.kube.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	limit := func(size string) func(*testing.T, *growthTest) {
		return func(t *testing.T, a *growthTest) {
			t.Helper()
			p := &v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName}}
			if err := a.kube.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			p.ResourceVersion, p.Spec.MaxStorageSize = "", size
			if err := a.kube.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		change       func(*testing.T, *growthTest)
		reason, size string
	}{
		"Fixed":    {change: class(func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = nil }), reason: v1.ReasonNotExpandable},
		"Limit":    {change: limit("10Gi"), reason: v1.ReasonLimitReached},
		"Lower":    {change: limit("11Gi"), reason: v1.ReasonGrowing, size: "11Gi"},
		"Deleting": {change: func(_ *testing.T, a *growthTest) { deletedAt(a.state) }},
		"Unset":    {change: func(_ *testing.T, a *growthTest) { a.state.XR.Spec.StorageAutogrow = nil }},
		"Invalid":  {change: func(_ *testing.T, a *growthTest) { a.state.XR.Spec.StorageAutogrow.By = "0" }},
		"NotOurs":  {change: func(_ *testing.T, a *growthTest) { a.state.Instance.XR = "another" }},
		"Restored": {change: func(t *testing.T, a *growthTest) {
			t.Helper()
			a.resize(t, "14Gi", "14Gi", "14Gi", 50)
		}, size: "14Gi"},
		"Shared": {change: func(t *testing.T, a *growthTest) {
			t.Helper()
			a.resize(t, "10Gi", "10Gi", "500Gi", 1)
		}, reason: v1.ReasonSizeNotEnforced},
		"NoSource": {change: func(_ *testing.T, a *growthTest) { a.monitor.Read = nil }, reason: v1.ReasonNotMeasured},
	} {
		t.Run(name, func(t *testing.T) {
			a := newGrowthTest(t)
			a.stats.free.Store(0)
			tc.change(t, a)
			a.pass(t, 0)
			a.has(t, tc.reason, tc.size)
		})
	}
	t.Run("Unreadable", func(t *testing.T) {
		a := newGrowthTest(t)
		a.stats.free.Store(0)
		limit("all")(t, a)
		_ = a.monitor.Refresh(t.Context())
		if _, err := a.Reconcile(t.Context(), a.key); err == nil || a.wrote > 0 {
			t.Errorf("want an error, got %v and %d writes", err, a.wrote)
		}
	})
}

// TestRestlessVolumes checks which instances are reconciled after a query. These are the instances whose volumes have
// little free space, wait for something, or cannot be measured.
func TestRestlessVolumes(t *testing.T) {
	a := newGrowthTest(t)
	requested := func() int {
		n := 0
		for {
			select {
			case <-a.changed[a.key.Kind]:
				n++
			default:
				return n
			}
		}
	}
	a.pass(t, 0)
	a.announceRestless()
	if n := requested(); n != 0 {
		t.Errorf("a volume with enough space is checked %d times", n)
	}
	a.stats.free.Store(0)
	a.refresh(t.Context(), 0)
	a.announceRestless()
	a.announceRestless() // The channel is full.
	if n := requested(); n != 1 {
		t.Errorf("a full volume is checked %d times", n)
	}
	a.pass(t, 0)
	a.stats.free.Store(9 << 30)
	a.refresh(t.Context(), 0)
	a.announceRestless()
	if n := requested(); n != 1 {
		t.Errorf("a volume that grows is checked %d times", n)
	}
	a.state.XR.Spec.StorageAutogrow = nil
	a.pass(t, 0)
	a.announceRestless()
	if n := requested(); n != 0 || len(a.watched)+len(a.memories) != 0 {
		t.Errorf("a volume that no longer grows is checked %d times", n)
	}
	a.stats.broken = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	if n := a.refresh(t.Context(), 2); n != 3 {
		t.Errorf("got %d failures", n)
	}
}

// TestStartMonitors checks that Prometheus is queried only while there are volumes that may grow.
func TestStartMonitors(t *testing.T) {
	a := newGrowthTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Start(ctx); err != nil || a.stats.asked.Load() != 0 {
		t.Errorf("got %v and %d queries", err, a.stats.asked.Load())
	}
	if _, err := a.Reconcile(t.Context(), a.key); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Start(ctx); err != nil || a.stats.asked.Load() != 1 {
		t.Errorf("got %v and %d queries", err, a.stats.asked.Load())
	}
	a.monitor.Read = nil
	if err := a.Start(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestResizeTrouble checks which conditions of a PersistentVolumeClaim are shown to users.
func TestResizeTrouble(t *testing.T) {
	c := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Conditions: []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, Message: "resizing"},
		{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionFalse, Message: "earlier"},
	}}}
	if got := resizeTrouble(c); got != "" {
		t.Errorf("got %q", got)
	}
	c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "disk\nquota"})
	if got := resizeTrouble(c); got != "disk quota" {
		t.Errorf("got %q", got)
	}
}
