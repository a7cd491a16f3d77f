package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestReportIsShort(t *testing.T) {
	for name, nasty := range map[string]string{
		"Long": strings.Repeat("x", 10000), "Quotes": strings.Repeat(`"\`, 5000), "Control": strings.Repeat("\x01\n", 5000),
		"Separators": strings.Repeat("\u2028", 5000), "NoUTF8": strings.Repeat("\xff", 10000),
		"Wide": strings.Repeat("\U0001F600", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Command: "backup", Error: nasty, Archive: nasty, Version: nasty, Shutdown: nasty,
				SHA256: strings.Repeat("0", 64), Size: 1 << 62}
			raw, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if len(raw) > 4096 || !utf8.Valid(raw) || !json.Valid(raw) || strings.Count(string(raw), "\n") != 1 {
				t.Errorf("%d bytes: %s", len(raw), raw)
			}
		})
	}
}

func TestReportSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(path, []byte(strings.Repeat("older and longer ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Report{Command: "restore", OK: true, SHA256: "x"}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := Report{}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, err := os.Stat(TerminationLog); err == nil {
		t.Skip("this machine has a termination log, which this test may not write to")
	}
	if err := want.Save(TerminationLog); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(TerminationLog); err == nil {
		t.Error("it made a termination log where the kubelet had made none")
	}
}

func TestProgress(t *testing.T) {
	p := Progress{Phase: PhaseCopy, Percent: 42, Done: 300 * mebi, Total: 715 * mebi, Rate: 512 * mebi}
	if want := "copy: 42% (300 of 715 MiB, 512 MiB/s)"; p.String() != want {
		t.Errorf("String: %q, want %q", p, want)
	}
	got, ok := ParseProgress(p.String())
	if diff := cmp.Diff(p, got); !ok || diff != "" {
		t.Errorf("ParseProgress: %v, -want, +got:\n%s", ok, diff)
	}
	for _, text := range []string{"", "copy", "copy: 1%", "Clean shutdown: true",
		"copy: 1% (1 of 1 MiB, 1 MiB/s) and more"} {
		if _, ok := ParseProgress(text); ok {
			t.Errorf("%q was taken for progress", text)
		}
	}
}
