package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A foreignServer is a MySQL server that the product does not manage, and from which a test imports. It is a pod with
// an image, started as the image's documentation describes. Its data is in the root directory of a volume.
type foreignServer struct {
	namespace string
	pod       *corev1.Pod
}

// Names and the password of the foreign server.
const (
	foreignName     = "old"
	foreignVolume   = "old-data"
	foreignPassword = "of-the-old-server"
)

func startForeign(t *testing.T, ns string) *foreignServer {
	t.Helper()
	framework.Make(t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: foreignVolume},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	framework.Make(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: foreignName},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": foreignName},
			Ports: []corev1.ServicePort{{Port: 3307, TargetPort: intstr.FromInt32(3306)}}},
	})
	pod := foreignPod(ns, foreignName, 999, "/var/lib/mysql")
	pod.Labels = map[string]string{"app": foreignName}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: foreignVolume}}})
	f := &foreignServer{namespace: ns, pod: pod}
	f.start(t)
	return f
}

// foreignPod returns the pod of a foreign server, without the volume data, which is mounted at the given path.
func foreignPod(ns, name string, user int64, mount string) *corev1.Pod {
	pod := framework.ToolboxPod(ns, name, "")
	pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
	pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.FSGroup = &user, &user
	pod.Spec.Volumes = []corev1.Volume{{Name: "run",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	c := &pod.Spec.Containers[0]
	c.Name, c.Command = "mysql", nil
	c.Env = []corev1.EnvVar{{Name: "MYSQL_ROOT_PASSWORD", Value: foreignPassword},
		{Name: "MYSQL_DATABASE", Value: "otus-database"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: mount}, {Name: "run", MountPath: "/var/run/mysqld"}}
	return pod
}

// start starts the foreign server's pod with the data on its volume, and waits until it accepts clients.
func (f *foreignServer) start(t *testing.T) {
	t.Helper()
	framework.StartPod(t, f.pod)
	f.awaitServer(t)
}

func (f *foreignServer) awaitServer(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "the old server", func(ctx context.Context) error {
		_, err := f.ask(ctx, "SELECT 1", "127.0.0.1") // The entrypoint's temporary server does not listen on TCP.
		return err
	})
}

// ask runs statements on the foreign server, through its socket, or over TCP if a host is given.
func (f *foreignServer) ask(ctx context.Context, statements string, host ...string) (string, error) {
	way := "--socket=/var/run/mysqld/mysqld.sock"
	if len(host) > 0 {
		way = "--host=" + host[0]
	}
	return framework.Exec(ctx, f.namespace, f.pod.Name, statements, "sh", "-c",
		"MYSQL_PWD="+foreignPassword+" mysql --no-defaults --user=root --default-character-set=utf8mb4 -BN "+way+
			" otus-database")
}

func (f *foreignServer) mustAsk(t *testing.T, statements string) string {
	t.Helper()
	out, err := f.ask(t.Context(), statements)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stop deletes the pod of the foreign server, which shuts the server down.
func (f *foreignServer) stop(t *testing.T) {
	t.Helper()
	if err := framework.Suite.Kube.Delete(t.Context(), f.pod); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the end of the old server", func(ctx context.Context) error {
		return framework.IsGone(ctx, f.pod)
	})
}

// discard is the value of deletionPolicy with which a deletion takes no backup.
const discard = "Discard"

// rowsOf is a query that returns counts and checksums of data of every type.
const rowsOf = `SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', id, full, born, seen, HEX(note), secret))) FROM shop.customers;
SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', id, customer, total, state, flags, HEX(bits)))) FROM shop.orders;
SELECT COUNT(*), SUM(CRC32(CAST(doc AS CHAR))) FROM shop.documents;
SELECT COUNT(*) FROM shop.marks;`

// imports makes the claim import the database of the foreign server. text is the value of spec.restore.import.
func (f *foreignServer) imports(s *framework.Server, text map[string]any) {
	s.Spec["restore"] = map[string]any{"import": text}
	delete(s.Spec, "deletionPolicy")
}

// TestImport imports the database of a foreign server in three ways: from the running server, from a dump, and from
// the volume of the stopped server. No row may be missing when the first client connects, and the source must not
// change. If the claim is created again, it must restore its own backup instead of importing again.
func TestImport(t *testing.T) { //nolint:tparallel // The subtests use one server, in this order.
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	f := startForeign(t, s.Namespace)
	f.mustAsk(t, testdata(t, "rich.sql"))
	f.mustAsk(t, "CREATE TABLE shop.marks (id INT PRIMARY KEY); INSERT INTO shop.marks VALUES (1); CREATE USER "+
		"import@'%' IDENTIFIED BY 'its own' REQUIRE SSL; GRANT BACKUP_ADMIN ON *.* TO import@'%'; INSTALL PLUGIN clone "+
		"SONAME 'mysql_clone.so'")
	want := f.mustAsk(t, rowsOf)

	t.Run("Server", func(t *testing.T) { f.isCloned(t, s.Neighbour(t, "cloned"), want) })
	t.Run("Dump", func(t *testing.T) {
		framework.Repeats(t, "TestRealDump and TestRealDumpFails load dumps into a real server, and TestStore reads from a store")
		f.isLoaded(t, s.Neighbour(t, "loaded"), want)
	})
	t.Run("Volume", func(t *testing.T) { f.isCopied(t, s) })
}

// sees checks that the query rowsOf returns the result want as soon as the new server accepts clients.
func sees(t *testing.T, s *framework.Server, want string) {
	t.Helper()
	s.Client().FirstAnswer(t, "SELECT 1")
	if diff := cmp.Diff(want, s.Client().RunScript(t, rowsOf)); diff != "" {
		t.Errorf("%s: -want, +got:\n%s", s.Name, diff)
	}
}

func (f *foreignServer) isCloned(t *testing.T, s *framework.Server, want string) {
	t.Helper()
	host := foreignName + "." + f.namespace + ".svc"
	f.imports(s, map[string]any{"server": map[string]any{"host": host, "port": int64(3307),
		"secretRef": map[string]any{"name": "old-account"}}})
	s.Spec["deletionPolicy"] = discard
	s.Create(t)
	s.Refuses(t, "spec.restore.import.server: Forbidden: "+host+":3307 is not allowed by the platform")
	framework.Allow(t, "allowedImportServers", "*."+f.namespace+".svc:3307")
	s.Refuses(t, "Create it with the keys username, password and ca.crt")
	authority, err := framework.Exec(t.Context(), f.namespace, f.pod.Name, "", "cat", "/var/lib/mysql/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	framework.Make(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "old-account"},
		StringData: map[string]string{"username": "import", "password": "its own", "ca.crt": authority},
	})
	s.Says(t, "legacy.isam (MyISAM). Convert them on that server")
	s.IsHeld(t)
	f.mustAsk(t, "DROP TABLE legacy.attic, legacy.comma, legacy.isam")
	// Otherwise the controller would wait a minute before it retries.
	framework.MustKubectl(t, "delete", "job", "--namespace", s.Namespace, "restore-"+s.Name+"-job")
	sees(t, s, want)
	if got := f.mustAsk(t, rowsOf); got != want {
		t.Errorf("the old server has %q now", got)
	}
	s.Delete(t)
}

func (f *foreignServer) isLoaded(t *testing.T, s *framework.Server, want string) {
	t.Helper()
	s3 := startS3(t)
	store := offersStore(t, s3, newStoreKey(t, s3.namespace))
	var dump bytes.Buffer
	if err := framework.ExecStream(t.Context(), f.namespace, f.pod.Name, nil, &dump, "sh", "-c",
		"MYSQL_PWD="+foreignPassword+" mysqldump --no-defaults --user=root --socket=/var/run/mysqld/mysqld.sock "+
			"--single-transaction --set-gtid-purged=OFF --routines --events --triggers --ignore-table=shop.one "+
			"--ignore-table=shop.two --databases shop"); err != nil {
		t.Fatal(err)
	}
	f.imports(s, map[string]any{"dump": map[string]any{"storeRef": map[string]any{"name": store.GetName()}, "name": "shop.sql.gz"}})
	s.Spec["deletionPolicy"] = discard
	whole := dump.Bytes()
	s3.put(t, "team/mysql/imports/"+f.namespace+"/shop.sql.gz", zipped(t, whole[:len(whole)/2]))
	s.Create(t)
	s.Says(t, "is truncated, does not match its checksum, or contains a statement that fails")
	s.IsHeld(t)
	s3.put(t, "team/mysql/imports/"+f.namespace+"/shop.sql.gz", zipped(t, whole))
	framework.MustKubectl(t, "delete", "job", "--namespace", s.Namespace, "restore-"+s.Name+"-job")
	sees(t, s, want)
	s.Delete(t)
}

func zipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put uploads an object, such as a dump, to the bucket, as the platform team does.
func (s *s3Server) put(t *testing.T, key string, raw []byte) {
	t.Helper()
	path := "/data/objects/backups/" + key
	if err := framework.ExecStream(t.Context(), s.namespace, "s3/toolbox", bytes.NewReader(raw), &bytes.Buffer{}, "sh",
		"-c", "mkdir -p $(dirname "+path+") && cat >"+path); err != nil {
		t.Fatal(err)
	}
}

func (f *foreignServer) isCopied(t *testing.T, s *framework.Server) {
	t.Helper()
	f.imports(s, map[string]any{"volume": map[string]any{"pvcRef": map[string]any{"name": foreignVolume}}})
	s.Create(t)
	s.Says(t, "a server still uses this data")
	s.IsHeld(t)
	f.mustAsk(t, "INSERT INTO shop.marks VALUES (2)")
	want := f.mustAsk(t, rowsOf)
	f.stop(t)
	sees(t, s, want)
	s.Client().RunScript(t, "INSERT INTO shop.marks VALUES (3)")
	want = s.Client().RunScript(t, rowsOf)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	sees(t, s, want)

	f.pod.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace, Name: f.pod.Name, Labels: f.pod.Labels}
	f.start(t)
	if got := f.mustAsk(t, "SELECT COUNT(*) FROM shop.marks"); strings.TrimSpace(got) != "2" {
		t.Errorf("the old server has %q rows now", got)
	}
	f.stop(t)
}
