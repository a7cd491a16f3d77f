package v1

import (
	"cmp"
	"net"
	"path"
	"strconv"
)

// An Import names an existing database that a new instance starts with. Exactly one of volume, server and dump is set.
// An import is applied once, as the restore sources of RestoreSpec are. It is all or nothing: the server does not start
// before every row is imported.
//
// +kubebuilder:validation:XValidation:rule="[has(self.volume), has(self.server), has(self.dump)].exists_one(x, x)",message="set exactly one of volume, server and dump"
type Import struct {
	// Volume that contains the data directory of a stopped server. It is read, and not changed.
	//
	// +optional
	Volume *ImportedVolume `json:"volume,omitempty"`

	// Server that is running and is cloned. It must run MySQL 8.0.17 or newer, with InnoDB tables only. The version of
	// spec.image must be exactly the same, or, from 8.0.37 on, of the same release series. The platform policy lists
	// the servers that claims may name.
	//
	// +optional
	Server *ImportedServer `json:"server,omitempty"`

	// Dump of SQL statements in a BackupStore, such as the output of mysqldump.
	//
	// +optional
	Dump *ImportedDump `json:"dump,omitempty"`
}

// An ImportedVolume contains the data directory of a stopped server.
type ImportedVolume struct {
	// PVCRef names a PersistentVolumeClaim in the claim's namespace.
	PVCRef LocalReference `json:"pvcRef"`

	// Directory in the volume that contains the data directory's files, such as data for the volume of a Bitnami chart or
	// of moco. It is a path below the root of the volume, without symbolic links and without names that begin with a dot.
	// If unset, the root of the volume is used. If the root is not a data directory, the message names the directories
	// that are.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^/.][^/]*(/[^/.][^/]*)*$`
	Directory string `json:"directory,omitempty"`
}

// An ImportedServer is a running MySQL server.
type ImportedServer struct {
	// Host of the server: a DNS name or an IPv4 address that pods in the claim's namespace can reach.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`
	Host string `json:"host"`

	// Port of the server. The default is 3306.
	//
	// +optional
	// +kubebuilder:default=3306
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// SecretRef names a Secret in the claim's namespace. Its keys username and password are an account with the
	// privilege BACKUP_ADMIN. Its key ca.crt contains the CA certificate that verifies the server's certificate.
	SecretRef LocalReference `json:"secretRef"`
}

// An ImportedDump is an object in a BackupStore.
type ImportedDump struct {
	// StoreRef names the BackupStore. The platform policy must allow it.
	StoreRef BackupStoreReference `json:"storeRef"`

	// Name of the object, without its prefix imports/NAMESPACE/, which contains the claim's namespace. It ends in .sql,
	// .sql.gz or .sql.zst.
	//
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.sql(\.gz|\.zst)?$`
	Name string `json:"name"`

	// SHA256 sum of the object, in hexadecimal. If unset, the dump must end with the line that mysqldump writes when it
	// has completed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// A LocalReference names an object in the same namespace.
type LocalReference struct {
	// Name of the object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DefaultPort is the port of a server if none is set.
const DefaultPort int32 = 3306

// importsDir is the prefix in a store for the dumps that claims may import. The platform team stores the dumps
// there.
const importsDir = "imports"

// Object returns the name of the dump in the store for a claim in the given namespace.
func (d *ImportedDump) Object(namespace string) string {
	return path.Join(importsDir, namespace, d.Name)
}

// Address returns the host and the port of the server to import from.
func (s *ImportedServer) Address() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(int(s.ServerPort())))
}

// ServerPort returns the port of the server to import from, or DefaultPort.
func (s *ImportedServer) ServerPort() int32 { return cmp.Or(s.Port, DefaultPort) }

// String returns the import as one word: volume/, server/ or dump/, followed by the source. The controller uses it to
// recognize an import that is already done.
func (i *Import) String() string {
	switch {
	case i.Volume != nil:
		return path.Join("volume", i.Volume.PVCRef.Name, i.Volume.Directory)
	case i.Server != nil:
		return "server/" + i.Server.Address()
	case i.Dump != nil:
		return path.Join("dump", i.Dump.StoreRef.Name, i.Dump.Name)
	}
	return ""
}
