package archive

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func TestServerRuns(t *testing.T) {
	for _, name := range []string{"ibdata1", "mysql.ibd", "#innodb_redo/#ib_redo5", "shop/orders.ibd"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			server, out := role{Hold: filepath.Join(p.data, v1.DataDirectory, name)}.start(t)
			output := make([]byte, len("held: <nil>"))
			_, err := out.Read(output)
			must(t, err)
			report, err := p.newBackup().Run(t.Context())
			if agent.CodeOf(err) != agent.ExitBusy || report.ExitCode != agent.ExitBusy ||
				!strings.Contains(report.Error, name) {
				t.Errorf("Run beside a server: %+v, %v", report, err)
			}
			if got := names(t, filepath.Dir(p.archive())); len(got) > 0 {
				t.Errorf("it left %q", got)
			}
			must(t, server.Process.Kill())
			_ = server.Wait()
			_, err = p.newBackup().Run(t.Context())
			must(t, err)
		})
	}
}

func TestStop(t *testing.T) {
	p := newPlace(t)
	for _, step := range []string{stepLocked, stepBegun, stepWritten} {
		t.Run(step, func(t *testing.T) {
			cmd, out := role{Backup: p.newBackup(), Pause: step}.start(t)
			output := make([]byte, len("paused\n"))
			_, err := out.Read(output)
			must(t, err)
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != agent.ExitStopped {
				t.Errorf("it ended with %d", code)
			}
			if got := names(t, filepath.Dir(p.archive())); len(got) > 0 {
				t.Errorf("it left %q", got)
			}
		})
	}
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	t.Run("Restore", func(t *testing.T) {
		r := p.newRestore(t)
		cmd, out := role{Restore: r, Pause: stepBegun}.start(t)
		output := make([]byte, len("paused\n"))
		_, err := out.Read(output)
		must(t, err)
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		if code, got := cmd.ProcessState.ExitCode(), names(t, r.Volume); code != agent.ExitStopped || len(got) > 0 {
			t.Errorf("it ended with %d and left %q", code, got)
		}
	})
}
