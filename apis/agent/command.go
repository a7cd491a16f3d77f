package agent

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// The types and functions in this file build the command lines of the agent, the program of Jobs and init containers.
// `controller COMMAND --help` describes the flags. A test of the controller parses all of these command lines.

// A Backup contains the flags of `controller backup`.
type Backup struct {
	// Volume and Archive are paths in the container. For an archive in a store, Archive is empty and Object is the
	// prefix of the archive. AccessDir then contains the Secret for access to the store.
	Volume, Archive, Object string
	// Record is the BackupRecord of the backup. Image is the image of the server.
	Record, Image string
	Instance      v1.Instance
	NamespaceUID  types.UID
	// Version is the version that the server reported, or "" if it never responded.
	Version string
	// NeverServed is true if no client ever connected to the server.
	NeverServed bool
	// WithoutOutside is true if a user has allowed the backup to omit data outside of the data directory.
	WithoutOutside bool
	// Announced is the creation time of the BackupRecord, which the manifest of the archive also contains.
	Announced time.Time
	// Number is the sequence number of the backup. StorageSize is the storage size that the instance requested. The
	// manifest contains both, so that the controller can recreate the BackupRecord from it.
	Number      int64
	StorageSize string
}

// Command returns the command line of `controller backup`.
func (b Backup) Command() []string {
	out := []string{
		Program, "backup", "--volume=" + b.Volume, "--directory=" + v1.DataDirectory, placeOf(b.Archive, b.Object),
		"--record=" + b.Record, "--xr=" + string(b.Instance.XR), "--kind=" + b.Instance.Kind,
		"--namespace=" + b.Instance.Namespace,
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

// An Unpacking contains the flags of a command that unpacks an archive. The command needs the version of the server's
// image, so a container from VersionContainer must run first.
type Unpacking struct {
	// Archive and Volume are paths in the container. For an archive in a store, Archive is empty and Object is the name
	// of the archive. AccessDir then contains the Secret for access to the store.
	Archive, Object, Volume string
	SHA256                  string
	// Version is the version of the server that wrote the data. Clean is true if that server stopped cleanly.
	Version string
	Clean   bool
}

// Restore returns the command `controller restore`, which unpacks the archive as the data of an XR.
func (u Unpacking) Restore(xr types.UID) []string {
	return u.command("restore", "--directory="+v1.DataDirectory, "--xr="+string(xr))
}

// Unpack returns the command `controller unpack`, which unpacks a copy of the data for a restore test.
func (u Unpacking) Unpack() []string { return u.command("unpack") }

func (u Unpacking) command(name string, place ...string) []string {
	out := append([]string{Program, name, placeOf(u.Archive, u.Object), "--sha256=" + u.SHA256, "--volume=" + u.Volume},
		place...)
	return append(out, "--source-version="+u.Version, "--source-clean="+strconv.FormatBool(u.Clean),
		"--target-version="+VersionFile)
}

// AccessDir is the directory at which a Job mounts the Secret for access to a store. The controller creates the
// Secret.
const AccessDir = "/" + AccessVolumeName

// GatewayPort is the port of the backup gateway, through which Jobs read and write archives in a BackupStore.
const GatewayPort = 8443

// placeOf returns the flag with the location of an archive: a file, or an object in a store.
func placeOf(archive, object string) string {
	if object != "" {
		return "--object=" + object
	}
	return "--archive=" + archive
}

// Initialize returns the command `controller initialize`, which initializes or checks the database on the data volume
// of an XR. secret is the directory with the password. The command creates the directory sockets for the server's
// socket.
func Initialize(xr types.UID, volume, secret, sockets string) []string {
	return []string{CopiedProgram, "initialize", "--volume=" + volume, "--directory=" + v1.DataDirectory,
		"--xr=" + string(xr), "--secret=" + secret, "--sockets=" + sockets}
}

// ValidateSettings returns the command `controller validate-settings`. The directory volume is deleted with the pod.
// tls is the directory with the server's certificate, or "".
func ValidateSettings(volume, sockets, tls string) []string {
	out := []string{CopiedProgram, "validate-settings", "--volume=" + volume, "--sockets=" + sockets}
	if tls != "" {
		out = append(out, "--tls="+tls)
	}
	return out
}

// ExportMetrics returns the command `controller export-metrics`, which runs the exporter of the image in which it runs.
// account is a my.cnf with the account of the exporter.
func ExportMetrics(account string, port int32) []string {
	return []string{CopiedProgram, "export-metrics", "--account=" + account,
		"--port=" + strconv.FormatInt(int64(port), 10)}
}

// Own returns the command `controller own`, which makes the server's user the owner of a hostPath data volume.
func Own(volume string) []string { return []string{Program, "own", "--volume=" + volume} }

// BootCheck returns the command `controller bootcheck`, which starts a server with the unpacked copy of a backup in
// dir, and checks every table.
func BootCheck(dir string) []string {
	return []string{CopiedProgram, "bootcheck", "--dir=" + dir}
}

// Clone returns the command `controller clone`, which clones a running server to a directory. donor is the mount path
// of the Secret that describes the running server.
func Clone(dir, donor string) []string {
	return []string{CopiedProgram, "clone", "--dir=" + dir, "--donor=" + donor}
}

// ImportSource is the mount path of the volume to import. ImportDir is a temporary directory in the root of the
// data volume. The containers of an import store the dump and prepare the data there.
const (
	ImportSource = "/source"
	ImportDir    = ".restore-import"
)

// An Importing contains the flags that all commands of an import have. XR is the owner of the data volume.
type Importing struct {
	Volume string
	XR     types.UID
	// Name identifies the import. It is stored on the data volume when the import is complete.
	Name string
}

// Import returns the command `controller import` for data that an earlier container of the pod has prepared. The
// command needs the version of the server's image, so a container from VersionContainer must run first.
func (i Importing) Import() []string {
	return i.command(Program, "import", "--target-version="+VersionFile)
}

// Copy returns the command `controller import` that copies a data directory from the volume at ImportSource. within
// is the path of the data directory in the volume. If it is empty, the root of the volume is copied.
func (i Importing) Copy(within string) []string {
	out := append(i.Import(), "--from="+ImportSource)
	if within != "" {
		out = append(out, "--within="+within)
	}
	return out
}

// Server returns the command `controller import-server`, which clones a running server. It runs in a container with
// the server's image. account is the mount path of the Secret with the username and the password.
func (i Importing) Server(host string, port int32, account string) []string {
	return i.command(CopiedProgram, "import-server", "--host="+host, "--port="+strconv.FormatInt(int64(port), 10),
		"--account="+account)
}

// Fetch returns the command `controller fetch-dump`, which downloads a dump from a store to the data volume.
func (i Importing) Fetch(object, sha256 string) []string {
	out := i.command(Program, "fetch-dump", "--object="+object)
	if sha256 != "" {
		out = append(out, "--sha256="+sha256)
	}
	return out
}

// Dump returns the command `controller import-dump`, which loads the downloaded dump. It runs in a container with the
// server's image. isSummed is true if the checksum of the dump was verified.
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

// Base returns the command `controller restore-base`, which unpacks the backup with which a recovery begins.
func (i Importing) Base(u Unpacking) []string {
	out := i.command(Program, "restore-base", placeOf(u.Archive, u.Object), "--sha256="+u.SHA256,
		"--source-version="+u.Version, "--source-clean="+strconv.FormatBool(u.Clean), "--target-version="+VersionFile)
	return out
}

// ApplyLog returns the command `controller apply-log`, which applies an archived binary log to the unpacked backup. It
// runs in a container with the server's image.
func (i Importing) ApplyLog(r *v1.Recovery) []string {
	return i.command(CopiedProgram, "apply-log", "--at="+r.At, "--timeline="+r.Timeline,
		"--segment="+strconv.FormatInt(r.Segment, 10), "--digest="+r.Digest, "--until="+r.Until)
}

func (i Importing) command(program, name string, extra ...string) []string {
	return append([]string{program, name, "--volume=" + i.Volume, "--directory=" + v1.DataDirectory,
		"--xr=" + string(i.XR), "--name=" + i.Name}, extra...)
}

// Wipe returns the command `controller wipe`, which deletes the contents of a volume or of a directory on it.
func Wipe(volume string) []string { return []string{Program, "wipe", "--volume=" + volume} }

// WipeData returns the command `controller wipe`, which deletes the data of the composite resource xr from its volume.
func WipeData(xr types.UID, volume string) []string { return append(Wipe(volume), "--xr="+string(xr)) }

// Survey returns the command `controller survey`, which examines all archives on a backup volume.
func Survey(volume string) []string {
	return []string{Program, "survey", "--volume=" + volume}
}

// Prune returns the command `controller prune`, which deletes the directories of archives that exceed the retention.
func Prune(volume string, dirs ...string) []string {
	out := append(make([]string, 0, len(dirs)+3), Program, "prune", "--volume="+volume)
	for _, f := range dirs {
		out = append(out, "--dir="+f)
	}
	return out
}
