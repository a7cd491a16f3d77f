package rotate

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// These are the keys of the connection Secret. All of them are published to clients, so the Secret must contain
// nothing else.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyHost     = "host"
	keyEndpoint = "endpoint"
	keyPort     = "port"
	keyDatabase = "database"
	keyURI      = "uri"
	keyType     = "type"
	keyProvider = "provider"
	keyCA       = v1.CAKey
)

// These values describe the Secret to tools that bind applications to it (servicebinding.io, Well-known Secret
// Entries).
const (
	bindingType = "mysql"
	provider    = "crossplane-mysql"
)

// secretMeta returns the metadata of a Secret of the instance.
func (in Input) secretMeta(name string) metav1.ObjectMeta {
	out := secrets.Meta(in.Instance, in.Owner, in.Instance.Namespace, name)
	out.Annotations = map[string]string{}
	return out
}

// connectionData returns the data of the connection Secret for a password and a database.
func (in Input) connectionData(p sql.Password, database string) map[string][]byte {
	port := strconv.Itoa(int(in.Port))
	out := map[string][]byte{
		keyUsername: []byte(sql.Root),
		keyPassword: []byte(p),
		keyHost:     []byte(in.Host),
		keyEndpoint: []byte(in.Host),
		keyPort:     []byte(port),
		keyDatabase: []byte(database),
		keyType:     []byte(bindingType),
		keyProvider: []byte(provider),
		keyURI: []byte("mysql://" + sql.Root + ":" + escapeURL(string(p)) + "@" + net.JoinHostPort(in.Host, port) + "/" +
			escapeURL(database)),
	}
	if len(in.Authorities) > 0 {
		out[keyCA] = in.Authorities
	}
	return out
}

// escapeURL escapes all characters except letters, digits and -_.~. All clients then read a URI in the same way. For
// example, only some clients decode + as a space.
func escapeURL(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// connectionSecret returns a copy of the connection Secret with a new password, or a new Secret.
func (in Input) connectionSecret(old *corev1.Secret, p sql.Password, database string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: in.secretMeta(in.Instance.ConnectionSecretName()), Type: corev1.SecretTypeOpaque}
	if old != nil {
		s = old.DeepCopy()
		in.markOwned(s)
	}
	s.Data = in.connectionData(p, database)
	return s
}

// markOwned sets the labels and the owner of the Secret.
func (in Input) markOwned(s *corev1.Secret) {
	want := in.secretMeta(s.Name)
	s.Labels, s.Annotations = mergeMaps(s.Labels, want.Labels), mergeMaps(s.Annotations, nil)
	owned := func(o metav1.OwnerReference) bool { return o.UID == in.Owner.UID }
	if !slices.ContainsFunc(s.OwnerReferences, owned) {
		s.OwnerReferences = append(s.OwnerReferences, want.OwnerReferences...)
	}
}

func mergeMaps(target, from map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, target)
	maps.Copy(out, from)
	return out
}

// isUnpublished reports whether Crossplane's Secret still has a different password than the connection Secret.
// Clients of Crossplane's Secret then know only the old password.
func (in Input) isUnpublished(connection *corev1.Secret) bool {
	return in.Published != "" && in.Published != passwordOf(connection)
}

// isDescribed reports whether all fields except the password have the expected values.
func (in Input) isDescribed(s *corev1.Secret) bool {
	want := in.connectionSecret(s, sql.Password(s.Data[keyPassword]), in.Database)
	return equality.Semantic.DeepEqual(want.Data, s.Data) && equality.Semantic.DeepEqual(want.ObjectMeta, s.ObjectMeta)
}

// passwordOf returns the password in a Secret, which may be nil.
func passwordOf(s *corev1.Secret) sql.Password {
	if s == nil {
		return ""
	}
	return sql.Password(s.Data[keyPassword])
}

// timeOf returns the time in an annotation, or the zero time if the annotation is missing or cannot be read.
func timeOf(s *corev1.Secret, annotation string) time.Time {
	if s == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// GeneratePassword creates a password for an instance that specifies none. The password is created once, in its own
// Secret. GeneratePassword returns false while a Secret with that name has a different owner.
func (r *Rotator) GeneratePassword(ctx context.Context, in Input) (bool, error) {
	s, err := secrets.Own(ctx, r.Kube, in.Instance, in.Instance.GeneratedSecretName())
	if _, foreign := errors.AsType[*secrets.ForeignError](err); foreign {
		return false, nil
	}
	if err != nil || s != nil {
		return s != nil, err
	}
	s = &corev1.Secret{ObjectMeta: in.secretMeta(in.Instance.GeneratedSecretName()), Type: corev1.SecretTypeOpaque}
	s.Data = map[string][]byte{keyPassword: []byte(sql.NewPassword())}
	if err := r.Kube.Create(ctx, s); err != nil {
		return false, secrets.Failed(err, "create", s.Namespace, s.Name)
	}
	return true, nil
}

// deleteSecret deletes a Secret if it has not changed since it was read.
func deleteSecret(ctx context.Context, kube client.Client, s *corev1.Secret) error {
	if s == nil {
		return nil
	}
	err := kube.Delete(ctx, s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if err != nil && !kerrors.IsNotFound(err) {
		return secrets.Failed(err, "delete", s.Namespace, s.Name)
	}
	return nil
}
