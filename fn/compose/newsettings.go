package compose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// maxConfig is the greatest size in bytes of a my.cnf. The Job that validates it has it in an annotation, and the
// annotations of an object have 256 KiB at most (apimachinery, pkg/api/validation/objectmeta.go).
const maxConfig = 128 << 10

// checkNewSettings refuses settings with which the server would not start or serve, unless it was made with just these:
// a newer release of the function stops no server that runs.
func checkNewSettings(r *resolved, path *field.Path) field.ErrorList {
	if r.engine.config == "" || r.started && isAsMade(r) {
		return nil
	}
	var errs field.ErrorList
	if len(r.config) > maxConfig {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("makes a my.cnf of more than %d KiB: remove some of the settings", maxConfig>>10)))
	}
	for _, key := range slices.Sorted(maps.Keys(r.spec.Config)) {
		if why := refusedNewSetting(key, string(r.spec.Config[key])); why != "" {
			errs = append(errs, field.Forbidden(path.Key(clipText(key)), why))
		}
	}
	return append(errs, slices.Concat(checkFixed(r, path), checkCiphers(r, path))...)
}

// fixedOptions can only be set when the data directory is initialized, with their default values. A server with
// another value does not start on the data, or does not find its tables. An empty default is not known: releases differ.
var fixedOptions = map[string]string{
	"aria_block_size":         "8192",
	"innodb_fast_checksum":    "0",
	"innodb_log_block_size":   "512",
	"innodb_page_size":        "16384",
	"innodb_undo_tablespaces": "",
	"lower_case_table_names":  "0",
}

// fixedSettings are the values of the fixedOptions among settings; nil if there are none.
func fixedSettings(settings map[string]v1.Setting) map[string]string {
	var out map[string]string
	for key, value := range settings {
		name := readOption(key).name
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

// suffixes of numbers in my.cnf.
var suffixes = map[string]uint64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

// fixedValue is a value in the one spelling in which it is compared: 16K and 16384 are the same.
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

// fixedInForce returns the fixed settings that the data was made with, and reports whether they are known. Before the
// server has served they are those of the claim, which has to find out what a restored backup was made with. A server that an earlier release started has them in its my.cnf, if it serves
// with that.
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

// hasServed reports whether the server of this instance has ever taken clients.
func hasServed(r *resolved) bool {
	return r.started && (r.XR.Status.ServedImage != "" || connectionSecret(r) != nil)
}

// readConfig reads the settings of a my.cnf that this function has written.
func readConfig(text string) map[string]v1.Setting {
	out := map[string]v1.Setting{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			out[key] = v1.Setting(strings.Trim(value, `"`))
		}
	}
	return out
}

// checkFixed refuses to change what can only be set when the data directory is initialized.
func checkFixed(r *resolved, path *field.Path) (errs field.ErrorList) {
	have, known := fixedInForce(r)
	if !known || !hasServed(r) || r.ephemeral {
		return nil
	}
	wanted := fixedSettings(r.spec.Config)
	for _, name := range slices.Sorted(maps.Keys(fixedOptions)) {
		was, is := valueOf(have, name), valueOf(wanted, name)
		if was == is {
			continue
		}
		errs = append(errs, field.Forbidden(path.Key(name), "can only be set when the data directory is initialized, and this instance has data, which was made with "+inWords(was)+": "+howToKeep(was)))
	}
	return errs
}

// valueOf a fixed option, or its default.
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
		return "remove it"
	}
	return "set it to " + clipText(value)
}

// fixedToReport are the fixed settings that the status has.
func fixedToReport(r *resolved) map[string]string {
	have, known := fixedInForce(r)
	switch {
	case r.ephemeral:
		return nil
	case known:
		return have
	}
	return r.XR.Status.FixedSettings
}
