package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Toolbox is an image with a shell and a MySQL client.
const Toolbox = "mysql:9.7"

// StartToolbox starts a toolbox pod that sleeps, with a volume if pvc is not empty, and waits until it runs.
func StartToolbox(t *testing.T, namespace, name, pvc string) {
	t.Helper()
	StartPod(t, ToolboxPod(namespace, name, pvc))
}

// ToolboxPod returns a toolbox pod, but does not create it. With a volume, the pod runs as root, so that it can read
// and write every file. Without a volume, it has no more privileges than the product's own pods.
func ToolboxPod(namespace, name, pvc string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{
				{Name: "toolbox", Image: Toolbox, Command: []string{"sleep", "3600"}}},
		},
	}
	if pvc == "" {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65534)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	} else {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return p
}

// CreatePod creates a pod. It retries while the API server refuses the pod, because a new namespace has no
// ServiceAccount for a moment. There is no other reason for a refusal here.
func CreatePod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	letIn(t, p)
	Eventually(t, "the creation of pod "+p.Name, func(ctx context.Context) error {
		err := Suite.Kube.Create(ctx, p.DeepCopy())
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		return client.IgnoreAlreadyExists(err)
	})
}

// StartPod creates a pod and waits until it runs.
func StartPod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	CreatePod(t, p)
	Eventually(t, "pod "+p.Name, func(ctx context.Context) error {
		if err := Suite.Kube.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return nil
	})
}

// Exec runs a command in a pod and returns its output. The pod is specified as POD or POD/CONTAINER.
func Exec(ctx context.Context, namespace, pod, stdin string, command ...string) (string, error) {
	var out bytes.Buffer
	var input io.Reader
	if stdin != "" {
		input = strings.NewReader(stdin)
	}
	err := ExecStream(ctx, namespace, pod, input, &out, command...)
	return out.String(), err
}

// ExecStream runs a command in a pod and streams its input and output.
func ExecStream(ctx context.Context, namespace, pod string, stdin io.Reader, stdout io.Writer,
	command ...string) error {
	pod, container, _ := strings.Cut(pod, "/")
	req := Suite.Typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdin: stdin != nil, Stdout: true,
			Stderr: true}, scheme.ParameterCodec)
	exec, err := remotecommand.NewWebSocketExecutor(Suite.Config, "GET", req.URL().String())
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
