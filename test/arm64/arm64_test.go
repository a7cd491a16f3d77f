//go:build arm64test

package arm64

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An agent is the backup program that runs in Jobs, compiled for one CPU architecture. wrapper is the emulator that
// runs it, if this machine has a different architecture.
type agent struct {
	program string
	wrapper []string
}

func build(t *testing.T, arch string, wrapper ...string) *agent {
	t.Helper()
	a := &agent{program: filepath.Join(t.TempDir(), "controller-"+arch), wrapper: wrapper}
	c := exec.CommandContext(t.Context(), "go", "build", "-o", a.program, "./controller")
	c.Dir = filepath.Join("..", "..")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

func (a *agent) run(t *testing.T, args ...string) {
	t.Helper()
	all := append(append(append([]string{}, a.wrapper...), a.program), args...)
	if out, err := exec.CommandContext(t.Context(), all[0], all[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", all, err, out)
	}
}

// TestAcross checks that an archive that was written on amd64 can be verified and restored on arm64, and vice versa.
// The restored data must be identical.
func TestAcross(t *testing.T) {
	amd64, arm64 := build(t, "amd64"), build(t, "arm64", "qemu-aarch64-static")
	for name, tc := range map[string]struct{ from, target *agent }{"ToArm64": {amd64, arm64}, "ToAmd64": {arm64, amd64}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inDir := func(name string) string { return filepath.Join(dir, name) }
			noise := rand.NewChaCha8([32]byte{7})
			want := map[string]string{}
			for file, size := range map[string]int{"ibdata1": 3 << 20, "mysql.ibd": 1 << 20, "shop/orders.ibd": 5<<20 + 17,
				"shop/empty.ibd": 0} {
				content := make([]byte, size)
				_, _ = noise.Read(content[:size/2]) // The rest consists of zeros, as in tablespaces.
				write(t, inDir("volume/data/"+file), content)
				want[file] = string(content)
			}
			write(t, inDir("version.json"), []byte(`{"version":"9.7.4-2","flavour":"mysql"}`))
			write(t, inDir("report"), nil)
			if err := os.Mkdir(inDir("new"), 0o700); err != nil {
				t.Fatal(err)
			}
			tc.from.run(t, "backup", "--volume="+inDir("volume"), "--directory=data",
				"--archive="+inDir("backup/one/data.tar.zst"),
				"--record=one", "--xr=uid", "--namespace=default", "--name=shop", "--source-version=9.7.4-2",
				"--report="+inDir("report"))
			var report struct {
				SHA256 string `json:"sha256"`
			}
			raw, err := os.ReadFile(inDir("report"))
			if err == nil {
				err = json.Unmarshal(raw, &report)
			}
			if err != nil || report.SHA256 == "" {
				t.Fatalf("%v: %s", err, raw)
			}
			tc.target.run(t, "restore", "--archive="+inDir("backup/one/data.tar.zst"), "--sha256="+report.SHA256,
				"--volume="+inDir("new"), "--directory=data",
				"--source-version=9.7.4-2", "--source-clean=false", "--target-version="+inDir("version.json"),
				"--report="+inDir("report"))
			got := map[string]string{}
			for file := range want {
				raw, err := os.ReadFile(inDir("new/data/" + file))
				if err != nil {
					t.Fatal(err)
				}
				got[file] = string(raw)
			}
			if !cmp.Equal(want, got) {
				t.Error("the files are others")
			}
		})
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
