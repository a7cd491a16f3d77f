package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// killed is the exit code that package exec reports for a process that was killed by a signal.
const killed = -1

// TestBackupCrash kills the backup after each step. An archive with its final name must be complete at any time,
// and the next run must succeed.
func TestBackupCrash(t *testing.T) {
	for _, step := range []string{stepLocked, stepBegun, stepWritten, stepSynced, stepVerified, stepManifest,
		datavolume.StepRenamed} {
		for _, repeated := range []bool{false, true} {
			t.Run(map[bool]string{false: "First", true: "Replacing"}[repeated]+"/"+step, func(t *testing.T) {
				p := newPlace(t)
				if repeated {
					_, err := p.newBackup().Run(t.Context())
					must(t, err)
					p.put(t, "shop/orders.ibd", []byte("new"))
				}
				if code, out := (role{Backup: p.newBackup(), Crash: step}).run(t); code != killed {
					t.Fatalf("it did not crash but ended with %d: %s", code, out)
				}
				if _, err := os.Stat(p.archive()); (err == nil) != (repeated || step == datavolume.StepRenamed) {
					t.Errorf("after the crash: %v", err)
				}
				report, err := p.newBackup().Run(t.Context())
				must(t, err)
				if report.Already != (step == datavolume.StepRenamed) {
					t.Errorf("the next run: %+v", report)
				}
				p.restored(t)
			})
		}
	}
}

// restored checks that the restored data equals the backed up data.
func (p place) restored(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff([]string{"data.tar.zst", ManifestName}, names(t, filepath.Dir(p.archive()))); diff != "" {
		t.Errorf("beside the archive: -want, +got:\n%s", diff)
	}
	r := p.newRestore(t)
	_, err := r.Run(t.Context())
	must(t, err)
	p.holds(t, r)
}

func (p place) holds(t *testing.T, r *Restore) {
	t.Helper()
	want := restorable(t, filepath.Join(p.data, v1.DataDirectory))
	if diff := cmp.Diff(want, snapshot(t, filepath.Join(r.Volume, v1.DataDirectory))); diff != "" {
		t.Errorf("restored: -want, +got:\n%s", diff)
	}
}

// TestRestoreCrash kills the restore after each step. The data directory must be complete or missing at any time,
// and the next run must succeed.
func TestRestoreCrash(t *testing.T) {
	p := newPlace(t)
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	for _, step := range []string{stepBegun, datavolume.StepUnpacked, datavolume.StepMarked, datavolume.StepRenamed} {
		t.Run(step, func(t *testing.T) {
			r := p.newRestore(t)
			must(t, os.Mkdir(filepath.Join(r.Volume, v1.DataDirectory), 0o755))
			if code, out := (role{Restore: r, Crash: step}).run(t); code != killed {
				t.Fatalf("it did not crash but ended with %d: %s", code, out)
			}
			if got := len(names(t, filepath.Join(r.Volume, v1.DataDirectory))); (got > 0) != (step == datavolume.StepRenamed) {
				t.Errorf("after the crash the data directory has %d entries", got)
			}
			// If a user deletes the claim after this crash, the final backup must detect that no server has ever
			// started.
			b := place{data: r.Volume, backup: t.TempDir()}.newBackup()
			if report, err := b.Run(t.Context()); err != nil || report.Empty != (step != datavolume.StepRenamed) {
				t.Errorf("a backup after the crash: %+v, %v", report, err)
			}
			report, err := r.Run(t.Context())
			must(t, err)
			if report.Already != (step == datavolume.StepRenamed) {
				t.Errorf("the next run: %+v", report)
			}
			if diff := cmp.Diff([]string{datavolume.MarkerName, v1.DataDirectory}, names(t, r.Volume)); diff != "" {
				t.Errorf("on the volume: -want, +got:\n%s", diff)
			}
			p.holds(t, r)
		})
	}
}
