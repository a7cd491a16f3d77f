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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestBackupPVFull fills the backup volume while a quota prevents it from growing automatically. The deletion must
// wait, report how to make room, and continue once there is room.
func TestBackupPVFull(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestBackupFull has what the agent says, and TestNext how the volume grows")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	backups := s.BackupPVC()
	startHand(t, s, "hand", backups)
	if _, err := execByHand(t.Context(), s, "hand", "cat /dev/zero >/data/full || sync"); err != nil {
		t.Fatal(err)
	}
	quota := newQuota(t, s, "no-more", corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("2Gi")})
	s.StartDelete(t)
	advice := fmt.Sprintf(
		`kubectl patch pvc --namespace %s %s --patch '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'`, s.Namespace,
		backups)
	s.Says(t, advice)
	s.Says(t, "No data is lost: it stays on its volume")
	s.ControllerSays(t, advice)
	holdsItsData(t, s)
	liftQuota(t, quota)
	out, err := framework.Kubectl(t.Context(), "patch", "pvc", "--namespace", s.Namespace, backups, "--patch",
		`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	if err != nil {
		t.Fatalf("what it says cannot be done: %v: %s", err, out)
	}
	s.Gone(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Client().SeesRows(t, before)
}

// TestDamagedBackup checks that no server starts from an archive that differs from the verified one, and that a
// restore does not overwrite existing files.
func TestDamagedBackup(t *testing.T) { //nolint:tparallel // One server, damaged in this order.
	t.Parallel()
	framework.Repeats(t, "tests of package archive refuse each kind of damage, and examples/restore-failed has what "+
		"the claim says")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	file, _, _ := unstructured.NestedString(s.Backups().MustList(t)[0].Object, "spec", "archive", "path")
	archive := path.Join("/data", file)
	manifest := path.Join(path.Dir(archive), "manifest.json")
	startHand(t, s, "hand", s.BackupPVC())
	changeArchives(t, s, "cp --preserve "+archive+" "+manifest+" /data")

	flip := fmt.Sprintf(
		`at=$(($(stat --format=%%s %[1]s) / 2)); was=$(od --address-radix=n --format=u1 --skip-bytes=$at --read-bytes=1 %[1]s); `+
			`printf "\\$(printf %%03o $((was ^ 1)))" | dd of=%[1]s bs=1 seek=$at conv=notrunc status=none`, archive)
	changeArchives(t, s, flip)
	s.Create(t)
	last := restoreFailsAgain(t, s, "", "is damaged")
	whole := "cp --preserve /data/" + path.Base(archive) + " " + archive + "; cp --preserve /data/manifest.json " +
		manifest
	t.Run("OtherDamage", func(t *testing.T) {
		framework.Repeats(t, "TestDamage, TestMissingManifest and TestRestoreRefuses have each")
		for _, damage := range []struct{ form, says string }{
			{"truncate --size=-1 " + archive, "is damaged"},
			{"rm " + manifest, "its manifest.json is missing"},
			{"rm " + archive, "its manifest.json is missing"},
		} {
			changeArchives(t, s, whole+"; "+damage.form)
			last = restoreFailsAgain(t, s, last, damage.says)
		}
	})
	changeArchives(t, s, whole)

	startHand(t, s, "other", s.DataPVC())
	if _, err := execByHand(t.Context(), s, "other",
		"mkdir --parents /data/folder /data/data && echo mine | tee /data/file /data/folder/file >/data/data/file"); err != nil {
		t.Fatal(err)
	}
	restoreFailsAgain(t, s, last, "The data volume already contains a database")
	out, err := execByHand(t.Context(), s, "other",
		"cat /data/file /data/folder/file /data/data/file && rm /data/data/file")
	if err != nil || out != "mine\nmine\nmine\n" { //nolint:dupword // One for each file.
		t.Errorf("want nobody's files touched, got %q, %v", out, err)
	}
	deleteRestoreJob(t, s)
	s.Client().SeesRows(t, before)
	out, err = execByHand(t.Context(), s, "other", "cat /data/file /data/folder/file")
	if err != nil || out != "mine\nmine\n" {
		t.Errorf("want nobody's files touched, got %q, %v", out, err)
	}
	endHand(t, s, "other")
}

// TestPasswordSecretIsWrong checks that a server does not start without a valid password, and that a running server
// keeps its last valid one.
func TestPasswordSecretIsWrong(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestBadInput has each Secret that is wrong, and TestNotAllowedPassword a server that goes on")
	s := framework.NewServer(t, framework.ClassComposition)
	delete(s.Spec, "password")
	s.Spec["passwordSecretRef"] = map[string]any{"name": "mine", "key": "root"}
	s.Create(t)
	s.Refuses(t, "spec.passwordSecretRef.name: Secret "+s.Namespace+"/mine does not exist. Create it")
	secret := newPasswordSecret(t, s, "mine", map[string]string{"other": "x"})
	s.Refuses(t, `has no key "root". Add the key`)
	for text, says := range map[string]string{"": "the password is empty", "two\nlines": "contains a control character",
		strings.Repeat("x", 257): "more than 256 bytes"} {
		fillSecret(t, secret, map[string]string{"root": text})
		s.Refuses(t, says)
	}
	s.IsHeld(t)
	fillSecret(t, secret, map[string]string{"root": "right"})
	s.Client().Connects(t, "right")
	s.Client().TypeSession(t)

	if err := framework.Suite.Kube.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.Says(t, "Running, but spec.passwordSecretRef.name: Secret "+s.Namespace+"/mine does not exist. Create it")
	hasCredentials(t, s, "Failed", "The Secret that contains the password of this instance cannot be read")
	s.ControllerSays(t, "The Secret that contains the password of this instance cannot be read")
	s.Client().Connects(t, "right")
	newPasswordSecret(t, s, "mine", map[string]string{"root": "right again"})
	s.Client().Connects(t, "right again")
	hasCredentials(t, s, "InSync", "")
}

// TestServerRefuses checks that a server that refuses the controller's login keeps its password and its rows, and
// that the claim reports how to fix it.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestHostileServer refuses in more ways, and TestRealChangedByOthers has a real one")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Client().Connects(t, s.Password)
	address := s.Client().Forward(t)

	s.Client().MustQuery(t, "SET GLOBAL max_connections = 2")
	crowd := takeAllConnections(t, s, address)
	s.Set(t, map[string]any{"password": "after the crowd"})
	hasCredentials(t, s, "Changing", "error 1040")
	for _, c := range crowd {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	s.Client().Connects(t, "after the crowd")
	framework.Eventually(t, "room for one more", func(ctx context.Context) error {
		_, err := s.Client().Query(ctx, s.Password, "SET GLOBAL max_connections = 100")
		return err
	})

	s.Client().MustQuery(t, "CREATE USER helper@'%' IDENTIFIED BY 'h'; GRANT ALL ON *.* TO helper@'%' WITH GRANT "+
		"OPTION; ALTER USER root@'%' ACCOUNT LOCK")
	s.Set(t, map[string]any{"password": "after the lock"})
	hasCredentials(t, s, "Failed", "the account root is locked in the server: unlock it there")
	s.ControllerSays(t, "the account root is locked in the server")
	s.Says(t, "its password could not be changed: the account root is locked")
	options := fmt.Sprintf("[client]\nhost=%s\nuser=helper\npassword=h\n", s.Name)
	if _, err := framework.Exec(t.Context(), s.Namespace, "client", options, "mysql", "--defaults-file=/dev/stdin",
		"--execute=ALTER USER root@'%' ACCOUNT UNLOCK"); err != nil {
		t.Fatal(err)
	}
	s.Client().Connects(t, "after the lock")

	s.Client().
		MustQuery(t, "ALTER USER root@'%' IDENTIFIED BY 'behind our back'; ALTER USER root@'%' DISCARD OLD PASSWORD")
	s.Set(t, map[string]any{"password": "not this one"})
	const advice = "The server accepts none of the known passwords of root. Either the password was changed in the " +
		"server"
	hasCredentials(t, s, "Failed", advice)
	s.ControllerSays(t, advice)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Spec["password"] = "nor this one"
	s.Create(t)
	s.Client().Connects(t, "nor this one") // The old password is unknown.
	s.Client().Refused(t, "behind our back")
	if got := s.Client().MustQuery(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.Set(t, map[string]any{"password": "ours again"})
	s.Client().Connects(t, "ours again")
}

// takeAllConnections opens all connections that the server allows, including the additional one for administrators.
func takeAllConnections(t *testing.T, s *framework.Server, address string) []driver.Conn {
	t.Helper()
	var all []driver.Conn
	framework.Eventually(t, "the last connection", func(ctx context.Context) error {
		c, err := framework.Dial(ctx, address, s.Password)
		if err == nil {
			all = append(all, c)
			return fmt.Errorf("%d are open", len(all))
		}
		if framework.ErrorNumber(err) != 1040 || len(all) < 3 {
			return err // A probe may have used a connection at that moment.
		}
		return nil
	})
	return all
}

// startHand starts a pod with which a test changes files on the server's volume. It runs on the node of the server,
// because the volume may not exist yet, and would otherwise be created on a different node.
func startHand(t *testing.T, s *framework.Server, name, pvc string) {
	t.Helper()
	p := framework.ToolboxPod(s.Namespace, name, pvc)
	// All pods that use a volume must have the group of the first one.
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(999)),
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)}
	if server, err := s.Pods().FindServer(t.Context()); err == nil {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: hostnameOf(t, server.Spec.NodeName)}
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()), p)); err != nil {
			t.Error(err)
		}
	})
	framework.StartPod(t, p)
}

func hostnameOf(t *testing.T, node string) string {
	t.Helper()
	n := &corev1.Node{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	return n.Labels[corev1.LabelHostname]
}

// endHand deletes a pod that startHand has started, and waits until it no longer exists.
func endHand(t *testing.T, s *framework.Server, name string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	if err := framework.Suite.Kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "its end", func(ctx context.Context) error { return framework.IsGone(ctx, p) })
}

// execByHand runs a shell script in a pod that startHand has started.
func execByHand(ctx context.Context, s *framework.Server, hand, script string) (string, error) {
	return framework.Exec(ctx, s.Namespace, hand, "", "bash", "-o", "errexit", "-o", "nounset", "-c", script)
}

// changeArchives runs a shell script that changes archives, and writes the changes to the disk.
func changeArchives(t *testing.T, s *framework.Server, script string) {
	t.Helper()
	if _, err := execByHand(t.Context(), s, "hand", script+"; sync"); err != nil {
		t.Fatal(err)
	}
}

// deleteRestoreJob deletes the restore Job, as the message about a failed restore advises.
func deleteRestoreJob(t *testing.T, s *framework.Server) {
	t.Helper()
	j, err := findRestoreJob(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := framework.Suite.Kube.Delete(t.Context(), j,
		client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
}

// restoreFailsAgain deletes the Job that failed last, and waits until the next one fails. It returns the UID of the
// next one.
func restoreFailsAgain(t *testing.T, s *framework.Server, last types.UID, says string) types.UID {
	t.Helper()
	if last != "" {
		deleteRestoreJob(t, s)
	}
	framework.Eventually(t, "the restore's failure", func(ctx context.Context) error {
		j, err := findRestoreJob(ctx, s)
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
	s.Says(t, says)
	s.HasEvent(t, says)
	s.IsHeld(t)
	return last
}
