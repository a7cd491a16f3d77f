//go:build bench

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// parts are the programs of the product and of Crossplane that are measured. Each runs in one pod, which is found by
// the prefix of its name.
var parts = []string{"crossplane-system/crossplane-mysql-function-", "crossplane-mysql-system/crossplane-mysql-",
	"crossplane-system/crossplane-"}

// rested contains the results of TestStack for a number of idle claims.
type rested struct {
	claims int
	// calls is the number of API calls per minute and claim.
	calls float64
	// used contains the CPU time in seconds per minute, and the memory in bytes, of each measured program.
	used map[string]load
	// compose is the time from a change of a claim until Crossplane has changed a composed object. report is the time
	// until the controller has updated the status.
	compose, report time.Duration
}

// TestStack measures the resources that the product and Crossplane use for 10 and for 1,000 idle claims, in two
// clusters. It asserts nothing.
//
// Crossplane composes all claims, but there is only one server, and all Services lead to it. To prevent a pod for
// each claim, the test stops kube-controller-manager. It then sets the status of each Deployment as if a pod were
// running.
func TestStack(t *testing.T) {
	var all []rested
	defer func() { printRested(all) }() // If a measurement fails, the other results are still printed.
	for n, claims := range []int{10, many} {
		if n > 0 {
			framework.ReplaceCluster(t)
		}
		if !t.Run(strconv.Itoa(claims), func(t *testing.T) { all = append(all, restedStack(t, claims)) }) {
			return
		}
	}
}

func printRested(all []rested) {
	fmt.Printf("\n%-44s", "claims at rest")
	row := func(subject string, value func(rested) string) {
		fmt.Printf("\n%-44s", subject)
		for _, r := range all {
			fmt.Printf(" %12s", value(r))
		}
	}
	for _, r := range all {
		fmt.Printf(" %12d", r.claims)
	}
	row("calls a minute and claim", func(r rested) string { return fmt.Sprintf("%.1f", r.calls) })
	for _, p := range parts {
		row(p+", CPU s a minute", func(r rested) string { return fmt.Sprintf("%.2f", r.used[p].cpu) })
		row(p+", MiB", func(r rested) string { return fmt.Sprintf("%.0f", r.used[p].memory/(1<<20)) })
	}
	row("a field of the claim, on the Service, s", func(r rested) string {
		return fmt.Sprintf("%.2f", r.compose.Seconds())
	})
	row("a schedule, to the next backup's time, s", func(r rested) string {
		return fmt.Sprintf("%.2f", r.report.Seconds())
	})
	fmt.Println()
}

func restedStack(t *testing.T, claims int) rested {
	t.Helper()
	o := prototype(t)
	without := callsIn(t, 2*time.Minute)
	o.paused = true
	names := o.copies(t, claims)
	must(t, "the copies", func(ctx context.Context) error { return o.served(ctx, claims) })
	framework.SignalComponent(t, "kube-controller-manager", syscall.SIGSTOP)
	t.Cleanup(func() { framework.SignalComponent(t, "kube-controller-manager", syscall.SIGCONT) })
	begun := time.Now()
	atOnce(t, names, func(name string) error { return o.resume(t.Context(), name) })
	must(t, "the claims", func(ctx context.Context) error { return o.ready(ctx, claims) })
	fmt.Printf("%d claims are Ready after %.0f s\n", claims, time.Since(begun).Seconds())
	// Wait until Crossplane's circuit breakers have closed.
	time.Sleep(5 * time.Minute)
	// The copies were ready before Crossplane reconciled them, so the claims are checked again.
	must(t, "the claims", func(ctx context.Context) error { return o.ready(ctx, claims) })
	out := rested{claims: claims, used: map[string]load{}}
	out.compose = o.medianEffect(t, names[:7],
		`{"spec":{"service":{"annotations":{"service.beta.kubernetes.io/oci-load-balancer-internal":"true"}}}}`,
		func(ctx context.Context, name string) (bool, error) {
			s := &corev1.Service{}
			err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, s)
			return len(s.Annotations) > 0 &&
				s.Annotations["service.beta.kubernetes.io/oci-load-balancer-internal"] == "true", err
		})
	out.report = o.medianEffect(t, names[:7],
		`{"spec":{"backup":{"schedule":{"cron":"0 3 1 1 *","timeZone":"Europe/Berlin","method":"Online"}}}}`,
		func(ctx context.Context, name string) (bool, error) {
			c := framework.NewObject("otus.homework/v1", "MySQL", o.namespace, name)
			err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(c), c)
			next, _, _ := unstructured.NestedString(c.Object, "status", "internal", "backupSchedule", "nextAt")
			return next != "", err
		})
	fmt.Printf("effects: %+v\n", out)
	time.Sleep(time.Minute) // Wait until the changes are processed.
	before, calledBefore := usage(t), calls(t)
	const period = 10 * time.Minute // Crossplane caches a response of the function for this time.
	time.Sleep(period)
	out.calls = ((calls(t)-calledBefore)/period.Minutes() - without) / float64(claims)
	for part, now := range usage(t) {
		out.used[part] = load{memory: now.memory, cpu: (now.cpu - before[part].cpu) / period.Minutes()}
	}
	return out
}

// served returns nil once each copied instance has a volume, and a Service that leads to the one real server.
func (o *instanceObjects) served(ctx context.Context, claims int) error {
	all := &corev1.PersistentVolumeClaimList{}
	if err := framework.Suite.Kube.List(ctx, all, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	bound := len(slices.DeleteFunc(all.Items, func(c corev1.PersistentVolumeClaim) bool {
		return c.Status.Phase != corev1.ClaimBound
	}))
	endpoints, err := listKind(ctx, "discovery.k8s.io/v1/EndpointSlice", o.namespace)
	if err != nil {
		return err
	}
	lead := 0
	for _, s := range endpoints {
		if endpoints, _, _ := unstructured.NestedSlice(s.Object, "endpoints"); len(endpoints) > 0 {
			lead++
		}
	}
	if bound <= claims || lead <= claims {
		return fmt.Errorf("%d volumes are bound, and %d Services lead to the server, of %d", bound, lead, claims+1)
	}
	return nil
}

// resume makes Crossplane reconcile a copied instance, which was paused.
func (o *instanceObjects) resume(ctx context.Context, name string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"crossplane.io/paused":null}}}`))
	if err := framework.Suite.Kube.Patch(ctx, framework.NewObject("otus.homework/v1", "XMySQL", "", "xr-"+name),
		patch); err != nil {
		return err
	}
	return framework.Suite.Kube.Patch(ctx, framework.NewObject("otus.homework/v1", "MySQL", o.namespace, name), patch)
}

// ready returns nil once all claims and their composed objects are ready. It sets the status of each Deployment as if
// its pod were running.
func (o *instanceObjects) ready(ctx context.Context, claims int) error {
	deployments := &appsv1.DeploymentList{}
	if err := framework.Suite.Kube.List(ctx, deployments, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	started := 0
	for i := range deployments.Items {
		if d := &deployments.Items[i]; d.Name != original && d.Status.ObservedGeneration < d.Generation {
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1,
				ReadyReplicas: 1, AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
						LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now()},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
						LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now()},
				}}
			if err := framework.Suite.Kube.Status().Update(ctx, d); err != nil {
				return err
			}
			started++
		}
	}
	if len(deployments.Items) <= claims || started > 0 {
		return fmt.Errorf("there are %d Deployments of %d, and %d more are up", len(deployments.Items), claims+1, started)
	}
	all, err := listKind(ctx, "otus.homework/v1/MySQL", o.namespace)
	if err != nil {
		return err
	}
	n, waits := 0, ""
	for i := range all {
		conditions, _, _ := unstructured.NestedSlice(all[i].Object, "status", "conditions")
		if slices.ContainsFunc(conditions, func(c any) bool {
			c0, _ := c.(map[string]any)
			return c0["type"] == "Ready" && c0["status"] == "True"
		}) {
			n++
		} else {
			waits, _, _ = unstructured.NestedString(all[i].Object, "status", "message")
		}
	}
	if n <= claims {
		err = fmt.Errorf("%d of %d are ready; one says: %s", n, claims+1, waits)
	}
	return err
}

// usage returns the CPU time and the memory of the pods of the product and Crossplane, as the kubelets report them.
func usage(t *testing.T) map[string]load {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := framework.Suite.Kube.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	out := map[string]load{}
	for _, n := range nodes.Items {
		raw, err := framework.Kubectl(t.Context(), "get", "--raw", "/api/v1/nodes/"+n.Name+"/proxy/stats/summary")
		if err != nil {
			t.Fatal(err)
		}
		var summary struct {
			Pods []struct {
				PodRef struct {
					Namespace string `json:"namespace"`
					Name      string `json:"name"`
				} `json:"podRef"`
				CPU struct {
					Used float64 `json:"usageCoreNanoSeconds"`
				} `json:"cpu"`
				Memory struct {
					Set float64 `json:"workingSetBytes"`
				} `json:"memory"`
			} `json:"pods"`
		}
		if err := json.Unmarshal([]byte(raw), &summary); err != nil {
			t.Fatal(err)
		}
		for _, p := range summary.Pods {
			name := p.PodRef.Namespace + "/" + p.PodRef.Name
			i := slices.IndexFunc(parts, func(part string) bool { return strings.HasPrefix(name, part) })
			if i >= 0 && !strings.Contains(name, "rbac-manager") {
				out[parts[i]] = load{memory: p.Memory.Set, cpu: p.CPU.Used / 1e9}
			}
		}
	}
	if len(out) != len(parts) {
		t.Fatalf("want the use of %v, got %v", parts, out)
	}
	return out
}

// medianEffect patches the given claims one after another. It returns the median time from a patch until isDone
// returns true.
func (o *instanceObjects) medianEffect(t *testing.T, names []string, patch string,
	isDone func(context.Context, string) (bool, error)) time.Duration {
	t.Helper()
	took := make([]time.Duration, 0, len(names))
	for _, name := range names {
		begun := time.Now()
		if err := framework.Suite.Kube.Patch(t.Context(), framework.NewObject("otus.homework/v1", "MySQL", o.namespace, name),
			client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		for {
			done, err := isDone(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if time.Since(begun) > framework.Patience {
				t.Fatalf("%s of %s has no effect", patch, name)
			}
			time.Sleep(10 * time.Millisecond)
		}
		took = append(took, time.Since(begun))
		time.Sleep(time.Second)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
