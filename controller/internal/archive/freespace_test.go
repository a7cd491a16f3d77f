package archive

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// TestBackupFull checks backups to a volume that is too small. Each case runs in a process with its own file system.
func TestBackupFull(t *testing.T) {
	cases := map[string]struct {
		reason  string
		free    int
		noise   bool
		code    int
		message string
	}{
		"Fits":           {free: 64 << 20},
		"FitsCompressed": {reason: "12 MiB of data fit into 2 MiB, because the data is mostly zeros.", free: 2 << 20},
		"NeverFits": {reason: "The lack of space must be detected before anything is written.",
			free: 2 << 20, noise: true, code: agent.ExitNoSpace,
			message: "MiB free\",\"lacks\":1"},
		"DoesNotFitAtEnd": {reason: "The size was estimated too low, so the lack of space is detected during the backup.",
			free: 11 << 20, noise: true, code: agent.ExitNoSpace,
			message: "no space left"},
		"NotEvenAFolder": {reason: "The volume has only one free page of memory, so not even a directory can be created.",
			free: 4096, code: agent.ExitNoSpace},
		"NotEvenManifests": {free: 100 << 10, noise: true, code: agent.ExitNoSpace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
			p.put(t, "ibdata1", content(12<<20, tc.noise))
			b := p.newBackup()
			b.Archive = filepath.Join(p.backup, "one", "data.tar.zst") // Each archive has its own directory.
			code, output := role{Backup: b, Mount: p.backup, Bytes: tc.free}.run(t)
			if code != tc.code || !strings.Contains(output, tc.message) {
				t.Errorf("%s: it ended with %d: %s", tc.reason, code, output)
			}
			if tc.code != 0 && strings.Contains(output, "left:") {
				t.Errorf("it left %s", output)
			}
		})
	}
}

func content(n int, noise bool) []byte {
	out := make([]byte, n)
	if noise {
		_, _ = rand.NewChaCha8([32]byte{2}).Read(out)
	}
	return out
}

func TestRestoreFull(t *testing.T) {
	cases := map[string]struct {
		free, code int
	}{
		"Fits":         {free: 64 << 20},
		"NeverFits":    {free: 6 << 20, code: agent.ExitNoSpace},
		"NothingAtAll": {free: 4096, code: agent.ExitNoSpace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
			p.put(t, "ibdata1", content(12<<20, false))
			_, err := p.newBackup().Run(t.Context())
			must(t, err)
			r := p.newRestore(t)
			code, output := role{Restore: r, Mount: r.Volume, Bytes: tc.free}.run(t)
			if code != tc.code {
				t.Errorf("it ended with %d: %s", code, output)
			}
			if tc.code != 0 && strings.Contains(output, "left:") {
				t.Errorf("it left something: %s", output)
			}
		})
	}
}

// TestRestoreFillsUp checks a manifest that states less data than the archive contains. The check of the free space
// passes, but the restore must stop and leave no files.
func TestRestoreFillsUp(t *testing.T) {
	p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
	for _, name := range []string{"a", "b", "c"} {
		p.put(t, name, content(3<<20, true))
	}
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	r := p.newRestore(t)
	must(t, rewrite(p.archive(), `"dataBytes": 9437184`, `"dataBytes": 3145728`))
	code, output := role{Restore: r, Mount: r.Volume, Bytes: 10 << 20}.run(t)
	if code != agent.ExitDamaged || strings.Contains(output, "left:") {
		t.Errorf("it ended with %d: %s", code, output)
	}
}

func rewrite(archive, from, target string) error {
	path := filepath.Join(filepath.Dir(archive), ManifestName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(raw), from, target, 1)), 0o600)
}
