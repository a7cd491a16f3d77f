package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Install installs Debian packages without starting their services.
func Install(ctx context.Context, packages []string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("cannot install what is missing, because there is no apt-get here: install %s by hand",
			strings.Join(packages, " "))
	}
	install := append([]string{"install", "-qy", "--no-install-recommends"}, packages...)
	if aptGet(ctx, install...) == nil {
		return nil
	}
	// The package list may be missing or outdated.
	if err := aptGet(ctx, "update", "-q"); err != nil {
		return fmt.Errorf("cannot install %s: %w", strings.Join(packages, " "), err)
	}
	if err := aptGet(ctx, install...); err != nil {
		return fmt.Errorf("cannot install %s: %w", strings.Join(packages, " "), err)
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	// No service is started in runlevel 1. containerd must not run on the machine itself.
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, lastLines(string(out), 15))
	}
	return nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
