package compose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/mycnf"
)

// maxConfig is the maximum size of a my.cnf in bytes. The Job that validates it stores it in an annotation, and the
// annotations of an object are limited to 256 KiB (apimachinery, pkg/api/validation/objectmeta.go).
const maxConfig = 128 << 10

// checkNewSettings refuses settings with which the server would not start or accept clients. It accepts the settings
// that the server already has, because a newer release of the function must not stop a running server.
func checkNewSettings(r *resolved, path *field.Path) field.ErrorList {
	if r.engine.config == "" || r.started && isAsMade(r) {
		return nil
	}
	var errs field.ErrorList
	if len(r.config) > maxConfig {
		errs = append(errs, field.Forbidden(path,
			fmt.Sprintf("makes my.cnf larger than %d KiB. Remove some of the settings", maxConfig>>10)))
	}
	for _, key := range slices.Sorted(maps.Keys(r.spec.Config)) {
		if reason := mycnf.RefusedNewSetting(key, string(r.spec.Config[key])); reason != "" {
			errs = append(errs, field.Forbidden(path.Key(clipText(key)), reason))
		}
	}
	return append(errs, slices.Concat(checkFixed(r, path), checkCiphers(r, path))...)
}

// fixedOptions are options that can only be set when the data directory is initialized, with their defaults. With
// another value, a server does not start on the data, or does not find its tables. The default is empty if it differs
// between releases.
var fixedOptions = map[string]string{
	"aria_block_size":         "8192",
	"innodb_fast_checksum":    "0",
	"innodb_log_block_size":   "512",
	"innodb_page_size":        "16384",
	"innodb_undo_tablespaces": "",
	"lower_case_table_names":  "0",
}

// fixedSettings returns the settings that are fixedOptions, with normalized values, or nil if there are none.
func fixedSettings(settings map[string]v1.Setting) map[string]string {
	var out map[string]string
	for key, value := range settings {
		name, _ := mycnf.OptionName(key)
		if _, ok := fixedOptions[name]; !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = fixedValue(string(value))
	}
	return out
}

// suffixes are the multipliers that a number in my.cnf can end with.
var suffixes = map[string]uint64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

// fixedValue normalizes the value of a fixed option, so that 16K and 16384 are equal.
func fixedValue(value string) string {
	text, factor := strings.ToLower(strings.TrimSpace(value)), uint64(1)
	for suffix, f := range suffixes {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, factor = number, f
		}
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return value
	}
	return strconv.FormatUint(n*factor, 10)
}

// fixedInForce returns the fixed settings of the data directory, and reports whether they are known. Until the server
// has accepted clients, they come from the claim. For a restored backup, the user must set the values of the backup
// there. If the status does not contain them, they are read from my.cnf while the server accepts clients.
func fixedInForce(r *resolved) (settings map[string]string, known bool) {
	switch {
	case r.engine.config == "":
		return nil, false
	case !hasServed(r) || r.ephemeral:
		return fixedSettings(r.spec.Config), true
	case len(r.XR.Status.FixedSettings) > 0:
		return r.XR.Status.FixedSettings, true
	case r.Observed.Config != nil && deploymentReady(r.Observed.Deployment):
		return fixedSettings(readConfig(r.Observed.Config.Data[v1.ConfigKey])), true
	}
	return nil, false
}

// hasServed reports whether the server of this instance has ever accepted clients.
func hasServed(r *resolved) bool {
	return r.started && (r.XR.Status.ServedImage != "" || connectionSecret(r) != nil)
}

// readConfig parses a my.cnf that this function has written.
func readConfig(text string) map[string]v1.Setting {
	out := map[string]v1.Setting{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			out[key] = v1.Setting(strings.Trim(value, `"`))
		}
	}
	return out
}

// checkFixed refuses to change options that can only be set when the data directory is initialized.
func checkFixed(r *resolved, path *field.Path) (errs field.ErrorList) {
	current, known := fixedInForce(r)
	if !known || !hasServed(r) || r.ephemeral {
		return nil
	}
	wanted := fixedSettings(r.spec.Config)
	for _, name := range slices.Sorted(maps.Keys(fixedOptions)) {
		before, after := valueOf(current, name), valueOf(wanted, name)
		if before == after {
			continue
		}
		errs = append(errs, field.Forbidden(path.Key(name),
			"can only be set when the data directory is initialized. The data of this instance was initialized with "+
				inWords(before)+". "+howToKeep(before)))
	}
	return errs
}

// valueOf returns the value of a fixed option, which can only be set when the data directory is initialized, or its
// default.
func valueOf(settings map[string]string, name string) string {
	if value, ok := settings[name]; ok {
		return value
	}
	return fixedOptions[name]
}

func inWords(value string) string {
	if value == "" {
		return "the server's default"
	}
	return clipText(value)
}

func howToKeep(value string) string {
	if value == "" {
		return "Remove it"
	}
	return "Set it to " + clipText(value)
}

// fixedToReport returns the settings for the status that can only be set when the data directory is initialized.
func fixedToReport(r *resolved) map[string]string {
	current, known := fixedInForce(r)
	switch {
	case r.ephemeral:
		return nil
	case known:
		return current
	}
	return r.XR.Status.FixedSettings
}
