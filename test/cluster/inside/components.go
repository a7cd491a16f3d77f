package inside

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/volumes"
)

//go:embed manifests
var manifests embed.FS

func (k *control) apiServer(ctx context.Context) error {
	const etcd, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	k.sup.run("etcd", kubeFile, "etcd", "--data-dir="+clusterDir+"/etcd",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--unsafe-no-fsync", "--log-level=warn")
	k.sup.run("kube-apiserver", kubeFile, "kube-apiserver",
		"--etcd-servers="+etcd,
		"--bind-address=0.0.0.0", "--secure-port="+apiPort, "--advertise-address="+controlIP,
		"--service-cluster-ip-range="+serviceNet,
		"--tls-cert-file="+k.pki.file("api.crt"), "--tls-private-key-file="+k.pki.file("api.key"),
		"--client-ca-file="+k.pki.file("ca.crt"), "--token-auth-file="+k.pki.file("tokens.csv"),
		"--kubelet-client-certificate="+k.pki.file("api.crt"), "--kubelet-client-key="+k.pki.file("api.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file="+k.pki.file("sa.key"), "--service-account-key-file="+k.pki.file("sa.pub"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		// Webhooks run in pods. With this flag, the API server can reach them although there is no kube-proxy in its
		// network namespace.
		"--enable-aggregator-routing")
	return k.sup.until(ctx, "the API server", func(ctx context.Context) error {
		return k.kubectl(ctx, "get", "--raw=/readyz")
	})
}

// controllers starts the controller manager and the scheduler after RBAC is set up, because they exit if they have no
// permissions.
func (k *control) controllers(ctx context.Context) error {
	err := k.sup.until(ctx, "the API server", func(ctx context.Context) error {
		return k.apply(ctx, "manifests/rbac.yaml")
	})
	if err != nil {
		return err
	}
	k.sup.run("kube-controller-manager", append([]string{kubeFile, "kube-controller-manager",
		"--service-account-private-key-file=" + k.pki.file("sa.key"), "--root-ca-file=" + k.pki.file("ca.crt"),
		"--use-service-account-credentials", "--leader-elect=false",
		"--node-monitor-grace-period=20s",
	}, k.credentials("kube-controller-manager")...)...)
	k.sup.run("kube-scheduler", append([]string{kubeFile, "kube-scheduler", "--leader-elect=false"},
		k.credentials("kube-scheduler")...)...)
	return nil
}

func (k *control) credentials(user string) []string {
	file := k.pki.file(user + ".kubeconfig")
	return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file}
}

// startNode starts the process of a node in its own namespaces and connects it to the cluster's bridge. The process
// then starts the kubelet and the other programs of the node.
func (k *control) startNode(ctx context.Context, i int) error {
	c := k.Config
	c.Node = i
	cmd, err := self(c, CommandNode)
	if err != nil {
		return err
	}
	log, err := os.Create(logFile(clusterDir, NodeName(i)))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // The child has a descriptor of its own.
	cmd.Stdout, cmd.Stderr = log, log
	goOn, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		err := cmd.Wait()
		k.sup.fail(fmt.Errorf("%s ended: %w; its last lines:\n%s", NodeName(i), err, tail(logFile(clusterDir, NodeName(i)))))
	}()
	port := fmt.Sprintf("port%d", i)
	if err := runAll(ctx, [][]string{
		{"ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(cmd.Process.Pid)},
		{"ip", "link", "set", port, "master", bridge, "up"},
	}); err != nil {
		return err
	}
	return goOn.Close()
}

func (k *control) ready(ctx context.Context) error {
	if err := k.apply(ctx, "manifests/coredns.yaml"); err != nil {
		return err
	}
	if err := k.storageClasses(ctx); err != nil {
		return err
	}
	for i := 1; i <= k.Nodes; i++ {
		err := k.sup.until(ctx, NodeName(i), func(ctx context.Context) error {
			return k.kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=1s", "node/"+NodeName(i))
		})
		if err != nil {
			return err
		}
	}
	k.stepf("all nodes are Ready; waiting for DNS")
	return k.sup.until(ctx, "DNS", func(ctx context.Context) error {
		return k.kubectl(ctx, "--namespace=kube-system", "wait", "--for=condition=Available", "--timeout=1s",
			"deployment/coredns")
	})
}

func (k *control) kubectl(ctx context.Context, args ...string) error {
	return command(ctx, kubeFile, k.kubectlArgs(args...)...)
}

func (k *control) kubectlArgs(args ...string) []string {
	return append([]string{"kubectl", "--kubeconfig=" + k.pki.file("admin.kubeconfig"),
		"--cache-dir=" + filepath.Join(clusterDir, "kubectl")}, args...)
}

func (k *control) storageClasses(ctx context.Context) error {
	for _, c := range volumes.StorageClasses(provisioner) {
		b, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := k.applyObject(ctx, b); err != nil {
			return fmt.Errorf("cannot make the storage class %s: %w", c.Name, err)
		}
	}
	return nil
}

func (k *control) apply(ctx context.Context, file string) error {
	b, err := manifests.ReadFile(file)
	if err != nil {
		return err
	}
	if err := k.applyObject(ctx, b); err != nil {
		return fmt.Errorf("cannot apply %s: %w", file, err)
	}
	return nil
}

func (k *control) applyObject(ctx context.Context, b []byte) error {
	cmd := exec.CommandContext(ctx, kubeFile, k.kubectlArgs("apply", "--server-side", "--force-conflicts", "-f", "-")...)
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, out)
	}
	return nil
}
