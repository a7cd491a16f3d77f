package archive

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// TestBackupFull has a backup volume that is too small. Each runs in a process
// that has a file system of its own.
func TestBackupFull(t *testing.T) {
	cases := map[string]struct {
		reason string
		free   int
		noise  bool
		code   int
		said   string
	}{
		"Fits":             {free: 64 << 20},
		"FitsCompressed":   {reason: "12 MiB of mostly zeros in 2 MiB", free: 2 << 20},
		"NeverFits":        {reason: "seen before anything is written", free: 2 << 20, noise: true, code: agent.ExitNoSpace, said: "MiB free\",\"lacks\":1"},
		"DoesNotFitAtEnd":  {reason: "the estimate is not sure", free: 11 << 20, noise: true, code: agent.ExitNoSpace, said: "no space left"},
		"NotEvenAFolder":   {reason: "a page of memory", free: 4096, code: agent.ExitNoSpace},
		"NotEvenManifests": {free: 100 << 10, noise: true, code: agent.ExitNoSpace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
			p.put(t, "ibdata1", content(12<<20, tc.noise))
			b := p.newBackup()
			b.Archive = filepath.Join(p.backup, "one", "data.tar.zst") // As on a volume, where its folder is no other's.
			code, said := role{Backup: b, Mount: p.backup, Bytes: tc.free}.run(t)
			if code != tc.code || !strings.Contains(said, tc.said) {
				t.Errorf("%s: it ended with %d: %s", tc.reason, code, said)
			}
			if tc.code != 0 && strings.Contains(said, "left:") {
				t.Errorf("it left %s", said)
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
			code, said := role{Restore: r, Mount: r.Volume, Bytes: tc.free}.run(t)
			if code != tc.code {
				t.Errorf("it ended with %d: %s", code, said)
			}
			if tc.code != 0 && strings.Contains(said, "left:") {
				t.Errorf("it left something: %s", said)
			}
		})
	}
}

// TestRestoreFillsUp has a manifest that promises less than the archive holds,
// and so gets past the first look.
func TestRestoreFillsUp(t *testing.T) {
	p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
	for _, name := range []string{"a", "b", "c"} {
		p.put(t, name, content(3<<20, true))
	}
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	r := p.newRestore(t)
	must(t, rewrite(p.archive(), `"dataBytes": 9437184`, `"dataBytes": 3145728`))
	code, said := role{Restore: r, Mount: r.Volume, Bytes: 10 << 20}.run(t)
	if code != agent.ExitDamaged || strings.Contains(said, "left:") {
		t.Errorf("it ended with %d: %s", code, said)
	}
}

func rewrite(archive, from, to string) error {
	path := filepath.Join(filepath.Dir(archive), ManifestName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(raw), from, to, 1)), 0o600)
}
