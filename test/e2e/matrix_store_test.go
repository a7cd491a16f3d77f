package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// The S3 server of the matrix is not a pod. It runs in the namespaces of the control plane, so that it keeps running
// when a node is lost.

// Directory, address and port of the S3 server.
const (
	outsideDir     = "/run/matrix-store"
	outsideAddress = "192.168.77.1"
	outsidePort    = 7070
)

// startStore starts the S3 server on the control plane, and creates a BackupStore for all cases that need one.
func (m *matrix) startStore(t *testing.T) {
	t.Helper()
	tool := exec.CommandContext(t.Context(), "go", "run", "./test/tools", "versitygw")
	tool.Dir = framework.Repository()
	program, err := tool.Output()
	if err != nil {
		t.Fatalf("cannot build the store's server: %v", err)
	}
	certificate, key := selfSigned(t, outsideAddress)
	s3 := &s3Server{
		namespace: "matrix-store", host: fmt.Sprintf("%s:%d", outsideAddress, outsidePort), ca: certificate,
		list: func(ctx context.Context) (string, error) {
			return m.host.try(ctx, "cd "+outsideDir+"/objects/backups && find . -type f")
		},
	}
	m.host.run(t, fmt.Sprintf("mkdir -p %[1]s/objects/backups %[1]s/meta && cat >%[1]s/tls.crt <<'E'\n%[2]sE\ncat "+
		">%[1]s/tls.key <<'E'\n%[3]sE\n", outsideDir, certificate, key))
	// The server is restarted whenever it exits, as long as its directory exists.
	serve := fmt.Sprintf("while test -e %[1]s/tls.crt; do %[2]s --access access --secret secret-of-the-test --port "+
		":%[3]d --cert %[1]s/tls.crt --key %[1]s/tls.key posix --sidecar %[1]s/meta %[1]s/objects >>%[1]s/log 2>&1; sleep "+
		"0.2; done; true",
		outsideDir, strings.TrimSpace(string(program)), outsidePort)
	server := m.host.command(context.WithoutCancel(t.Context()), 0, serve) // It stops after the test.
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.host.run(t, "rm "+outsideDir+"/tls.crt; pkill -KILL -x versitygw || true")
		if err := server.Wait(); err != nil {
			t.Errorf("the store's server: %v", err)
		}
		m.host.run(t, "rm -r "+outsideDir)
	})
	m.host.store = offersStore(t, s3, newStoreKey(t, s3.namespace))
}

// usesStore reports whether the backup of this case is written to the store.
func (c *cell) usesStore() bool { return c.way.toStore || c.fault.ofStore }

// storeWays lists the deletion paths that are combined with faults of the store. They include all kinds of deleted
// objects and both namespaces in which the backup Job can run.
var storeWays = []*way{byClaim, byXR, byNamespace, byFinalizers, byReplace}

// signalStore sends a signal to the store's server. After SIGSTOP, the server accepts connections but does not
// respond.
func (h *host) signalStore(t *testing.T, signal string) {
	t.Helper()
	h.run(t, "pkill -"+signal+" -x versitygw")
}

// stopsStore stops the store before the deletion. It stays stopped during the first part of the deletion.
func stopsStore(t *testing.T, c *cell) {
	t.Helper()
	c.later(t, func(t *testing.T) { t.Helper(); c.host.signalStore(t, "CONT") })
	c.host.signalStore(t, "STOP")
}

// waitsForStore waits until the claim reports that the store does not respond.
func waitsForStore(t *testing.T, c *cell) {
	t.Helper()
	if c.way == byClaim || c.way == byXR {
		c.Says(t, "BackupStore "+c.host.store.GetName())
	}
	time.Sleep(30 * time.Second)
}

// killsStore kills the store and the backup gateway at each step of the deletion.
func killsStore(t *testing.T, c *cell) {
	t.Helper()
	kills := c.meeting.all()[0].atEachStep(t, func(ctx context.Context) error {
		if _, err := c.host.try(ctx, "pkill -KILL -x versitygw || true"); err != nil {
			return err
		}
		return deletePods(ctx, framework.SystemNamespace,
			client.MatchingLabels{"app.kubernetes.io/name": "crossplane-mysql-gateway"})
	})
	if kills < 2 {
		t.Errorf("want the store killed at each step, it was %d times", kills)
	}
	t.Logf("the store was killed %d times", kills)
}

// revokesCredentials makes the store's credentials invalid before the deletion. They stay invalid during the first
// part of the deletion.
func revokesCredentials(t *testing.T, c *cell) {
	t.Helper()
	set := func(t *testing.T, secret string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"secretKey":%q}}`, secret))
		credentials := framework.NewObject("v1", "Secret", system, c.host.store.GetName()+"-credentials")
		if err := framework.Suite.Kube.Patch(context.WithoutCancel(t.Context()), credentials, patch); err != nil {
			t.Fatal(err)
		}
	}
	c.later(t, func(t *testing.T) { t.Helper(); set(t, "secret-of-the-test") })
	set(t, "another")
}

// refusesEntries makes the store refuse the backup's metadata, until the end of the first part of the deletion. When an
// archive has been written, its directory is mounted read-only, so that no further objects can be added.
//
// The store has a second directory for the attributes of its objects. It is mounted read-only as well, because the
// store would otherwise list an object that was not written.
func refusesEntries(t *testing.T, c *cell) {
	t.Helper()
	const allowed = outsideDir + "/notes-are-taken"
	ended := c.host.start(t, 0, fmt.Sprintf(`ro() { mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"; }
	while ! test -e %[1]s; do
		find %[2]s/objects -name '*.tar.zst.age' | while read -r f; do
			d=$(dirname "$f")
			test -e "$d/manifest.json" || grep -q " $d " /proc/mounts || { ro "%[2]s/meta/${d#%[2]s/objects/}" && ro "$d"; }
		done
		sleep 0.05
	done
	while read -r _ d _; do case $d in %[2]s/objects/*|%[2]s/meta/*) umount "$d";; esac; done </proc/mounts
	rm %[1]s`, allowed, outsideDir))
	c.later(t, func(t *testing.T) {
		t.Helper()
		c.host.run(t, "touch "+allowed)
		ended(t)
	})
}

// prefixInStore returns the prefix of the deleted instance's final backup, or "" if the backup is not published.
func (c *cell) prefixInStore(ctx context.Context) (string, error) {
	all, err := c.host.store.server.list(ctx)
	if err != nil {
		return "", err
	}
	for file := range strings.FieldsSeq(all) {
		if strings.Contains(file, "/"+c.instanceID+"/") && path.Base(file) == "manifest.json" {
			_, resultDir, _ := strings.Cut(path.Dir(file), "/mysql/")
			return resultDir, nil
		}
	}
	return "", nil
}

// askStoreForRecord requests the BackupRecord of the deleted instance. Other cases may set the same annotation
// concurrently.
func (c *cell) askStoreForRecord(ctx context.Context) error {
	resultDir, err := c.prefixInStore(ctx)
	if err != nil || resultDir == "" {
		return err
	}
	_, err = framework.Kubectl(ctx, "annotate", "backupstore", c.host.store.GetName(), "--overwrite",
		"crossplane-mysql.io/make-record="+resultDir)
	return err
}

// keepsBackupInStore checks that the backup is in the store, and that no volume was created for it.
func (c *cell) keepsBackupInStore(t *testing.T) {
	t.Helper()
	records, err := c.Backups().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for i := range records { // If only the composite resource was deleted, the next instance also has a backup.
		if uid, _, _ := unstructured.NestedString(records[i].Object, "spec", "instance", "xr"); uid == c.instanceID {
			want++
		}
	}
	if want == 0 {
		t.Errorf("none of %d records is of life %s", len(records), c.instanceID)
	}
	framework.Eventually(t, "one archive of each backup in the store, and its note", func(ctx context.Context) error {
		all, err := c.host.store.server.list(ctx)
		if err != nil {
			return err
		}
		ours := slices.DeleteFunc(strings.Fields(all), func(file string) bool {
			return !strings.Contains(file, "/"+c.instanceID+"/")
		})
		if len(ours) != 2*want || !slices.ContainsFunc(ours, func(file string) bool {
			return strings.HasSuffix(file, ".tar.zst.age")
		}) {
			return fmt.Errorf("it has %q", ours)
		}
		return nil
	})
	if err := framework.IsGone(t.Context(),
		framework.NewObject("v1", "PersistentVolumeClaim", c.Namespace, c.BackupPVC())); err != nil {
		t.Errorf("a volume for backups was made all the same: %v", err)
	}
}
