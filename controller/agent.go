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

// backupCommand implements `controller backup`. A backup Job runs it to write the data of a server to an archive.
type backupCommand struct {
	inStore

	Volume    string `help:"Directory where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Directory in the volume's root that contains the data."`
	Archive   string `help:"File to create, ending in .tar.zst, in its own directory on the backup volume. The manifest.json is written next to it." required:"" xor:"place" type:"path"`

	Record       string `help:"Name of the BackupRecord. It is stored in the manifest, like the values of the next nine flags." required:""`
	XR           string `help:"UID of the composite resource. An existing archive is reused only if it has the same UID." name:"xr" required:""`
	Kind         string `default:"MySQL" help:"Kind of the claim."`
	Namespace    string `help:"Namespace of the claim." required:""`
	NamespaceUID string `help:"UID of that namespace." name:"namespace-uid"`
	Name         string `help:"Name of the claim." required:""`
	Image        string `help:"Image of the server."`
	Number       int64  `help:"Sequence number of the backup within its claim."`
	StorageSize  string `help:"Size of the volume that the claim requests."`

	SourceVersion string    `help:"Version that the server reported before it stopped, such as 8.4.6. The version in the data directory and the version of the last start take precedence."`
	Announced     time.Time `help:"Time when the BackupRecord was created. An existing archive that is older and has other data is not overwritten. A volume has such an archive if the cluster was restored from an earlier state and the volume was not."`
	NeverServed   bool      `help:"Set if no client ever reached the server. The files of an interrupted initialization are then not backed up."`

	WithoutOutside bool `help:"Do not back up data that is stored outside of the data directory. Without this flag, the backup fails if there is such data."`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run writes the archive and the report.
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
		Image: c.Image, Version: c.SourceVersion, Number: c.Number, StorageSize: c.StorageSize, NeverServed: c.NeverServed,
		WithoutOutside: c.WithoutOutside, Announced: c.Announced, Output: os.Stdout,
	}
	r, err := b.Run(ctx)
	return writeReport(r, c.Report, err)
}

// unpacking contains the flags of commands that unpack an archive.
type unpacking struct {
	inStore

	Archive string `help:"File to unpack, with its manifest.json next to it." required:"" xor:"place" type:"path"`
	SHA256  string `help:"SHA-256 checksum of the archive in hexadecimal, from the BackupRecord." name:"sha256" required:""`

	SourceVersion string `help:"Version of the server that wrote the data, such as 8.4.6." required:""`
	SourceClean   bool   `help:"Set if that server stopped cleanly. Otherwise its data cannot be upgraded." negatable:""`
	TargetVersion string `help:"File that 'controller version-of-server' wrote in the image of the server that will use the data." required:"" type:"path"`
}

func (u *unpacking) restoreOf() (archive.Restore, error) {
	remote, err := u.openRemote()
	return archive.Restore{
		Archive: u.Archive + u.Object, Remote: remote, SHA256: u.SHA256,
		Source: u.SourceVersion, SourceClean: u.SourceClean, Target: u.TargetVersion, Output: os.Stdout,
	}, err
}

// inStore contains the flags of commands that read or write an archive in a store. Without these flags, the archive
// is a file on a volume.
type inStore struct {
	Object string `help:"Name in the store, instead of --archive: the prefix of a new archive, or the name of the archive to unpack." required:"" xor:"place"`
	Access string `help:"Directory with the access to the store: url, ca.crt and token of its gateway, the recipients for encryption, and the manifest.json of the archive to unpack." default:"${access}" type:"path"`
}

// openRemote returns the store that contains the archive, or nil if the archive is a file on a volume.
func (s *inStore) openRemote() (*archive.Remote, error) {
	if s.Object == "" {
		return nil, nil //nolint:nilnil // A file needs no store.
	}
	return archive.OpenRemote(s.Access, os.Stdout)
}

// restoreCommand implements `controller restore`, which unpacks an archive to a data volume before the server starts.
// The composition function generates the command line.
type restoreCommand struct {
	unpacking

	Volume    string `help:"Directory where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Directory in the volume's root for the data. It must be empty or missing."`
	XR        string `help:"UID of the composite resource that owns the data from then on. Only its server starts on the data." name:"xr"`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run restores the archive and writes the report.
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

// unpackCommand implements `controller unpack`, which unpacks an archive on the backup volume for a restore test.
type unpackCommand struct {
	unpacking

	Volume string `help:"Directory where the backup volume is mounted. The copy is written to ${copy}/${directory} in its root, and files of an earlier run there are removed. The copy must leave a tenth of the file system free." required:"" type:"path"`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run unpacks the archive and writes the report.
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

// surveyCommand implements `controller survey`, which prints the archives on a backup volume for an import of backups.
type surveyCommand struct {
	Volume string `help:"Directory where the backup volume is mounted." required:"" type:"path"`
	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run prints a line for each archive, and writes the report.
func (c *surveyCommand) Run(ctx context.Context) error {
	tuneMemory()
	s := archive.Survey{Volume: c.Volume, Output: os.Stdout}
	r, err := s.Run(ctx)
	return writeReport(r, c.Report, err)
}

// initializeCommand implements `controller initialize`. It creates a database on an empty volume, or sets the password
// in restored data. It runs in the server's image.
type initializeCommand struct {
	Volume    string `help:"Directory where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Directory in the volume's root that contains the data, or will contain it."`
	XR        string `help:"UID of the composite resource that owns the data. Data of another composite resource is refused." name:"xr"`
	Secret    string `help:"Directory with the file 'password', the requested password of root, and the file 'initialize' if a new database may be created." required:"" type:"path"`
	Sockets   string `help:"Directory to create for the socket of the server that creates the database. Its path must be short." required:"" type:"path"`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run initializes the volume and writes the report.
func (c *initializeCommand) Run(ctx context.Context) error {
	i := initialize.Initialization{Volume: c.Volume, Directory: c.Directory, XR: types.UID(c.XR), Sockets: c.Sockets,
		Output: os.Stdout}
	raw, err := os.ReadFile(filepath.Join(c.Secret, v1.PasswordKey))
	if err != nil {
		return fmt.Errorf("cannot read the requested password: %w", err)
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

// validateSettingsCommand implements `controller validate-settings`. It checks whether a server starts with the my.cnf
// of the container. It runs in the server's image.
type validateSettingsCommand struct {
	Volume  string `help:"Empty directory for the data of a temporary server." required:"" type:"path"`
	Sockets string `help:"Directory to create for the socket of that server. Its path must be short." required:"" type:"path"`
	TLS     string `help:"Directory with the server's certificate, as my.cnf names it. Unset if the server has none." name:"tls" type:"path"`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run validates the settings and writes the report.
func (c *validateSettingsCommand) Run(ctx context.Context) error {
	v := initialize.Validation{Volume: c.Volume, Sockets: c.Sockets, TLS: c.TLS, Output: os.Stdout}
	r, err := v.Run(ctx)
	return writeReport(r, c.Report, err)
}

// writeReport writes the report to the log, and to the file that the kubelet reads. If this fails, the error is
// returned together with the error of the run, which determines the exit code.
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

// memoryLimit is the soft limit of Go's memory in bytes. It keeps the process below 128 MiB.
const memoryLimit = 80 << 20

func tuneMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
