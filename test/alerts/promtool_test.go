//go:build promtool

package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPromtool tests the alerts with Prometheus' own promtool.
func TestPromtool(t *testing.T) {
	var rule struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(deploy, "rules.yaml"))), &rule); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": string(raw), "rules_test.yaml": read(t, "rules_test.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		c := exec.CommandContext(t.Context(), os.Getenv("PROMTOOL"), args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
