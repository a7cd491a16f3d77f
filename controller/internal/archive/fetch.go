package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// A Fetch downloads a dump from a store to the data volume. Another container, with the server's image, then loads
// the dump.
type Fetch struct {
	datavolume.Half

	// Object is the name of the object in the store. SHA256 is its checksum, or "" if the user has not set it.
	Object, SHA256 string
	Remote         *Remote
	// Output receives a line about the download.
	Output io.Writer
}

// Run runs the download. It returns a report even if it fails. Each error is an ExitError.
func (f *Fetch) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "fetch-dump", f.run)
}

func (f *Fetch) run(ctx context.Context, r *agent.Report) error {
	m, err := f.Begin(ctx)
	if r.Already = m == nil; r.Already || err != nil {
		return err
	}
	defer m.Close()
	from, err := f.Remote.Gateway.Open(ctx, f.Object)
	if err != nil {
		return explainDump(err)
	}
	defer from.Close() //nolint:errcheck // Nothing was written.
	file, err := os.OpenFile(f.Dump(f.Object), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), &meteredReader{ctx: ctx, from: from})
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return explainDump(err)
	}
	r.Size, r.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	fmt.Fprintf(f.Output, "Fetched %d MiB, SHA-256 %s\n", n/mebi, r.SHA256) //nolint:errcheck // A lost line is no reason to fail.
	if f.SHA256 != "" && f.SHA256 != r.SHA256 {
		return exit.Damaged("the SHA-256 checksum of the dump is %s, but %s was specified", r.SHA256, f.SHA256)
	}
	return nil
}

// explainDump adds the exit code ExitMissing to the error if the dump is not in the store.
func explainDump(err error) error {
	if e := new(agent.ExitError); errors.As(explainRemote(err), &e) && e.Code == agent.ExitMissing {
		return exit.With(agent.ExitMissing, "the dump is not in the store: %w", err)
	}
	return err
}
