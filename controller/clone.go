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

// cloneCommand is `controller clone`.
type cloneCommand struct {
	Folder string `help:"An empty folder with room for all data, which becomes that of its folder data. The server's socket goes there too: its path must be short." required:"" type:"path"`
	Donor  string `help:"Folder of a Secret: host, port, username and password of an account that may clone; ca.crt, by which its server is known; page-size and lower-case-table-names of that." required:"" type:"path"`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there."`
}

// Run the clone. What came of it is in the report, and an error where no backup can be made of it.
func (c *cloneCommand) Run(ctx context.Context) error {
	tuneMemory()
	start := time.Now()
	result, err := c.clone(ctx)
	r := agent.Report{Command: "clone", Version: result.Version}
	r.End(time.Since(start).Seconds(), err)
	if err == nil {
		fmt.Printf("The data is here, as of %s:%d (%s).\n", result.File, result.Offset, result.GTIDs)
	}
	return writeReport(r, c.Report, err)
}

func (c *cloneCommand) clone(ctx context.Context) (clone.Result, error) {
	donor, err := readDonor(c.Donor)
	if err != nil {
		return clone.Result{}, err
	}
	return (&clone.Clone{Folder: c.Folder, Donor: donor, Output: os.Stdout}).Run(ctx)
}

// maxDonorFile in bytes of what is said of a donor.
const maxDonorFile = 4096

// readDonor from a Secret's files.
func readDonor(folder string) (clone.Donor, error) {
	values := map[string]string{}
	for _, name := range []string{"host", "port", "username", "password", "page-size", "lower-case-table-names"} {
		raw, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // The caller says which folder.
		switch {
		case err != nil:
			return clone.Donor{}, fmt.Errorf("cannot read whom to clone: %w", err)
		case len(raw) == 0 || len(raw) > maxDonorFile:
			return clone.Donor{}, fmt.Errorf("cannot read whom to clone: %s has %d bytes, and not from 1 to %d", name, len(raw), maxDonorFile)
		}
		values[name] = strings.TrimSuffix(string(raw), "\n")
	}
	port, err := strconv.ParseUint(values["port"], 10, 16)
	if err != nil {
		return clone.Donor{}, fmt.Errorf("cannot read whom to clone: port: %w", err)
	}
	l := sql.Layout{}
	for name, to := range map[string]*int{"page-size": &l.PageSize, "lower-case-table-names": &l.LowerCase} {
		if *to, err = strconv.Atoi(values[name]); err != nil {
			return clone.Donor{}, fmt.Errorf("cannot read whom to clone: %s: %w", name, err)
		}
	}
	return clone.Donor{
		Host: values["host"], Port: int(port), Authorities: filepath.Join(folder, "ca.crt"),
		User: values["username"], Password: sql.Password(values["password"]), Layout: l,
	}, nil
}
