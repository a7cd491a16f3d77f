package compose

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An engine is a kind of database server, with the requirements of its official image and the features that the
// product supports.
type engine struct {
	// name is the name of the server's container.
	name string
	// example is an image of the engine, which error messages name as an example.
	example string
	// port is the port of the server, and portName is the name of the port.
	port     int32
	portName string
	// data is the path at which the server's container stores the data.
	data string
	// config is the directory of my.cnf, or "" for a server without it.
	config string
	// scratch lists the other directories that the server and the image's entrypoint write to. The rest of the image is
	// read-only.
	scratch []scratchDir
	// stored is true if the engine supports a volume. This requires that restores of its backups are tested.
	stored bool
	// password is true if the server requires a password. The controller then sets the password, and reads the version
	// of the server.
	password bool
}

// A scratchDir is a writable directory of the server's container. name is its directory in the scratch volume, and path
// is its mount path.
type scratchDir struct{ name, path string }

var engines = map[v1.DatabaseType]engine{
	v1.TypeMySQL: {
		name: "mysql", example: v1.DefaultImage, port: v1.Port, portName: v1.PortName,
		data: "/var/lib/mysql", config: "/etc/mysql/conf.d", stored: true, password: true,
		scratch: []scratchDir{{"tmp", "/tmp"}, {"run", agent.SocketDir}, {"files", "/var/lib/mysql-files"}},
	},
	v1.TypeMongo: {
		name: "mongo", example: v1.DefaultMongoImage, port: v1.PortMongo, portName: v1.PortNameMongo,
		data:    "/data/db",
		scratch: []scratchDir{{"tmp", "/tmp"}, {"configdb", "/data/configdb"}},
	},
}

// engineOf returns the engine of an Input. A missing or wrong type is treated as MySQL until it is refused later.
func engineOf(in Input) engine {
	if e, ok := engines[in.Type]; ok && isDatabase(in.XR) {
		return e
	}
	return engines[v1.TypeMySQL]
}

func isDatabase(xr *v1.XMySQL) bool { return xr.Kind == v1.KindXDatabase }

// checkType checks the type of a Database, which only the Database API has, and the fields that are not supported for
// this type. For a MySQL, it checks the database name.
func checkType(r *resolved, spec *field.Path) field.ErrorList {
	path := spec.Child("type")
	_, known := engines[r.Type]
	switch {
	case !r.database:
		return checkDatabase(spec.Child("database"), r.spec.Database)
	case r.Type == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("set it to one of %q", v1.DatabaseTypes()))}
	case !known:
		return field.ErrorList{field.NotSupported(path, v1.DatabaseType(clipText(string(r.Type))), v1.DatabaseTypes())}
	case !r.engine.password && r.spec.PasswordSecretRef != nil:
		return field.ErrorList{field.Forbidden(spec.Child("passwordSecretRef"),
			fmt.Sprintf("a server of type %s has no password. Remove it", r.Type))}
	case !r.engine.password && r.spec.HasMetrics():
		return field.ErrorList{field.Forbidden(spec.Child("metrics", "enabled"),
			fmt.Sprintf("is supported only for type %s. Remove it", v1.TypeMySQL))}
	case !r.engine.stored && !r.ephemeral:
		return field.ErrorList{field.Forbidden(spec.Child("storageSize"), whyNotStored(r))}
	}
	return nil
}

// whyNotStored explains why an engine cannot have a volume, and what to do. An instance that got a volume from an
// earlier release keeps it, and its data is archived when the instance is deleted.
func whyNotStored(r *resolved) string {
	reason := fmt.Sprintf("is supported only for type %s, because restoring a mongod backup is untested", v1.TypeMySQL)
	if r.XR.Status.Volume != "" || r.Observed.DataPVC != nil {
		return reason + ". This Database already has a volume, which stays unchanged. Copy the data to another place. " +
			"Then delete this Database, which takes a backup of its files, and create it without storageSize"
	}
	return reason + ". Remove it. Without a volume, the data is lost when the pod is deleted"
}

// defaultImage returns the default image of the Composition, of the Platform, or of this release.
func defaultImage(r *resolved) string {
	if r.engine.name == engines[v1.TypeMongo].name {
		return r.Settings.DefaultMongoImage
	}
	return cmp.Or(r.Settings.DefaultImage, r.platform.DefaultImage, v1.DefaultImage)
}

// mayHave reports whether an instance of this kind and with this spec may have the composed resource with the given
// name.
func mayHave(r *resolved, name string) bool {
	switch name {
	case v1.ResourceDataPV:
		return r.hostPath
	case v1.ResourceDataPVC, v1.ResourceJobPolicy:
		return !r.ephemeral
	case v1.ResourceServerPolicy:
		return r.spec.NetworkPolicy != nil
	case v1.ResourceRootPassword:
		return r.engine.password
	case v1.ResourceConfig:
		return r.engine.config != ""
	case v1.ResourceRestore:
		return !r.ephemeral && !r.started
	case v1.ResourceSettingsCheck:
		return mayValidate(r)
	}
	return true
}
