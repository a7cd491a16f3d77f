package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestNewCluster deletes the cluster with its etcd, its nodes and their disks. Only the bucket and the key file
// remain. On a new cluster, it restores every row of three instances, and recovers a fourth one to a time. The
// namespace of three of them has a different name now, and the namespace of the other one has the same name. The test
// follows docs/how-to/new-cluster.md.
//
// No other test can use the cluster at the same time.
func TestNewCluster(t *testing.T) {
	framework.Repeats(t, "TestStore comes back from a store, and TestRealAdopt finds what another cluster has written")
	var left *legacy
	if !t.Run("before", func(t *testing.T) { left = leavesLegacy(t) }) {
		return
	}
	framework.ReplaceCluster(t)
	t.Run("after", left.comesBack)
}

// A legacy contains everything that is available after the loss of the cluster: the bucket and the key.
type legacy struct {
	bucket, keyFile []byte
	key             storeKey
	// shop is the namespace of the servers orders and users. crm is the namespace of one other server.
	shop, crm string
	portraits [3]string
	// newest and oldest are the names of the backups of the server in namespace crm.
	newest, oldest string
	// rows are the rows of the server ledger at the time moment. They were deleted later, and a recovery to moment must
	// bring them back.
	rows, moment string
}

// neighbourName is the name of the second server in a namespace.
const neighbourName = "users"

// leavesLegacy creates three instances and deletes them, so that their backups are in a bucket.
func leavesLegacy(t *testing.T) *legacy {
	t.Helper()
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	orders, crm := framework.NewServer(t, framework.ClassComposition), framework.NewServer(t, framework.ClassComposition)
	users := orders.Neighbour(t, neighbourName)
	l := &legacy{key: b.storeKey, shop: orders.Namespace, crm: crm.Namespace}
	all := []*framework.Server{orders, users, crm}
	for i, s := range all {
		s.Spec["backup"] = storedIn(b.GetName())
		s.Create(t)
		s.BecomesReady(t)
		s.Client().RunScript(t, testdata(t, "rich.sql"))
		s.Client().MustQuery(t, "CREATE TABLE whose (who VARCHAR(99)); INSERT INTO whose VALUES ('"+s.Namespace+"/"+s.Name+
			"')")
		l.portraits[i] = portraitOf(t, s)
		s.Delete(t)
		s.Backups().AreVerified(t, 1)
	}
	l.oldest = crm.Backups().Only(t).GetName()
	ledger := orders.Neighbour(t, "ledger")
	ledger.Spec["image"], ledger.Spec["backup"] = newestImage, map[string]any{"storeRef": map[string]any{"name": b.GetName()}}
	ledger.Begin(t)
	isRecoverable(t, ledger)
	l.rows, l.moment = loseRows(t, ledger)
	ledger.Delete(t)
	crm.Create(t) // crm now has two backups. The newest one must be restored.
	crm.Client().FirstAnswer(t, "SELECT 1")
	crm.Client().MustQuery(t, "INSERT INTO whose VALUES ('in its second life')")
	l.portraits[2] = portraitOf(t, crm)
	crm.Delete(t)
	crm.Backups().AreVerified(t, 2)
	l.newest = crm.Backups().Newest(t).GetName()
	l.bucket = s3.export(t)
	var err error
	if l.keyFile, err = os.ReadFile(l.key.file); err != nil {
		t.Fatal(err)
	}
	return l
}

// comesBack imports the backups from the bucket on a new cluster, and restores the servers from them.
func (l *legacy) comesBack(t *testing.T) {
	s3 := startS3(t)
	s3.load(t, l.bucket)
	l.key.file = filepath.Join(t.TempDir(), "key.yaml")
	if err := os.WriteFile(l.key.file, l.keyFile, 0o600); err != nil {
		t.Fatal(err)
	}
	installGateway(t)
	b := newBackupStore(t, s3, l.key, nil)
	b.becomes(t, "False", "PrefixInUse", "another cluster holds this bucket and prefix")
	b.takesOver(t)
	b.becomes(t, "True", "Probed", "")
	framework.AllowBackupStore(t, b.GetName())

	orders := framework.NewServer(t, framework.ClassComposition)
	users := orders.Neighbour(t, neighbourName)
	says(t, b.adopt(t), 4, "to adopt it: --map "+l.shop+"=NAMESPACE", "to adopt it: --map "+l.crm+"=NAMESPACE", l.newest)
	if out, err := b.tryAdopt(t, "--map", l.shop+"="+orders.Namespace, "--map", l.crm); err == nil {
		t.Errorf("want that namespace %s is not there yet, got %s", l.crm, out)
	}
	framework.Make(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.crm}})
	crm := framework.NewServerIn(t, l.crm, framework.ClassComposition)
	named := "--map=" + l.shop + "=" + orders.Namespace + "," + l.crm
	says(t, b.adopt(t, named, "--dry-run"), 2, "would be adopted in namespace "+l.crm)
	says(t, b.adopt(t, named), 2, "is adopted in namespace "+l.crm)
	says(t, b.adopt(t, named), 6, "already has a BackupRecord, in namespace ")

	for i, s := range []*framework.Server{orders, users, crm} {
		s.Backups().AreVerified(t, map[bool]int{true: 2, false: 1}[s == crm])
		s.Spec["backup"] = map[string]any{"storeRef": map[string]any{"name": b.GetName()}, "continuous": withoutLog,
			"retention": map[string]any{"count": int64(1)}}
		s.Create(t)
		s.Client().FirstAnswer(t, "SELECT 1")
		if diff := cmp.Diff(l.portraits[i], portraitOf(t, s)); diff != "" {
			t.Errorf("%s/%s is not what it was (-before, +after):\n%s", s.Namespace, s.Name, diff)
		}
	}
	ledger := orders.Neighbour(t, "ledger")
	ledger.Spec["image"] = newestImage
	ledger.Spec["backup"], ledger.Spec["restore"] = storedIn(b.GetName()), map[string]any{"at": l.moment}
	ledger.Create(t)
	if got := ledger.Client().FirstAnswer(t, framework.Rows); got != l.rows {
		t.Errorf("want the rows of %s\n%s\ngot\n%s", l.moment, l.rows, got)
	}
	// After a restore, retention applies as usual. Expired backups are pruned, even if the old cluster has stored them
	// under its own prefix.
	crm.Delete(t)
	framework.Eventually(t, "the end of what is too old", func(ctx context.Context) error {
		all, err := s3.list(ctx)
		if err == nil && strings.Contains(all, "/"+l.oldest+"/") {
			err = fmt.Errorf("the store has %s", all)
		}
		return errors.Join(err, framework.IsGone(ctx, framework.NewObject("crossplane-mysql.io/v1alpha1", "BackupRecord", "", l.oldest)))
	})
	if all := s3.objects(t); !slices.ContainsFunc(all, func(file string) bool {
		return strings.HasSuffix(path.Dir(file), "/"+orders.Backups().Only(t).GetName())
	}) {
		t.Errorf("others' are gone, too: the store has %q", all)
	}
}

// adopt runs `kubectl mysql adopt`, which imports the backups in the store, and returns its output.
func (b *backupStore) adopt(t *testing.T, flags ...string) string {
	t.Helper()
	out, err := b.tryAdopt(t, flags...)
	if err != nil {
		t.Fatalf("kubectl mysql adopt: %v\n%s", err, out)
	}
	return out
}

func (b *backupStore) tryAdopt(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	var log bytes.Buffer
	out, err := pluginCommand(t.Context(), &log, append([]string{"adopt", "--store", b.GetName()}, flags...)...).Output()
	return string(out) + log.String(), err
}

// says checks that a text contains the string subject the given number of times, and each string in also at least
// once.
func says(t *testing.T, text string, times int, subject string, also ...string) {
	t.Helper()
	if got := strings.Count(text, subject); got != times {
		t.Errorf("want %q %d times, got it %d times in\n%s", subject, times, got, text)
	}
	for _, a := range also {
		if !strings.Contains(text, a) {
			t.Errorf("want %q in\n%s", a, text)
		}
	}
}

// export returns an archive of all objects on the S3 server, with the metadata that the server keeps for them.
func (s *s3Server) export(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := framework.ExecStream(t.Context(), s.namespace, "s3/toolbox", nil, &out, "tar", "--create",
		"--directory=/data", "objects", "meta"); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// load stores the objects in all, an archive that export has returned, on this S3 server.
func (s *s3Server) load(t *testing.T, all []byte) {
	t.Helper()
	var out bytes.Buffer
	if err := framework.ExecStream(t.Context(), s.namespace, "s3/toolbox", bytes.NewReader(all), &out, "tar", "--extract",
		"--directory=/data"); err != nil {
		t.Fatal(err)
	}
}
