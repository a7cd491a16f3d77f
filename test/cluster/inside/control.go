package inside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/registry"
)

// bootTime is the timeout of a boot, which takes about 15 seconds on two idle CPUs.
const bootTime = 5 * time.Minute

// Paths of the control plane and the nodes. They are short, regardless of the repository's path, because the path of
// a socket is limited to 107 bytes.
const (
	runDir      = "/run"
	clusterDir  = "/run/cluster"
	kubeFile    = "/run/kube"
	imagesDir   = "/run/images"
	localAPI    = "https://127.0.0.1:" + apiPort
	internalAPI = "https://" + controlIP + ":" + apiPort
)

// A control is the process of the control plane. It also starts the nodes, and the registry of the cluster.
type control struct {
	Config

	sup    *supervisor
	report *os.File
	pki    *pki
}

// Control boots the cluster and keeps it running until it is killed.
func Control(c Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	reports := os.NewFile(reportFile, "reports")
	k := &control{Config: c, report: reports}
	lifeline := bufio.NewReader(os.NewFile(lifelineFile, "lifeline"))
	if _, err := lifeline.ReadByte(); err != nil {
		return errors.New("the launcher died before it began")
	}
	released := make(chan error, 1)
	go func() {
		_, err := lifeline.ReadByte()
		released <- err
	}()
	booted := make(chan error, 1)
	go func() { booted <- k.boot(ctx) }()
	select {
	case err := <-booted:
		if err != nil {
			k.tell(Report{Error: err.Error()})
			return err
		}
	case <-released:
		return errors.New("the launcher died, or was interrupted, while the cluster was booting")
	}
	k.tell(Report{Ready: true})
	_ = reports.Close()
	if err := <-released; err != nil {
		return errors.New("the launcher died, or was interrupted, before the cluster was ready")
	}
	return <-k.sup.failed // After the boot, only the process of a node can fail.
}

func (k *control) stepf(format string, a ...any) { k.tell(Report{Step: fmt.Sprintf(format, a...)}) }

// tell sends a report on the boot to the launcher. It ignores errors, because the pipe lifelineFile already shows
// whether the launcher is still running.
func (k *control) tell(r Report) {
	b, err := json.Marshal(r)
	if err == nil {
		_, _ = k.report.Write(append(b, '\n'))
	}
}

func (k *control) boot(ctx context.Context) error {
	if err := k.mounts(); err != nil {
		return err
	}
	k.Dir = clusterDir
	k.sup = newSupervisor(clusterDir, 0)
	if err := k.network(ctx); err != nil {
		return err
	}
	if err := k.certificates(); err != nil {
		return err
	}
	if err := k.listen(); err != nil {
		return err
	}
	k.stepf("starting etcd and the API server")
	if err := k.apiServer(ctx); err != nil {
		return err
	}
	k.stepf("starting the controllers and %d node(s)", k.Nodes)
	if err := k.controllers(ctx); err != nil {
		return err
	}
	for i := 1; i <= k.Nodes; i++ {
		if err := k.startNode(ctx, i); err != nil {
			return fmt.Errorf("cannot start %s: %w", NodeName(i), err)
		}
	}
	k.stepf("loading images into the registry")
	if err := registry.Load(ctx, imagesDir, "127.0.0.1:"+registryPort); err != nil {
		return err
	}
	k.stepf("waiting for the nodes and DNS")
	if err := k.ready(ctx); err != nil {
		return err
	}
	k.sup.booted.Store(true)
	return nil
}

// mounts hides the machine's /run, in which tools keep their state, under an empty file system.
func (k *control) mounts() error {
	binds := map[string]string{k.Dir: clusterDir, k.Kube: kubeFile, k.Images: imagesDir}
	fds := make(map[string]int, len(binds))
	for from, target := range binds {
		fd, err := unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("cannot find %s: %w", from, err)
		}
		defer unix.Close(fd) //nolint:errcheck // Nothing was written.
		fds[target] = fd
	}
	if err := unix.Mount("run", runDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("cannot mount %s: %w", runDir, err)
	}
	for target, fd := range fds {
		if err := bind("/proc/self/fd/"+strconv.Itoa(fd), target); err != nil {
			return err
		}
	}
	return nil
}

// bind bind-mounts a file or directory, and creates the mount point if necessary.
func bind(from, target string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot bind %s: %w", target, err)
	}
	return nil
}

func (k *control) network(ctx context.Context) error {
	commands := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", bridge, "type", "bridge"},
		{"ip", "addr", "add", controlIP + "/24", "dev", bridge},
		{"ip", "link", "set", bridge, "up"},
	}
	for i := 1; i <= k.Nodes; i++ {
		commands = append(commands, []string{"ip", "route", "add", podSubnet(i), "via", nodeIP(i)})
	}
	return runAll(ctx, commands)
}

func runAll(ctx context.Context, commands [][]string) error {
	for _, c := range commands {
		if err := command(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// certificates creates the keys and certificates of the Kubernetes components. Users of the API server have tokens
// instead.
func (k *control) certificates() error {
	p, err := newPKI(filepath.Join(clusterDir, "pki"))
	if err != nil {
		return err
	}
	k.pki = p
	outside := "https://127.0.0.1:" + strconv.Itoa(k.API)
	users := []struct{ file, name, group, server string }{
		{"admin", "admin", "system:masters", localAPI},
		{"kube-controller-manager", "system:kube-controller-manager", "", localAPI},
		{"kube-scheduler", "system:kube-scheduler", "", localAPI},
		{"kube-proxy", "system:kube-proxy", "", internalAPI},
		{"volumes", "volumes", "system:masters", internalAPI},
		{"outside", "outside", "system:masters", outside},
	}
	for i := 1; i <= k.Nodes; i++ {
		users = append(users, struct{ file, name, group, server string }{NodeName(i), "system:node:" + NodeName(i),
			"system:nodes", internalAPI})
	}
	for _, u := range users {
		b, err := p.user(u.name, u.group, u.server)
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.file(u.file+".kubeconfig"), b, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(p.file("tokens.csv"), []byte(p.tokens.String()), 0o600)
}

// listen serves the registry, and forwards connections to the machine's loopback address into the cluster.
func (k *control) listen() error {
	handler := registry.Handler(imagesDir, filepath.Join(clusterDir, "registry"))
	inner, err := net.Listen("tcp", "0.0.0.0:"+registryPort) //nolint:noctx // It is in the cluster's own network.
	if err != nil {
		return err
	}
	outer, err := net.FileListener(os.NewFile(registryFile, "registry"))
	if err != nil {
		return err
	}
	for _, l := range []net.Listener{inner, outer} {
		go http.Serve(l, handler) //nolint:errcheck,gosec // It stops with the cluster, and uploads can take any time.
	}
	api, err := net.FileListener(os.NewFile(apiFile, "api"))
	if err != nil {
		return err
	}
	go forward(api, "127.0.0.1:"+apiPort)
	return nil
}

// forward forwards each connection to an address in the cluster's network namespace.
func forward(l net.Listener, address string) {
	for {
		caller, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer caller.Close()                    //nolint:errcheck // The connection is over.
			server, err := net.Dial("tcp", address) //nolint:noctx // It is closed when its caller disconnects.
			if err != nil {
				return
			}
			defer server.Close() //nolint:errcheck // The connection is over.
			go func() {
				_, _ = io.Copy(server, caller)
				_ = server.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // The network is tcp.
			}()
			_, _ = io.Copy(caller, server)
		}()
	}
}
