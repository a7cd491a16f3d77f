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

// bootCheckCommand implements `controller bootcheck`. A restore test runs it in the server's image, to start a server
// on the unpacked copy.
type bootCheckCommand struct {
	Dir       string `help:"Directory where ${copy} of the backup volume is mounted, with the copy that 'controller unpack' wrote. The server's socket is created there too, so its path must be short." required:"" type:"path"`
	Directory string `default:"${directory}" help:"Name of the copy in that directory."`

	Report string `default:"${report}" help:"File for the report, which is one JSON object. The default is the termination log of the container, which may be missing. Its exitCode is 46 for a broken backup. Other codes mean that the restore test has no result."`
}

// Run runs the restore test. The report contains the verdict. Run returns an error only if there is no report.
func (c *bootCheckCommand) Run(ctx context.Context) error {
	tuneMemory()
	start := time.Now()
	t := bootcheck.BootCheck{Dir: c.Dir, Directory: c.Directory, Output: os.Stdout}
	result, err := t.Run(ctx)
	if err != nil && archive.CopyGone(c.Dir) {
		// A backup may have deleted the copy during the test to free space. The test then says nothing about the
		// backup.
		err = &agent.ExitError{Code: agent.ExitBusy,
			Err: fmt.Errorf("the copy does not exist, or was deleted during the test because a backup needs the "+
				"space: %s",
				err.Error())}
	}
	if err != nil {
		err = &agent.ExitError{Code: bootCheckCode(ctx, err), Err: err}
	}
	r := agent.Report{Command: "bootcheck", Tables: int64(result.Tables), Version: result.Version}
	r.End(time.Since(start).Seconds(), err)
	fmt.Println(reportSentence(r))
	return writeReport(r, c.Report, nil)
}

// bootCheckCode returns the exit code that the report contains. It is not the exit code of the process, which is 0 if
// the report was written. A canceled context takes precedence, because the error of an interrupted test says nothing
// about the backup.
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

// reportSentence returns the verdict of a report as a sentence.
func reportSentence(r agent.Report) string {
	switch r.ExitCode {
	case 0:
		return fmt.Sprintf("The backup can be restored: a server of version %s started from it, and all of its %d "+
			"tables are intact.",
			r.Version, r.Tables)
	case agent.ExitBroken:
		return "The backup cannot be restored: " + r.Error + "."
	}
	return "The restore test has no result: " + r.Error + "."
}
