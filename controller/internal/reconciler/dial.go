package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// dialServer returns nil in the cluster, where Services are reachable. Outside of the cluster, it returns a function
// that connects to the pod through the API server.
func dialServer(cfg *rest.Config, kube kubernetes.Interface) sql.Dial {
	if _, err := rest.InClusterConfig(); !errors.Is(err, rest.ErrNotInCluster) {
		return nil
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		name, namespace, err := serviceOf(address)
		if err != nil {
			return nil, err
		}
		pod, err := podBehind(ctx, kube, namespace, name)
		if err != nil {
			return nil, err
		}
		return forwardPort(ctx, cfg, kube, namespace, pod)
	}
}

// serviceOf returns the Service in an address such as name.namespace.svc:3306.
func serviceOf(address string) (name, namespace string, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", err
	}
	parts := strings.Split(host, ".")
	if len(parts) != 3 || parts[2] != "svc" {
		return "", "", fmt.Errorf("%q is not the address of a Service", address)
	}
	return parts[0], parts[1], nil
}

// podBehind returns a running pod of a Service.
func podBehind(ctx context.Context, kube kubernetes.Interface, namespace, name string) (string, error) {
	s, err := kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	pods, err := kube.CoreV1().Pods(namespace).
		List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Spec.Selector).String()})
	if err != nil {
		return "", err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return p.Name, nil
		}
	}
	return "", &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("the Service %s/%s has no running pod", namespace, name)}
}

// A forwarded connection closes its tunnel when it is closed.
type forwarded struct {
	net.Conn

	stop func()
}

// Close closes the connection and the tunnel.
func (f forwarded) Close() error {
	defer f.stop()
	return f.Conn.Close()
}

// forwardPort connects to the database server in a pod through a tunnel. The context limits only the dialing. The
// tunnel is closed with the connection.
func forwardPort(ctx context.Context, cfg *rest.Config, kube kubernetes.Interface, namespace, pod string) (net.Conn,
	error) {
	url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").
		URL()
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(url, cfg)
	if err != nil {
		return nil, err
	}
	dialing := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, failed := make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(tunnel, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(v1.Port)}, ctx.Done(),
		ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return nil, err
	}
	go func() { failed <- f.ForwardPorts() }()
	select {
	case err := <-failed:
		cancel()
		return nil, fmt.Errorf("cannot forward to pod %s/%s: %w", namespace, pod, err)
	case <-dialing.Done():
		cancel()
		return nil, fmt.Errorf("cannot forward to pod %s/%s: %w", namespace, pod, dialing.Err())
	case <-ready:
	}
	ports, err := f.GetPorts()
	if err != nil {
		cancel()
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
	if err != nil {
		cancel()
		return nil, err
	}
	return forwarded{conn, cancel}, nil
}
