package stores

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A Store is a BackupStore that is open.
type Store struct {
	redact.All
	*store.Bucket

	// Name of the BackupStore.
	Name string
	// Seal that notes have.
	Seal store.SealKey
	// Recipients that archives are encrypted to, as they are written; none where they are not.
	Recipients []string

	to   []age.Recipient
	with []age.Identity
	file gateway.StoreFile
}

// Secrets of a BackupStore. One that is not there is nil.
type Secrets struct {
	redact.All

	Credentials, Key *corev1.Secret
}

// Open a BackupStore. Nothing is asked of it; the error says which of its settings cannot be used.
func Open(s *v1.BackupStore, with Secrets) (*Store, error) {
	if s.Unreadable.Has("spec") { // Without a prefix it is another place, and without recipients nothing is encrypted.
		return nil, fmt.Errorf("%s. To repair it: %s", s.Unreadable, s.Unreadable.Edit("backupstore "+s.Name))
	}
	out := &Store{Name: s.Name, Recipients: s.Spec.Recipients}
	for what, secret := range map[string]*corev1.Secret{s.Spec.CredentialsSecretRef.Name: with.Credentials, s.Spec.KeySecretRef.Name: with.Key} {
		if secret == nil {
			return nil, fmt.Errorf("there is no Secret %q in the controller's namespace", what)
		}
	}
	access, err := valueOf(with.Credentials, v1.StoreAccessKey)
	if err != nil {
		return nil, err
	}
	secret, err := valueOf(with.Credentials, v1.StoreSecretKey)
	if err != nil {
		return nil, err
	}
	out.file.Settings = store.Settings{
		Endpoint: s.Spec.Endpoint, Region: s.Spec.Region, Bucket: s.Spec.Bucket, Prefix: s.Spec.Prefix, PathStyle: s.Spec.PathStyle, CA: s.Spec.CABundle,
		AccessKey: access, SecretKey: secret, SessionToken: strings.TrimSpace(string(with.Credentials.Data[v1.StoreSessionToken])),
	}
	if out.Bucket, err = store.Open(out.file.Settings); err != nil {
		return nil, err
	}
	return out, out.takeKeys(with.Key)
}

func (s *Store) takeKeys(secret *corev1.Secret) error {
	seal, err := valueOf(secret, v1.StoreSealKey)
	if err != nil {
		return err
	}
	if s.Seal, err = store.ParseSealKey(seal); err != nil {
		return fmt.Errorf("key %q of Secret %q: %w", v1.StoreSealKey, secret.Name, err)
	}
	if len(s.Recipients) > 0 {
		if s.to, err = age.ParseRecipients(strings.NewReader(strings.Join(s.Recipients, "\n"))); err != nil {
			return fmt.Errorf("the recipients cannot be used: %w", err)
		}
	}
	s.file.Identity = strings.TrimSpace(string(secret.Data[v1.StoreIdentity]))
	if s.file.Identity == "" {
		return nil
	}
	if s.with, err = age.ParseIdentities(strings.NewReader(s.file.Identity)); err != nil {
		return fmt.Errorf("key %q of Secret %q is no age identity", v1.StoreIdentity, secret.Name) // Its error may have a part of it.
	}
	return nil
}

var errNoKey = errors.New("it has no such key, or an empty one")

func valueOf(s *corev1.Secret, key string) (string, error) {
	v := strings.TrimSpace(string(s.Data[key]))
	if v == "" {
		return "", fmt.Errorf("key %q of Secret %q: %w", key, s.Name, errNoKey)
	}
	return v, nil
}
