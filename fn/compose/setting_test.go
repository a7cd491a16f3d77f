package compose

import (
	"testing"
)

// TestSettingIsWrittenAsMeant: an empty value is an empty value, off is off and on is on, however a claim spells it.
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
			if got := settingLine(tc.key, tc.value); got != tc.want {
				t.Errorf("%s: %q is written %q, want %q", tc.key, tc.value, got, tc.want)
			}
		})
	}
}

// TestBooleanIsNoName: mysqld would take OFF for the name of a file where it wants a name.
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
			if why := refusedNewSetting(tc.key, tc.value); (why != "") != tc.refused {
				t.Errorf("%s: %q is refused with %q, want refused: %t", tc.key, tc.value, why, tc.refused)
			}
		})
	}
}

// TestCiphersFitTheKey: the server's key is one for ECDSA, and the controller must be able to log in.
func TestCiphersFitTheKey(t *testing.T) {
	cases := map[string]struct {
		settings map[string]string
		blames   string
	}{
		"None":          {},
		"OldNone":       {map[string]string{"tls_version": ""}, "tls_version"},
		"TooOld":        {map[string]string{"tls_version": "tlsv1,tlsv1.1"}, "tls_version"},
		"RSAOnly":       {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "ecdhe-rsa-aes128-gcm-sha256:aes128-sha"}, "ssl_cipher"},
		"KeyExchange":   {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "arsa"}, "ssl_cipher"},
		"Forbidden":     {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "high:!ecdsa"}, "ssl_cipher"},
		"Empty":         {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": ""}, "ssl_cipher"},
		"ECDSA":         {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "ecdhe-rsa-aes128-gcm-sha256:ecdhe-ecdsa-aes128-gcm-sha256"}, ""},
		"Words":         {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "high:!anull"}, ""},
		"NewerHelps":    {map[string]string{"ssl_cipher": "ecdhe-rsa-aes128-gcm-sha256"}, ""},
		"NoSuite":       {map[string]string{"tls_version": "tlsv1.3", "tls_ciphersuites": ""}, "tls_ciphersuites"},
		"UnknownSuite":  {map[string]string{"tls_version": "tlsv1.3", "tls_ciphersuites": "tls_aes_128_ccm_sha256"}, "tls_ciphersuites"},
		"Suite":         {map[string]string{"tls_version": "tlsv1.3", "tls_ciphersuites": "tls_aes_128_ccm_sha256:tls_aes_256_gcm_sha384"}, ""},
		"NeitherFits":   {map[string]string{"ssl_cipher": "aes128-sha", "tls_ciphersuites": ""}, "ssl_cipher"},
		"OlderHelps":    {map[string]string{"tls_ciphersuites": ""}, ""},
		"SpacesBetween": {map[string]string{"tls_version": "tlsv1.2, tlsv1.3", "ssl_cipher": "aes128-sha"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if why, got := refusedCiphers(tc.settings); got != tc.blames {
				t.Errorf("%v blames %q with %q, want %q", tc.settings, got, why, tc.blames)
			}
		})
	}
}
