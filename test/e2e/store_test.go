package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	mathbig "math/big"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// system is the controller's namespace.
const system = "crossplane-mysql-system"

// An s3Server is a real S3 server in a pod. It has its own namespace, and a Service with TLS.
type s3Server struct {
	namespace, host, ca string

	// list returns the files in the bucket.
	list func(context.Context) (string, error)
}

// startS3 starts a server with an empty bucket that is named backups.
func startS3(t *testing.T) *s3Server {
	t.Helper()
	s := &s3Server{namespace: framework.NewNamespace(t)}
	s.host = "s3." + s.namespace + ".svc"
	certificate, key := selfSigned(t, s.host)
	s.ca = certificate
	framework.Make(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "tls"}, Type: corev1.SecretTypeTLS,
		StringData: map[string]string{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	})
	framework.Make(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "s3"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "s3"},
			Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(7070)}}},
	})
	pod := framework.ToolboxPod(s.namespace, "s3", "")
	pod.Labels = map[string]string{"app": "s3"}
	pod.Spec.SecurityContext.FSGroup = new(int64(65534))
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}},
	}
	mounts := []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "tls", MountPath: "/tls"}}
	toolbox := &pod.Spec.Containers[0]
	toolbox.VolumeMounts = mounts
	toolbox.Command = []string{"sh", "-c", "mkdir -p /data/objects/backups /data/meta && exec sleep 3600"}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "s3", Image: "versitygw:v1.8.0", SecurityContext: toolbox.SecurityContext, VolumeMounts: mounts,
		Command: []string{"versitygw"},
		Args: []string{
			"--access", "access", "--secret", "secret-of-the-test", "--port", ":7070", "--cert", "/tls/tls.crt", "--key",
			"/tls/tls.key",
			"posix", "--sidecar", "/data/meta", "/data/objects",
		},
	})
	framework.StartPod(t, pod)
	s.list = func(ctx context.Context) (string, error) {
		return framework.Exec(ctx, s.namespace, "s3/toolbox", "", "sh", "-c", "cd /data/objects/backups && find . -type f")
	}
	return s
}

// selfSigned returns a self-signed certificate for a host, and its key.
func selfSigned(t *testing.T, host string) (certificate, private string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: mathbig.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour)}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// objects returns the objects in the bucket.
func (s *s3Server) objects(t *testing.T) []string {
	t.Helper()
	out, err := s.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

// A backupStore is a BackupStore object, with its S3 server and the key of its archives, as the platform team creates
// them.
type backupStore struct {
	*unstructured.Unstructured
	storeKey

	server *s3Server
}

// A storeKey is the private key for the archives in a store. Users keep it outside of the cluster, in a file with a
// Secret. recipient is the corresponding public key.
type storeKey struct {
	file, secret, recipient string
}

func newStoreKey(t *testing.T, name string) storeKey {
	t.Helper()
	k := storeKey{file: filepath.Join(t.TempDir(), "key.yaml"), secret: name}
	var log bytes.Buffer
	out, err := pluginCommand(t.Context(), &log, "store-key", name, "--to", k.file).Output()
	if err != nil {
		t.Fatalf("kubectl mysql store-key: %v\n%s%s", err, out, log.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	k.recipient = lines[len(lines)-1]
	return k
}

// newBackupStore creates a BackupStore for an S3 server, with its Secrets. The key can be from a previous cluster.
// wrong contains fields of the spec that replace the correct ones.
func newBackupStore(t *testing.T, s3 *s3Server, k storeKey, wrong map[string]any) *backupStore {
	t.Helper()
	b := &backupStore{Unstructured: framework.NewObject("crossplane-mysql.io/v1alpha1", "BackupStore", "", s3.namespace), storeKey: k,
		server: s3}
	framework.MustKubectl(t, "apply", "--filename", k.file)
	framework.MustKubectl(t, "create", "secret", "generic", "--namespace", system, s3.namespace+"-credentials",
		"--from-literal=accessKey=access", "--from-literal=secretKey=secret-of-the-test")
	t.Cleanup(func() {
		if out, err := framework.Kubectl(context.WithoutCancel(t.Context()), "delete", "secret", "--namespace", system,
			"--ignore-not-found", k.secret, s3.namespace+"-credentials"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	spec := map[string]any{
		"endpoint": "https://" + s3.host, "bucket": "backups", "prefix": "team/mysql", "pathStyle": true, "caBundle": s3.ca,
		"credentialsSecretRef": map[string]any{"name": s3.namespace + "-credentials"},
		"keySecretRef":         map[string]any{"name": k.secret},
		"recipients":           []any{b.recipient},
	}
	maps.Copy(spec, wrong)
	b.Object["spec"] = spec
	framework.Make(t, b.Unstructured)
	return b
}

// becomes waits until the BackupStore's condition Reachable has the given status and reason, and its message contains
// says.
func (b *backupStore) becomes(t *testing.T, status, reason, says string) {
	t.Helper()
	framework.Eventually(t, "BackupStore "+b.GetName(), func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(b.Object, "status", "conditions")
		if err != nil || len(conditions) != 1 {
			return fmt.Errorf("it has the conditions %v, %w", conditions, err)
		}
		c, _ := conditions[0].(map[string]any)
		if c["status"] != status || c["reason"] != reason || !strings.Contains(fmt.Sprint(c["message"]), says) ||
			c["observedGeneration"] != b.GetGeneration() {
			return fmt.Errorf("want %s, %s, %q, it is %v", status, reason, says, c)
		}
		return nil
	})
}

// change changes a field in the BackupStore's spec.
func (b *backupStore) change(t *testing.T, field, value string) {
	t.Helper()
	framework.MustKubectl(t, "patch", "backupstore", b.GetName(), "--type=merge", "--patch",
		fmt.Sprintf(`{"spec":{%q:%s}}`, field, value))
}

// installGateway installs the backup gateway as docs/how-to/stores.md describes. The gateway stays installed for
// other tests.
func installGateway(t *testing.T) {
	t.Helper()
	newPrompt(t).enter(t, "kubectl apply --server-side -k controller/deploy/gateway",
		"deployment.apps/crossplane-mysql-gateway serverside-applied")
}

// offersStore installs the gateway, creates a BackupStore and allows claims to use it.
func offersStore(t *testing.T, s3 *s3Server, k storeKey) *backupStore {
	t.Helper()
	installGateway(t)
	b := newBackupStore(t, s3, k, nil)
	b.becomes(t, "True", "Probed", "")
	framework.AllowBackupStore(t, b.GetName())
	return b
}

// TestBackupStore checks that the status of a BackupStore reports whether backups can be written and read, and how to
// fix a problem. If no claim can use a store, the start of the controller must not wait for that store, even if it
// has never worked.
func TestBackupStore(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRealProbe has each fault of a store")
	s3 := startS3(t)
	installGateway(t)
	newPrompt(t).enter(t, "kubectl explain backupstore.spec", "recipients")
	b := newBackupStore(t, s3, newStoreKey(t, s3.namespace),
		map[string]any{"bucket": "nobodys", "caBundle": nil, "credentialsSecretRef": map[string]any{"name": "nobodys"}})
	b.becomes(t, "False", "Settings", `no Secret "nobodys"`)
	b.change(t, "credentialsSecretRef", fmt.Sprintf(`{"name":%q}`, s3.namespace+"-credentials"))
	b.becomes(t, "False", "Untrusted", "caBundle")
	b.change(t, "caBundle", fmt.Sprintf("%q", s3.ca))
	b.becomes(t, "False", "NoBucket", "create it")
	b.change(t, "bucket", `"backups"`)
	b.becomes(t, "True", "Probed", "written, read and deleted")
	if left := s3.objects(t); len(left) != 1 || !strings.HasSuffix(left[0], holderObject) {
		t.Errorf("want who holds the prefix, the probe leaves %q", left)
	}
	b.isTakenOver(t, s3)
	b.answersChallenge(t)
	gatewayRefuses(t, s3.namespace)
}

// TestBackupStoreIdentity checks that a BackupStore with workloadIdentity reports what to do if the controller's pod
// has no identity, and that it becomes reachable if it uses a Secret instead. A BackupStore must have either a Secret
// or workloadIdentity. The S3 server reports the region of the bucket.
func TestBackupStoreIdentity(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestStatusOfIdentity has each cause, and TestBackupStoreSchema has the rule")
	s3 := startS3(t)
	b := newBackupStore(t, s3, newStoreKey(t, s3.namespace),
		map[string]any{"credentialsSecretRef": nil, "workloadIdentity": map[string]any{}})
	b.becomes(t, "False", "NoCredentials", "annotate its service account with the role")
	secret := fmt.Sprintf(`"credentialsSecretRef":{"name":%q}`, s3.namespace+"-credentials")
	if out, err := framework.Kubectl(t.Context(), "patch", "backupstore", b.GetName(), "--type=merge", "--patch",
		`{"spec":{`+secret+`}}`); err == nil || !strings.Contains(fmt.Sprint(out, err), "exactly one of credentialsSecretRef") {
		t.Errorf("want that both are refused, got %v, %v", out, err)
	}
	framework.MustKubectl(t, "patch", "backupstore", b.GetName(), "--type=merge", "--patch",
		`{"spec":{"workloadIdentity":null,`+secret+`}}`)
	b.becomes(t, "True", "Probed", "written, read and deleted")
}

// holderObject is the name of the object in a store that identifies the cluster that publishes backups below a prefix.
const holderObject = "v1/holder.json"

// isTakenOver simulates that another cluster publishes backups in the store. This cluster must publish nothing there
// until a user runs the command that takes over the prefix again.
func (b *backupStore) isTakenOver(t *testing.T, s3 *s3Server) {
	t.Helper()
	if _, err := framework.Exec(t.Context(), s3.namespace, "s3/toolbox", `{"content":{},"hmacSha256":"AA=="}`, "sh", "-c",
		"cat >/data/objects/backups/team/mysql/"+holderObject); err != nil {
		t.Fatal(err)
	}
	framework.MustKubectl(t, "annotate", "backupstore", b.GetName(), "--overwrite", "example.org/look=now")
	b.becomes(t, "False", "PrefixInUse", "crossplane-mysql.io/take-over-prefix=")
	b.takesOver(t)
	b.becomes(t, "True", "Probed", "")
}

// takesOver runs the command in the BackupStore's condition, with which this cluster takes over the prefix in the
// store.
func (b *backupStore) takesOver(t *testing.T) {
	t.Helper()
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(b.Object, "status", "conditions")
	c, _ := conditions[0].(map[string]any)
	_, command, found := strings.Cut(fmt.Sprint(c["message"]), "run: kubectl ")
	if !found {
		t.Fatalf("want a command, the message is %q", c["message"])
	}
	framework.MustKubectl(t, strings.Fields(command)...)
}

// withoutLog is the value of spec.backup.continuous of an instance whose binary log is not archived.
var withoutLog = map[string]any{"enabled": false}

// storedIn returns a spec.backup that writes backups to a store, without the binary log. The controller then takes no
// backup of its own.
func storedIn(store string) map[string]any {
	return map[string]any{"storeRef": map[string]any{"name": store}, "continuous": withoutLog}
}

// TestStore checks that the final backup is written to a store, without a backup volume, and is restore-tested before
// the data is deleted. Every row must be restored from the store. Then the claim is changed to use a backup volume,
// and must be restored from that volume.
func TestStore(t *testing.T) {
	t.Parallel()
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["backup"] = map[string]any{"storeRef": map[string]any{"name": "nobodys"}}
	s.Create(t)
	s.Refuses(t, "spec.backup.storeRef.name: Forbidden: nobodys is not allowed by the platform")
	s.Spec["backup"] = map[string]any{"storeRef": map[string]any{"name": b.GetName()}, "continuous": withoutLog,
		"finalBackup": map[string]any{"requireRestoreTest": true}}
	s.Set(t, map[string]any{"backup": s.Spec["backup"]})
	s.BecomesReady(t)
	newPrompt(t).enter(t, "kubectl get mysql --output wide --all-namespaces", "LAST-BACKUP")
	s.Client().RunScript(t, testdata(t, "rich.sql"))
	before := portraitOf(t, s)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	leavesNoTrace(t, s)
	newPrompt(t).enter(t, "kubectl get backupstore", "LAST-BACKUP")
	newPrompt(t).enter(t, "kubectl describe backupstores", "Reachable")
	first := s.Backups().Only(t)
	if err := framework.HasCondition(t.Context(), first.DeepCopy(), "Restorable"); err != nil {
		t.Errorf("the data was let go before a server had run on a copy of it: %v", err)
	}
	b.holds(t, s3, first)
	if err := framework.IsGone(t.Context(),
		framework.NewObject("v1", "PersistentVolumeClaim", s.Namespace, s.BackupPVC())); err != nil {
		t.Errorf("a volume for backups was made all the same: %v", err)
	}

	another := s.Neighbour(t, "another")
	another.Spec["restore"] = map[string]any{"from": s.Name}
	another.Spec["deletionPolicy"] = discard
	another.Create(t)
	another.Client().FirstAnswer(t, "SELECT 1")
	if diff := cmp.Diff(before, portraitOf(t, another)); diff != "" {
		t.Errorf("the server is not what the other was (-before, +after):\n%s", diff)
	}
	another.Delete(t)

	framework.MustKubectl(t, "delete", "backuprecord", first.GetName())
	s.Create(t)
	b.makesRecord(t, s, first)
	s.Client().FirstAnswer(t, "SELECT 1")
	if diff := cmp.Diff(before, portraitOf(t, s)); diff != "" {
		t.Errorf("the server is not what it was (-before, +after):\n%s", diff)
	}
	hasVerdict(t, s, "True") // This is the result of the recreated BackupRecord, while the server is running.
	s.Set(t, map[string]any{"backup": map[string]any{"storeRef": nil, "volume": map[string]any{}, "continuous": withoutLog}})
	s.Eventually(t, "a volume for backups", func(ctx context.Context) error {
		return framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.BackupPVC()},
			&corev1.PersistentVolumeClaim{})
	})
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	if newest := s.Backups().Newest(t); newest.GetName() == first.GetName() {
		t.Error("there is no newer backup")
	} else if pvc, _, _ := unstructured.NestedString(newest.Object, "spec", "archive", "pvcName"); pvc != s.BackupPVC() {
		t.Errorf("it lies on %q", pvc)
	}
	b.holds(t, s3, first)
	s.Create(t)
	s.Client().FirstAnswer(t, "SELECT 1")
	if diff := cmp.Diff(before, portraitOf(t, s)); diff != "" {
		t.Errorf("the server is not what it was (-before, +after):\n%s", diff)
	}
}

// makesRecord makes the controller recreate a deleted BackupRecord, with the command in the message of the blocked
// claim.
func (b *backupStore) makesRecord(t *testing.T, s *framework.Server, record *unstructured.Unstructured) {
	t.Helper()
	key, _, _ := unstructured.NestedString(record.Object, "spec", "archive", "path")
	ask := fmt.Sprintf("annotate backupstore %s --overwrite crossplane-mysql.io/make-record=", b.GetName())
	framework.MustKubectl(t, strings.Fields(ask+record.GetName())...)
	b.saysOfRecord(t, false, "is not the prefix of a backup")
	ask += path.Dir(key)
	s.Says(t, "kubectl "+ask)
	framework.MustKubectl(t, strings.Fields(ask)...)
	b.saysOfRecord(t, true, record.GetName())
}

func (b *backupStore) saysOfRecord(t *testing.T, made bool, says string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("BackupStore %s says of the record: %s", b.GetName(), says),
		func(ctx context.Context) error {
			if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
				return err
			}
			isMade, _, _ := unstructured.NestedBool(b.Object, "status", "record", "made")
			text, _, _ := unstructured.NestedString(b.Object, "status", "record", "message")
			if isMade != made || !strings.Contains(text, says) {
				return fmt.Errorf("made is %t: %s", isMade, text)
			}
			return nil
		})
}

// holds checks that the store contains only the encrypted archive of one backup, its metadata, and the object that
// identifies the cluster.
func (b *backupStore) holds(t *testing.T, s3 *s3Server, record *unstructured.Unstructured) {
	t.Helper()
	store, _, _ := unstructured.NestedString(record.Object, "spec", "archive", "store")
	key, _, _ := unstructured.NestedString(record.Object, "spec", "archive", "path")
	want := []string{"./team/mysql/" + key, "./team/mysql/" + path.Join(path.Dir(key), "manifest.json"),
		"./team/mysql/" + holderObject}
	slices.Sort(want)
	got := s3.objects(t)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || store != b.GetName() || !strings.HasSuffix(key, ".tar.zst.age") {
		t.Errorf("store %q, archive %q, -want, +got:\n%s", store, key, diff)
	}
}

// answersChallenge tests the proof that a user has the private key of a store, which is not in the cluster. A wrong
// answer must be refused.
func (b *backupStore) answersChallenge(t *testing.T) {
	t.Helper()
	framework.MustKubectl(t, "patch", "secret", "--namespace", system, b.secret, "--type=json", "--patch",
		`[{"op":"remove","path":"/data/identity"}]`)
	framework.MustKubectl(t, "annotate", "backupstore", b.GetName(), "crossplane-mysql.io/answer=a-guess")
	b.becomes(t, "False", "Challenge", "age --decrypt")
	if text, _, _ := unstructured.NestedString(b.Object, "status", "challenge", "text"); !strings.Contains(text,
		"BEGIN AGE ENCRYPTED FILE") {
		t.Errorf("want an age file, got %q", text)
	}
}

// gatewayRefuses checks that the gateway responds to plain HTTP with an error, because it supports only TLS.
func gatewayRefuses(t *testing.T, namespace string) {
	t.Helper()
	framework.Eventually(t, "the gateway", func(ctx context.Context) error {
		out, err := framework.Exec(ctx, namespace, "s3/toolbox", "", "bash", "-c",
			`exec 3<>/dev/tcp/crossplane-mysql-gateway.crossplane-mysql-system.svc/8443 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -c 100 <&3`)
		if err != nil {
			return err
		}
		if !strings.Contains(out, "HTTPS server") {
			return errors.New("want that it speaks TLS only, got " + out)
		}
		return nil
	})
}
