package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Instances outlive releases, so the names in this file must never change. A test checks this.

// MaxNameLength is the maximum length of a name that is derived from the name of a claim, in bytes. It is the limit for
// the name of a Service, which is a DNS label.
const MaxNameLength = 63

// hashLength is the number of hexadecimal digits that distinguish truncated names.
const hashLength = 10

// Names of the composed resources, which Crossplane stores in the annotation crossplane.io/composition-resource-name.
const (
	ResourceDataPV       = "data-volume"
	ResourceDataPVC      = "data-claim"
	ResourceRootPassword = "root-password"
	ResourceConfig       = "config"
	ResourceDeployment   = "deployment"
	ResourceService      = "service"
	ResourceRestore      = "restore"
	ResourceJobPolicy    = "job-network"
	ResourceServerPolicy = "server-network"
	// ResourceSettingsCheck is the Job that validates new settings. It exists only until the validation ends.
	ResourceSettingsCheck = "settings-check"
)

// Names and paths inside the server's pod.
const (
	// Port is the port of a MySQL server, and PortName is the name of this port in the container and in the Service.
	Port     = 3306
	PortName = "mysql"
	// MetricsPort is the port of the server's metrics, and MetricsPortName is its name in the container.
	MetricsPort     = 9104
	MetricsPortName = "metrics"
	PortMongo       = 27017
	PortNameMongo   = "mongo"
	// DataDirectory is the directory of the data volume that contains the database. It is never the root of the volume,
	// because some file systems create lost+found there. In addition, a restore prepares the data in another directory
	// and then renames it to DataDirectory.
	DataDirectory = "data"
	// RestoreTestDir is a directory in the root of the backup volume. Its DataDirectory contains the copy of a
	// backup during a restore test. It can be deleted at any time.
	RestoreTestDir = ".crossplane-mysql-restore-test"
	// PasswordKey is the key of the password in the root password Secret.
	PasswordKey = "password"
	// InitializeKey is a key of the root password Secret. It exists as long as a new database may be initialized: until
	// the controller's first login to the server.
	InitializeKey = "initialize"
	// MetricsKey is the key of the my.cnf in the Secret with the account of the exporter.
	MetricsKey = "my.cnf"
	// CAKey is the key of CA certificates, in the Secrets of certificate authorities and in the connection Secret.
	CAKey = "ca.crt"
	// ConfigKey is the key of my.cnf in the ConfigMap.
	ConfigKey = "my.cnf"
	// ServedConfigKey is the key of the last my.cnf with which the server accepted clients, if it differs from the
	// current one. mysqld reads only files whose names end in .cnf.
	ServedConfigKey = "my.cnf.served"
)

// isDatabase reports whether a kind belongs to the Database API.
func isDatabase(kind string) bool { return kind == KindDatabase || kind == KindXDatabase }

// mark returns a suffix for the names of an instance's volumes, Jobs and Secrets. It depends on the kind, so that
// instances of different kinds never share an object. No claim name can contain the dot in the suffix, because a
// Service has the same name as its claim.
func (i Instance) mark() string {
	switch {
	case isDatabase(i.Kind):
		return ".database"
	case i.IsNamespaced():
		return ".mysql"
	}
	return ""
}

// IsNamespaced reports whether the instance is of an API without claims, with its composite resource in its own
// namespace.
func (i Instance) IsNamespaced() bool {
	a, ok := APIOfInstances(i.Kind)
	return ok && !a.HasClaims()
}

// DeploymentName returns the name of the Deployment. It is the name of the claim, as users expect it.
func (i Instance) DeploymentName() string { return derived("", i.Name, "") }

// ServiceName returns the name of the Service. It is the name of the claim, as users expect it.
func (i Instance) ServiceName() string { return derived("", i.Name, "") }

// DataPVCName returns the name of the PersistentVolumeClaim of the data volume.
func (i Instance) DataPVCName() string {
	return derived("", i.Name, i.mark()+"-pvc")
}

// BackupPVCName returns the name of the PersistentVolumeClaim of the backups.
func (i Instance) BackupPVCName() string {
	return derived("backup-", i.Name, i.mark()+"-pvc")
}

// RootSecretName returns the name of the Secret that the server reads at its first start.
func (i Instance) RootSecretName() string { return derived("", i.Name, i.mark()+"-root") }

// ConfigMapName returns the name of the ConfigMap that contains my.cnf.
func (i Instance) ConfigMapName() string { return derived("", i.Name, i.mark()+"-config") }

// ConnectionSecretName returns the name of the Secret with the credentials that the server accepts now. It is the same
// for a MySQL with and without a claim, because clients mount this Secret.
func (i Instance) ConnectionSecretName() string {
	if i.IsNamespaced() {
		return derived("", i.Name, "-connection")
	}
	return derived("", i.Name, i.mark()+"-connection")
}

// PendingSecretName returns the name of the Secret that contains a new password until the server accepts it. The new
// password is not in the connection Secret, because Crossplane publishes all keys of that Secret. It is not in an
// annotation, because many tools print annotations.
func (i Instance) PendingSecretName() string { return i.ConnectionSecretName() + "-pending" }

// GeneratedSecretName returns the name of the Secret with the password that the controller generates if the spec
// contains none. A MySQL with a claim has no such Secret.
func (i Instance) GeneratedSecretName() string { return derived("", i.Name, i.mark()+"-password") }

// mayGeneratePassword reports whether the spec of the instance may omit the password.
func (i Instance) mayGeneratePassword() bool { return isDatabase(i.Kind) || i.IsNamespaced() }

// TLSSecretName returns the name of the Secret with the server's certificate and its key.
func (i Instance) TLSSecretName() string { return derived("", i.Name, i.mark()+"-tls") }

// MetricsSecretName returns the name of the Secret with the account of the exporter.
func (i Instance) MetricsSecretName() string { return derived("", i.Name, i.mark()+"-metrics") }

// IsOwnSecret reports whether the instance uses, or may later use, a Secret with the given name in its namespace.
func (i Instance) IsOwnSecret(name string) bool {
	a := i.Accesses()
	return slices.Contains([]string{
		i.RootSecretName(), i.ConnectionSecretName(), i.PendingSecretName(), i.TLSSecretName(), i.MetricsSecretName(),
		a.Backup(), a.Restore(), a.Clone(), a.RestoreTest(),
	}, name) || i.mayGeneratePassword() && name == i.GeneratedSecretName()
}

// AuthorityName returns the name of the Secret with a certificate authority of this instance, in the controller's
// namespace. Certificate authorities are numbered from 1.
func (i Instance) AuthorityName(number int) string {
	return uniqueName(AuthorityPrefix, i, types.UID(fmt.Sprintf("%s/%d", i.XR, number)), "")
}

// IssuerCAName returns the name of a Secret with the CA certificates of an issuer that this instance trusts. The Secret
// is in the controller's namespace. There are two slots, 1 and 2, so that a new Secret is written before the old one is
// deleted.
func (i Instance) IssuerCAName(slot int) string { return i.AuthorityName(-slot) }

// CertificateRequestName returns the name of the CertificateRequest of cert-manager for the certificate of this
// instance's server. It is in the controller's namespace.
func (i Instance) CertificateRequestName() string { return uniqueName("server-", i, i.XR, "") }

// AuthorityPrefix is the prefix of the names of the certificate authorities' Secrets.
const AuthorityPrefix = "authority-"

// AccessNames returns the names of the Secrets with which the Jobs of an instance access a store. An admission policy
// recognizes these Secrets by the suffixes of their names.
//
// +kubebuilder:object:generate=false
type AccessNames struct{ instance Instance }

// Accesses returns the names of the Secrets that give the Jobs of the instance access to a store.
func (i Instance) Accesses() AccessNames { return AccessNames{i} }

// Backup returns the name of the Secret of the backup Job.
func (n AccessNames) Backup() string { return accessName(n.instance, "backup") }

// Recovery returns the name of the Secret of the recovery Job, which backs up an instance that lost its composite
// resource or its namespace. The name is different for each instance and namespace.
func (n AccessNames) Recovery() string {
	return uniqueName("", n.instance, n.instance.XR, "-backup-access")
}

// Restore returns the name of the Secret of the restore Job.
func (n AccessNames) Restore() string { return accessName(n.instance, "restore") }

// Clone returns the name of the Secret of the Job that clones a running server. It gives access to that server only,
// not to a store.
func (n AccessNames) Clone() string { return accessName(n.instance, "clone") }

// RestoreTest returns the name of the Secret of the restore test.
func (n AccessNames) RestoreTest() string { return accessName(n.instance, "restoretest") }

// JobPolicyName returns the name of the NetworkPolicy of the Jobs.
func (i Instance) JobPolicyName() string { return derived("", i.Name, i.mark()+"-jobs") }

// ServerPolicyName returns the name of the NetworkPolicy of the server.
func (i Instance) ServerPolicyName() string { return derived("", i.Name, i.mark()+"-server") }

// JobNames returns the names of the Jobs of an instance.
//
// +kubebuilder:object:generate=false
type JobNames struct{ instance Instance }

// Jobs returns the names of the Jobs of the instance.
func (i Instance) Jobs() JobNames { return JobNames{i} }

// Restore returns the name of the restore Job.
func (n JobNames) Restore() string { return jobName(n.instance, "restore") }

// Backup returns the name of the Job of the final backup.
func (n JobNames) Backup() string { return jobName(n.instance, "backup") }

// Wipe returns the name of the Job that empties a hostPath directory.
func (n JobNames) Wipe() string { return jobName(n.instance, "wipe") }

// Prune returns the name of the Job that deletes backups that exceed the retention.
func (n JobNames) Prune() string { return jobName(n.instance, "prune") }

// RestoreTest returns the name of the Job of a restore test.
func (n JobNames) RestoreTest() string { return jobName(n.instance, "restoretest") }

// ImageChange returns the name of the Job that takes the backup before a version upgrade. A deletion uses a different
// name (Backup), so it never reuses this Job for the final backup.
func (n JobNames) ImageChange() string { return jobName(n.instance, "imagechange") }

// Request returns the name of the Job that takes an on-demand or scheduled backup. A deletion uses a different name
// (Backup), so it never reuses this Job for the final backup.
func (n JobNames) Request() string { return jobName(n.instance, "request") }

// SettingsCheck returns the name of the Job that validates new settings before they are applied to a running server.
func (n JobNames) SettingsCheck() string { return jobName(n.instance, "settings") }

// RemovalJobName returns the name of the Job that deletes the archive of a BackupRecord.
func RemovalJobName(record string) string { return derived("erase-", record, "") }

// RecordName returns the name of the BackupRecord of this instance's final backup. The backup's password Secret and
// its directory on the backup volume have the same name. The name is fixed, so that the controller finds these
// objects after a crash.
func (i Instance) RecordName() string {
	return uniqueName("", i, i.XR, "")
}

// NumberedRecordName returns the name of the BackupRecord of a backup that is taken before the deletion of the
// instance. number is the number of the backup.
func (i Instance) NumberedRecordName(number int64) string {
	return uniqueName("", i, types.UID(fmt.Sprintf("%s/%d", i.XR, number)), "")
}

// RecoveryNamespace is the namespace for the recovery of data whose own namespace is deleted or being deleted. It belongs
// to the controller's installation.
const RecoveryNamespace = "crossplane-mysql-recovery"

// RecoveryName returns the name of an object for the recovery of an instance that lost its composite resource or its
// namespace. The name is different for each instance and namespace.
func (i Instance) RecoveryName(component string) string {
	return uniqueName(component+"-", i, i.XR, "")
}

// StorePrefix returns the prefix of a backup in a store. It contains UIDs, so that a later namespace or instance of the
// same name has a different prefix.
func StorePrefix(i BackedUpInstance, record string) string {
	return path.Join(StoreLayout, string(i.NamespaceUID), string(i.XR), record)
}

// StoreLogPrefix returns the prefix of the archived binary log of an instance in a store. It is not below the prefix of
// the instance's backups, so that a list of the backups does not contain the many objects of a log.
func StoreLogPrefix(i BackedUpInstance) string {
	return path.Join(StoreLayout+"-log", string(i.NamespaceUID), string(i.XR))
}

// timelinePattern matches the name of a timeline: a sequence of segments of the archived binary log without a gap.
var timelinePattern = regexp.MustCompile(`^\d{14}-[a-z0-9]{10}$`)

// LogPrefix returns the prefix of the archived binary log that continues a backup, or "" if the backup is not in a
// store. It is derived from the name of the archive, because an imported backup has another namespace UID than the
// cluster that wrote the log.
func (b *BackupRecord) LogPrefix() string {
	if !b.InStore() {
		return ""
	}
	parts := strings.Split(b.Spec.Archive.Path, "/")
	if len(parts) != storeDepth || parts[0] != StoreLayout {
		return ""
	}
	return path.Join(StoreLayout+"-log", parts[1], parts[2])
}

// storeDepth is the number of elements in the name of an archive in a store: layout, namespace UID, composite resource
// UID, BackupRecord and file.
const storeDepth = 5

// IsLogOf reports whether a recovery applies the binary log that continues a backup, or none. Users of the instance's
// namespace may have written it.
func IsLogOf(r *Recovery, b *BackupRecord) bool {
	return r == nil || b.LogPrefix() != "" && path.Dir(r.Timeline) == b.LogPrefix() &&
		timelinePattern.MatchString(path.Base(r.Timeline))
}

// StoreLayout is the version of the layout of objects in a store. Their names begin with it.
const StoreLayout = "v1"

// BackupPVName returns the name of the hostPath PersistentVolume of the backups, and of its directory. All instances
// of a claim name share it, unless the namespace was deleted and created again.
func (i Instance) BackupPVName(namespace types.UID) string {
	return uniqueName("backup-", i, namespace, "")
}

// uniqueName returns a name that is unique in the cluster. It contains the namespace and the name of the instance,
// which users can read. It also contains a hash of the namespace, the name, the kind and the given UID.
func uniqueName(prefix string, i Instance, uid types.UID, suffix string) string {
	return derived(prefix, i.Namespace+"-"+strings.ReplaceAll(i.Name, ".", "-"),
		"-"+hash(string(uid), i.Kind, i.Namespace, i.Name)+suffix)
}

// DataPVName returns the name of the hostPath PersistentVolume of the data, and of its directory. It is different for
// each instance, so that it never conflicts with a previous instance.
func (i Instance) DataPVName() string {
	prefix := "mysql-"
	if isDatabase(i.Kind) {
		prefix = "database-"
	}
	return uniqueName(prefix, i, i.XR, "")
}

// AppLabel returns the value of the label app.
func (i Instance) AppLabel() string { return derived("", i.Name, "") }

// Host returns the DNS name of the server in the cluster. It is valid in every namespace.
func (i Instance) Host() string { return fmt.Sprintf("%s.%s.svc", i.ServiceName(), i.Namespace) }

func jobName(instance Instance, component string) string {
	return derived(component+"-", instance.Name, instance.mark()+"-job")
}

func accessName(instance Instance, component string) string {
	return derived("", instance.Name, instance.mark()+"-"+component+"-access")
}

// derived returns prefix+name+suffix. If the result would be too long, the name is truncated and a hash is added.
func derived(prefix, name, suffix string) string {
	if whole := prefix + name + suffix; len(whole) <= MaxNameLength {
		return whole
	}
	room := MaxNameLength - len(prefix) - len(suffix) - hashLength - 1
	return prefix + strings.TrimRight(name[:room], "-.") + "-" + hash(name) + suffix
}

// hash returns a hash of the parts. It separates them with a byte that no name contains.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:hashLength]
}
