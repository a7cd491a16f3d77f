package stores

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// systemNamespace is the namespace of the controller.
const systemNamespace = "system"

var now = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// newBackupStore returns a BackupStore with its Secrets. The identity is included if one is given.
func newBackupStore(recipient, identity *age.X25519Identity) (*v1.BackupStore, Secrets) {
	s := &v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "offsite", Generation: 3}, Spec: v1.BackupStoreSpec{
		Endpoint: "https://s3.test", Bucket: "backups", CredentialsSecretRef: &v1.LocalSecret{Name: "credentials"},
		KeySecretRef: v1.LocalSecret{Name: "key"},
	}}
	secrets := Secrets{
		Credentials: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "credentials"},
			Data: map[string][]byte{v1.StoreAccessKey: []byte("a\n"), v1.StoreSecretKey: []byte("s")}},
		Key: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"},
			Data: map[string][]byte{v1.StoreSigningKey: []byte(store.NewSigningKey().Text() + "\n")}},
	}
	if recipient != nil {
		s.Spec.Recipients = []string{recipient.Recipient().String()}
	}
	if identity != nil {
		secrets.Key.Data[v1.StoreIdentity] = []byte("# of the test\n" + identity.String())
	}
	return s, secrets
}

func newEntry(record, object string) *v1.StoreEntry { //nolint:unparam // Tests with the tag store use others.
	i := v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: "ns", Name: "db", XR: "xr"}
	n := &v1.StoreEntry{Name: record, Manifest: json.RawMessage(`{"format":1}`)}
	n.Record, n.AnnouncedAt = "uid-"+"record", metav1.NewTime(now)
	n.Spec = v1.BackupRecordSpec{Instance: i, Image: "mysql:8.4 <&>", Number: 7,
		Archive: &v1.Archive{Store: "offsite", Path: path.Join(v1.StorePrefix(i, record), object),
			SHA256: strings.Repeat("a", 64)}}
	return n
}
