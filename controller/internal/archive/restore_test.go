package archive

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// gone is a suffix that changes the path of a file into a path that does not exist.
const gone = ".none"

func TestRestoreRefuses(t *testing.T) {
	p := newPlace(t)
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	older := targetVersion(t, "8.4.6")
	cases := map[string]struct {
		change func(r *Restore)
		code   int
	}{
		"OlderServer":      {func(r *Restore) { r.Target = older }, agent.ExitVersion},
		"TooFarBehind":     {func(r *Restore) { r.Source = "8.0.43" }, agent.ExitVersion},
		"OtherFlavour":     {func(r *Restore) { r.Source = "10.11.18-MariaDB" }, agent.ExitVersion},
		"UnknownSource":    {func(r *Restore) { r.Source = "" }, agent.ExitVersion},
		"Upgrade":          {func(r *Restore) { r.Source = "8.4.6" }, 0},
		"UncleanSame":      {func(r *Restore) { r.SourceClean = false }, 0},
		"UncleanUpgrade":   {func(r *Restore) { r.Source, r.SourceClean = "8.4.6", false }, agent.ExitUnclean},
		"NoTarget":         {func(r *Restore) { r.Target += gone }, agent.ExitFailed},
		"OtherSum":         {func(r *Restore) { r.SHA256 = strings.Repeat("0", len(r.SHA256)) }, agent.ExitDamaged},
		"NoSum":            {func(r *Restore) { r.SHA256 = "" }, agent.ExitFailed},
		"NoArchive":        {func(r *Restore) { r.Archive += gone }, agent.ExitMissing},
		"NoVolume":         {func(r *Restore) { r.Volume += gone }, agent.ExitFailed},
		"DirectoryIsRoot":  {func(r *Restore) { r.Directory = "." }, agent.ExitFailed},
		"DirectoryIsAbove": {func(r *Restore) { r.Directory = ".." }, agent.ExitFailed},
		"DirectoryIsPath":  {func(r *Restore) { r.Directory = "a/b" }, agent.ExitFailed},
		"Database":         {func(r *Restore) { occupy(r, "ibdata1") }, agent.ExitOccupied},
		"AnyFile":          {func(r *Restore) { occupy(r, ".hidden") }, agent.ExitOccupied},
		"MarkerOfAnother": {func(r *Restore) {
			occupy(r, "ibdata1")
			_ = os.WriteFile(filepath.Join(r.Volume, datavolume.MarkerName),
				[]byte(`{"archive":"data.tar.zst","sha256":"`+r.SHA256+`","inode":1}`), 0o600)
		}, agent.ExitOccupied},
		"RestoredForAnother": {func(r *Restore) {
			_, _ = r.Run(context.Background())
			r.XR = "uid-9"
		}, agent.ExitOccupied},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := p.newRestore(t)
			tc.change(r)
			before := names(t, r.Volume)
			inside := names(t, filepath.Join(r.Volume, v1.DataDirectory))
			report, err := r.Run(t.Context())
			if agent.CodeOf(err) != tc.code || report.ExitCode != tc.code || report.OK != (tc.code == 0) ||
				(report.Error == "") != (tc.code == 0) {
				t.Errorf("Run: %+v, %v", report, err)
			}
			if tc.code == 0 {
				return
			}
			if diff := cmp.Diff(append(before, inside...),
				append(names(t, r.Volume), names(t, filepath.Join(r.Volume, v1.DataDirectory))...)); diff != "" {
				t.Errorf("it changed the volume: -want, +got:\n%s", diff)
			}
		})
	}
}

// occupy creates a file in the data directory, so that the directory is not empty.
func occupy(r *Restore, name string) {
	_ = os.Mkdir(filepath.Join(r.Volume, v1.DataDirectory), 0o700)
	_ = os.WriteFile(filepath.Join(r.Volume, v1.DataDirectory, name), nil, 0o600)
}

// TestMissingManifest checks that a missing manifest is not reported as damage, because a user can restore it.
func TestMissingManifest(t *testing.T) {
	p := newPlace(t)
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	r := p.newRestore(t)
	must(t, os.Remove(filepath.Join(filepath.Dir(p.archive()), ManifestName)))
	if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitMissing {
		t.Errorf("Run: %v", err)
	}
}

// TestSecondRestore checks that a restore fails while another process restores the same archive to the same volume.
func TestSecondRestore(t *testing.T) {
	p := newPlace(t)
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	r := p.newRestore(t)
	cmd, out := role{Restore: r, Pause: stepBegun}.start(t)
	output := make([]byte, len("paused\n"))
	_, err = out.Read(output)
	must(t, err)
	if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitBusy {
		t.Errorf("Run beside another: %v", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	_, err = r.Run(t.Context())
	must(t, err)
}

// TestRestoreLeavesServerUUID checks that a restore does not write the server_uuid, because the server of the backup
// may still run. The archive contains the file auto.cnf, and the restore omits it only at the root of the data
// directory.
func TestRestoreLeavesServerUUID(t *testing.T) {
	p := newPlace(t)
	p.put(t, "shop/auto.cnf", []byte("a user's"))
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	r := p.newRestore(t)
	report, err := r.Run(t.Context())
	must(t, err)
	data := filepath.Join(r.Volume, v1.DataDirectory)
	if got := names(t, data); slices.Contains(got, serverID) || !slices.Contains(got, "ibdata1") {
		t.Errorf("want all but %s, got %q", serverID, got)
	}
	if got := names(t, filepath.Join(data, "shop")); !slices.Contains(got, serverID) {
		t.Errorf("want a file of that name elsewhere, got %q", got)
	}
	if second, err := r.Run(t.Context()); err != nil || !second.Already || report.Already {
		t.Errorf("want a restore that is done to be known as done, got %+v, %v", second, err)
	}
}
