package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/initialize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// backupCommand is `controller backup`.
type backupCommand struct {
	inStore

	Volume    string `help:"Where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Folder in the volume's root that holds the data."`
	Archive   string `help:"File to make, ending in .tar.zst, in a folder of its own on the backup volume. A manifest.json appears beside it." required:"" xor:"place" type:"path"`

	Record       string `help:"Name of the MySQLBackup. It goes into the manifest, as do the next nine." required:""`
	XR           string `help:"UID of the composite resource: an archive is taken for an earlier run's only if it has the same." name:"xr" required:""`
	Kind         string `default:"MySQL" help:"Kind of the claim."`
	Namespace    string `help:"Namespace of the claim." required:""`
	NamespaceUID string `help:"UID of that namespace." name:"namespace-uid"`
	Name         string `help:"Name of the claim." required:""`
	Image        string `help:"Image of the server."`
	Number       int64  `help:"Number of the backup among those of its claim."`
	StorageSize  string `help:"Size of the volume that the claim asks for."`

	SourceVersion string    `help:"Version that the server gave as its own before it stopped, such as 8.4.6. What the data directory says of itself counts before it, and so does the version that was started last."`
	Announced     time.Time `help:"When the MySQLBackup was made: an archive of an earlier run is not written over that is older, and has other data. A volume that was not set back with its cluster has such a one."`
	NeverServed   bool      `help:"No client ever reached the server: what a first start left that was cut short is nothing to back up."`

	WithoutOutside bool `help:"Data that is stored outside of the data directory is given up. The backup fails otherwise if there is such data."`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the backup.
func (c *backupCommand) Run(ctx context.Context) error {
	tuneMemory()
	remote, err := c.openRemote()
	if err != nil {
		return err
	}
	b := archive.Backup{
		Identity: archive.Identity{
			Record: c.Record,
			Instance: v1.BackedUpInstance{
				Kind: c.Kind, Namespace: c.Namespace, NamespaceUID: types.UID(c.NamespaceUID), Name: c.Name, XR: types.UID(c.XR),
			},
		},
		Volume: c.Volume, Directory: c.Directory, Archive: c.Archive + c.Object, Remote: remote,
		Image: c.Image, Version: c.SourceVersion, Number: c.Number, StorageSize: c.StorageSize, NeverServed: c.NeverServed, WithoutOutside: c.WithoutOutside, Announced: c.Announced, Output: os.Stdout,
	}
	r, err := b.Run(ctx)
	return writeReport(r, c.Report, err)
}

// unpacking is what the commands that unpack an archive are told of it.
type unpacking struct {
	inStore

	Archive string `help:"File to unpack, with its manifest.json beside it." required:"" xor:"place" type:"path"`
	SHA256  string `help:"Its SHA-256 sum, in hexadecimal, as the MySQLBackup has it." name:"sha256" required:""`

	SourceVersion string `help:"Version of the server that wrote the data, such as 8.4.6." required:""`
	SourceClean   bool   `help:"True if that server stopped cleanly: no server upgrades data that was not." negatable:""`
	TargetVersion string `help:"File that 'controller version-of-server' wrote in the image of the server that is to run on the data." required:"" type:"path"`
}

func (u *unpacking) restoreOf() (archive.Restore, error) {
	remote, err := u.openRemote()
	return archive.Restore{
		Archive: u.Archive + u.Object, Remote: remote, SHA256: u.SHA256,
		Source: u.SourceVersion, SourceClean: u.SourceClean, Target: u.TargetVersion, Output: os.Stdout,
	}, err
}

// inStore is how a command is told that its archive lies in one, and not in a file.
type inStore struct {
	Object string `help:"Name in the store, instead of --archive: of the folder for a new archive, or of the archive to unpack." required:"" xor:"place"`
	Access string `help:"Folder with the way to the store: url, ca.crt and token of its gateway, recipients of what is encrypted, and manifest.json of what is unpacked." default:"${access}" type:"path"`
}

// openRemote is nil without an object.
func (s *inStore) openRemote() (*archive.Remote, error) {
	if s.Object == "" {
		return nil, nil //nolint:nilnil // A file is no error.
	}
	return archive.OpenRemote(s.Access, os.Stdout)
}

// restoreCommand is `controller restore`. The function composes its flags.
type restoreCommand struct {
	unpacking

	Volume    string `help:"Where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Folder in the volume's root that the data goes to. It must be empty or missing."`
	XR        string `help:"UID of the XR whose data it is from then on: no other one's server starts on it." name:"xr"`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the restore.
func (c *restoreCommand) Run(ctx context.Context) error {
	tuneMemory()
	s, err := c.restoreOf()
	if err != nil {
		return err
	}
	s.Volume, s.Directory, s.XR = c.Volume, c.Directory, types.UID(c.XR)
	r, err := s.Run(ctx)
	return writeReport(r, c.Report, err)
}

// unpackCommand is `controller unpack`. Its archive is on the volume that it
// unpacks to.
type unpackCommand struct {
	unpacking

	Volume string `help:"Where the backup volume is mounted. The copy goes to ${copy}/${directory} in its root; what an earlier run left there is removed. It must fit, and leave a tenth of the file system free." required:"" type:"path"`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the unpacking.
func (c *unpackCommand) Run(ctx context.Context) error {
	tuneMemory()
	s, err := c.restoreOf()
	if err != nil {
		return err
	}
	u := archive.Unpack{Restore: s}
	u.Volume = c.Volume
	r, err := u.Run(ctx)
	return writeReport(r, c.Report, err)
}

// surveyCommand is `controller survey`.
type surveyCommand struct {
	Volume string `help:"Where the backup volume is mounted." required:"" type:"path"`
	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the survey.
func (c *surveyCommand) Run(ctx context.Context) error {
	tuneMemory()
	s := archive.Survey{Volume: c.Volume, Output: os.Stdout}
	r, err := s.Run(ctx)
	return writeReport(r, c.Report, err)
}

// initializeCommand is `controller initialize`. It runs in the server's image.
type initializeCommand struct {
	Volume    string `help:"Where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Folder in the volume's root that holds the data, or is to hold it."`
	XR        string `help:"UID of the XR whose data it is to be: what is there and says that it is another one's is refused." name:"xr"`
	Secret    string `help:"Folder with the file 'password', which is wanted of root, and the file 'initialize' where a new database may be made." required:"" type:"path"`
	Sockets   string `help:"Folder to make for the socket of the server that makes the database. Its path must be short." required:"" type:"path"`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the first start.
func (c *initializeCommand) Run(ctx context.Context) error {
	i := initialize.Initialization{Volume: c.Volume, Directory: c.Directory, XR: types.UID(c.XR), Sockets: c.Sockets, Output: os.Stdout}
	raw, err := os.ReadFile(filepath.Join(c.Secret, v1.PasswordKey))
	if err != nil {
		return fmt.Errorf("cannot read the wanted password: %w", err)
	}
	i.Password = sql.Password(raw)
	_, err = os.Stat(filepath.Join(c.Secret, v1.InitializeKey))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	i.Allowed = err == nil
	r, err := i.Run(ctx)
	return writeReport(r, c.Report, err)
}

// validateSettingsCommand is `controller validate-settings`. It runs in the server's image.
type validateSettingsCommand struct {
	Volume  string `help:"Empty directory for the data of a server that lives as long as the command." required:"" type:"path"`
	Sockets string `help:"Directory to make for the socket of that server. Its path must be short." required:"" type:"path"`
	TLS     string `help:"Directory with the server's certificate, which the my.cnf names. Unset if the server has none." name:"tls" type:"path"`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the validation.
func (c *validateSettingsCommand) Run(ctx context.Context) error {
	v := initialize.Validation{Volume: c.Volume, Sockets: c.Sockets, TLS: c.TLS, Output: os.Stdout}
	r, err := v.Run(ctx)
	return writeReport(r, c.Report, err)
}

// writeReport to the log and to the kubelet. That it cannot be written is told
// beside the error of the run, whose exit code counts.
func writeReport(r agent.Report, path string, err error) error {
	raw, rerr := r.Encode()
	if rerr == nil {
		_, rerr = os.Stdout.Write(raw)
	}
	if serr := r.Save(path); rerr == nil && serr != nil {
		rerr = fmt.Errorf("cannot write the report: %w", serr)
	}
	if err == nil {
		return rerr
	}
	return errors.Join(err, rerr)
}

// memoryLimit in bytes of what Go uses. It is a soft one, and with the rest of
// the process stays below 128 MiB.
const memoryLimit = 80 << 20

func tuneMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
