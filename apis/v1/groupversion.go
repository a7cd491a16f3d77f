package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Groups and version of the types in this package. The Database has the group of
// the operator that it comes from; all others, and all labels and annotations,
// have ours.
const (
	Group         = "otus.homework"
	GroupDatabase = "zalando.org"
	Version       = "v1"
)

// Kinds of these groups.
const (
	// KindXMySQL is the composite resource that the function composes.
	KindXMySQL = "XMySQL"
	// KindMySQL is the claim that a developer writes.
	KindMySQL = "MySQL"
	// KindXDatabase and KindDatabase are composite resource and claim of the
	// second API.
	KindXDatabase = "XDatabase"
	KindDatabase  = "Database"
	// KindMySQLBackup is the record of a backup.
	KindMySQLBackup = "MySQLBackup"
	// KindMySQLPlatform is what the platform lets claims ask for.
	KindMySQLPlatform = "MySQLPlatform"
	// KindBackupStore is a bucket that backups go to.
	KindBackupStore = "BackupStore"
	// KindSettings is the input of the function's pipeline step.
	KindSettings = "Settings"
)

// Groups with their version.
var (
	GroupVersion         = schema.GroupVersion{Group: Group, Version: Version}
	GroupVersionDatabase = schema.GroupVersion{Group: GroupDatabase, Version: Version}
)
