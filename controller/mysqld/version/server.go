package version

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	// Banner is the whole line.
	Banner string `json:"banner"`
}

// patience with a server that is asked for its version.
const patience = time.Minute

// maxAnswer in bytes of a server's answer, and of version.json.
const maxAnswer = 64 << 10

// programs by which a server is found, and the folders besides those of PATH.
var (
	programs = []string{"mysqld", "mariadbd"}
	folders  = []string{"/usr/sbin/", "/usr/libexec/", "/usr/local/mysql/bin/", "/usr/local/sbin/"}
)

// Ask the server program of this image for its version, without any of its
// settings.
func Ask(ctx context.Context) (Server, error) {
	program, err := find()
	if err != nil {
		return Server{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output() //nolint:gosec // One of the two programs above.
	if err != nil {
		return Server{}, fmt.Errorf("cannot ask %s for its version: %w", program, err)
	}
	return FromBanner(string(out[:min(len(out), maxAnswer)]))
}

func find() (string, error) {
	for _, name := range programs {
		for _, folder := range append([]string{""}, folders...) {
			if program, err := exec.LookPath(folder + name); err == nil {
				return program, nil
			}
		}
	}
	return "", errors.New("this image has neither mysqld nor mariadbd: it is not a MySQL server's")
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
	return Server{Version: n, Flavour: v.Flavour, Banner: text}, nil
}

// Read a version.json.
func Read(path string) (Version, error) {
	f, err := os.Open(path) //nolint:gosec // The caller says which file.
	if err != nil {
		return Version{}, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(io.LimitReader(f, maxAnswer))
	if err != nil {
		return Version{}, err
	}
	s := Server{}
	if err := json.Unmarshal(raw, &s); err != nil {
		return Version{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	v, err := Parse(s.Version)
	if err != nil {
		return Version{}, err
	}
	if v.Flavour != s.Flavour {
		return Version{}, fmt.Errorf("%s contradicts itself: flavour %q, version %q", path, s.Flavour, s.Version)
	}
	return v, nil
}
