package archive

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func TestOddFiles(t *testing.T) {
	cases := map[string]struct {
		put  func(path string) error
		bad  string
		root bool
		code int
	}{
		"Pipe": {put: func(path string) error { return unix.Mkfifo(path, 0o600) },
			bad: "neither a file nor a directory"},
		"Device": {put: func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, 0x103) },
			bad: "neither a file nor a directory", root: true},
		"LinkOut": {put: func(path string) error { return os.Symlink("/etc/passwd", path) }, bad: "outside of the data directory",
			code: agent.ExitOutside},
		"LinkUp": {put: func(path string) error { return os.Symlink("../../etc", path) }, bad: "outside of the data directory",
			code: agent.ExitOutside},
		"LinkInside": {put: func(path string) error { return os.Symlink("../data/ibdata1", path) },
			bad: "outside of the data directory", code: agent.ExitOutside},
		"SetUID":          {put: func(path string) error { return os.WriteFile(path, nil, 0o600) }, bad: "another user"},
		"FolderSetGID":    {put: func(path string) error { return os.Mkdir(path, 0o700) }},
		"DoesNotEvenDots": {put: func(path string) error { return os.WriteFile(path+"..", nil, 0o600) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.root && os.Geteuid() != 0 {
				t.Skip("only root makes devices")
			}
			p := newPlace(t)
			path := filepath.Join(p.data, v1.DataDirectory, "odd")
			must(t, tc.put(path))
			switch name {
			case "SetUID":
				must(t, os.Chmod(path, 0o700|os.ModeSetuid))
			case "FolderSetGID":
				must(t, os.Chmod(path, 0o770|os.ModeSetgid))
			}
			_, err := p.newBackup().Run(t.Context())
			if tc.bad == "" {
				must(t, err)
				_, err = p.newRestore(t).Run(t.Context())
				must(t, err)
				return
			}
			if agent.CodeOf(err) != cmp.Or(tc.code, agent.ExitFailed) || !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("Run: %v", err)
			}
			if got := names(t, filepath.Dir(p.archive())); len(got) > 0 {
				t.Errorf("it left %q", got)
			}
		})
	}
}
