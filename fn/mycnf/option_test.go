package mycnf

import (
	"testing"
)

// TestSettingIsWrittenAsMeant checks that empty and boolean values of a claim keep their meaning in each spelling.
func TestSettingIsWrittenAsMeant(t *testing.T) {
	cases := map[string]struct{ key, value, want string }{
		"EmptyMode":         {"sql_mode", "", "sql_mode ="},
		"EmptyStatement":    {"init_connect", "", "init_connect ="},
		"EmptyFolder":       {"secure-file-priv", "", "secure-file-priv ="},
		"EmptyVersions":     {"tls_version", "", "tls_version ="},
		"EmptyStopwords":    {"ft_stopword_file", "", "ft_stopword_file ="},
		"EmptyLoose":        {"loose_sql_mode", "", "loose_sql_mode ="},
		"EmptyUnknown":      {"some_plugin_text", "", "some_plugin_text ="},
		"Flag":              {"local_infile", "", "local_infile"},
		"FlagOfChoice":      {"event-scheduler", "", "event-scheduler"},
		"NegatedFlag":       {"skip-log-bin", "", "skip-log-bin"},
		"NegatedOn":         {"skip_log_bin", "ON", "skip_log_bin"},
		"NegatedOne":        {"disable_log_bin", "1", "disable_log_bin"},
		"NegatedOff":        {"skip_log_bin", "OFF", "log_bin = binlog"},
		"NegatedZero":       {"skip-log-bin", "0", "log_bin = binlog"},
		"DisabledOff":       {"disable_log_bin", "no", "log_bin = binlog"},
		"TwiceNegated":      {"skip_disable_log_bin", "OFF", "skip_log_bin"},
		"EnabledOn":         {"enable_log_bin", "ON", "log_bin = binlog"},
		"EnabledOff":        {"enable_log_bin", "OFF", "skip_log_bin"},
		"LogOff":            {"log_bin", "OFF", "skip_log_bin"},
		"LogFalse":          {"log-bin", "false", "skip_log_bin"},
		"LogZero":           {"log_bin", "0", "skip_log_bin"},
		"LogOn":             {"log_bin", "ON", "log_bin = binlog"},
		"LogOne":            {"loose_log_bin", "1", "log_bin = binlog"},
		"LogFlag":           {"log_bin", "", "log_bin = binlog"},
		"LogNamed":          {"log_bin", "mysql-bin", "log_bin = mysql-bin"},
		"SkippedOff":        {"skip_external_locking", "OFF", "skip_external_locking = 0"},
		"SkippedOn":         {"skip_external_locking", "true", "skip_external_locking"},
		"EnabledOther":      {"enable_local_infile", "false", "enable_local_infile = 0"},
		"Value":             {"max_connections", "200", "max_connections = 200"},
		"Bounded":           {"maximum_max_connections", "0", "maximum_max_connections = 0"},
		"Quoted":            {"init_connect", "SET @a='#'", `init_connect = "SET @a='#'"`},
		"SwitchStaysSwitch": {"general_log", "OFF", "general_log = OFF"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := SettingLine(tc.key, tc.value); got != tc.want {
				t.Errorf("%s: %q is written %q, want %q", tc.key, tc.value, got, tc.want)
			}
		})
	}
}

// TestBooleanIsNoName checks that a boolean is refused for an option whose value is a name, because mysqld would use
// OFF as the name of a file.
func TestBooleanIsNoName(t *testing.T) {
	cases := map[string]struct {
		key, value string
		refused    bool
	}{
		"Relay":        {"relay_log", "OFF", true},
		"General":      {"general-log-file", "ON", true},
		"Errors":       {"log_error", "false", true},
		"Folder":       {"tmpdir", "OFF", true},
		"Loose":        {"loose_log_isam", "yes", true},
		"Name":         {"relay_log", "relay", false},
		"Empty":        {"secure_file_priv", "", false},
		"Switch":       {"general_log", "OFF", false},
		"BinaryLog":    {"log_bin", "OFF", false},
		"TurnedByText": {"skip_external_locking", "maybe", true},
		"Turned":       {"skip_external_locking", "OFF", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if reason := RefusedNewSetting(tc.key, tc.value); (reason != "") != tc.refused {
				t.Errorf("%s: %q is refused with %q, want refused: %t", tc.key, tc.value, reason, tc.refused)
			}
		})
	}
}
