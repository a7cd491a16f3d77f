// Package durability makes the server wait for the BackupStore before it acknowledges a commit, and refuses servers and
// settings with which that is not possible.
package durability

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/fieldcheck"
	"github.com/crossplane-mysql/crossplane-mysql/fn/mycnf"
)

// semiSyncPrefix is the prefix of the variables of the plugin, and oldSemiSyncPrefix is their former prefix.
const (
	semiSyncPrefix    = "rpl_semi_sync_source"
	oldSemiSyncPrefix = "rpl_semi_sync_master"
)

// Arguments returns the arguments of mysqld with which commits wait until the controller, which is the only
// semi-synchronous replica, acknowledges them. They take precedence over my.cnf. A server without the plugin does not
// start with them, so that no server runs without this protection. The timeout is the maximum, in milliseconds. With
// wait-no-replica, commits also wait while the controller is not connected. With AFTER_SYNC, other sessions cannot see
// a transaction that is not in the BackupStore yet. An image that CheckServer refuses gets no arguments. It only runs
// until the backup before the change to a suitable image, and must start for that.
func Arguments(image string) []string {
	if refusedImage(image) != "" {
		return nil
	}
	return []string{
		"--plugin-load-add=semisync_source.so",
		"--rpl-semi-sync-source-enabled=ON",
		"--rpl-semi-sync-source-timeout=" + v1.CommitTimeout,
		"--rpl-semi-sync-source-wait-for-replica-count=1",
		"--rpl-semi-sync-source-wait-no-replica=ON",
		"--rpl-semi-sync-source-wait-point=AFTER_SYNC",
	}
}

// CheckFields validates the fields for the durability, as the schema does.
func CheckFields(c *v1.ContinuousBackup, fldPath *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if c.Durability != "" {
		errs = append(errs, fieldcheck.Enum(fldPath.Child("durability"), c.Durability, v1.DurabilityServer,
			v1.DurabilityStore)...)
	}
	if c.Durability == v1.DurabilityStore && c.Enabled != nil && !*c.Enabled {
		errs = append(errs, field.Forbidden(fldPath.Child("durability"),
			"Store requires the archive of the binary log. Remove enabled, or set durability to Server"))
	}
	if c.StoreFailurePolicy == "" {
		return errs
	}
	policyPath := fldPath.Child("storeFailurePolicy")
	errs = append(errs, fieldcheck.Enum(policyPath, c.StoreFailurePolicy, v1.StoreFailureWait, v1.StoreFailureContinue)...)
	if c.Durability != v1.DurabilityStore {
		errs = append(errs, field.Forbidden(policyPath,
			"requires durability Store. Set durability to Store, or remove storeFailurePolicy"))
	}
	return errs
}

// A Server is the part of a server that determines whether its commits can wait for the BackupStore.
type Server struct {
	// Image of the server.
	Image string
	// HasGTIDs is true if the server has GTIDs by default.
	HasGTIDs bool
	// Config contains the settings of the claim.
	Config map[string]v1.Setting
}

// CheckServer returns an error for the image and for each setting with which commits would wait forever, or would not
// wait for the BackupStore.
func CheckServer(s Server, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	if reason := refusedImage(s.Image); reason != "" {
		errs = append(errs, field.Forbidden(spec.Child("image"), reason))
	}
	config := spec.Child("config")
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		if reason := refusedSetting(key, string(s.Config[key])); reason != "" {
			errs = append(errs, field.Forbidden(config.Key(fieldcheck.ClipText(key)), reason))
		}
	}
	if !hasGTIDs(s) {
		errs = append(errs, field.Required(config.Key("gtid_mode"),
			`durability Store requires GTIDs. Set gtid_mode to "ON", or set durability to Server`))
	}
	return errs
}

// tagPattern matches a version in a tag, and captures its numbers. The patch release is optional.
var tagPattern = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?($|[.+_-])`)

// refusedImage returns why the server of an image has no suitable plugin, or "". It allows an image whose version is
// unknown. A tag without a patch release, such as 8.0, is the newest one. Only the tags of MySQL and Percona Server
// contain versions of MySQL. The tag of any other image may be a version of something else.
func refusedImage(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name, tag, _ := strings.Cut(path.Base(image), ":")
	switch {
	case strings.Contains(name, "mariadb"):
		return "durability Store requires MySQL 8.0.26 or newer, and is not supported for MariaDB. Set durability to Server"
	case !strings.Contains(name, "mysql") && !strings.Contains(name, "percona"):
		return ""
	}
	m := tagPattern.FindStringSubmatch(tag)
	if m == nil {
		return ""
	}
	version := make([]int, 0, len(m))
	for _, digits := range m[1:4] {
		n, err := strconv.Atoi(digits)
		if err != nil {
			n = 1 << 20 // The tag has no patch release.
		}
		version = append(version, n)
	}
	if slices.Compare(version, []int{5}) > 0 && slices.Compare(version, []int{8, 0, 26}) < 0 {
		return fmt.Sprintf("durability Store requires MySQL 8.0.26 or newer, but the tag of the image is %s. Upgrade the "+
			"image, or set durability to Server", fieldcheck.ClipText(tag))
	}
	return ""
}

// filters are the settings that keep transactions out of the binary log.
var filters = []string{"binlog_do_db", "binlog_ignore_db"}

// refusedSetting returns why a setting contradicts durability Store, or "". mysqld also accepts an unambiguous prefix of
// a name.
func refusedSetting(key, value string) string {
	name, _ := mycnf.OptionName(key)
	switch {
	case strings.HasPrefix(name, semiSyncPrefix) || strings.HasPrefix(name, oldSemiSyncPrefix):
		return "is set by durability Store. Remove it"
	case name == "log_bin" && mycnf.TurnsOff(key, value):
		return "turns off the binary log, which durability Store requires. Remove it, or set durability to Server"
	case slices.ContainsFunc(filters, func(f string) bool { return name != "" && strings.HasPrefix(f, name) }):
		return "keeps transactions out of the binary log, so they would not be in the BackupStore. Remove it, or set " +
			"durability to Server"
	case name == "binlog_error_action" && !slices.Contains([]string{"abort_server", "1"}, strings.ToLower(value)):
		return "lets the server continue without the binary log after an error. Remove it, or set durability to Server"
	}
	return ""
}

// hasGTIDs reports whether the server has GTIDs. The settings of the claim take precedence over the default. With
// enforce_gtid_consistency off, my.cnf turns GTIDs off.
func hasGTIDs(s Server) bool {
	mode, isModeSet := settingOf(s.Config, "gtid_mode")
	consistency, isConsistencySet := settingOf(s.Config, "enforce_gtid_consistency")
	switch {
	case isModeSet:
		return slices.Contains([]string{"on", "true", "3"}, mode)
	case isConsistencySet && !slices.Contains([]string{"on", "true", "1"}, consistency):
		return false
	}
	return s.HasGTIDs
}

// settingOf returns the value of a setting in lower case, in any spelling of its name.
func settingOf(config map[string]v1.Setting, name string) (value string, set bool) {
	for key, v := range config {
		if plain, _ := mycnf.OptionName(key); plain == name {
			return strings.ToLower(string(v)), true
		}
	}
	return "", false
}
