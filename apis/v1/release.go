package v1

import (
	"regexp"
	"strconv"
)

// Release is the version of this source code. A build of another version sets the variable version of each program
// with -ldflags.
const Release = "v0.1.0"

// productImage contains the controller, and the programs for Jobs and init containers.
const productImage = "ghcr.io/crossplane-mysql/crossplane-mysql"

// AgentImage returns the image of a release.
func AgentImage(release string) string { return productImage + ":" + release }

// releasePattern matches a semantic version with a leading v. It captures the parts that decide whether two releases
// are compatible.
var releasePattern = regexp.MustCompile(`^v(\d{1,6})\.(\d{1,6})\.\d{1,6}(-[0-9A-Za-z.-]{1,64})?$`)

// IsRelease reports whether a string is the version of a release, such as v0.1.0 or v0.2.0-rc.1.
func IsRelease(text string) bool { return releasePattern.MatchString(text) }

// ReleasesFit reports whether a function and a controller of the given releases can work together. The major versions
// must be equal. Before 1.0, the minor versions must be equal as well, because a new minor version may change the
// API.
func ReleasesFit(function, controller string) bool {
	f, c := releasePattern.FindStringSubmatch(function), releasePattern.FindStringSubmatch(controller)
	if f == nil || c == nil || f[1] != c[1] {
		return false
	}
	major, err := strconv.Atoi(f[1])
	return err == nil && (major > 0 || f[2] == c[2])
}
