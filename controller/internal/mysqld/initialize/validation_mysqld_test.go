//go:build mysqld

package initialize

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// with returns the box with additional lines in its my.cnf.
func (b box) with(t *testing.T, lines ...string) box {
	t.Helper()
	b.Settings = t.TempDir()
	must(t, os.Chmod(filepath.Dir(b.Settings), 0o755)) //nolint:gosec // The server's account needs access.
	must(t, os.Chmod(b.Settings, 0o755))               //nolint:gosec // The server's account reads it.
	text := "[mysqld]\nskip_name_resolve = ON\nloose_innodb_redo_log_capacity = 32M\n" + strings.Join(lines, "\n") + "\n"
	must(t, os.WriteFile(filepath.Join(b.Settings, v1.ConfigKey), []byte(text), 0o644))
	return b
}

// validate runs a Validation in the box, and returns its output.
func (b box) validate(t *testing.T) (string, error) {
	t.Helper()
	b.Initialize, b.Serve, b.Validate = nil, nil, true
	b.Volume = t.TempDir()
	rootfs.Own(t, b.Volume)
	return b.begin(t).end()
}

// TestRealValidateSettings checks that the validation refuses settings with which a server would not start, and
// accepts all others. The settings belong to the server or to storage engines.
func TestRealValidateSettings(t *testing.T) {
	cases := map[string]struct {
		lines []string
		// says is a part of the error, or "" for valid settings.
		says string
	}{
		"Usual": {lines: []string{"max_connections = 200", "sql_mode =", "init_connect =", "secure_file_priv =",
			"log_bin = binlog", "innodb_page_size = 8K"}},
		"ReadOnly": {lines: []string{"super_read_only = ON", "offline_mode = ON", "skip_log_bin", "ft_stopword_file =",
			"lower_case_table_names = 1"}},
		"Unknown":         {lines: []string{"no_such_setting = 1"}, says: "no_such_setting"},
		"UnknownOfEngine": {lines: []string{"innodb_no_such = 1"}, says: "innodb_no_such"},
		"NoNumber":        {lines: []string{"max_connections = lots"}, says: "max_connections"},
		"NoPageSize": {lines: []string{"innodb_page_size = 5000"},
			says: "it started a server (exit status 1): [MY-010872] [InnoDB] InnoDB: Invalid page size=5000"},
		"NoCollation":   {lines: []string{"collation_server = klingon"}, says: "klingon"},
		"NoFolder":      {lines: []string{"tmpdir = /nowhere"}, says: "/nowhere"},
		"Contradiction": {lines: []string{"gtid_mode = ON", "enforce_gtid_consistency = OFF"}, says: "GTID"},
		"BadValue":      {lines: []string{"binlog_format = SOMETIMES"}, says: "binlog_format"},
		"NoPlugin":      {lines: []string{"default_storage_engine = nothing"}, says: "nothing"},
	}
	b := newBox(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := b.with(t, tc.lines...).validate(t)
			if (err != nil) != (tc.says != "") || !strings.Contains(out, tc.says) {
				t.Errorf("want a refusal with %q, got %v:\n%s", tc.says, err, out)
			}
		})
	}
}

// TestRealReadOnly checks that a server is initialized and gets its password even if its settings make it read-only.
func TestRealReadOnly(t *testing.T) {
	b := newBox(t).with(t, "super_read_only = ON", "read_only = ON")
	b.Env = []string{quick, "MYSQL_DATABASE=app"}
	b.initialize(t, "it's")
	if out := b.serve(t, "it's", "SELECT @@super_read_only, (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE "+
		"SCHEMA_NAME = 'app')"); out != "1\t1" {
		t.Errorf("want a read-only server with its database, got %q", out)
	}
}

// settingsVariable is the environment variable that sets how many settings are tested with unusual values. By
// default, none are tested.
const settingsVariable = "SETTINGS"

// oddValues are unusual values. Each tested setting gets one of them.
var oddValues = []string{"", "0", "1", "-1", "ON", "OFF", "18446744073709551615", "99999999999999999999", "1K", "3G",
	"x", "'", "a,b", "/nowhere/x", "NULL", "DEFAULT", "utf8mb4", "1e9", "%", ";"}

// notTried matches options that a claim cannot set (fn/options), or that make the server exit.
var notTried = regexp.MustCompile(
	`^(basedir|bind_address|chroot|console|daemonize|datadir|early_plugin_load|exit_info|gdb|help|init_file|initialize.*|innodb_(data|directories|doublewrite_dir|force|log_group|read_only|redo_log_archive|undo_directory).*|keyring.*|log_bin_index|no_.*|pid_file|plugin_(dir|load.*)|port|print_defaults|relay_log_index|skip_(grant_tables|name_resolve|networking)|socket|ssl_(ca|capath|cert|key)|tc_heuristic_recover|user|validate_config|verbose|version)$`)

// TestRealSettingsServe tests settings with unusual values. If the validation accepts a setting, a server with data
// must start with it, unless the setting is fixed when the data is created.
func TestRealSettingsServe(t *testing.T) {
	count, _ := strconv.Atoi(os.Getenv(settingsVariable)) // An unset variable means 0.
	if count == 0 {
		t.Skipf("%s is not set", settingsVariable)
	}
	b := newBox(t).with(t)
	b.Env = []string{quick}
	b.initialize(t, "it's")
	names := optionsOf(t)
	taken := 0
	for n := range min(count, len(names)) {
		name, value := names[n*len(names)/count], oddValues[n%len(oddValues)]
		line := strings.TrimSpace(name + " = " + value)
		if _, err := b.with(t, line).validate(t); err != nil || fixed.MatchString(name) {
			continue
		}
		taken++
		t.Run(name, func(t *testing.T) {
			if out := b.with(t, line).serve(t, "it's", "SELECT 42"); out != "42" {
				t.Errorf("the server takes %q and answers %q", line, out)
			}
		})
	}
	t.Logf("of %d settings %d are taken", count, taken)
	if taken == 0 {
		t.Error("want some of the settings taken")
	}
}

// fixed matches settings that cannot change once an instance has data (fixedOptions in fn/compose).
var fixed = regexp.MustCompile(`^(innodb_page_size|innodb_undo_tablespaces|lower_case_table_names)$`)

// optionsOf returns the options that are listed in the server's help.
func optionsOf(t *testing.T) []string {
	t.Helper()
	root := rootfs.Find(t)
	out, err := root.Command("usr/sbin/mysqld", "--no-defaults",
		"--lc-messages-dir="+filepath.Join(root.Path, "usr/share/mysql"), "--verbose", "--help").Output()
	must(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^  (?:-.?, )?--([a-z][a-z0-9-]+)`).FindAllStringSubmatch(string(out), -1) {
		if name := strings.ReplaceAll(m[1], "-", "_"); !notTried.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
