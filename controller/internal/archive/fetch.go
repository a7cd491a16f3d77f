package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// A Fetch brings a dump out of a store to where a container of the server's image loads it.
type Fetch struct {
	datavolume.Half

	// Object in the store, and its SHA256 sum, if somebody has said it.
	Object, SHA256 string
	Remote         *Remote
	// Output takes a line of what was done.
	Output io.Writer
}

// Run it. The report is there also with an error, which is an ExitError.
func (f *Fetch) Run(ctx context.Context) (agent.Report, error) {
	start := time.Now()
	r := agent.Report{Command: "fetch-dump"}
	err := exit.CodeOf(ctx, f.run(ctx, &r))
	r.End(time.Since(start).Seconds(), err)
	return r, err
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
	to, err := os.OpenFile(f.Dump(f.Object), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), &meteredReader{ctx: ctx, from: from})
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return explainDump(err)
	}
	r.Size, r.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	fmt.Fprintf(f.Output, "Fetched %d MiB, SHA-256 %s\n", n/mebi, r.SHA256) //nolint:errcheck // A lost line is no reason to fail.
	if f.SHA256 != "" && f.SHA256 != r.SHA256 {
		return exit.Damaged("the SHA-256 of the dump is %s, and %s was said", r.SHA256, f.SHA256)
	}
	return nil
}

// explainDump that is not where it was said to be.
func explainDump(err error) error {
	if e := new(agent.ExitError); errors.As(explainRemote(err), &e) && e.Code == agent.ExitMissing {
		return exit.With(agent.ExitMissing, "the dump is not in the store: %w", err)
	}
	return err
}
