// Package mycnf parses and writes settings of my.cnf as mysqld does.
package mycnf

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// flagList contains the options that mysqld accepts without a value, one per line. The source is `mysqld --verbose
// --help` of MySQL 9.7, MariaDB 10.11 and earlier releases.
//
//go:embed flags.txt
var flagList string

// flags is the sorted flagList.
var flags = sync.OnceValue(func() []string {
	names := strings.Fields(flagList)
	slices.Sort(names)
	return names
})

// isFlag reports whether mysqld accepts an option without a value.
func isFlag(name string) bool {
	_, found := slices.BinarySearch(flags(), name)
	return found
}

// An option is the parsed key of a setting.
type option struct {
	// name is the name without modifiers, in lower case and with underscores.
	name string
	// turned is true if the key has a modifier that turns the option on or off: skip_, disable_ or enable_.
	turned bool
	// negated is true if the modifiers turn the option off.
	negated bool
	// bounded is true if the key has the modifier maximum_.
	bounded bool
}

// modifiers are the prefixes that mysqld accepts before the name of an option (MySQL manual, 6.2.2.4).
var modifiers = []string{"loose_", "skip_", "disable_", "enable_", "maximum_"}

// readOption parses a key as mysqld does. It ignores case, treats '-' as '_', and removes modifiers from the name, so
// that no spelling evades a check. For example, the name of skip_grant_tables is grant_tables.
func readOption(key string) option {
	name := strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, m := range modifiers {
		rest, ok := strings.CutPrefix(name, m)
		if !ok {
			continue
		}
		inner := readOption(rest)
		switch m {
		case "skip_", "disable_":
			inner.turned, inner.negated = true, !inner.negated
		case "enable_":
			inner.turned = true
		case "maximum_":
			inner.bounded = true
		}
		return inner
	}
	return option{name: name}
}

// OptionName returns the name of the option in a key. It also reports whether a modifier changes the meaning of the
// value, as all modifiers except loose_ do.
func OptionName(key string) (name string, modified bool) {
	o := readOption(key)
	return o.name, o.turned || o.bounded
}

// boolean parses a boolean value of my.cnf. An empty value turns the option on.
func boolean(value string) (on, ok bool) {
	switch strings.ToLower(value) {
	case "", "1", "on", "true", "yes":
		return true, true
	case "0", "off", "false", "no":
		return false, true
	}
	return false, false
}

// TurnsOff reports whether a setting turns a boolean option off, such as skip_log_bin or log_bin = OFF.
func TurnsOff(key, value string) bool {
	on, isBoolean := boolean(value)
	return isBoolean && on == readOption(key).negated
}

// defaultLogName is the base name of the binary log if the setting contains no name. By default, mysqld uses the host
// name, which differs in each pod. Each pod would then begin a new log.
const defaultLogName = "binlog"

// SettingLine returns the line of my.cnf for a setting.
func SettingLine(key, value string) string {
	o := readOption(key)
	on, isBoolean := boolean(value)
	switch {
	case o.negated && isBoolean && on:
		return key
	case o.name == "log_bin" && isBoolean && !o.bounded:
		return binaryLogLine(on != o.negated)
	case o.turned && isBoolean && on:
		return key
	case o.turned && isBoolean: // After skip_, mysqld accepts only 0 as false: skip_x = OFF turns x off.
		return key + " = 0"
	case value == "" && isFlag(o.name):
		return key
	case value == "":
		return key + " ="
	}
	return key + " = " + quoted(value)
}

// binaryLogLine returns a line that turns the binary log on or off. log_bin = OFF would not work, because the value
// of log_bin is a name.
func binaryLogLine(on bool) string {
	if on {
		return "log_bin = " + defaultLogName
	}
	return "skip_log_bin"
}

// namedFiles are options whose value is the name of a file, a directory or a table. mysqld would use OFF as a name.
var namedFiles = []string{
	"admin_ssl_ca", "admin_ssl_capath", "admin_ssl_cert", "admin_ssl_crl", "admin_ssl_crlpath", "admin_ssl_key",
	"character_sets_dir", "ft_stopword_file", "general_log_file", "innodb_buffer_pool_filename", "innodb_ft_aux_table",
	"innodb_ft_server_stopword_table", "innodb_ft_user_stopword_table", "innodb_temp_data_file_path",
	"innodb_temp_tablespaces_dir", "innodb_tmpdir",
	"lc_messages_dir", "log_basename", "log_ddl_recovery", "log_error", "log_isam", "log_slow_query_file", "log_tc",
	"mecab_rc_file",
	"mysqlx_socket", "mysqlx_ssl_ca", "mysqlx_ssl_capath", "mysqlx_ssl_cert", "mysqlx_ssl_crl", "mysqlx_ssl_crlpath",
	"mysqlx_ssl_key",
	"relay_log", "replica_load_tmpdir", "secure_file_priv", "slave_load_tmpdir", "slow_query_log_file", "ssl_crl",
	"ssl_crlpath", "tmpdir",
}

// RefusedNewSetting returns why a setting is refused, or "". It is only called for settings that are new in a claim,
// so a running server keeps its settings.
func RefusedNewSetting(key, value string) string {
	o := readOption(key)
	_, isBoolean := boolean(value)
	switch {
	case o.turned && !isBoolean:
		return "has a prefix that turns the setting on or off, such as skip, so its value must be true or false. To set " +
			"another value, use the name " + o.name
	case slices.Contains(namedFiles, o.name) && isBoolean && value != "" && value != "0" && value != "1":
		return "requires a name, and mysqld would use " + value + " as the name. Set it to a name, or remove it"
	}
	return ""
}

// quoted returns a value for an option file, in quotes if it contains spaces, or '#', which would begin a comment.
func quoted(value string) string {
	if strings.ContainsAny(value, "#'; ") {
		return `"` + value + `"`
	}
	return value
}
