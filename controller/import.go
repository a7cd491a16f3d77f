package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/clone"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/initialize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// half contains the common flags of the import commands.
type half struct {
	Volume    string `help:"Directory where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Directory in the volume's root for the data. It must be empty or missing."`
	XR        string `help:"UID of the composite resource that owns the data from then on." name:"xr" required:""`
	Name      string `help:"Name of the import, which identifies an import that is already complete." required:""`
	Report    string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

func (h *half) half() datavolume.Half {
	return datavolume.Half{Volume: h.Volume, Directory: h.Directory, XR: types.UID(h.XR), Name: h.Name}
}

// importCommand implements `controller import`, which copies the data directory of another server to a data volume.
// The composition function generates the command line.
type importCommand struct {
	half

	From          string `help:"Directory where the volume of a stopped server is mounted, to copy its data. If unset, the data of the previous container is used." type:"path"`
	Within        string `help:"Data directory in that volume, if it is not its root."`
	TargetVersion string `help:"File that 'controller version-of-server' wrote in the image of the server that will use the data." required:"" type:"path"`
}

// Run imports the data and writes the report.
func (c *importCommand) Run(ctx context.Context) error {
	tuneMemory()
	i := archive.Import{Half: c.half.half(), From: c.From, Within: c.Within, Target: c.TargetVersion, Output: os.Stdout}
	r, err := i.Run(ctx)
	return writeReport(r, c.Report, err)
}

// fetchDumpCommand implements `controller fetch-dump`, which downloads an SQL dump from a store to a data volume.
type fetchDumpCommand struct {
	half

	Object string `help:"Name of the dump in the store." required:""`
	SHA256 string `help:"SHA-256 checksum of the dump in hexadecimal, if it is known." name:"sha256"`
	Access string `help:"Directory with the access to the store: url, ca.crt and token of its gateway." default:"${access}" type:"path"`
}

// Run downloads the dump and writes the report.
func (c *fetchDumpCommand) Run(ctx context.Context) error {
	tuneMemory()
	remote, err := archive.OpenRemote(c.Access, os.Stdout)
	if err != nil {
		return err
	}
	f := archive.Fetch{Half: c.half.half(), Object: c.Object, SHA256: c.SHA256, Remote: remote, Output: os.Stdout}
	r, err := f.Run(ctx)
	return writeReport(r, c.Report, err)
}

// importDumpCommand implements `controller import-dump`, which creates a database from a downloaded SQL dump. It runs
// in the server's image.
type importDumpCommand struct {
	half

	Object   string `help:"Name of the dump that was fetched." required:""`
	Database string `help:"Default database for statements that name none."`
	Summed   bool   `help:"The checksum of the dump was verified. Without this flag, the dump must end with mysqldump's last line."`
	Sockets  string `help:"Directory to create for the socket of the server that loads the dump. Its path must be short." required:"" type:"path"`
}

// Run loads the dump and writes the report.
func (c *importDumpCommand) Run(ctx context.Context) error {
	l := initialize.Loading{Half: c.half.half(), Object: c.Object, Database: c.Database, Summed: c.Summed,
		Sockets: c.Sockets, Output: os.Stdout}
	r, err := l.Run(ctx)
	return writeReport(r, c.Report, err)
}

// importServerCommand implements `controller import-server`, which clones the data of a running foreign server. It
// runs in the server's image.
type importServerCommand struct {
	half

	Host    string `help:"Name or address of the server to clone." required:""`
	Port    uint16 `help:"Its port." default:"3306"`
	Account string `help:"Directory of a Secret with the username and password of an account that has BACKUP_ADMIN on that server, and with ca.crt, the CA of its certificate." required:"" type:"path"`
}

// Run clones the server and writes the report.
func (c *importServerCommand) Run(ctx context.Context) error {
	tuneMemory()
	r, err := exit.Report(ctx, "import-server", c.run)
	return writeReport(r, c.Report, err)
}

func (c *importServerCommand) run(ctx context.Context, r *agent.Report) error {
	h := c.half.half()
	m, err := h.Begin(ctx)
	if r.Already = m == nil; r.Already || err != nil {
		return err
	}
	defer m.Close()
	donor, err := c.donor(ctx)
	if err != nil {
		return err
	}
	result, err := (&clone.Clone{Dir: h.Dir(), Donor: donor, KeepUser: true, Output: os.Stdout}).Run(ctx)
	if wrong, ok := errors.AsType[*sql.WrongEngineError](err); ok {
		return fmt.Errorf("that server has tables that do not use InnoDB, and a clone does not contain their rows: %s. "+
			"Convert them on that server (ALTER TABLE … ENGINE=InnoDB), or import its volume or a dump",
			strings.Join(wrong.Tables, ", "))
	}
	if err != nil {
		return err
	}
	r.Version = result.Version
	fmt.Printf("The data is cloned up to binary log position %s:%d (GTIDs: %s).\n",
		result.File, result.Offset, result.GTIDs)
	return m.Complete()
}

// donor reads the donor's account from a Secret. It then queries the donor, the server to clone, for the settings
// that a server needs to start from a copy of its data.
func (c *importServerCommand) donor(ctx context.Context) (clone.Donor, error) {
	values := map[string]string{}
	for _, name := range []string{"username", "password", "ca.crt"} {
		raw, err := os.ReadFile(filepath.Join(c.Account, name)) //nolint:gosec // The caller chooses the directory.
		switch {
		case err != nil:
			return clone.Donor{}, fmt.Errorf("the Secret of the import account has no %s: %w", name, err)
		case len(raw) == 0 || len(raw) > maxDonorFile:
			return clone.Donor{}, fmt.Errorf("the Secret of the import account: the size of %s is %d bytes, but must be 1 "+
				"to %d bytes",
				name, len(raw), maxDonorFile)
		}
		values[name] = strings.TrimSuffix(string(raw), "\n")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(values["ca.crt"])) {
		return clone.Donor{}, errors.New("the Secret of the import account: ca.crt contains no PEM certificate")
	}
	d := clone.Donor{
		Host: c.Host, Port: int(c.Port), Authorities: filepath.Join(c.Account, "ca.crt"),
		User: values["username"], Password: sql.Password(values["password"]),
	}
	server := sql.Server{
		Address: net.JoinHostPort(c.Host, strconv.Itoa(d.Port)), User: d.User,
		Trust: sql.Trust{Authorities: pool, AnyName: true},
		Times: &sql.Times{Handshake: donorTime, Session: donorTime},
	}
	session, err := server.Login(ctx, d.Password)
	if err != nil {
		return clone.Donor{}, fmt.Errorf("cannot log in to the server to import from: %w", err)
	}
	defer session.Close()
	d.Layout, err = session.CheckDonor(ctx)
	if err != nil {
		return clone.Donor{}, fmt.Errorf("cannot import from the server: %w", err)
	}
	return d, nil
}

// donorTime is the timeout for the TLS handshake with the server to clone, and for all queries to it.
const donorTime = 30 * time.Second
