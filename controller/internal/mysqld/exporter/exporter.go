// Package exporter runs mysqld_exporter next to a server. The program that runs it never exits on its own, because the
// pod of the server is not ready while one of its containers is not running.
package exporter

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
)

// program is the name of the exporter's program, which is in the PATH of its images.
const program = "mysqld_exporter"

const (
	// pollInterval is the interval at which the my.cnf with the exporter's account is read. The kubelet updates the
	// file about once a minute.
	pollInterval = 2 * time.Second
	// firstPause and longestPause limit the time between two starts. The time doubles with each start, and begins again
	// after the exporter has run for the longest time.
	firstPause   = time.Second
	longestPause = time.Minute
	// stopTime is the maximum time that the exporter has to finish its requests.
	stopTime = 5 * time.Second
)

// An Exporter starts mysqld_exporter, and starts it again when the process exits or when its account changes.
type Exporter struct {
	// Account is the path of a my.cnf with the account of the exporter and the socket of the server.
	Account string
	// Port is the TCP port on which mysqld_exporter serves the metrics.
	Port int
	// Output receives the log of mysqld_exporter, and a line about each restart.
	Output io.Writer

	// command returns the exec.Cmd that starts mysqld_exporter. If it is nil, the program in the PATH is started.
	command func(args ...string) *exec.Cmd
	// poll and pause replace pollInterval and firstPause in tests.
	poll, pause time.Duration
}

// Run runs the exporter until the context is canceled. It starts the exporter again when the exporter exits, or when
// the account changes. If the account does not exist yet, Run waits for it.
func (e *Exporter) Run(ctx context.Context) error {
	if e.poll == 0 {
		e.poll, e.pause = pollInterval, firstPause
	}
	for pause := e.pause; ; pause = min(2*pause, longestPause) {
		account := e.awaitAccount(ctx)
		start := time.Now()
		isChanged, err := e.serve(ctx, account)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // The pod is deleted, which is no error.
		case isChanged:
			e.printLinef("The account has changed. Starting the exporter again")
			pause = e.pause
			continue
		case time.Since(start) > longestPause:
			pause = e.pause
		}
		e.printLinef("The exporter is not running: %v. Starting it again in %s", err, pause)
		sleep(ctx, pause)
	}
}

// awaitAccount waits until the file with the account exists, and returns its content. It returns nil if the context is
// canceled.
func (e *Exporter) awaitAccount(ctx context.Context) []byte {
	for isAnnounced := false; ctx.Err() == nil; sleep(ctx, e.poll) {
		account, err := os.ReadFile(e.Account)
		if err == nil && len(account) > 0 {
			return account
		}
		if !isAnnounced {
			e.printLinef("Waiting until the controller has created the account of the exporter: %v", err)
			isAnnounced = true
		}
	}
	return nil
}

// serve runs mysqld_exporter once. It returns when the process exits, or when the account in the my.cnf differs from
// the given one.
func (e *Exporter) serve(ctx context.Context, account []byte) (isChanged bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	command := e.command
	if command == nil {
		command = func(args ...string) *exec.Cmd { return exec.Command(program, args...) } //nolint:gosec,noctx // The image's program. Stop ends it.
	}
	p, err := process.Start(command("--config.my-cnf="+e.Account, "--web.listen-address=:"+strconv.Itoa(e.Port)),
		&process.Log{Out: e.Output, All: true})
	if err != nil {
		return false, fmt.Errorf("cannot start %s: %w", program, err)
	}
	defer stopProcess(p)
	for {
		select {
		case <-p.Done:
			return false, fmt.Errorf("%s exited (%s)", program, p.End())
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(e.poll):
		}
		// While the kubelet replaces the Secret, or after the Secret was deleted, the exporter continues.
		if now, rerr := os.ReadFile(e.Account); rerr == nil && len(now) > 0 && !bytes.Equal(now, account) {
			return true, nil
		}
	}
}

// stopProcess stops mysqld_exporter, and kills it if it does not exit within stopTime.
func stopProcess(p *process.Process) {
	if p.Ended() {
		return
	}
	if err := p.Stop(); err == nil {
		select {
		case <-p.Done:
			return
		case <-time.After(stopTime):
		}
	}
	p.Kill()
}

// sleep waits for a time, or until the context is canceled.
func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

func (e *Exporter) printLinef(format string, args ...any) {
	fmt.Fprintf(e.Output, format+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}
