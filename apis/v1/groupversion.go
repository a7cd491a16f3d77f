package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Group and version of every type in this package.
const (
	Group   = "otus.homework"
	Version = "v1"
)

// Kinds of this group.
const (
	// KindXMySQL is the composite resource that the function composes.
	KindXMySQL = "XMySQL"
	// KindMySQL is the claim that a developer writes.
	KindMySQL = "MySQL"
	// KindMySQLBackup is the record of a backup.
	KindMySQLBackup = "MySQLBackup"
	// KindSettings is the input of the function's pipeline step.
	KindSettings = "Settings"
)

// GroupVersion of every type in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}
