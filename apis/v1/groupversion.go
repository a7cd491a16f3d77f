package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Groups and versions of the types in this package.
const (
	// Group is this product's own API group. It contains the MySQL without claims and all kinds that are not claims or
	// composite resources of claims. Labels, annotations and finalizers use it as their prefix. The domain does not
	// resolve.
	Group   = "crossplane-mysql.io"
	Version = "v1alpha1"

	// GroupClaims and GroupDatabase are the API groups of the original operators whose claims are served.
	GroupClaims   = "otus.homework"
	GroupDatabase = "zalando.org"
	VersionClaims = "v1"
)

// Kinds of these groups.
const (
	// KindXMySQL is the composite resource that the function composes.
	KindXMySQL = "XMySQL"
	// KindMySQL is the object that a developer creates: a claim or, in the API without claims, a composite resource.
	KindMySQL = "MySQL"
	// KindXDatabase and KindDatabase are the composite resource and the claim of the Database API.
	KindXDatabase = "XDatabase"
	KindDatabase  = "Database"
	// KindBackup is the namespaced object through which users request and inspect a backup.
	KindBackup = "Backup"
	// KindBackupRecord is the cluster-scoped object with which the controller records a backup. Users of a namespace
	// cannot write it.
	KindBackupRecord = "BackupRecord"
	// KindPlatform is the platform policy for claims.
	KindPlatform = "Platform"
	// KindBackupStore is a bucket that contains backups.
	KindBackupStore = "BackupStore"
	// KindSettings is the input of the function's pipeline step.
	KindSettings = "Settings"
)

// Groups with their version.
var (
	GroupVersion         = schema.GroupVersion{Group: Group, Version: Version}
	GroupVersionClaims   = schema.GroupVersion{Group: GroupClaims, Version: VersionClaims}
	GroupVersionDatabase = schema.GroupVersion{Group: GroupDatabase, Version: VersionClaims}
)
