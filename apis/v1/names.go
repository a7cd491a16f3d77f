package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A database outlives any release: what this file returns is frozen by a test.

// MaxNameLength is the length in bytes of the longest name that is derived from
// a claim's name: that of a Service, which is a DNS label.
const MaxNameLength = 63

// hashLength is the number of hexadecimal digits that keep cut names apart.
const hashLength = 10

// Names of the composed resources in a Composition's pipeline
// (crossplane.io/composition-resource-name).
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
	// ResourceSettingsCheck is the Job that validates new settings. It exists only for that time.
	ResourceSettingsCheck = "settings-check"
)

// Places and names inside the server's pod.
const (
	// Port of the server, and the name that the container and the Service give
	// it.
	Port          = 3306
	PortName      = "mysql"
	PortMongo     = 27017
	PortNameMongo = "mongo"
	// DataDirectory is the folder of the data volume that holds the database. It
	// is never the volume's root: that has lost+found on some file systems, and
	// a restore is renamed into place.
	DataDirectory = "data"
	// RestoreTestFolder in the root of the backup volume holds, in its DataDirectory,
	// the copy of a backup that a server is tried on. It is not worth keeping.
	RestoreTestFolder = ".crossplane-mysql-restore-test"
	// PasswordKey of the root password Secret.
	PasswordKey = "password"
	// InitializeKey of the root password Secret is there while a new database may
	// be made: until somebody has logged in to the server for the first time.
	InitializeKey = "initialize"
	// CAKey of the Secrets with the certificates of authorities, and of the connection Secret.
	CAKey = "ca.crt"
	// ConfigKey of the ConfigMap that holds my.cnf.
	ConfigKey = "my.cnf"
	// ServedConfigKey of the same ConfigMap holds the last my.cnf that has served, while that is another one.
	// mysqld reads only files whose names end in .cnf.
	ServedConfigKey = "my.cnf.served"
)

// isDatabase is true for a kind of the second API.
func isDatabase(kind string) bool { return kind == KindDatabase || kind == KindXDatabase }

// mark of the kind in the names of what holds data or passwords. Its dot cannot
// be in the name of a claim, which is that of a Service: no MySQL, whatever its
// name, has a volume or Secret in common with a Database.
func (i Instance) mark() string {
	if isDatabase(i.Kind) {
		return ".database"
	}
	return ""
}

// DeploymentName is the claim's own name, as a user expects it.
func (i Instance) DeploymentName() string { return derived("", i.Name, "") }

// ServiceName is the claim's own name, as a user expects it.
func (i Instance) ServiceName() string { return derived("", i.Name, "") }

// DataPVCName is the name of the PersistentVolumeClaim of the data volume.
func (i Instance) DataPVCName() string { return derived("", i.Name, i.mark()+"-pvc") }

// BackupPVCName is the name of the PersistentVolumeClaim of the backups.
func (i Instance) BackupPVCName() string { return derived("backup-", i.Name, i.mark()+"-pvc") }

// RootSecretName is the name of the Secret that the server reads at its first
// start.
func (i Instance) RootSecretName() string { return derived("", i.Name, i.mark()+"-root") }

// ConfigMapName is the name of the ConfigMap that holds my.cnf.
func (i Instance) ConfigMapName() string { return derived("", i.Name, i.mark()+"-config") }

// ConnectionSecretName is the name of the Secret that holds what the server
// accepts now.
func (i Instance) ConnectionSecretName() string { return derived("", i.Name, i.mark()+"-connection") }

// PendingSecretName is the name of the Secret that holds a password on its way
// into the server. It is not a key of the connection Secret, because all of that
// is published, and no annotation, because those are printed everywhere.
func (i Instance) PendingSecretName() string { return i.ConnectionSecretName() + "-pending" }

// GeneratedSecretName is the name of the Secret with the password that the controller
// makes for a Database that names none. No MySQL has one.
func (i Instance) GeneratedSecretName() string { return derived("", i.Name, ".database-password") }

// TLSSecretName is the name of the Secret with the certificate of the server, and its key.
func (i Instance) TLSSecretName() string { return derived("", i.Name, i.mark()+"-tls") }

// IsOwnSecret reports whether a Secret in the instance's namespace has a name that the instance uses for a Secret of its own, now or later.
func (i Instance) IsOwnSecret(name string) bool {
	a := i.Accesses()
	return slices.Contains([]string{
		i.RootSecretName(), i.ConnectionSecretName(), i.PendingSecretName(), i.TLSSecretName(),
		a.Backup(), a.Restore(), a.Clone(), a.RestoreTest(),
	}, name) || isDatabase(i.Kind) && name == i.GeneratedSecretName()
}

// AuthorityName is the name of the Secret with a certificate authority of this life of the instance, in the controller's
// namespace, by its number. The first is 1.
func (i Instance) AuthorityName(number int) string {
	return uniqueName(AuthorityPrefix, i, types.UID(fmt.Sprintf("%s/%d", i.XR, number)), "")
}

// IssuerCAName is the name of the Secret with the certificate authorities of an issuer that this life of the instance trusts, in the controller's
// namespace. There are two, 1 and 2: a new one is written before the old one is deleted.
func (i Instance) IssuerCAName(slot int) string { return i.AuthorityName(-slot) }

// CertificateRequestName is the name of what an issuer of cert-manager is asked with for a certificate of this life's server, in
// the controller's namespace.
func (i Instance) CertificateRequestName() string { return uniqueName("server-", i, i.XR, "") }

// AuthorityPrefix begins the name of each authority's Secret.
const AuthorityPrefix = "authority-"

// AccessNames are those of the Secrets by which the Jobs of an instance get at a store. A policy knows them by their ends.
//
// +kubebuilder:object:generate=false
type AccessNames struct{ of Instance }

// Accesses to a store.
func (i Instance) Accesses() AccessNames { return AccessNames{i} }

// Backup is that of the Job that backs up.
func (n AccessNames) Backup() string { return accessName(n.of, "backup") }

// Rescue is that of the Job that backs up a life which lost its XR or its namespace. It differs for each life and in each namespace.
func (n AccessNames) Rescue() string { return uniqueName("", n.of, n.of.XR, "-backup-access") }

// Restore is that of the Job that restores.
func (n AccessNames) Restore() string { return accessName(n.of, "restore") }

// Clone is that of the Job that clones a server which runs: the way there, and no way to a store.
func (n AccessNames) Clone() string { return accessName(n.of, "clone") }

// RestoreTest is that of the Job that starts a server from a backup.
func (n AccessNames) RestoreTest() string { return accessName(n.of, "restoretest") }

// JobPolicyName is the name of the NetworkPolicy of the Jobs.
func (i Instance) JobPolicyName() string { return derived("", i.Name, i.mark()+"-jobs") }

// ServerPolicyName is the name of the NetworkPolicy of the server.
func (i Instance) ServerPolicyName() string { return derived("", i.Name, i.mark()+"-server") }

// JobNames are those of the Jobs of an instance.
//
// +kubebuilder:object:generate=false
type JobNames struct{ of Instance }

// Jobs of the instance.
func (i Instance) Jobs() JobNames { return JobNames{i} }

// Restore is the Job that restores.
func (n JobNames) Restore() string { return jobName(n.of, "restore") }

// Backup is the Job that backs up.
func (n JobNames) Backup() string { return jobName(n.of, "backup") }

// Wipe is the Job that empties a hostPath folder.
func (n JobNames) Wipe() string { return jobName(n.of, "wipe") }

// Prune is the Job that removes backups that are too many.
func (n JobNames) Prune() string { return jobName(n.of, "prune") }

// RestoreTest is the Job that starts a server from a backup.
func (n JobNames) RestoreTest() string { return jobName(n.of, "restoretest") }

// ImageChange is the Job that backs up before an image of another series starts. No deletion takes it for its own.
func (n JobNames) ImageChange() string { return jobName(n.of, "imagechange") }

// Request is the Job that backs up because the claim asks for it. No deletion takes it for its own, either.
func (n JobNames) Request() string { return jobName(n.of, "request") }

// SettingsCheck is the Job that validates new settings before a running server gets them.
func (n JobNames) SettingsCheck() string { return jobName(n.of, "settings") }

// EraseJobName is the name of the Job that removes the archive of a record.
func EraseJobName(record string) string { return derived("erase-", record, "") }

// RecordName is the name of the MySQLBackup that is taken at the end of this life of the
// instance, of its password Secret, and of its folder on the backup volume. There is one
// of it, so that whoever comes back after a crash finds it.
func (i Instance) RecordName() string {
	return uniqueName("", i, i.XR, "")
}

// RecordNameInLife is that of a backup that is taken while the life goes on, by its number.
func (i Instance) RecordNameInLife(number int64) string {
	return uniqueName("", i, types.UID(fmt.Sprintf("%s/%d", i.XR, number)), "")
}

// RescueNamespace is where data is backed up whose own namespace is going, or
// gone. It is part of the controller's installation, and nobody else's.
const RescueNamespace = "crossplane-mysql-rescue"

// RescueName is the name of what is made to back up a life of the instance that
// lost its XR or its namespace. It differs for each life and in each namespace.
func (i Instance) RescueName(component string) string {
	return uniqueName(component+"-", i, i.XR, "")
}

// StoreFolder of a backup in a store. It is of UIDs: a later namespace, or instance, of the
// same name has another, and nothing is in its way.
func StoreFolder(i BackedUpInstance, record string) string {
	return path.Join(StoreLayout, string(i.NamespaceUID), string(i.XR), record)
}

// StoreLayout of the objects in a store; a later one has another name.
const StoreLayout = "v1"

// BackupPVName is the name of the hostPath PersistentVolume of the backups,
// and of its folder. All lives of an instance share it, but not those in a later
// namespace of the same name.
func (i Instance) BackupPVName(namespace types.UID) string {
	return uniqueName("backup-", i, namespace, "")
}

// uniqueName says in a cluster-scoped name whose it is: namespace and name for people, and a
// hash of them, of the kind, and of a UID of the instance.
func uniqueName(prefix string, i Instance, of types.UID, suffix string) string {
	return derived(prefix, i.Namespace+"-"+strings.ReplaceAll(i.Name, ".", "-"), "-"+hash(string(of), i.Kind, i.Namespace, i.Name)+suffix)
}

// DataPVName is the name of the hostPath PersistentVolume, and of its
// folder. It differs for each life of an instance, so that nothing of an earlier
// one is in the way.
func (i Instance) DataPVName() string {
	prefix := "mysql-"
	if isDatabase(i.Kind) {
		prefix = "database-"
	}
	return uniqueName(prefix, i, i.XR, "")
}

// AppLabel is the value of the label app.
func (i Instance) AppLabel() string { return derived("", i.Name, "") }

// Host is the server's name in the cluster's DNS, valid in every namespace.
func (i Instance) Host() string { return fmt.Sprintf("%s.%s.svc", i.ServiceName(), i.Namespace) }

func jobName(of Instance, component string) string {
	return derived(component+"-", of.Name, of.mark()+"-job")
}

func accessName(of Instance, component string) string {
	return derived("", of.Name, of.mark()+"-"+component+"-access")
}

// derived is prefix+name+suffix, with the name cut and hashed where the whole
// would be too long.
func derived(prefix, name, suffix string) string {
	if whole := prefix + name + suffix; len(whole) <= MaxNameLength {
		return whole
	}
	room := MaxNameLength - len(prefix) - len(suffix) - hashLength - 1
	return prefix + strings.TrimRight(name[:room], "-.") + "-" + hash(name) + suffix
}

// hash of the parts, which are kept apart by a byte that no name has.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:hashLength]
}
