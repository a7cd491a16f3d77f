package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// toolbox is an image with a shell and a MySQL client.
const toolbox = "mysql:9.7"

// patience is how long anything may take before it counts as broken. It is no measurement: see make bench.
const patience = 8 * time.Minute

// Pauses between two tries of a check, and of one that starts a program in a pod, which costs the machine more than all
// else that waits.
const (
	pause       = 200 * time.Millisecond
	pauseInAPod = time.Second
)

// eventually waits until a check has no complaint.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	eventuallyWith(t, pause, what, check)
}

func eventuallyWith(t *testing.T, pause time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // It also serves cleanups.
	defer cancel()
	if err := pollWith(ctx, pause, func() error { return check(ctx) }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// poll returns the last complaint when the time is over.
func poll(ctx context.Context, check func() error) error { return pollWith(ctx, pause, check) }

func pollWith(ctx context.Context, pause time.Duration, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// namespace makes one for a test, and removes it afterwards.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	if err := suite.kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(suite.kube.Delete(context.Background(), ns)); err != nil {
			t.Errorf("cannot remove namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// objects reads a file of YAML documents, and puts them into a namespace.
func objects(t *testing.T, file, namespace string) []*unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository(), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("cannot read %s: %v", file, err)
		}
		u.SetNamespace(namespace)
		all = append(all, u)
	}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// condition returns what is wrong if an object does not have a condition that is True.
func condition(ctx context.Context, u *unstructured.Unstructured, kind string) error {
	c, err := findCondition(ctx, u, kind)
	if err != nil {
		return err
	}
	if c["status"] == "True" {
		return nil
	}
	return fmt.Errorf("%s %s: %s is %v: %v %v", u.GetKind(), u.GetName(), kind, c["status"], c["reason"], c["message"])
}

// findCondition of an object as it is now.
func findCondition(ctx context.Context, u *unstructured.Unstructured, kind string) (map[string]any, error) {
	if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return nil, err
	}
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s %s has no condition %s", u.GetKind(), u.GetName(), kind)
}

// pod starts one of the toolbox that sleeps, with a volume if a claim is named, and waits until it runs.
func pod(t *testing.T, namespace, name, claim string) {
	t.Helper()
	startPod(t, toolboxPod(namespace, name, claim))
}

func toolboxPod(namespace, name, claim string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []corev1.Container{{Name: "toolbox", Image: toolbox, Command: []string{"sleep", "3600"}}},
		},
	}
	if claim != "" {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return p
}

// startPod and wait until it runs.
func startPod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := suite.kube.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod "+p.Name, func(ctx context.Context) error {
		if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return nil
	})
}

// in runs a command in a pod and returns what it prints.
func in(ctx context.Context, namespace, pod, stdin string, command ...string) (string, error) {
	var out bytes.Buffer
	var input io.Reader
	if stdin != "" {
		input = strings.NewReader(stdin)
	}
	err := stream(ctx, namespace, pod, input, &out, command...)
	return out.String(), err
}

// stream runs a command in a pod, with its input and output as they come.
func stream(ctx context.Context, namespace, pod string, stdin io.Reader, stdout io.Writer, command ...string) error {
	req := suite.typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdin: stdin != nil, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	exec, err := remotecommand.NewWebSocketExecutor(suite.config, "GET", req.URL().String())
	if err != nil {
		return err
	}
	var complaint bytes.Buffer
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: &complaint})
	if err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, complaint.String())
	}
	return nil
}

// gone is a complaint as long as an object is there.
func gone(ctx context.Context, o client.Object) error {
	err := suite.kube.Get(ctx, client.ObjectKeyFromObject(o), o)
	if unknown(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is still there", o.GetName())
}

// kubectl is the one that the repository builds.
func kubectl(ctx context.Context, args ...string) (string, error) {
	tool := exec.CommandContext(ctx, "go", "run", "./test/tools", "kube")
	tool.Dir = repository()
	path, err := tool.Output()
	if err != nil {
		return "", fmt.Errorf("cannot build kubectl: %w", err)
	}
	cmd := exec.CommandContext(ctx, strings.TrimSpace(string(path)), append([]string{"kubectl", "--kubeconfig=" + suite.kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
