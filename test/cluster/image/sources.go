package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A source is a source of Debian packages in the apt configuration of this machine.
type source struct {
	uri        string
	suites     []string
	components []string
	keyring    string // The path of a key file, or "".
}

// parseList parses the one-line format of sources.list(5).
func parseList(text string) []source {
	var found []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind != "deb" {
			continue
		}
		var s source
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(rest, "[") {
			s.keyring, rest = option(options[1:], "signed-by"), after
		}
		f := strings.Fields(rest)
		if len(f) < 3 {
			continue
		}
		s.uri, s.suites, s.components = f[0], f[1:2], f[2:]
		found = append(found, s)
	}
	return found
}

func option(options, name string) string {
	for o := range strings.FieldsSeq(options) {
		if k, v, _ := strings.Cut(o, "="); strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// parseDeb822 parses the deb822 format of sources.list(5).
func parseDeb822(text string) []source {
	var found []source
	for stanza := range strings.SplitSeq(text, "\n\n") {
		f := fields(stanza)
		if !slices.Contains(strings.Fields(f["types"]), "deb") || f["enabled"] == "no" {
			continue
		}
		for uri := range strings.FieldsSeq(f["uris"]) {
			s := source{uri: uri, suites: strings.Fields(f["suites"]), components: strings.Fields(f["components"])}
			if k := f["signed-by"]; strings.HasPrefix(k, "/") {
				s.keyring = strings.Fields(k)[0]
			}
			found = append(found, s)
		}
	}
	return found
}

// fields parses a stanza of a deb822 file. It returns the value of each field by its name in lower case. A line that
// begins with a space continues the previous field.
func fields(stanza string) map[string]string {
	f := map[string]string{}
	last := ""
	for line := range strings.Lines(stanza) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			f[last] = strings.TrimSpace(f[last] + " " + strings.TrimSpace(line))
			continue
		}
		if k, v, ok := strings.Cut(line, ":"); ok {
			last = strings.ToLower(strings.TrimSpace(k))
			f[last] = strings.TrimSpace(v)
		}
	}
	return f
}

// debian returns the first source that is Debian's main archive. Only this archive has both the codename itself as a
// suite, without a suffix such as -updates, and the component main.
func debian(all []source, codename string) (source, error) {
	for _, s := range all {
		if slices.Contains(s.suites, codename) && slices.Contains(s.components, "main") {
			return s, nil
		}
	}
	return source{}, fmt.Errorf("cannot find where this machine gets Debian %q from: its apt sources name no such "+
		"suite with the component main", codename)
}

// publicMirror is Debian's public mirror.
const publicMirror = "https://deb.debian.org/debian"

// mirror returns this machine's Debian mirror. If this machine runs another distribution, it returns Debian's public
// mirror.
func mirror() (source, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return source{}, fmt.Errorf("cannot tell which Debian this is: %w", err)
	}
	if osRelease(string(release), "ID") != "debian" {
		return source{uri: publicMirror}, nil
	}
	codename := osRelease(string(release), "VERSION_CODENAME")
	if codename == "" {
		return source{}, errors.New("cannot tell which Debian this is: /etc/os-release does not say")
	}
	var all []source
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list",
		"/etc/apt/sources.list.d/*.sources"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return source{}, err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return source{}, fmt.Errorf("cannot read where Debian comes from: %w", err)
			}
			if strings.HasSuffix(f, ".sources") {
				all = append(all, parseDeb822(string(b))...)
				continue
			}
			all = append(all, parseList(string(b))...)
		}
	}
	return debian(all, codename)
}

// osRelease returns the value of a variable in the text of an os-release(5) file, or "".
func osRelease(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}
