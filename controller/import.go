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

// half is what the commands of an import are told of it.
type half struct {
	Volume    string `help:"Where the data volume is mounted." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Folder in the volume's root that the data goes to. It must be empty or missing."`
	XR        string `help:"UID of the XR whose data it is from then on." name:"xr" required:""`
	Name      string `help:"What is imported, by which it is known whether that was done." required:""`
	Report    string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

func (h *half) half() datavolume.Half {
	return datavolume.Half{Volume: h.Volume, Directory: h.Directory, XR: types.UID(h.XR), Name: h.Name}
}

// importCommand is `controller import`. The function composes its flags.
type importCommand struct {
	half

	From          string `help:"Where the volume of a server that has stopped is mounted, to copy its data. Without it the data is taken that a container before has made." type:"path"`
	Within        string `help:"Folder in that volume that is the data directory, if it is not its root."`
	TargetVersion string `help:"File that 'controller version-of-server' wrote in the image of the server that is to run on the data." required:"" type:"path"`
}

// Run the import.
func (c *importCommand) Run(ctx context.Context) error {
	tuneMemory()
	i := archive.Import{Half: c.half.half(), From: c.From, Within: c.Within, Target: c.TargetVersion, Output: os.Stdout}
	r, err := i.Run(ctx)
	return writeReport(r, c.Report, err)
}

// fetchDumpCommand is `controller fetch-dump`.
type fetchDumpCommand struct {
	half

	Object string `help:"Name of the dump in the store." required:""`
	SHA256 string `help:"Its SHA-256 sum, in hexadecimal, if it is known." name:"sha256"`
	Access string `help:"Folder with the way to the store: url, ca.crt and token of its gateway." default:"${access}" type:"path"`
}

// Run the fetching.
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

// importDumpCommand is `controller import-dump`. It runs in the server's image.
type importDumpCommand struct {
	half

	Object   string `help:"Name of the dump that was fetched." required:""`
	Database string `help:"Database that statements are for which name none."`
	Summed   bool   `help:"The sum of the dump was compared. Without it the dump has to end as mysqldump ends one."`
	Sockets  string `help:"Folder to make for the socket of the server that loads the dump. Its path must be short." required:"" type:"path"`
}

// Run the loading.
func (c *importDumpCommand) Run(ctx context.Context) error {
	l := initialize.Loading{Half: c.half.half(), Object: c.Object, Database: c.Database, Summed: c.Summed, Sockets: c.Sockets, Output: os.Stdout}
	r, err := l.Run(ctx)
	return writeReport(r, c.Report, err)
}

// importServerCommand is `controller import-server`. It runs in the server's image.
type importServerCommand struct {
	half

	Host    string `help:"Name or address of the server to clone." required:""`
	Port    uint16 `help:"Its port." default:"3306"`
	Account string `help:"Folder of a Secret: username and password of an account there with BACKUP_ADMIN, and ca.crt, who has signed that server's certificate." required:"" type:"path"`
}

// Run the clone.
func (c *importServerCommand) Run(ctx context.Context) error {
	tuneMemory()
	start := time.Now()
	r := agent.Report{Command: "import-server"}
	err := exit.CodeOf(ctx, c.run(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
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
	result, err := (&clone.Clone{Folder: h.Folder(), Donor: donor, KeepUser: true, Output: os.Stdout}).Run(ctx)
	if wrong, is := errors.AsType[*sql.WrongEngineError](err); is {
		return fmt.Errorf("that server has tables that are not InnoDB's, which come out empty where it is cloned: %s. Change them there (ALTER TABLE … ENGINE=InnoDB), or import its volume, or a dump", strings.Join(wrong.Tables, ", "))
	}
	if err != nil {
		return err
	}
	r.Version = result.Version
	fmt.Printf("The data is here, as of %s:%d (%s).\n", result.File, result.Offset, result.GTIDs)
	return m.Complete()
}

// donor is asked for what a server on a copy of it has to be told.
func (c *importServerCommand) donor(ctx context.Context) (clone.Donor, error) {
	values := map[string]string{}
	for _, name := range []string{"username", "password", "ca.crt"} {
		raw, err := os.ReadFile(filepath.Join(c.Account, name)) //nolint:gosec // The caller says which folder.
		switch {
		case err != nil:
			return clone.Donor{}, fmt.Errorf("the Secret of the account to import with has no %s: %w", name, err)
		case len(raw) == 0 || len(raw) > maxDonorFile:
			return clone.Donor{}, fmt.Errorf("the Secret of the account to import with: %s has %d bytes, and not from 1 to %d", name, len(raw), maxDonorFile)
		}
		values[name] = strings.TrimSuffix(string(raw), "\n")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(values["ca.crt"])) {
		return clone.Donor{}, errors.New("the Secret of the account to import with: ca.crt has no certificate in PEM")
	}
	d := clone.Donor{
		Host: c.Host, Port: int(c.Port), Authorities: filepath.Join(c.Account, "ca.crt"),
		User: values["username"], Password: sql.Password(values["password"]),
	}
	server := sql.Server{
		Address: net.JoinHostPort(c.Host, strconv.Itoa(d.Port)), User: d.User, Trust: sql.Trust{Authorities: pool, AnyName: true},
		Times: &sql.Times{Handshake: donorTime, Session: donorTime},
	}
	session, err := server.Login(ctx, d.Password)
	if err != nil {
		return clone.Donor{}, fmt.Errorf("cannot enter the server to import from: %w", err)
	}
	defer session.Close()
	d.Layout, err = session.CheckDonor(ctx)
	if err != nil {
		return clone.Donor{}, fmt.Errorf("cannot import from the server: %w", err)
	}
	return d, nil
}

// donorTime that it has to answer.
const donorTime = 30 * time.Second
