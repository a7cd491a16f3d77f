package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// BuildTools builds the named tools of test/tools. It returns a map from the name of each tool to the path of its
// binary.
func BuildTools(ctx context.Context, root string, log io.Writer, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		return map[string]string{}, nil
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./test/tools"}, names...)...)
	cmd.Dir, cmd.Stderr = root, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot build the tools: %w", err)
	}
	paths := strings.Fields(string(out))
	if len(paths) != len(names) {
		return nil, fmt.Errorf("cannot build the tools: %d of %d have a path", len(paths), len(names))
	}
	tools := make(map[string]string, len(names))
	for i, n := range names {
		tools[n] = paths[i]
	}
	return tools, nil
}

// ImageBuilder returns a Builder that writes images to the OCI layout that all clusters of the repository share.
func ImageBuilder(c state.Cluster, log io.Writer) *image.Builder {
	return &image.Builder{Root: c.Root, Layout: c.Images(), Work: filepath.Join(c.Root, ".cache", "images-work"), Log: log}
}
