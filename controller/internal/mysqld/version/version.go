// Package version reads what servers say of their version, and knows which
// server may take over whose data directory.
package version

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Flavour is a family of servers that understand each other's files.
type Flavour string

// Flavours. Percona's server says of itself what MySQL says, and shares its
// files.
const (
	MySQL   Flavour = "mysql"
	MariaDB Flavour = "mariadb"
)

// A Version of a server, without what its packager added. The zero value is no
// version.
type Version struct {
	Flavour             Flavour
	Major, Minor, Patch int
}

// maxLength in bytes of a text that is read as a version.
const maxLength = 256

var (
	plain = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:[-+~. ][ -~]*)?$`)
	// banner is what a server prints when it is asked for its version.
	banner = regexp.MustCompile(`\bVer (\S+)`)
)

// strangerSuffix marks MongoDB's versions, which have the same numbers as MySQL's,
// in archives that were made of it once: no server that is known reads them.
const strangerSuffix = "-MongoDB"

// replicationPrefix is what MariaDB puts before its version for clients that
// cannot read a major version of two digits.
const replicationPrefix = "5.5.5-"

// Parse what SELECT VERSION() returns, such as 8.4.6 or 10.11.18-MariaDB.
func Parse(text string) (Version, error) {
	flavour := MySQL
	number := text
	if strings.Contains(text, "MariaDB") {
		flavour, number = MariaDB, strings.TrimPrefix(text, replicationPrefix)
	}
	m := plain.FindStringSubmatch(number)
	if m == nil || len(text) > maxLength || strings.HasSuffix(text, strangerSuffix) {
		return Version{}, fmt.Errorf("cannot read %.40q as a server's version", text)
	}
	v := Version{Flavour: flavour}
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*n, _ = strconv.Atoi(m[i+1]) // Three digits at most.
	}
	return v, nil
}

// number that a server gives as its version in its banner.
func number(text string) (string, error) {
	m := banner.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("cannot find a version in what the server prints: %.200q", text)
	}
	return m[1], nil
}

// String is the version as people write it.
func (v Version) String() string {
	names := map[Flavour]string{MySQL: "MySQL", MariaDB: "MariaDB"}
	return fmt.Sprintf("%s %d.%d.%d", names[v.Flavour], v.Major, v.Minor, v.Patch)
}

// ValidatesConfig reports whether the server knows --validate-config (MySQL 8.0.16; MariaDB has nothing like it).
func (v Version) ValidatesConfig() bool {
	return v.Flavour == MySQL && (v.Major > 8 || v.Major == 8 && (v.Minor > 0 || v.Patch >= 16))
}

// Before a series is true of what is older than its first release.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}
