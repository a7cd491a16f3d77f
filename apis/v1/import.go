package v1

import (
	"cmp"
	"net"
	"path"
	"strconv"
)

// An Import names a database of somewhere else that a new instance starts from: one of a
// volume, a server and a dump. It counts once, as a choice of RestoreSpec does, and is all
// or nothing: the server starts when every row is there.
//
// +kubebuilder:validation:XValidation:rule="[has(self.volume), has(self.server), has(self.dump)].exists_one(x, x)",message="set exactly one of volume, server and dump"
type Import struct {
	// Volume with the data directory of a server that has stopped. It is read, and stays
	// as it is.
	//
	// +optional
	Volume *ImportedVolume `json:"volume,omitempty"`

	// Server that runs, and is cloned (MySQL from 8.0.17 on, tables of InnoDB only, and
	// spec.image of its very version, or from 8.0.37 on of its series). The platform says which servers
	// claims may name.
	//
	// +optional
	Server *ImportedServer `json:"server,omitempty"`

	// Dump of SQL statements in a BackupStore, such as mysqldump writes it.
	//
	// +optional
	Dump *ImportedDump `json:"dump,omitempty"`
}

// An ImportedVolume has the data directory of a server that has stopped.
type ImportedVolume struct {
	// PVCName is the name of a PersistentVolumeClaim in the claim's namespace.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PVCName string `json:"pvcName"`

	// Directory in the volume that has the files, such as data or lib/mysql. Unset is its root.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^/.][^/]*(/[^/.][^/]*)*$`
	Directory string `json:"directory,omitempty"`
}

// An ImportedServer is one that runs.
type ImportedServer struct {
	// Host of the server: a name or an IPv4 address, as the pods of the claim's namespace reach it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`
	Host string `json:"host"`

	// Port of the server. Default 3306.
	//
	// +optional
	// +kubebuilder:default=3306
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// SecretName is the name of a Secret in the claim's namespace: username and password of an
	// account with BACKUP_ADMIN, and ca.crt, who has signed the server's certificate.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// An ImportedDump is an object in a BackupStore.
type ImportedDump struct {
	// Store is the name of the BackupStore, among those that the platform allows.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Store string `json:"store"`

	// Name of the object below imports/ and the name of the claim's namespace. It ends in .sql, .sql.gz or .sql.zst.
	//
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.sql(\.gz|\.zst)?$`
	Name string `json:"name"`

	// SHA256 sum of the object, in hexadecimal. Without it the dump has to end with the line by
	// which mysqldump says that it has written all.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// DefaultPort of a server.
const DefaultPort int32 = 3306

// importsFolder in a store is where the platform team puts what claims may import.
const importsFolder = "imports"

// Object in the store that is a claim's to import.
func (d *ImportedDump) Object(namespace string) string {
	return path.Join(importsFolder, namespace, d.Name)
}

// Address of the server.
func (s *ImportedServer) Address() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(int(s.ServerPort())))
}

// ServerPort is Port, or the default.
func (s *ImportedServer) ServerPort() int32 { return cmp.Or(s.Port, DefaultPort) }

// String is an import in one word, by which it is known whether it was done: volume/, server/ or dump/ and what is imported.
func (i *Import) String() string {
	switch {
	case i.Volume != nil:
		return path.Join("volume", i.Volume.PVCName, i.Volume.Directory)
	case i.Server != nil:
		return "server/" + i.Server.Address()
	case i.Dump != nil:
		return path.Join("dump", i.Dump.Store, i.Dump.Name)
	}
	return ""
}
