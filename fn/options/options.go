// Package options decides which settings of my.cnf a claim must not contain.
package options

import (
	"maps"
	"slices"
	"strings"
)

// Reasons why a setting is refused.
const (
	movesData      = "would store data outside the directory that is backed up. Remove it"
	losesWrites    = "would let the server acknowledge writes that it can lose. Remove it"
	showsPasswords = "would write passwords to the log. Remove it"
	opensServer    = "would let clients or code bypass the password. Remove it"
	notYours       = "is set by the platform. Remove it"
	stopsServer    = "would prevent the server from running. Remove it"
)

// refusedOptions maps options that must not be set, without modifiers such as skip_, to the reason.
var refusedOptions = map[string]string{
	"aria_log_dir_path":            movesData,
	"basedir":                      notYours,
	"bind_address":                 notYours,
	"bootstrap":                    stopsServer,
	"chroot":                       movesData,
	"daemonize":                    stopsServer,
	"datadir":                      movesData,
	"early_plugin_load":            opensServer,
	"grant_tables":                 opensServer,
	"help":                         stopsServer,
	"init_file":                    opensServer,
	"initialize":                   stopsServer,
	"initialize_insecure":          stopsServer,
	"innodb_checksum_algorithm":    losesWrites,
	"innodb_checksums":             losesWrites,
	"innodb_data_file_path":        movesData,
	"innodb_data_home_dir":         movesData,
	"innodb_directories":           movesData,
	"innodb_doublewrite_dir":       movesData,
	"innodb_force_load_corrupted":  losesWrites,
	"innodb_force_recovery":        losesWrites,
	"innodb_log_group_home_dir":    movesData,
	"innodb_read_only":             stopsServer,
	"innodb_redo_log_archive_dirs": movesData,
	"innodb_undo_directory":        movesData,
	"keyring_encrypted_file_data":  movesData,
	"keyring_file_data":            movesData,
	"log_bin_index":                movesData,
	"master_info_file":             movesData,
	"name_resolve":                 notYours,
	"networking":                   notYours,
	"pid_file":                     notYours,
	"plugin_dir":                   opensServer,
	"plugin_load":                  opensServer,
	"plugin_load_add":              opensServer,
	"port":                         notYours,
	"relay_log_index":              movesData,
	"relay_log_info_file":          movesData,
	"rocksdb_datadir":              movesData,
	"rocksdb_wal_dir":              movesData,
	"socket":                       notYours,
	"ssl":                          notYours,
	"ssl_ca":                       notYours,
	"ssl_capath":                   notYours,
	"ssl_cert":                     notYours,
	"ssl_key":                      notYours,
	"tc_heuristic_recover":         losesWrites,
	"tokudb_data_dir":              movesData,
	"tokudb_log_dir":               movesData,
	"user":                         notYours,
	"validate_config":              stopsServer,
	"version":                      stopsServer,
	"wsrep_data_home_dir":          movesData,
	"wsrep_provider":               opensServer,
}

// An optionCheck returns why a value of an option is refused, or "".
type optionCheck func(value string) string

// checkedOptions are options for which only some values are allowed. The allowed values are listed, because a refused
// value has too many spellings: mysqld also accepts numbers and unique prefixes of enumeration values.
var checkedOptions = map[string]optionCheck{
	"debug_no_sync":                  only(losesWrites, "off", "0", "false"),
	"default_storage_engine":         only(losesWrites, "innodb"),
	"enforce_storage_engine":         only(losesWrites, "innodb"),
	"general_log_file":               noPath,
	"innodb_doublewrite":             only(losesWrites, "on", "1", "true", "detect_and_recover"),
	"innodb_fast_shutdown":           only(losesWrites, "0", "1"),
	"innodb_flush_log_at_trx_commit": only(losesWrites, "1"),
	"innodb_flush_method":            only(losesWrites, "fsync", "o_dsync", "o_direct", "o_direct_no_fsync"),
	"innodb_log_checksums":           only(losesWrites, "on", "1", "true"),
	"log_bin":                        noPath,
	"log_error":                      noPath,
	"log_raw":                        only(showsPasswords, "off", "0", "false"),
	"relay_log":                      noPath,
	"slow_query_log_file":            noPath,
	"symbolic_links":                 only(movesData, "off", "0", "false"),
	"sync_binlog":                    only(losesWrites, "1"),
	"sync_sys":                       only(losesWrites, "on", "1", "true"),
}

func only(reason string, values ...string) optionCheck {
	return func(v string) string {
		if slices.Contains(values, strings.ToLower(v)) {
			return ""
		}
		return reason
	}
}

func noPath(v string) string {
	if strings.Contains(v, "/") {
		return movesData
	}
	return ""
}

// Refused returns why an option cannot be set to a value, or "". It also refuses a prefix of a refused name,
// unless the prefix is the name of another option, because mysqld accepts unambiguous prefixes (MySQL manual,
// 6.2.2.4).
func Refused(name, value string, modified bool) string {
	if reason, ok := refusedOptions[name]; ok {
		return reason
	}
	if check, ok := checkedOptions[name]; ok {
		if modified && name != "log_bin" {
			return "has a prefix such as skip, which is not supported for this setting. Use the name " + name
		}
		return check(value)
	}
	for _, refused := range slices.Sorted(maps.Keys(refusedOptions)) {
		if strings.HasPrefix(refused, name) {
			return "is an abbreviation of " + refused + ", which " + refusedOptions[refused]
		}
	}
	for _, checked := range slices.Sorted(maps.Keys(checkedOptions)) {
		if strings.HasPrefix(checked, name) {
			return "is an abbreviation of " + checked + ". Write the full name"
		}
	}
	return ""
}

// Names returns the names of all options that must not be set.
func Names() []string { return slices.Sorted(maps.Keys(refusedOptions)) }
