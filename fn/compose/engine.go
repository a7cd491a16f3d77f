package compose

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An engine is a kind of database server: what the official image of it wants,
// and what the rest of the product can do with it.
type engine struct {
	// name of the container.
	name string
	// example of an image.
	example string
	// port of the server, and its name.
	port     int32
	portName string
	// data is where the server keeps it.
	data string
	// config is the folder that my.cnf goes to; empty for a server without.
	config string
	// scratch are the folders that the server and the image's entrypoint write to beside the
	// data, by a name. The rest of the image they only read.
	scratch []scratchFolder
	// stored is true if backups of it were restored, so that it may have a volume.
	stored bool
	// password is true if the server asks for one, which the controller brings into
	// it. Such a server also tells the controller its version.
	password bool
}

// A scratchFolder has a name and a path.
type scratchFolder struct{ name, path string }

var engines = map[v1.DatabaseType]engine{
	v1.TypeMySQL: {
		name: "mysql", example: v1.DefaultImage, port: v1.Port, portName: v1.PortName,
		data: "/var/lib/mysql", config: "/etc/mysql/conf.d", stored: true, password: true,
		scratch: []scratchFolder{{"tmp", "/tmp"}, {"run", "/var/run/mysqld"}, {"files", "/var/lib/mysql-files"}},
	},
	v1.TypeMongo: {
		name: "mongo", example: v1.DefaultMongoImage, port: v1.PortMongo, portName: v1.PortNameMongo,
		data:    "/data/db",
		scratch: []scratchFolder{{"tmp", "/tmp"}, {"configdb", "/data/configdb"}},
	},
}

// engineOf an Input. What has no type, or a wrong one, is refused later; until
// then it is as good as a MySQL.
func engineOf(in Input) engine {
	if e, ok := engines[in.Type]; ok && isDatabase(in.XR) {
		return e
	}
	return engines[v1.TypeMySQL]
}

func isDatabase(xr *v1.XMySQL) bool { return xr.Kind == v1.KindXDatabase }

// checkType checks what only one of the two APIs has.
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
		return field.ErrorList{field.Forbidden(spec.Child("passwordSecretRef"), fmt.Sprintf("a server of type %s asks for no password: remove it", r.Type))}
	case !r.engine.stored && !r.ephemeral:
		return field.ErrorList{field.Forbidden(spec.Child("storageSize"), whyNotStored(r))}
	}
	return nil
}

// whyNotStored says why an engine has no volume, and what to do. What an earlier
// release gave a volume keeps it, and its deletion archives what is on it.
func whyNotStored(r *resolved) string {
	why := fmt.Sprintf("is for type %s: no backup of a real mongod was ever restored, so nobody knows that its data would come back", v1.TypeMySQL)
	if r.XR.Status.Volume != "" || r.Observed.DataPVC != nil {
		return why + ". This one has a volume, and what there is stays as it is: copy its data out, delete this Database, which takes a backup of its files first, and create it without storageSize"
	}
	return why + ": leave it out, and the data goes with the pod"
}

// defaultImage is the platform's.
func defaultImage(r *resolved) string {
	if r.engine.name == engines[v1.TypeMongo].name {
		return r.Settings.DefaultMongoImage
	}
	return r.Settings.DefaultImage
}

// mayHave is true for a resource that this kind of instance may have.
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
