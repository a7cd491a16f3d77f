package inside

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// TestAddresses checks that no two nodes have the same address.
func TestAddresses(t *testing.T) {
	seen := map[string]bool{controlIP: true}
	for i := 1; i <= 9; i++ {
		for _, a := range []string{NodeName(i), nodeIP(i), podSubnet(i)} {
			if seen[a] {
				t.Errorf("%s is there twice", a)
			}
			seen[a] = true
		}
	}
	if nodeIP(1) != "192.168.77.11" || podSubnet(2) != "10.244.2.0/24" {
		t.Errorf("want the addresses in their networks, got %s and %s", nodeIP(1), podSubnet(2))
	}
}

func TestConfig(t *testing.T) {
	c := Config{Name: "dev", Dir: "/d", Nodes: 2, Node: 1}
	args, err := c.arguments(CommandNode)
	if err != nil || args[0] != CommandNode {
		t.Fatalf("got %v, %v", args, err)
	}
	got, err := ParseConfig(args[1])
	if err != nil || got != c {
		t.Errorf("want %+v, got %+v, %v", c, got, err)
	}
	if _, err := ParseConfig("{"); err == nil {
		t.Error("want half a configuration to be refused")
	}
}

func TestPKI(t *testing.T) {
	p, err := newPKI(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.user("somebody", "a-group", "https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := config.BearerToken + `,somebody,somebody,"a-group"` + "\n"; p.tokens.String() != want {
		t.Errorf("want the token file %q, got %q", want, p.tokens.String())
	}
	for _, f := range []string{"ca.crt", "api.crt", "api.key", "sa.key", "sa.pub"} {
		info, err := os.Stat(p.file(f))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: want it for root only, got %v, %v", f, info, err)
		}
	}
}

// TestSupervisor checks that a component that exits during the boot is reported with its last lines, and that it is
// restarted after the boot.
func TestSupervisor(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o750); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	never := func(context.Context) error { return errors.New("not yet") }

	s := newSupervisor(dir, 1)
	s.run("broken", "sh", "-c", "echo it is broken >&2; exit 3")
	err := s.until(ctx, "the component", never)
	if err == nil || !strings.Contains(err.Error(), "broken ended while the cluster was booting: exit status 3") ||
		strings.Count(err.Error(), "it is broken") != 2 {
		t.Errorf("want what it said in both tries, got %v", err)
	}

	s = newSupervisor(dir, 0)
	s.booted.Store(true)
	s.run("restarted", "sh", "-c", "echo once more")
	err = s.until(ctx, "the second start", func(context.Context) error {
		if strings.Count(tail(logFile(dir, "restarted")), "once more") < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(strings.Repeat("a line\n", 1000)+"the end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tail(file)
	if len(got) > logTail || !strings.HasPrefix(got, "a line\n") || !strings.HasSuffix(got, "\nthe end") {
		t.Errorf("want whole lines up to the end, got %q", got)
	}
}
