package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/clone"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// cloneCommand implements `controller clone`. A Job runs it in the server's image, to clone a running server for an
// online backup.
type cloneCommand struct {
	Dir   string `help:"Empty directory with enough space for all data. The data is written to its subdirectory data. The server's socket is created there too, so its path must be short." required:"" type:"path"`
	Donor string `help:"Directory of a Secret with host, port, username and password of an account that may clone. It also contains ca.crt, to verify the server, and the server's page-size and lower-case-table-names." required:"" type:"path"`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing."`
}

// Run clones the server and writes a report. It returns an error if the clone cannot be used for a backup.
func (c *cloneCommand) Run(ctx context.Context) error {
	tuneMemory()
	start := time.Now()
	result, err := c.clone(ctx)
	r := agent.Report{Command: "clone", Version: result.Version}
	r.End(time.Since(start).Seconds(), err)
	if err == nil {
		fmt.Printf("The data is cloned up to binary log position %s:%d (GTIDs: %s).\n",
			result.File, result.Offset, result.GTIDs)
	}
	return writeReport(r, c.Report, err)
}

func (c *cloneCommand) clone(ctx context.Context) (clone.Result, error) {
	donor, err := readDonor(c.Donor)
	if err != nil {
		return clone.Result{}, err
	}
	return (&clone.Clone{Dir: c.Dir, Donor: donor, Output: os.Stdout}).Run(ctx)
}

// maxDonorFile is the maximum size in bytes of a Secret's key that describes the server to clone (the donor).
const maxDonorFile = 4096

// readDonor reads the address, account and settings of the server to clone (the donor) from a mounted Secret.
func readDonor(dir string) (clone.Donor, error) {
	values := map[string]string{}
	for _, name := range []string{"host", "port", "username", "password", "page-size", "lower-case-table-names"} {
		raw, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // The caller chooses the directory.
		switch {
		case err != nil:
			return clone.Donor{}, fmt.Errorf("cannot read the Secret of the server to clone: %w", err)
		case len(raw) == 0 || len(raw) > maxDonorFile:
			return clone.Donor{}, fmt.Errorf("cannot use the Secret of the server to clone: the size of %s is %d bytes, but "+
				"must be 1 to %d bytes", name, len(raw),
				maxDonorFile)
		}
		values[name] = strings.TrimSuffix(string(raw), "\n")
	}
	port, err := strconv.ParseUint(values["port"], 10, 16)
	if err != nil {
		return clone.Donor{}, fmt.Errorf("cannot use the Secret of the server to clone: port: %w", err)
	}
	l := sql.Layout{}
	for name, target := range map[string]*int{"page-size": &l.PageSize, "lower-case-table-names": &l.LowerCase} {
		if *target, err = strconv.Atoi(values[name]); err != nil {
			return clone.Donor{}, fmt.Errorf("cannot use the Secret of the server to clone: %s: %w", name, err)
		}
	}
	return clone.Donor{
		Host: values["host"], Port: int(port), Authorities: filepath.Join(dir, "ca.crt"),
		User: values["username"], Password: sql.Password(values["password"]), Layout: l,
	}, nil
}
