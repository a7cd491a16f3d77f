package version

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Server is what a server's program says of itself, as the file version.json.
type Server struct {
	// Version as the server gives it to clients, such as 9.7.4 or
	// 10.11.18-MariaDB.
	Version string `json:"version"`
	// Flavour is mysql or mariadb.
	Flavour Flavour `json:"flavour"`
	// Banner is the whole first line.
	Banner string `json:"banner"`
}

// patience with a server that is asked for its version.
const patience = time.Minute

// maxAnswer in bytes of a server's answer, and of version.json.
const maxAnswer = 64 << 10

// programs by which a server is found, with what keeps it from reading its
// settings, and the folders besides those of PATH.
var (
	programs = [][]string{{"mysqld", "--no-defaults"}, {"mariadbd", "--no-defaults"}}
	folders  = []string{"/usr/sbin/", "/usr/libexec/", "/usr/local/mysql/bin/", "/usr/local/sbin/"}
)

// Ask the server program of this image for its version, without any of its
// settings.
func Ask(ctx context.Context) (Server, error) {
	program, args, err := Find()
	if err != nil {
		return Server{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, append(args, "--version")...).Output() //nolint:gosec // One of the programs above.
	if err != nil {
		return Server{}, fmt.Errorf("cannot ask %s for its version: %w", program, err)
	}
	return FromBanner(string(out[:min(len(out), maxAnswer)]))
}

// Find the server program of this image, and the arguments that keep it from
// reading its settings.
func Find() (program string, args []string, err error) {
	for _, p := range programs {
		for _, folder := range append([]string{""}, folders...) {
			if program, err := exec.LookPath(folder + p[0]); err == nil {
				return program, slices.Clone(p[1:]), nil
			}
		}
	}
	return "", nil, errors.New("this image has neither mysqld nor mariadbd: it is not a MySQL server's")
}

// FromBanner reads what a server prints when it is asked for its version.
func FromBanner(text string) (Server, error) {
	text = strings.TrimSpace(text)
	n, err := number(text)
	if err != nil {
		return Server{}, err
	}
	v, err := Parse(n)
	if err != nil {
		return Server{}, err
	}
	line, _, _ := strings.Cut(text, "\n")
	return Server{Version: n, Flavour: v.Flavour, Banner: line}, nil
}

// Read a version.json.
func Read(path string) (Version, error) {
	f, err := os.Open(path) //nolint:gosec // The caller says which file.
	if err != nil {
		return Version{}, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	s, err := Decode(f)
	if err != nil {
		return Version{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return Parse(s.Version)
}

// Decode what is in a version.json.
func Decode(r io.Reader) (Server, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxAnswer))
	if err != nil {
		return Server{}, err
	}
	s := Server{}
	if err := json.Unmarshal(raw, &s); err != nil {
		return Server{}, err
	}
	v, err := Parse(s.Version)
	if err != nil {
		return Server{}, err
	}
	if v.Flavour != s.Flavour {
		return Server{}, fmt.Errorf("it contradicts itself: flavour %q, version %q", s.Flavour, s.Version)
	}
	return s, nil
}
