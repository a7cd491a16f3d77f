package agent

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Commands of the agent, as Jobs and init containers give them. Each has what stands behind its
// flags; `controller COMMAND --help` says what they mean, and a test of the controller's program
// parses all of them.

// A Backup is `controller backup`.
type Backup struct {
	// Volume and Archive are paths in the container. Object is the folder in a store for the
	// archive, instead of a path, where AccessFolder has the way to it.
	Volume, Archive, Object string
	// Record and Image of the backup that is taken.
	Record, Image string
	Instance      v1.Instance
	NamespaceUID  types.UID
	// Version that the server gave as its own; empty where it never answered.
	Version string
	// NeverServed is true if no client ever reached the server.
	NeverServed bool
	// WithoutOutside is true if a person has given up what is stored outside of the data directory.
	WithoutOutside bool
	// Announced is when its record was made.
	Announced time.Time
	// Number of the backup among those of its claim, and StorageSize that the instance had
	// asked for: with them the record can be made again from the manifest.
	Number      int64
	StorageSize string
}

// Command of it.
func (b Backup) Command() []string {
	out := []string{
		Program, "backup", "--volume=" + b.Volume, "--directory=" + v1.DataDirectory, placeOf(b.Archive, b.Object),
		"--record=" + b.Record, "--xr=" + string(b.Instance.XR), "--kind=" + b.Instance.Kind, "--namespace=" + b.Instance.Namespace,
		"--namespace-uid=" + string(b.NamespaceUID), "--name=" + b.Instance.Name, "--image=" + b.Image,
	}
	if b.Version != "" {
		out = append(out, "--source-version="+b.Version)
	}
	if b.NeverServed {
		out = append(out, "--never-served")
	}
	if b.WithoutOutside {
		out = append(out, "--without-outside")
	}
	if !b.Announced.IsZero() {
		out = append(out, "--announced="+b.Announced.UTC().Format(time.RFC3339))
	}
	if b.Number > 0 {
		out = append(out, "--number="+strconv.FormatInt(b.Number, 10))
	}
	if b.StorageSize != "" {
		out = append(out, "--storage-size="+b.StorageSize)
	}
	return out
}

// An Unpacking is what is told of an archive to who unpacks it, beside a VersionContainer.
type Unpacking struct {
	// Archive and Volume are paths in the container. Object is the archive's name in a store,
	// instead of a path, where AccessFolder has the way to it.
	Archive, Object, Volume string
	SHA256                  string
	// Version of the server that wrote the data, and Clean if it stopped cleanly.
	Version string
	Clean   bool
}

// Restore is the command `controller restore`, which unpacks it as the data of an XR.
func (u Unpacking) Restore(xr types.UID) []string {
	return u.command("restore", "--directory="+v1.DataDirectory, "--xr="+string(xr))
}

// Unpack is the command `controller unpack`, which unpacks it beside the archive.
func (u Unpacking) Unpack() []string { return u.command("unpack") }

func (u Unpacking) command(name string, place ...string) []string {
	out := append([]string{Program, name, placeOf(u.Archive, u.Object), "--sha256=" + u.SHA256, "--volume=" + u.Volume}, place...)
	return append(out, "--source-version="+u.Version, "--source-clean="+strconv.FormatBool(u.Clean), "--target-version="+VersionFile)
}

// AccessFolder is where a Job finds the way to a store, from a Secret that the controller makes.
const AccessFolder = "/" + AccessVolumeName

// GatewayPort is that of the gateway to stores, which Jobs speak with.
const GatewayPort = 8443

// placeOf an archive: a file, or in a store.
func placeOf(archive, object string) string {
	if object != "" {
		return "--object=" + object
	}
	return "--archive=" + archive
}

// Initialize is `controller initialize`, on the data volume of an XR, with the folders of a password
// and of the socket that it makes.
func Initialize(xr types.UID, volume, secret, sockets string) []string {
	return []string{CopiedProgram, "initialize", "--volume=" + volume, "--directory=" + v1.DataDirectory, "--xr=" + string(xr), "--secret=" + secret, "--sockets=" + sockets}
}

// ValidateSettings is `controller validate-settings`, in a folder that goes with the pod. The folder with the server's
// certificate is empty for a server without.
func ValidateSettings(volume, sockets, tls string) []string {
	out := []string{CopiedProgram, "validate-settings", "--volume=" + volume, "--sockets=" + sockets}
	if tls != "" {
		out = append(out, "--tls="+tls)
	}
	return out
}

// Own is `controller own`, of a data volume.
func Own(volume string) []string { return []string{Program, "own", "--volume=" + volume} }

// BootCheck is `controller bootcheck`, on the folder that a copy was unpacked in.
func BootCheck(folder string) []string {
	return []string{CopiedProgram, "bootcheck", "--folder=" + folder}
}

// Clone is `controller clone`, into a folder, of whom the files of a Secret say.
func Clone(folder, donor string) []string {
	return []string{CopiedProgram, "clone", "--folder=" + folder, "--donor=" + donor}
}

// ImportSource is where a volume that is imported is mounted, and ImportFolder the folder in the root of the data volume in which
// containers of the Job of an import make the data, or keep the dump, before it is where a server looks.
const (
	ImportSource = "/source"
	ImportFolder = ".restore-import"
)

// An Importing is what is told of an import to those who carry it out, on the data volume of an XR.
type Importing struct {
	Volume string
	XR     types.UID
	// Name of what is imported, by which it is known whether it was done.
	Name string
}

// Import is `controller import`, beside a VersionContainer, of what a container before it has made.
func (i Importing) Import() []string {
	return i.command(Program, "import", "--target-version="+VersionFile)
}

// Copy is the same of a volume that is mounted at ImportSource, or of a folder within.
func (i Importing) Copy(within string) []string {
	out := append(i.Import(), "--from="+ImportSource)
	if within != "" {
		out = append(out, "--within="+within)
	}
	return out
}

// Server is `controller import-server`, in its image, by the files of a Secret.
func (i Importing) Server(host string, port int32, account string) []string {
	return i.command(CopiedProgram, "import-server", "--host="+host, "--port="+strconv.FormatInt(int64(port), 10), "--account="+account)
}

// Fetch is `controller fetch-dump`, of an object in a store.
func (i Importing) Fetch(object, sha256 string) []string {
	out := i.command(Program, "fetch-dump", "--object="+object)
	if sha256 != "" {
		out = append(out, "--sha256="+sha256)
	}
	return out
}

// Dump is `controller import-dump`, in the server's image, of what was fetched.
func (i Importing) Dump(object, database, sockets string, isSummed bool) []string {
	out := i.command(CopiedProgram, "import-dump", "--object="+object, "--sockets="+sockets)
	if database != "" {
		out = append(out, "--database="+database)
	}
	if isSummed {
		out = append(out, "--summed")
	}
	return out
}

func (i Importing) command(program, name string, more ...string) []string {
	return append([]string{program, name, "--volume=" + i.Volume, "--directory=" + v1.DataDirectory, "--xr=" + string(i.XR), "--name=" + i.Name}, more...)
}

// Wipe is `controller wipe`, of a volume or a folder of it.
func Wipe(volume string) []string { return []string{Program, "wipe", "--volume=" + volume} }

// WipeData is `controller wipe`, of a volume with the data of an XR.
func WipeData(xr types.UID, volume string) []string { return append(Wipe(volume), "--xr="+string(xr)) }

// Survey is `controller survey`, of a backup volume.
func Survey(volume string) []string {
	return []string{Program, "survey", "--volume=" + volume}
}

// Prune is `controller prune`, of folders on a backup volume.
func Prune(volume string, folders ...string) []string {
	out := append(make([]string, 0, len(folders)+3), Program, "prune", "--volume="+volume)
	for _, f := range folders {
		out = append(out, "--folder="+f)
	}
	return out
}
