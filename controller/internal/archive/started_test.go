package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// TestRecordStart checks that the version of the last started server can be stored and read. Invalid content of the
// file is ignored.
func TestRecordStart(t *testing.T) {
	volume := t.TempDir()
	if err := os.MkdirAll(filepath.Join(volume, "data", "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	v, err := datavolume.OpenInitial(volume, "data", "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if got := v.Volume.StartedVersion(); got != "" {
		t.Errorf("want nothing before the first start, got %q", got)
	}
	for _, version := range []string{"8.0.36", "8.0.43", "8.0.43"} {
		if err := v.RecordStart(version); err != nil {
			t.Fatal(err)
		}
		if got := v.Volume.StartedVersion(); got != version {
			t.Errorf("want %q, got %q", version, got)
		}
	}
	place := filepath.Join(volume, datavolume.StartedName)
	for name, put := range map[string]func() error{
		"nonsense": func() error { return os.WriteFile(place, []byte("{"), 0o600) },
		"a lie":    func() error { return os.WriteFile(place, []byte(`{"version":"\u001b[2J"}`), 0o600) },
		"a link":   func() error { return os.Symlink("/etc/passwd", place) },
		"a folder": func() error { return os.Mkdir(place, 0o700) },
	} {
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if got := v.Volume.StartedVersion(); got != "" {
			t.Errorf("%s: want no version, got %q", name, got)
		}
	}
}
