package storekey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStoreKey checks that `kubectl mysql store-key` writes a Secret for a BackupStore to the file. An existing file
// must not be overwritten.
func TestStoreKey(t *testing.T) {
	for _, postQuantum := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "key.yaml")
		c := &Create{Name: "offsite", SystemNamespace: "crossplane-mysql-system", PostQuantum: postQuantum, To: path}
		var out strings.Builder
		if err := c.Write(&out); err != nil {
			t.Fatal(err)
		}
		raw, output := read(t, path), out.String()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("want a file that nobody else reads, got %v, %v", info.Mode(), err)
		}
		s := &corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(raw), s); err != nil {
			t.Fatal(err)
		}
		if _, err := store.ParseSigningKey(s.StringData[v1.StoreSigningKey]); err != nil || s.Kind != "Secret" ||
			s.Name != "offsite" || s.Namespace != "crossplane-mysql-system" {
			t.Errorf("want a Secret, got %v, %v", s.ObjectMeta, err)
		}
		lines := strings.Split(strings.TrimSpace(output), "\n")
		recipient := lines[len(lines)-1]
		if !strings.Contains(raw, "# "+recipient+"\n") || strings.Contains(output, s.StringData[v1.StoreIdentity]) {
			t.Errorf("want the recipient in both, and the identity in the file only, got %q", output)
		}
		b := &v1.BackupStore{Spec: v1.BackupStoreSpec{Endpoint: "https://s3.test", Bucket: "b",
			CredentialsSecretRef: &v1.LocalSecret{Name: "credentials"}, Recipients: []string{recipient}}}
		s.Data = map[string][]byte{}
		for k, v := range s.StringData {
			s.Data[k] = []byte(v)
		}
		credentials := &corev1.Secret{Data: map[string][]byte{v1.StoreAccessKey: []byte("a"), v1.StoreSecretKey: []byte("s")}}
		if _, err := stores.Open(b, stores.Secrets{Credentials: credentials, Key: s}); err != nil {
			t.Errorf("a BackupStore cannot use it: %v", err)
		}
		if err := c.Write(&out); err == nil || read(t, path) != raw {
			t.Error("it was written over")
		}
	}
}
