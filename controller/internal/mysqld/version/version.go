// Package version parses the versions of servers. It also decides which server can use the data directory of another
// one.
package version

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Flavour is a family of servers with compatible files.
type Flavour string

// These are the supported flavours. Percona Server reports the same as MySQL and has the same files.
const (
	MySQL   Flavour = "mysql"
	MariaDB Flavour = "mariadb"
)

// A Version is the version of a server without the suffix of its packager. The zero value is invalid.
type Version struct {
	Flavour             Flavour
	Major, Minor, Patch int
}

// maxLength is the maximum length in bytes of a text that is parsed as a version.
const maxLength = 256

var (
	plain = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:[-+~. ][ -~]*)?$`)
	// banner matches the version in a server's --version output.
	banner = regexp.MustCompile(`\bVer (\S+)`)
)

// strangerSuffix marks versions of MongoDB in old archives, because their numbers look like those of MySQL. No
// supported server reads these archives.
const strangerSuffix = "-MongoDB"

// replicationPrefix is the prefix of MariaDB's version. It is for clients that cannot parse a major version with two
// digits.
const replicationPrefix = "5.5.5-"

// Parse parses the result of SELECT VERSION(), such as 8.4.6 or 10.11.18-MariaDB.
func Parse(text string) (Version, error) {
	flavour := MySQL
	number := text
	if strings.Contains(text, "MariaDB") {
		flavour, number = MariaDB, strings.TrimPrefix(text, replicationPrefix)
	}
	m := plain.FindStringSubmatch(number)
	if m == nil || len(text) > maxLength || strings.HasSuffix(text, strangerSuffix) {
		return Version{}, fmt.Errorf("%.40q is not a valid server version", text)
	}
	v := Version{Flavour: flavour}
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*n, _ = strconv.Atoi(m[i+1]) // Three digits at most.
	}
	return v, nil
}

// number returns the version in a server's banner.
func number(text string) (string, error) {
	m := banner.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("cannot find a version in the output of the server: %.200q", text)
	}
	return m[1], nil
}

// String returns the version for users.
func (v Version) String() string {
	names := map[Flavour]string{MySQL: "MySQL", MariaDB: "MariaDB"}
	return fmt.Sprintf("%s %d.%d.%d", names[v.Flavour], v.Major, v.Minor, v.Patch)
}

// ValidatesConfig reports whether the server supports --validate-config. MySQL does since 8.0.16, and MariaDB does
// not.
func (v Version) ValidatesConfig() bool {
	return v.Flavour == MySQL && (v.Major > 8 || v.Major == 8 && (v.Minor > 0 || v.Patch >= 16))
}

// Before reports whether the version is older than the first release of a series.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}
