package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/bootcheck"
)

// bootCheckCommand is `controller bootcheck`.
type bootCheckCommand struct {
	Folder    string `help:"Where the folder ${copy} of the backup volume is mounted, with the copy that 'controller unpack' made. The server's socket goes there too: its path must be short." required:"" type:"path"`
	Directory string `default:"${directory}" help:"The copy's name in that folder."`

	Report string `default:"${report}" help:"File for the report, one JSON object. The kubelet's need not be there. Its exitCode tells a broken backup (46) from a restore test that came to nothing."`
}

// Run the restore test. Its verdict is in the report: an error is only that there
// is no report.
func (c *bootCheckCommand) Run(ctx context.Context) error {
	tuneMemory()
	start := time.Now()
	t := bootcheck.BootCheck{Folder: c.Folder, Directory: c.Directory, Output: os.Stdout}
	result, err := t.Run(ctx)
	if err != nil && archive.CopyGone(c.Folder) {
		// Then it is no BrokenError any more.
		err = &agent.ExitError{Code: agent.ExitBusy, Err: fmt.Errorf("the copy was never made, or removed while it was tried, as a backup does that needs the room: %s", err.Error())}
	}
	if err != nil {
		err = &agent.ExitError{Code: bootCheckCode(ctx, err), Err: err}
	}
	r := agent.Report{Command: "bootcheck", Tables: int64(result.Tables), Version: result.Version}
	r.End(time.Since(start).Seconds(), err)
	fmt.Println(reportSentence(r))
	return writeReport(r, c.Report, nil)
}

// bootCheckCode is the exit code for the report; the process ends with 0 where it
// could write that. A restore test that was told to stop says nothing of the backup,
// whatever its error looks like.
func bootCheckCode(ctx context.Context, err error) int {
	_, broken := errors.AsType[*bootcheck.BrokenError](err)
	switch {
	case ctx.Err() != nil:
		return agent.ExitStopped
	case broken:
		return agent.ExitBroken
	}
	return agent.CodeOf(err)
}

// reportSentence that says the same to people.
func reportSentence(r agent.Report) string {
	switch r.ExitCode {
	case 0:
		return fmt.Sprintf("The backup restores: a server of version %s runs on it, and finds all of its %d tables whole.", r.Version, r.Tables)
	case agent.ExitBroken:
		return "The backup does not restore: " + r.Error + "."
	}
	return "It could not be found out whether the backup restores: " + r.Error + "."
}
