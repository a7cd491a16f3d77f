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
	"github.com/crossplane-mysql/crossplane-mysql/fn/options"
)

// configHeader is the beginning of each option file. TCP probes do not log in. Without skip_name_resolve, the server
// would block their address after 100 probes (ERROR 1129). With symbolic_links off, MariaDB ignores DATA DIRECTORY
// and INDEX DIRECTORY with a warning. Older MySQL servers do so for MyISAM. For InnoDB, MySQL refuses DATA DIRECTORY
// since 8.0.21. In earlier releases, a table that is stored elsewhere is detected and reported.
const configHeader = "# Made from spec.config. Edit the claim, not this.\n[mysqld]\nskip_name_resolve = " +
	"ON\nloose_symbolic_links = OFF\n"

// keyPattern matches the name of a setting, such as max_connections or validate_password.policy.
var keyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)

// maxSettingLength is the maximum length of a setting's value, in bytes. A line of an option file is at most 4096
// bytes long (mysys/my_default.cc in MySQL).
const maxSettingLength = 2048

// renderConfig returns a my.cnf with the platform's lines, followed by the claim's settings in alphabetical order. It
// also returns an error for each setting that is refused.
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
	if reason := options.Refused(name, value, modified); reason != "" {
		return reason
	}
	// For MySQL before 8.0 and for MariaDB, the name of the option is only the part after the dot.
	if _, last, dotted := strings.Cut(name, "."); dotted {
		inner, turned := mycnf.OptionName(last)
		return refusedSetting(last, inner, value, modified || turned)
	}
	return ""
}

// platformConfig returns the lines of my.cnf that do not come from the claim and are the same for all servers.
func platformConfig(s *serverInput) string { return tlsConfig(s) + memoryConfig(s) }

// memoryConfig returns the lines of my.cnf that depend on the memory limit, or "" if the server has none. If the claim
// sets an option of the buffer pool, the lines for the buffer pool are omitted.
func memoryConfig(s *serverInput) string {
	limit, limited := s.resources.Limits[corev1.ResourceMemory]
	if s.engine.config == "" || !limited {
		return ""
	}
	shared := bufferpool.SharedConfig(limit.Value())
	if slices.ContainsFunc(bufferpool.Settings(), func(name string) bool {
		_, set := settingOf(s.templateInput.Config, name)
		return set
	}) {
		return shared
	}
	return bufferpool.Config(limit.Value()) + shared
}
