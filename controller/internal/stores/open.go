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
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/workload"
)

// A Store gives access to the bucket of a BackupStore, with the keys for signatures and encryption.
type Store struct {
	redact.All
	*store.Bucket

	// Name is the name of the BackupStore.
	Name string
	// Sign is the signing key of catalog entries.
	Sign store.SigningKey
	// Recipients are the configured recipients that archives are encrypted for. It is empty if archives are not
	// encrypted.
	Recipients []string

	recipients []age.Recipient
	identities []age.Identity
	file       gateway.StoreFile
}

// Secrets are the existing Kubernetes Secrets of a BackupStore: its credentials and its keys. A missing Secret is nil.
type Secrets struct {
	redact.All

	Credentials, Key *corev1.Secret
}

// Open opens a BackupStore. It sends no request to the store. An error mentions the invalid setting.
func Open(s *v1.BackupStore, secrets Secrets) (*Store, error) {
	if s.Unreadable.Has("spec") { // In this case, the prefix and the recipients are unknown.
		return nil, fmt.Errorf("%s. To repair it: %s", s.Unreadable, s.Unreadable.Edit("backupstore "+s.Name))
	}
	if secrets.Key == nil {
		return nil, noSecret(s.Spec.KeySecretRef.Name)
	}
	out := &Store{Name: s.Name, Recipients: s.Spec.Recipients}
	out.file.Settings = store.Settings{
		Endpoint: s.Spec.Endpoint, Region: s.Spec.Region, Bucket: s.Spec.Bucket, Prefix: s.Spec.Prefix,
		PathStyle: s.Spec.PathStyle, CA: s.Spec.CABundle,
	}
	err := takeCredentials(&out.file.Settings, &s.Spec, secrets.Credentials)
	if err != nil {
		return nil, err
	}
	if out.Bucket, err = store.Open(out.file.Settings); err != nil {
		return nil, err
	}
	return out, out.takeKeys(secrets.Key)
}

// takeCredentials sets the credentials in the settings of a store.
func takeCredentials(out *store.Settings, spec *v1.BackupStoreSpec, secret *corev1.Secret) (err error) {
	ref, identity := spec.CredentialsSecretRef, spec.WorkloadIdentity
	switch {
	case (ref == nil) == (identity == nil):
		return errors.New("set exactly one of credentialsSecretRef and workloadIdentity")
	case identity != nil:
		out.WorkloadIdentity = &workload.Identity{RoleARN: identity.RoleARN, STSEndpoint: identity.STSEndpoint}
		return nil
	case secret == nil:
		return noSecret(ref.Name)
	}
	if out.AccessKey, err = valueOf(secret, v1.StoreAccessKey); err != nil {
		return err
	}
	out.SessionToken = strings.TrimSpace(string(secret.Data[v1.StoreSessionToken]))
	out.SecretKey, err = valueOf(secret, v1.StoreSecretKey)
	return err
}

func noSecret(name string) error {
	return fmt.Errorf("there is no Secret %q in the controller's namespace", name)
}

// AgeRecipients returns the recipients that objects are encrypted for. It is empty if they are not encrypted.
func (s *Store) AgeRecipients() []age.Recipient { return s.recipients }

func (s *Store) takeKeys(secret *corev1.Secret) error {
	signingKey, err := valueOf(secret, v1.StoreSigningKey)
	if err != nil {
		return err
	}
	if s.Sign, err = store.ParseSigningKey(signingKey); err != nil {
		return fmt.Errorf("key %q of Secret %q: %w", v1.StoreSigningKey, secret.Name, err)
	}
	if len(s.Recipients) > 0 {
		if s.recipients, err = age.ParseRecipients(strings.NewReader(strings.Join(s.Recipients, "\n"))); err != nil {
			return fmt.Errorf("the recipients cannot be used: %w", err)
		}
	}
	s.file.Identity = strings.TrimSpace(string(secret.Data[v1.StoreIdentity]))
	if s.file.Identity == "" {
		return nil
	}
	if s.identities, err = age.ParseIdentities(strings.NewReader(s.file.Identity)); err != nil {
		// The library's error is omitted, because it may contain a part of the identity.
		return fmt.Errorf("key %q of Secret %q is not an age identity", v1.StoreIdentity, secret.Name)
	}
	return nil
}

var errNoKey = errors.New("the key is missing or empty")

func valueOf(s *corev1.Secret, key string) (string, error) {
	v := strings.TrimSpace(string(s.Data[key]))
	if v == "" {
		return "", fmt.Errorf("key %q of Secret %q: %w", key, s.Name, errNoKey)
	}
	return v, nil
}
