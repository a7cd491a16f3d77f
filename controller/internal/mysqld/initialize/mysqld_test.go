//go:build mysqld

package initialize

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// quick skips the import of time zones, which would only take time.
const quick = "MYSQL_INITDB_SKIP_TZINFO=1"

// TestRealInitialize checks passwords that the official entrypoint cannot handle.
func TestRealInitialize(t *testing.T) {
	for name, password := range map[string]string{
		"Quote":      `it's`,
		"Backslash":  `"at the end\`,
		"Everything": "'\"\\`$%#; -- $(id) `id` ${HOME} %s ;DROP DATABASE mysql;ü漢\\",
		"Spaces":     " # spaces ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.Env = []string{quick, "MYSQL_DATABASE=app"}
			b.Scripts = t.TempDir()
			must(t, os.WriteFile(filepath.Join(b.Scripts, "1.sql"), []byte("CREATE TABLE t AS SELECT 42 AS i;\n"), 0o644))
			b.initialize(t, password)
			if out := b.serve(t, password, "SELECT i FROM app.t"); out != "42" {
				t.Errorf("The script's table has %q", out)
			}
		})
	}
}

func (b box) initialize(t *testing.T, password string) {
	t.Helper()
	b.Serve, b.Initialize = nil, &initialization{Allowed: true, Password: password}
	if out, err := b.begin(t).end(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (b box) serve(t *testing.T, password, query string) string {
	t.Helper()
	b.Initialize, b.Serve = nil, &passwords{Wanted: password, Query: query}
	out, err := b.begin(t).end()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(out)
}

// momentsVariable is the environment variable with the number of interrupted initializations.
const momentsVariable = "MOMENTS"

// TestRealKilledAtEachMoment kills initializations after increasing delays. Each run finds the files of the previous
// run. At any time, the database must be complete or missing.
func TestRealKilledAtEachMoment(t *testing.T) {
	const password = `it's "\`
	moments := 8
	if text := os.Getenv(momentsVariable); text != "" {
		var err error
		moments, err = strconv.Atoi(text)
		must(t, err)
	}
	b := newBox(t)
	b.Env = []string{"MYSQL_DATABASE=app"}
	begin := time.Now()
	b.initialize(t, password)
	whole := time.Since(begin)
	data := filepath.Join(b.Volume, v1.DataDirectory)
	killed, finished := 0, 0
	for n := range moments {
		b.Initialize = &initialization{Allowed: true, Password: password}
		if _, err := os.Stat(data); err == nil {
			b.removeData(t)
		}
		if b.begin(t).killAfter(whole * time.Duration(n+1) / time.Duration(moments)) {
			killed++
		}
		if _, err := os.Stat(data); err == nil {
			finished++
			b.isWhole(t, password)
		}
	}
	t.Logf("one takes %v; killed at %d moments, %d of them found a whole database, or were too late", whole, killed,
		finished)
	if killed < moments/2 {
		t.Errorf("It was killed at %d moments of %d only", killed, moments)
	}
	b.initialize(t, password)
	b.isWhole(t, password)
	if raw, err := os.ReadFile(filepath.Join(b.Volume, ".started.json")); err != nil ||
		!strings.HasPrefix(string(raw), `{"version":"9.`) {
		t.Errorf("want the version that starts next beside the data, got %q, %v", raw, err)
	}
}

// TestRealEnds checks that a failed initialization reports the error, and that an initialization exits after SIGTERM.
func TestRealEnds(t *testing.T) {
	const password = "secret"
	b := newBox(t)
	b.Env = []string{quick}
	begin := time.Now()
	b.initialize(t, password)
	whole := time.Since(begin)
	b.serve(t, password, "SELECT 1")

	b.removeData(t)
	b.Initialize, b.Scripts = &initialization{Allowed: true, Password: password}, t.TempDir()
	must(t, os.WriteFile(filepath.Join(b.Scripts, "1.sql"),
		[]byte("INSTALL COMPONENT 'file://component_validate_password';\n"), 0o644))
	r := b.begin(t)
	r.endsByItself(t)
	if out, err := r.end(); err == nil ||
		!strings.Contains(out, "(validate_password) does not allow the requested password. Choose another one") {
		t.Errorf("want the refusal said, got %v\n%s", err, out)
	}

	b.Scripts = ""
	stopped := 0
	for n := range 3 {
		if b.begin(t).stopAfter(t, whole*time.Duration(n+1)/4) {
			stopped++
		}
	}
	if stopped == 0 {
		t.Error("It was told to stop at no moment")
	}
	b.initialize(t, password)
	b.serve(t, password, "SELECT 1")
}

// removeData removes the data and its marker, as if the volume was never initialized.
func (b box) removeData(t *testing.T) {
	t.Helper()
	must(t, errors.Join(os.RemoveAll(filepath.Join(b.Volume, v1.DataDirectory)),
		os.Remove(filepath.Join(b.Volume, ".restored.json"))))
}

func (b box) isWhole(t *testing.T, password string) {
	t.Helper()
	if out := b.serve(t, password,
		"SELECT CONVERT_TZ('2026-07-01 12:00:00', 'UTC', 'Europe/Berlin'); SHOW DATABASES LIKE 'app'"); out != "2026-07-01 14:00:00\napp" {
		t.Errorf("The server has %q", out)
	}
}

// TestRealNothingInItsPlace checks that an empty volume is refused if it should contain data.
func TestRealNothingInItsPlace(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.Initialize = &initialization{Password: "secret"}
	out, err := b.begin(t).end()
	if err == nil || !strings.Contains(out, "this instance had data") {
		t.Errorf("%v\n%s", err, out)
	}
	if entries, err := os.ReadDir(b.Volume); err != nil || len(entries) != 0 {
		t.Errorf("There is %v, %v", entries, err)
	}
}

// TestRealDataMoved checks that an instance does not start if its data was moved away or belongs to another instance.
// It must start after its data was moved back.
func TestRealDataMoved(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.Env = []string{quick}
	begin := func(xr types.UID, says string) {
		t.Helper()
		b.Initialize = &initialization{XR: xr, Allowed: true, Password: "secret"}
		out, err := b.begin(t).end()
		if (err == nil) != (says == "") || !strings.Contains(out, says) {
			t.Errorf("want it to say %q, got %v\n%s", says, err, out)
		}
	}
	begin("mine", "")
	data, aside := filepath.Join(b.Volume, v1.DataDirectory), filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(data, aside))
	rootfs.Own(t, b.Volume)
	begin("mine", "so the data was deleted")
	must(t, os.Rename(aside, data))
	begin("another's", `belongs to another instance, whose composite resource has the UID "mine"`)
	begin("mine", "")
}
