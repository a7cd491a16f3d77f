package compose

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// configHeader begins every my.cnf. Without skip_name_resolve, TCP probes that
// do not log in would block their own address after 100 of them (ERROR 1129). Without
// symbolic_links, which MySQL has off since 8.0.2, MariaDB ignores DATA DIRECTORY and INDEX DIRECTORY
// with a warning, and older servers of MySQL do so for MyISAM. For InnoDB MySQL refuses DATA DIRECTORY
// since 8.0.21; before that, a table that is stored elsewhere is found and reported.
const configHeader = "# Made from spec.config. Edit the claim, not this.\n[mysqld]\nskip_name_resolve = ON\nloose_symbolic_links = OFF\n"

// keyPattern of a setting's name, such as max_connections or
// validate_password.policy.
var keyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)

// maxSettingLength in bytes; an option file's line has 4096 at most
// (mysys/my_default.cc in MySQL).
const maxSettingLength = 2048

// renderConfig is the my.cnf of the settings, sorted, after the platform's own, or what is wrong
// with them.
func renderConfig(path *field.Path, own string, settings map[string]v1.Setting) (string, field.ErrorList) {
	var errs field.ErrorList
	seen := map[string]string{}
	b := &strings.Builder{}
	b.WriteString(configHeader + own)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		at, value := path.Key(clipText(key)), string(settings[key])
		name, modified := optionName(key)
		if other, ok := seen[name]; ok {
			errs = append(errs, field.Invalid(at, "", "is the same setting as "+other+": remove one of them"))
		}
		seen[name] = key
		if why := refusedSetting(key, name, value, modified); why != "" {
			errs = append(errs, field.Forbidden(at, why))
			continue
		}
		b.WriteString(settingLine(key, value))
		b.WriteByte('\n')
	}
	return b.String(), errs
}

// refusedSetting says why a setting cannot be taken, or nothing.
func refusedSetting(key, name, value string, modified bool) string {
	switch {
	case !keyPattern.MatchString(key):
		return "is not the name of a setting: use letters, digits, '_', '-' and '.'"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "its value has a line break, another control character, or is not UTF-8"
	case strings.ContainsAny(value, "\"\\"):
		return "its value has a double quote or a backslash, which an option file would not keep"
	case len(value) > maxSettingLength:
		return "its value is too long for an option file"
	}
	if why := refusedOption(name, value, modified); why != "" {
		return why
	}
	// Before 8.0, and in MariaDB, mysqld takes what follows a dot for the option.
	if _, last, dotted := strings.Cut(name, "."); dotted {
		inner, turned := optionName(last)
		return refusedSetting(last, inner, value, modified || turned)
	}
	return ""
}

// quoted value of an option file. Quotes keep spaces and '#', which would begin
// a comment.
func quoted(value string) string {
	if strings.ContainsAny(value, "#'; ") {
		return `"` + value + `"`
	}
	return value
}
