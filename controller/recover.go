package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
)

// restoreBaseCommand implements `controller restore-base`, which unpacks the backup with which a recovery begins.
type restoreBaseCommand struct {
	half
	unpacking
}

// Run unpacks the backup to a data volume and writes the report.
func (c *restoreBaseCommand) Run(ctx context.Context) error {
	tuneMemory()
	s, err := c.restoreOf()
	if err != nil {
		return err
	}
	r, err := (&archive.Base{Restore: s, Half: c.half.half()}).Run(ctx)
	return writeReport(r, c.Report, err)
}

// applyLogCommand implements `controller apply-log`, which applies the archived binary log to the unpacked backup. It
// runs in the server's image.
type applyLogCommand struct {
	half

	At       string    `help:"Time or GTID up to which transactions are applied." required:""`
	Timeline string    `help:"Prefix of the binary log in the store." required:""`
	Segment  int64     `help:"Number of the last segment." required:""`
	Digest   string    `help:"SHA-256 checksum of the manifest of that segment." required:""`
	Until    time.Time `help:"Time up to which the binary log contains all transactions." required:""`
	Access   string    `help:"Directory with the access to the store: url, ca.crt and token of its gateway." default:"${access}" type:"path"`
}

// Run applies the binary log and writes the report.
func (c *applyLogCommand) Run(ctx context.Context) error {
	tuneMemory()
	r, err := exit.Report(ctx, "apply-log", c.run)
	return writeReport(r, c.Report, err)
}

// scratchDir is the directory for the socket and the temporary files of the server.
const scratchDir = "s"

func (c *applyLogCommand) run(ctx context.Context, r *agent.Report) error {
	h := c.half.half()
	m, err := h.Continue(ctx)
	if r.Already = m == nil; r.Already || err != nil {
		return err
	}
	defer m.Close()
	result, err := c.apply(ctx, h)
	if err != nil {
		if agent.CodeOf(err) != agent.ExitFailed { // The incomplete data is not used.
			err = errors.Join(err, m.Remove())
		}
		return err
	}
	printRecovered(result)
	if err := os.RemoveAll(filepath.Join(h.Dir(), scratchDir)); err != nil {
		return err
	}
	return m.Complete()
}

func (c *applyLogCommand) apply(ctx context.Context, h datavolume.Half) (recovery.Result, error) {
	target, err := recovery.ParseTarget(c.At)
	if err != nil {
		return recovery.Result{}, exit.With(agent.ExitTarget, "%w", err)
	}
	remote, err := archive.OpenRemote(c.Access, os.Stdout)
	if err != nil {
		return recovery.Result{}, err
	}
	return (&recovery.Recovery{
		Data: h.Data(), Scratch: filepath.Join(h.Dir(), scratchDir), Target: target, Source: remote, Output: os.Stdout,
		Log: recovery.Log{Timeline: logarchive.Timeline{Prefix: c.Timeline}, Last: c.Segment, Digest: c.Digest,
			Until: uint64(max(c.Until.UnixMicro(), 0))},
	}).Run(ctx)
}

func printRecovered(r recovery.Result) {
	fmt.Printf("Applied %d transactions.\n", r.Transactions)
	if r.Last != nil {
		fmt.Printf("The last transaction is %s of %s.\n", r.Last.GTID, recovery.Target{Time: r.Last.Time})
	}
	if r.Next != nil {
		fmt.Printf("The first transaction that is not included is %s of %s.\n", r.Next.GTID, recovery.Target{Time: r.Next.Time})
	}
	if len(r.DisabledEvents) > 0 {
		fmt.Printf("These scheduled events are disabled, as on a replica. Enable them (ALTER EVENT … ENABLE): %s\n",
			strings.Join(r.DisabledEvents, ", "))
	}
	if r.Prepared > 0 {
		fmt.Printf("%d XA transactions are prepared. Commit or roll them back (XA RECOVER).\n", r.Prepared)
	}
}
