package compose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	// uid and gid of the server.
	uid int64
	// data is where the server keeps it.
	data string
	// config is the folder that my.cnf goes to; empty for a server without.
	config string
	// stored is true if backups of it were restored, so that it may have a volume.
	stored bool
	// password is true if the server asks for one, which the controller brings into
	// it. Such a server also tells the controller its version.
	password bool
}

var engines = map[v1.DatabaseType]engine{
	v1.TypeMySQL: {
		name: "mysql", example: v1.DefaultImage, port: v1.Port, portName: v1.PortName, uid: 999,
		data: "/var/lib/mysql", config: "/etc/mysql/conf.d", stored: true, password: true,
	},
	v1.TypeMongo: {
		name: "mongo", example: v1.DefaultMongoImage, port: v1.PortMongo, portName: v1.PortNameMongo, uid: 999,
		data: "/data/db",
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

// database is true for an instance of the second API.
func (p *plan) database() bool { return isDatabase(p.XR) }

// ephemeral instances have no volume: their data goes with their pod. One that
// has a volume is none, whatever its spec says.
func (p *plan) ephemeral() bool {
	return p.database() && p.spec.StorageSize == nil && p.XR.Status.Volume == "" && p.Observed.DataPVC == nil
}

// checkKind checks what only one of the two APIs has.
func (p *plan) checkKind(spec *field.Path) field.ErrorList {
	path := spec.Child("type")
	_, known := engines[p.Type]
	switch {
	case !p.database():
		return checkDatabase(spec.Child("database"), p.spec.Database)
	case p.Type == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("set it to one of %q", v1.DatabaseTypes()))}
	case !known:
		return field.ErrorList{field.NotSupported(path, v1.DatabaseType(clip(string(p.Type))), v1.DatabaseTypes())}
	case !p.engine.password && p.spec.PasswordSecretRef != nil:
		return field.ErrorList{field.Forbidden(spec.Child("passwordSecretRef"), fmt.Sprintf("a server of type %s asks for no password: remove it", p.Type))}
	case !p.engine.stored && !p.ephemeral():
		return field.ErrorList{field.Forbidden(spec.Child("storageSize"), p.unproven())}
	}
	return nil
}

// unproven says why an engine has no volume, and what to do. What an earlier
// release gave a volume keeps it, and its deletion archives what is on it.
func (p *plan) unproven() string {
	why := fmt.Sprintf("is for type %s: no backup of a real mongod was ever restored, so nobody knows that its data would come back", v1.TypeMySQL)
	if p.XR.Status.Volume != "" || p.Observed.DataPVC != nil {
		return why + ". This one has a volume, and what there is stays as it is: copy its data out, delete this Database, which takes a backup of its files first, and create it without storageSize"
	}
	return why + ": leave it out, and the data goes with the pod"
}

// defaultImage is the platform's.
func (p *plan) defaultImage() string {
	if p.engine == engines[v1.TypeMongo] {
		return p.Settings.DefaultMongoImage
	}
	return p.Settings.DefaultImage
}

// wants is true for a resource that this kind of instance may have.
func (p *plan) wants(name string) bool {
	switch name {
	case v1.ResourceDataPV:
		return p.hostPath()
	case v1.ResourceDataPVC:
		return !p.ephemeral()
	case v1.ResourceRootPassword:
		return p.engine.password
	case v1.ResourceConfig:
		return p.engine.config != ""
	case v1.ResourceRestore:
		return !p.ephemeral() && !p.started()
	}
	return true
}

// connected is true once clients can know how to log in.
func (p *plan) connected() bool { return !p.engine.password || p.connectionSecret() != nil }

// environment of the server's container. Nothing in it says how a new database is to
// be made, so that the image's entrypoint makes none: one that finds its folder empty
// ends with an error. What the image itself says of it is taken back.
func (p *plan) environment() []corev1.EnvVar {
	if !p.engine.password {
		return nil
	}
	var env []corev1.EnvVar
	for _, name := range []string{
		"MYSQL_ROOT_PASSWORD", "MYSQL_ALLOW_EMPTY_PASSWORD", "MYSQL_RANDOM_ROOT_PASSWORD",
		"MARIADB_ROOT_PASSWORD", "MARIADB_ROOT_PASSWORD_HASH", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "MARIADB_RANDOM_ROOT_PASSWORD",
	} {
		env = append(env, corev1.EnvVar{Name: name})
	}
	return env
}

// A mounted volume of the server's pod, and where it is.
type mounted struct {
	corev1.Volume

	mount corev1.VolumeMount
}

// volumes that the server's container mounts, the data first.
func (p *plan) volumes() []mounted {
	out := []mounted{p.dataMount()}
	if p.engine.config != "" {
		out = append(out, mounted{
			corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: p.instance.ConfigMapName()},
			}}},
			corev1.VolumeMount{MountPath: p.engine.config, ReadOnly: true},
		})
	}
	return out
}

// dataMount is the data directory, and not the root of its volume. What goes with
// the pod has the same layout where a database is made in it.
func (p *plan) dataMount() mounted {
	mount := corev1.VolumeMount{MountPath: p.engine.data, SubPath: v1.DataDirectory}
	switch {
	case !p.ephemeral():
		return mounted{claimVolume("data", p.instance.DataPVCName(), false), mount}
	case !p.engine.password:
		mount.SubPath = ""
	}
	return mounted{emptyVolume("data"), mount}
}

func emptyVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// reached says at which port, for those who asked for nothing but a server.
func (p *plan) reached() string {
	e := p.endpoint()
	if !p.database() || e == nil || e.NodePort == 0 {
		return ""
	}
	text := fmt.Sprintf(": %s on port %d of every node", p.engine.name, e.NodePort)
	switch {
	case !p.engine.stored:
		text += "; the data goes with the pod"
	case p.ephemeral():
		text += "; without storageSize the data goes with the pod"
	}
	return text
}
