package e2e

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBackupPVFull: the deletion waits, says how to make room, and goes on when somebody did.
func TestBackupPVFull(t *testing.T) {
	t.Parallel()
	repeats(t, "a cell of TestCells fills the backup volume")
	s := newServer(t, classComposition)
	before := s.begin(t)
	backups := "backup-" + s.name + "-pvc"
	s.hand(t, "hand", backups)
	if _, err := s.by(t.Context(), "hand", "cat /dev/zero >/data/full || sync"); err != nil {
		t.Fatal(err)
	}
	s.startDelete(t)
	advice := fmt.Sprintf(`kubectl patch pvc --namespace %s %s --patch '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'`, s.namespace, backups)
	s.says(t, advice)
	s.says(t, "Nothing is lost: the data stays on its volume")
	s.controllerSays(t, advice)
	s.unreleased(t)
	out, err := kubectl(t.Context(), "patch", "pvc", "--namespace", s.namespace, backups, "--patch", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	if err != nil {
		t.Fatalf("what it says cannot be done: %v: %s", err, out)
	}
	s.gone(t)
	s.proven(t, 1)
	s.create(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// TestDamagedBackup: nothing starts from an archive that is not what was proven, nor over somebody else's files.
func TestDamagedBackup(t *testing.T) { //nolint:tparallel // One server, damaged in this order.
	t.Parallel()
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.delete(t)
	s.proven(t, 1)
	file, _, _ := unstructured.NestedString(s.mustRecords(t)[0].Object, "spec", "archive", "path")
	archive := path.Join("/data", file)
	manifest := path.Join(path.Dir(archive), "manifest.json")
	s.hand(t, "hand", "backup-"+s.name+"-pvc")
	s.do(t, "cp --preserve "+archive+" "+manifest+" /data")

	flip := fmt.Sprintf(`at=$(($(stat --format=%%s %[1]s) / 2)); was=$(od --address-radix=n --format=u1 --skip-bytes=$at --read-bytes=1 %[1]s); `+
		`printf "\\$(printf %%03o $((was ^ 1)))" | dd of=%[1]s bs=1 seek=$at conv=notrunc status=none`, archive)
	s.do(t, flip)
	s.create(t)
	last := s.restoreFails(t, "", "is damaged")
	whole := "cp --preserve /data/" + path.Base(archive) + " " + archive + "; cp --preserve /data/manifest.json " + manifest
	t.Run("OtherDamage", func(t *testing.T) {
		repeats(t, "TestDamage, TestMissingManifest and TestRestoreRefuses have each")
		for _, damage := range []struct{ how, says string }{
			{"truncate --size=-1 " + archive, "is damaged"},
			{"rm " + manifest, "its manifest.json is not on its volume"},
			{"rm " + archive, "is not on its volume"},
		} {
			s.do(t, whole+"; "+damage.how)
			last = s.restoreFails(t, last, damage.says)
		}
	})
	s.do(t, whole)

	s.hand(t, "other", s.name+"-pvc")
	if _, err := s.by(t.Context(), "other", "mkdir --parents /data/folder /data/data && echo mine | tee /data/file /data/folder/file >/data/data/file"); err != nil {
		t.Fatal(err)
	}
	s.restoreFails(t, last, "The data volume already holds a database")
	out, err := s.by(t.Context(), "other", "cat /data/file /data/folder/file /data/data/file && rm /data/data/file")
	if err != nil || out != "mine\nmine\nmine\n" { //nolint:dupword // One for each file.
		t.Errorf("want nobody's files touched, got %q, %v", out, err)
	}
	s.tryAgain(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	out, err = s.by(t.Context(), "other", "cat /data/file /data/folder/file")
	if err != nil || out != "mine\nmine\n" {
		t.Errorf("want nobody's files touched, got %q, %v", out, err)
	}
	s.dismiss(t, "other")
}

// TestPasswordSecretIsWrong: no server starts without a password, and one that runs goes on with the last it had.
func TestPasswordSecretIsWrong(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	delete(s.spec, "password")
	s.spec["passwordSecretRef"] = map[string]any{"name": "mine", "key": "root"}
	s.create(t)
	s.refuses(t, "spec.passwordSecretRef.name: Secret "+s.namespace+"/mine does not exist: create it")
	secret := s.secret(t, "mine", map[string]string{"other": "x"})
	s.refuses(t, `has no key "root": add it`)
	for text, says := range map[string]string{"": "the password is empty", "two\nlines": "has a control character", strings.Repeat("x", 257): "more than 256 bytes"} {
		s.fill(t, secret, map[string]string{"root": text})
		s.refuses(t, says)
	}
	s.held(t)
	s.fill(t, secret, map[string]string{"root": "right"})
	s.connects(t, "right")
	s.session(t)

	if err := suite.kube.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.says(t, "Running, but spec.passwordSecretRef.name: Secret "+s.namespace+"/mine does not exist: create it")
	s.credentials(t, "Failed", "The Secret that holds the password of this instance cannot be read")
	s.controllerSays(t, "The Secret that holds the password of this instance cannot be read")
	s.connects(t, "right")
	s.secret(t, "mine", map[string]string{"root": "right again"})
	s.connects(t, "right again")
	s.credentials(t, "InSync", "")
}

// TestServerRefuses: a server that does not let us in keeps its password and its rows, and people hear what to do.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.connects(t, s.password)
	address := s.forward(t)

	s.mustQuery(t, "SET GLOBAL max_connections = 2")
	crowd := s.crowd(t, address)
	s.set(t, map[string]any{"password": "after the crowd"})
	s.credentials(t, "Changing", "error 1040")
	for _, c := range crowd {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	s.connects(t, "after the crowd")
	s.mustQuery(t, "SET GLOBAL max_connections = 100")

	s.mustQuery(t, "CREATE USER helper@'%' IDENTIFIED BY 'h'; GRANT ALL ON *.* TO helper@'%' WITH GRANT OPTION; ALTER USER root@'%' ACCOUNT LOCK")
	s.set(t, map[string]any{"password": "after the lock"})
	s.credentials(t, "Failed", "the account root is locked in the server: unlock it there")
	s.controllerSays(t, "the account root is locked in the server")
	options := fmt.Sprintf("[client]\nhost=%s\nuser=helper\npassword=h\n", s.name)
	if _, err := in(t.Context(), s.namespace, "client", options, "mysql", "--defaults-file=/dev/stdin", "--execute=ALTER USER root@'%' ACCOUNT UNLOCK"); err != nil {
		t.Fatal(err)
	}
	s.connects(t, "after the lock")

	s.mustQuery(t, "ALTER USER root@'%' IDENTIFIED BY 'behind our back'; ALTER USER root@'%' DISCARD OLD PASSWORD")
	s.set(t, map[string]any{"password": "not this one"})
	const advice = "The server accepts no password that is known for root: somebody changed it there"
	s.credentials(t, "Failed", advice)
	s.controllerSays(t, advice)
	s.delete(t)
	s.proven(t, 1)
	s.spec["password"] = "nor this one"
	s.create(t)
	s.credentials(t, "Failed", advice)
	s.set(t, map[string]any{"password": "behind our back"})
	s.connects(t, "behind our back")
	if got := s.mustQuery(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.set(t, map[string]any{"password": "ours again"})
	s.connects(t, "ours again")
}

// crowd takes all connections, also the one that is kept for administrators.
func (s *server) crowd(t *testing.T, address string) []driver.Conn {
	t.Helper()
	var all []driver.Conn
	eventually(t, "the last connection", func(ctx context.Context) error {
		c, err := dial(ctx, address, s.password)
		if err == nil {
			all = append(all, c)
			return fmt.Errorf("%d are open", len(all))
		}
		if number(err) != 1040 || len(all) < 3 {
			return err // A probe may have been in the way for a moment.
		}
		return nil
	})
	return all
}

// hand is a pod that puts things on a volume, on the node of the server's own if there is one: a volume that nothing has
// used yet is made where its first pod is.
func (s *server) hand(t *testing.T, name, claim string) {
	t.Helper()
	p := toolboxPod(s.namespace, name, claim)
	// The group of the first pod on a volume is that of all that are on it together.
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(999)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)}
	if server, err := s.serverPod(t.Context()); err == nil {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.hostname(t, server.Spec.NodeName)}
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(suite.kube.Delete(context.WithoutCancel(t.Context()), p)); err != nil {
			t.Error(err)
		}
	})
	startPod(t, p)
}

func (s *server) hostname(t *testing.T, node string) string {
	t.Helper()
	n := &corev1.Node{}
	if err := suite.kube.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	return n.Labels[corev1.LabelHostname]
}

// dismiss a hand, and wait until it is gone.
func (s *server) dismiss(t *testing.T, name string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := suite.kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func(ctx context.Context) error { return gone(ctx, p) })
}

// by a hand, in words of the shell.
func (s *server) by(ctx context.Context, hand, script string) (string, error) {
	return in(ctx, s.namespace, hand, "", "bash", "-o", "errexit", "-o", "nounset", "-c", script)
}

// do something to the backups, and have it on disk.
func (s *server) do(t *testing.T, script string) {
	t.Helper()
	if _, err := s.by(t.Context(), "hand", script+"; sync"); err != nil {
		t.Fatal(err)
	}
}

// tryAgain deletes the restore Job, as the message of a failed one says.
func (s *server) tryAgain(t *testing.T) {
	t.Helper()
	j, err := s.restoreJob(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Delete(t.Context(), j, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
}

// restoreFails once more, after the Job that failed last is deleted. It returns the Job that failed.
func (s *server) restoreFails(t *testing.T, last types.UID, says string) types.UID {
	t.Helper()
	if last != "" {
		s.tryAgain(t)
	}
	eventually(t, "the restore's failure", func(ctx context.Context) error {
		j, err := s.restoreJob(ctx)
		if err != nil {
			return err
		}
		if j.UID == last {
			return errors.New("the Job is the last one")
		}
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				last = j.UID
				return nil
			}
		}
		return fmt.Errorf("it has not failed: %v", j.Status)
	})
	s.says(t, says)
	s.eventOf(t, says)
	s.held(t)
	return last
}
