package image

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSources(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		parse  func(string) []source
		text   string
		want   []source
	}{
		"one line": {
			reason: "Options are in brackets, and a comment continues to the end of the line.",
			parse:  parseList,
			text: "# deb http://no bookworm main\ndeb-src http://no bookworm main\n" +
				"deb [ arch=amd64 signed-by=/k.gpg ] http://a/debian bookworm main contrib # Debian\ndeb http://b/debian " +
				"trixie main\n",
			want: []source{
				{uri: "http://a/debian", suites: []string{"bookworm"}, components: []string{"main", "contrib"}, keyring: "/k.gpg"},
				{uri: "http://b/debian", suites: []string{"trixie"}, components: []string{"main"}},
			},
		},
		"deb822": {
			reason: "A stanza may have several values per field, continue on the next line, and be disabled.",
			parse:  parseDeb822,
			text: "Types: deb deb-src\n# A comment.\nURIs: http://a/debian\n http://b/debian\nSuites: bookworm " +
				"bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n\n" +
				"Types: deb\nEnabled: no\nURIs: http://c\nSuites: bookworm\nComponents: main\n\n" +
				"Types: deb-src\nURIs: http://d\nSuites: bookworm\nComponents: main\n\n" +
				"Types: deb\nURIs: http://e\nSuites: x\nComponents: y\nSigned-By:\n -----BEGIN PGP\n .\n",
			want: []source{
				{uri: "http://a/debian", suites: []string{"bookworm", "bookworm-updates"}, components: []string{"main"},
					keyring: "/k.gpg"},
				{uri: "http://b/debian", suites: []string{"bookworm", "bookworm-updates"}, components: []string{"main"},
					keyring: "/k.gpg"},
				{uri: "http://e", suites: []string{"x"}, components: []string{"y"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.parse(tc.text), cmp.AllowUnexported(source{})); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDebian(t *testing.T) {
	all := []source{
		{uri: "http://docker", suites: []string{"bookworm"}, components: []string{"stable"}},
		{uri: "http://security", suites: []string{"bookworm-security"}, components: []string{"main"}},
		{uri: "http://debian", suites: []string{"bookworm", "bookworm-updates"}, components: []string{"main"}},
	}
	got, err := debian(all, "bookworm")
	if err != nil || got.uri != "http://debian" {
		t.Errorf("Debian comes from %q, %v", got.uri, err)
	}
	if _, err := debian(all, "trixie"); err == nil {
		t.Error("A Debian that the machine does not have was found")
	}
}

func TestUnneeded(t *testing.T) {
	for path, want := range map[string]bool{
		"usr/share/doc": true, "usr/share/doc/x/y": true, "usr/share/documents": false, "usr/bin/perl5.42": true,
		"usr/bin/printf": false,
		"var/lib/dpkg":   true, "var/lib": false, "usr/lib/x86_64-linux-gnu/perl-base/x": true,
		"usr/lib/x86_64-linux-gnu/libicudata.so.78": false,
		"run": true, "usr/sbin/runuser": false, "etc/passwd": true, "etc/passwd-": false, "usr/share/zoneinfo/Europe": false,
	} {
		if got := Unneeded.MatchString(path); got != want {
			t.Errorf("%s is left out: %t instead of %t", path, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	base := Recipe{Names: []string{"a"}, Inputs: []string{"x", "yz"}}
	for name, tc := range map[string]struct {
		reason string
		other  Recipe
		same   bool
	}{
		"same inputs": {"The names of the image must not change the key.",
			Recipe{Names: []string{"b"}, Inputs: []string{"x", "yz"}},
			true},
		"moved text": {"Text that moves from one input to the next must change the key.", Recipe{Inputs: []string{"xy", "z"}},
			false},
		"other inputs": {"A changed input must change the key.", Recipe{Inputs: []string{"x", "y"}}, false},
		"fewer inputs": {"A missing input must change the key.", Recipe{Inputs: []string{"x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := base.key() == tc.other.key(); got != tc.same {
				t.Errorf("%s\nThe keys are the same: %t", tc.reason, got)
			}
		})
	}
}

// TestLayer checks that two names of the same file become hard links in a layer. Of several entries with the same name,
// the first one is used.
func TestLayer(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"tree/sub", "tree/skipped"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, content := range map[string]string{"tree/a": "a", "tree/special": "from the tree", "tree/skipped/x": "x"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "tree/a"), filepath.Join(dir, "tree/sub/b")); err != nil {
		t.Fatal(err)
	}
	sums := map[string]bool{}
	for range 2 {
		w := NewLayer(dir)
		w.Text("top/special", "ours")
		w.tree(filepath.Join(dir, "tree"), "top", func(rel string) bool { return rel == "skipped" })
		l, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		sum, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		sums[sum.Hex] = true
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"top/special 644 ours", "top/ 755 ", "top/a 640 a", "top/sub/ 755 ", "top/sub/b=top/a 640 "}
		if diff := cmp.Diff(want, list(t, r)); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		_ = r.Close()
	}
	if len(sums) != 1 {
		t.Error("The same files give different layers")
	}
}

func TestLayerErrors(t *testing.T) {
	w := NewLayer(filepath.Join(t.TempDir(), "none"))
	w.Text("a", "b")
	if _, err := w.Close(); err == nil {
		t.Error("A layer was written to a folder that is not there")
	}
	w = NewLayer(t.TempDir())
	w.Program("a", "/none")
	w.Text("b", "c")
	if _, err := w.Close(); err == nil {
		t.Error("A layer was made of a file that is not there")
	}
}

func TestContextSum(t *testing.T) {
	sum := func(files map[string]string) string {
		dir := t.TempDir()
		for f, c := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, f), []byte(c), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s, err := contextSum(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	changed := func(file, content string) map[string]string {
		return map[string]string{".dockerignore": "*\n!src\n", "Dockerfile": "FROM x", "src/a.go": "a", "src/a_test.go": "t",
			"other": "o", file: content}
	}
	base := sum(changed("other", "o"))
	for file, same := range map[string]bool{"src/a.go": false, "Dockerfile": false, "src/b.go": false, "other": true,
		"src/a_test.go": true, "src/testdata/x": true} {
		if got := sum(changed(file, "new")) == base; got != same {
			t.Errorf("A change of %s leaves the image as it is: %t", file, got)
		}
	}
}

func TestMissingTool(t *testing.T) {
	b := &Builder{Root: t.TempDir(), Layout: t.TempDir(), Work: t.TempDir(), Log: io.Discard}
	if _, err := b.Ensure(t.Context(), b.CoreDNS); err == nil ||
		!strings.Contains(err.Error(), `cannot find the program "coredns"`) {
		t.Errorf("A tool that nobody built was not missed: %v", err)
	}
}

// TestOSRelease checks that Ubuntu is recognized, because Debian's packages must be installed from Debian's own
// mirror there.
func TestOSRelease(t *testing.T) {
	const text = "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE='debian'\n"
	for name, want := range map[string]string{"ID": "ubuntu", "VERSION_CODENAME": "noble", "ID_LIKE": "debian",
		"VERSION": ""} {
		if got := osRelease(text, name); got != want {
			t.Errorf("%s: want %q, got %q", name, want, got)
		}
	}
}
