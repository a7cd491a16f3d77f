package compose

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/bufferpool"
	"github.com/crossplane-mysql/crossplane-mysql/fn/mycnf"
)

// configHeader is the beginning of each option file. With skip_name_resolve, the server does not block the address of TCP
// probes, which do not log in, after 100 of them (ERROR 1129). With symbolic_links off, MariaDB ignores DATA
// DIRECTORY and INDEX DIRECTORY with a warning. Older MySQL servers do so for MyISAM. For InnoDB, MySQL refuses DATA
// DIRECTORY since 8.0.21. In earlier releases, a table that is stored elsewhere is detected and reported.
const configHeader = "# Made from spec.config. Edit the claim, not this.\n[mysqld]\nskip_name_resolve = " +
	"ON\nloose_symbolic_links = OFF\n"

// keyPattern matches the name of a setting, such as max_connections or validate_password.policy.
var keyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)

// maxSettingLength is the maximum length in bytes. A line of an option file is at most 4096 bytes long
// (mysys/my_default.cc in MySQL).
const maxSettingLength = 2048

// renderConfig returns the my.cnf, with the platform's lines before the claim's sorted settings. It also returns the
// errors in the settings.
func renderConfig(path *field.Path, own string, settings map[string]v1.Setting) (string, field.ErrorList) {
	var errs field.ErrorList
	seen := map[string]string{}
	b := &strings.Builder{}
	b.WriteString(configHeader + own)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fldPath, value := path.Key(clipText(key)), string(settings[key])
		name, modified := mycnf.OptionName(key)
		if other, ok := seen[name]; ok {
			errs = append(errs, field.Invalid(fldPath, "", "is the same setting as "+other+". Remove one of them"))
		}
		seen[name] = key
		if reason := refusedSetting(key, name, value, modified); reason != "" {
			errs = append(errs, field.Forbidden(fldPath, reason))
			continue
		}
		b.WriteString(mycnf.SettingLine(key, value))
		b.WriteByte('\n')
	}
	return b.String(), errs
}

// refusedSetting returns why a setting is refused, or "".
func refusedSetting(key, name, value string, modified bool) string {
	switch {
	case !keyPattern.MatchString(key):
		return "is not a valid setting name. Use letters, digits, '_', '-' and '.'"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "its value contains a line break or another control character, or is not valid UTF-8"
	case strings.ContainsAny(value, "\"\\"):
		return "its value contains a double quote or a backslash, which an option file does not preserve"
	case len(value) > maxSettingLength:
		return "its value is too long for an option file"
	}
	if reason := refusedOption(name, value, modified); reason != "" {
		return reason
	}
	// Before MySQL 8.0, and in MariaDB, mysqld reads the text after a dot as the name of the option.
	if _, last, dotted := strings.Cut(name, "."); dotted {
		inner, turned := mycnf.OptionName(last)
		return refusedSetting(last, inner, value, modified || turned)
	}
	return ""
}

// platformConfig returns the lines of my.cnf that do not come from the claim and are the same for all servers.
func platformConfig(s *serverInput) string { return tlsConfig(s) + poolConfig(s) }

// poolConfig returns the buffer pool's lines of my.cnf. There are none without a memory limit, or if the claim sets
// them.
func poolConfig(s *serverInput) string {
	limit, limited := s.resources.Limits[corev1.ResourceMemory]
	if s.engine.config == "" || !limited || slices.ContainsFunc(bufferpool.Settings(), func(name string) bool {
		_, set := settingOf(s.wish.Config, name)
		return set
	}) {
		return ""
	}
	return bufferpool.Config(limit.Value())
}
