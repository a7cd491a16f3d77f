package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A mob is a namespace with instances whose servers are malicious. All servers run in one pod, each on its own port,
// and attack their clients in different ways (tricks). Each instance has a Service for one of these ports. Crossplane
// is paused, so that it does not create real servers.
type mob struct {
	namespace string
	tricks    []string
	xrs       []*unstructured.Unstructured
	started   time.Time
}

const (
	hostilePod      = "hostile"
	hostilePassword = "nobody must read this"
	// hostileImage is the image in the instances' status. The platform allows it to be used without TLS, because the
	// controller would otherwise refuse to send its password to the malicious servers.
	hostileImage = "hostile:1"
)

// TestHostileServers creates, changes and deletes a claim while another namespace contains malicious servers. The
// controller must retry its connections to them with increasing delays, and use at most two workers for them.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestHostileServer has each trick, and TestTurns who waits for whom")
	alone := framework.NewServer(t, framework.ClassComposition)
	aloneTimes := timeCreation(t, alone)
	theController.RLock() // If the controller restarted, it would lose its back-off.
	defer theController.RUnlock()
	m := newMob(t)
	beside := framework.NewServer(t, framework.ClassComposition)
	besideTimes := timeCreation(t, beside)
	started := time.Now()
	beside.Delete(t)
	beside.Backups().AreVerified(t, 1)
	t.Logf("alone: %s; beside hostile servers: %s, deleted after %.1f s", aloneTimes, besideTimes,
		time.Since(started).Seconds())
	m.asked(t)
	m.heard(t)
}

// timeCreation creates a claim and changes its password. It returns how long each of them took.
func timeCreation(t *testing.T, s *framework.Server) string {
	t.Helper()
	start := time.Now()
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().Connects(t, s.Password)
	created := time.Since(start)
	start = time.Now()
	s.Set(t, map[string]any{"password": "changed"})
	s.Client().Connects(t, "changed")
	return fmt.Sprintf("created after %.1f s, changed after %.1f s", created.Seconds(), time.Since(start).Seconds())
}

// newMob creates the hostile servers, and the instances for which the controller connects to them.
func newMob(t *testing.T) *mob {
	t.Helper()
	framework.SetPlatform(t, "allowedPlaintextImages", []any{hostileImage})
	m := &mob{namespace: framework.NewNamespace(t)}
	p := framework.ToolboxPod(m.namespace, hostilePod, "")
	p.Labels = map[string]string{"app": hostilePod}
	framework.StartPod(t, p)
	ports := m.play(t)
	m.started = time.Now()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "wanted",
		Labels: map[string]string{passwordLabel: "true"}}, StringData: map[string]string{"password": hostilePassword}}
	if err := framework.Suite.Kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for trick, port := range ports {
		m.tricks = append(m.tricks, trick)
		m.join(t, trick, port)
	}
	return m
}

// play starts a malicious server for each trick in the pod. It returns the port of each trick.
func (m *mob) play(t *testing.T) map[string]int {
	t.Helper()
	playTricks(t, m.namespace, hostilePod, "")
	ports := map[string]int{}
	framework.Eventually(t, "the tricks", func(ctx context.Context) error {
		for _, line := range m.log(ctx) {
			name, port := "", 0
			if _, err := fmt.Sscanf(line, "port %d %s", &port, &name); err == nil {
				ports[name] = port
			}
		}
		if len(ports) < 10 {
			return fmt.Errorf("%d are played", len(ports))
		}
		return nil
	})
	return ports
}

// playTricks starts the program test/hostile in a pod that has a shell. If only is empty, the program plays all
// tricks.
func playTricks(t *testing.T, namespace, pod, only string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "hostile")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./test/hostile")
	build.Dir, build.Env = framework.Repository(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // It was only read.
	command := "cat >/tmp/hostile && chmod 755 /tmp/hostile && (/tmp/hostile " + only + " </dev/null >/tmp/log 2>&1 &)"
	if err := framework.ExecStream(t.Context(), namespace, pod, f, &strings.Builder{}, "sh", "-c", command); err != nil {
		t.Fatal(err)
	}
}

// log returns the log of the malicious servers: the port of each trick, and the connections to it.
func (m *mob) log(ctx context.Context) []string { return logOfTricks(ctx, m.namespace, hostilePod) }

// logOfTricks returns the log of the program test/hostile in a pod.
func logOfTricks(ctx context.Context, namespace, pod string) []string {
	out, err := framework.Exec(ctx, namespace, pod, "", "cat", "/tmp/log")
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// join creates a claim and a composite resource for a malicious server. Crossplane is paused for both, and the status
// says that the server is serving, so that the controller connects to it.
func (m *mob) join(t *testing.T, trick string, port int) {
	t.Helper()
	paused := map[string]string{"crossplane.io/paused": "true"}
	xr := framework.NewObject("zalando.org/v1", "XDatabase", "", "")
	xr.SetGenerateName("e2e-hostile-")
	xr.SetAnnotations(paused)
	xr.SetLabels(map[string]string{"crossplane.io/claim-namespace": m.namespace, "crossplane.io/claim-name": trick})
	spec := map[string]any{"type": "mysql", "passwordSecretRef": map[string]any{"name": "wanted", "key": "password"}}
	xr.Object["spec"] = with(spec, "claimRef",
		map[string]any{"apiVersion": "zalando.org/v1", "kind": "Database", "namespace": m.namespace, "name": trick})
	framework.Make(t, xr)
	claim := framework.NewObject("zalando.org/v1", "Database", m.namespace, trick)
	claim.SetAnnotations(paused)
	claim.Object["spec"] = with(spec, "resourceRef",
		map[string]any{"apiVersion": "zalando.org/v1", "kind": "XDatabase", "name": xr.GetName()})
	framework.Make(t, claim)
	framework.Make(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: trick},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": hostilePod},
			Ports: []corev1.ServicePort{{Port: 3306, TargetPort: intstr.FromInt(port)}}},
	})
	raw, err := json.Marshal(map[string]any{
		"status": map[string]any{"image": hostileImage, "conditions": []map[string]any{{
			"type": "Serving", "status": "True", "reason": "Hostile",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := framework.Suite.Kube.Status().Patch(t.Context(), xr,
		client.RawPatch(types.MergePatchType, raw)); err != nil {
		t.Fatal(err)
	}
	m.xrs = append(m.xrs, xr)
}

func with(spec map[string]any, key string, value any) map[string]any {
	out := maps.Clone(spec)
	out[key] = value
	return out
}

// asked waits until the controller has connected to every malicious server. It checks that there were not too many
// connections to a server, and not too many at the same time.
func (m *mob) asked(t *testing.T) {
	t.Helper()
	clients, most := map[string]int{}, 0
	framework.Eventually(t, "that every server was asked", func(ctx context.Context) error {
		clear(clients)
		for _, line := range m.log(ctx) {
			name, open := "", 0
			if _, err := fmt.Sscanf(line, "client %s %d", &name, &open); err == nil {
				clients[name]++
				most = max(most, open)
			}
		}
		if len(clients) < len(m.tricks) {
			return fmt.Errorf("asked were %v of %v", clients, m.tricks)
		}
		return nil
	})
	past := time.Since(m.started)
	if most > 4 { // There are two workers, each with up to two sessions.
		t.Errorf("%d connections were open at once", most)
	}
	for trick, n := range clients {
		if limit := allowed(trick, past); n > limit {
			t.Errorf("%s was asked %d times in %s, want %d at most; the controller says:\n%s", trick, n, past, limit,
				m.told(t, trick))
		}
	}
	t.Logf("asked in %s, with %d connections at most: %v", past.Round(time.Second), most, clients)
}

// told returns the lines of the controller's log about the instance whose malicious server plays the trick.
func (m *mob) told(t *testing.T, trick string) string {
	t.Helper()
	out := &strings.Builder{}
	for line := range strings.Lines(readLogOfController(t, "20000")) {
		if strings.Contains(line, m.namespace+"/"+trick) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// allowed returns the maximum number of connections to a malicious server in the time since the start. The controller
// waits 2 s after the first failure, and twice as long after each further one.
//
// If the server properly refuses the login, the delay starts with 5 ms, and the controller tries up to two passwords
// each time. Such a server also gets the first connection, and one for each change of the composite resource. There
// are four changes: two by Crossplane, until it is paused, and two by the controller.
func allowed(trick string, past time.Duration) int {
	if slices.Contains([]string{"unprintable", "echo", "key"}, trick) {
		return 2 * (bits.Len64(uint64(past/(5*time.Millisecond))) + 5)
	}
	n := 2 // The first connection, and one that has just started.
	for pause, left := 2*time.Second, past; left > pause; pause *= 2 {
		left -= pause
		n++
	}
	return n
}

// heard checks that no status, event or log of the controller contains unprintable text from the malicious servers, or
// a password.
func (m *mob) heard(t *testing.T) {
	t.Helper()
	for _, xr := range m.xrs {
		framework.Eventually(t, "a status", func(ctx context.Context) error {
			if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(xr), xr); err != nil {
				return err
			}
			credentials, _, _ := unstructured.NestedStringMap(xr.Object, "status", "internal", "credentials")
			if credentials["message"] == "" {
				return errors.New("it says nothing of its server")
			}
			m.clean(t, credentials["message"])
			return nil
		})
	}
	list := &corev1.EventList{}
	if err := framework.Suite.Kube.List(t.Context(), list, client.InNamespace(m.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		m.clean(t, list.Items[i].Message)
	}
	for line := range strings.Lines(readLogOfController(t, "2000")) {
		m.clean(t, strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")))
	}
}

// clean checks that a log or status text is printable and short, and does not contain the password.
func (m *mob) clean(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, hostilePassword) || len(text) > 16<<10 ||
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("somebody says %q", text)
	}
}
