package durability

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestArguments checks the exact arguments. A different set lets the server acknowledge a commit that is not stored.
func TestArguments(t *testing.T) {
	want := []string{
		"--plugin-load-add=semisync_source.so", "--rpl-semi-sync-source-enabled=ON",
		"--rpl-semi-sync-source-timeout=4294967295", "--rpl-semi-sync-source-wait-for-replica-count=1",
		"--rpl-semi-sync-source-wait-no-replica=ON", "--rpl-semi-sync-source-wait-point=AFTER_SYNC",
	}
	if diff := cmp.Diff(want, Arguments(v1.DefaultImage)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if got := Arguments("mysql:8.0.20"); got != nil {
		t.Errorf("want a server that starts until its image changes, got %q", got)
	}
}

func TestCheckFields(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     *v1.ContinuousBackup
		want   string
	}{
		"Unset":  {reason: "An archive is optional."},
		"Empty":  {reason: "All fields have a default.", in: &v1.ContinuousBackup{}},
		"Server": {reason: "The default may be set.", in: &v1.ContinuousBackup{Durability: v1.DurabilityServer}},
		"Store":  {reason: "The archive is on by default.", in: &v1.ContinuousBackup{Durability: v1.DurabilityStore}},
		"StoreEnabled": {reason: "The archive may be on explicitly.",
			in: &v1.ContinuousBackup{Enabled: new(true), Durability: v1.DurabilityStore}},
		"ServerDisabled": {reason: "Without an archive, only the server stores the commit.",
			in: &v1.ContinuousBackup{Enabled: new(false), Durability: v1.DurabilityServer}},
		"Wait": {reason: "The default may be set.",
			in: &v1.ContinuousBackup{Durability: v1.DurabilityStore, StoreFailurePolicy: v1.StoreFailureWait}},
		"Continue": {reason: "Commits need not wait for a broken store.",
			in: &v1.ContinuousBackup{Durability: v1.DurabilityStore, StoreFailurePolicy: v1.StoreFailureContinue}},
		"StoreDisabled": {reason: "No commit could ever be acknowledged.",
			in:   &v1.ContinuousBackup{Enabled: new(false), Durability: v1.DurabilityStore},
			want: "continuous.durability: Forbidden: Store requires the archive of the binary log. Remove enabled"},
		"Other": {reason: "The schema is not always in force.", in: &v1.ContinuousBackup{Durability: "Disk"},
			want: "continuous.durability: Unsupported value"},
		"Case": {reason: "Values are case-sensitive.", in: &v1.ContinuousBackup{Durability: "store"},
			want: "continuous.durability: Unsupported value"},
		"PolicyOther": {reason: "The schema is not always in force.",
			in:   &v1.ContinuousBackup{Durability: v1.DurabilityStore, StoreFailurePolicy: "Ignore"},
			want: "continuous.storeFailurePolicy: Unsupported value"},
		"PolicyAlone": {reason: "Commits do not wait for the store.",
			in:   &v1.ContinuousBackup{StoreFailurePolicy: v1.StoreFailureContinue},
			want: "continuous.storeFailurePolicy: Forbidden: requires durability Store"},
		"PolicyServer": {reason: "Commits do not wait for the store.",
			in:   &v1.ContinuousBackup{Durability: v1.DurabilityServer, StoreFailurePolicy: v1.StoreFailureWait},
			want: "continuous.storeFailurePolicy: Forbidden: requires durability Store"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			compareErrors(t, tc.reason, tc.want, CheckFields(tc.in, field.NewPath("continuous")))
		})
	}
}

// compareErrors checks that there is exactly one error, which contains the given text, or none.
func compareErrors(t *testing.T, reason, want string, got field.ErrorList) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("%s want no error, got %v", reason, got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0].Error(), want)):
		t.Errorf("%s want one error with %q, got %v", reason, want, got)
	}
}

func TestCheckImage(t *testing.T) {
	const tooOld = "spec.image: Forbidden: durability Store requires MySQL 8.0.26 or newer, but the tag of the image is "
	cases := map[string]string{ // The errors by image.
		"mysql:9.7":                        "",
		"mysql:8.4.6":                      "",
		"mysql:8.0":                        "",
		"mysql:8.0.26":                     "",
		"mysql:8.0.26-debian":              "",
		"mysql:8":                          "",
		"mysql:latest":                     "",
		"mysql":                            "",
		"mysql@sha256:5f70":                "",
		"registry.example/team/db:1.2.3":   "",
		"registry.example:5000/mysql":      "",
		"registry.example/our-mysql:1.4":   "",
		"percona/percona-server:8.0.43-34": "",
		"mysql:8.0.25":                     tooOld + "8.0.25",
		"mysql:8.0.3-rc":                   tooOld + "8.0.3-rc",
		"mysql:v8.0.17":                    tooOld,
		"mysql:5.7":                        tooOld + "5.7",
		"registry.example/mysql/mysql-server:5.6": tooOld + "5.6",
		"registry.example:5000/mysql:5.7.44":      tooOld + "5.7.44",
		"percona/percona-server:8.0.25-15":        tooOld,
		"mysql:8.0.25@sha256:5f70":                tooOld,
		"mariadb:11.4":                            "spec.image: Forbidden: durability Store requires MySQL 8.0.26 or newer, and is not",
		"registry.example/mariadb/server-mariadb": "not supported for MariaDB",
	}
	for image, want := range cases {
		t.Run(image, func(t *testing.T) {
			compareErrors(t, "", want, CheckServer(Server{Image: image, HasGTIDs: true}, field.NewPath("spec")))
		})
	}
}

func TestCheckSettings(t *testing.T) {
	const noLog = "turns off the binary log"
	const ours = "is set by durability Store. Remove it"
	const filter = "keeps transactions out of the binary log"
	cases := map[string]struct {
		key, value string
		want       string
	}{
		"Other":         {"max_connections", "100", ""},
		"LogName":       {"log_bin", "binlog", ""},
		"LogOn":         {"log-bin", "ON", ""},
		"LogFlag":       {"log_bin", "", ""},
		"NotSkipped":    {"skip_log_bin", "0", ""},
		"Abort":         {"binlog_error_action", "ABORT_SERVER", ""},
		"Replica":       {"rpl_semi_sync_replica_enabled", "ON", ""},
		"Format":        {"binlog_format", "ROW", ""},
		"LogOff":        {"log_bin", "OFF", `spec.config[log_bin]: Forbidden: ` + noLog},
		"LogSkipped":    {"skip-log-bin", "", noLog},
		"LogSkippedOn":  {"loose_skip_log_bin", "1", noLog},
		"LogDisabled":   {"disable_log_bin", "", noLog},
		"Enabled":       {"rpl_semi_sync_source_enabled", "OFF", ours},
		"Timeout":       {"loose-rpl-semi-sync-source-timeout", "1", ours},
		"OldName":       {"rpl_semi_sync_master_enabled", "0", ours},
		"Skipped":       {"skip_rpl_semi_sync_source_enabled", "1", ours},
		"OnlyDatabase":  {"binlog_do_db", "shop", filter},
		"NotDatabase":   {"binlog-ignore-db", "scratch", filter},
		"Abbreviated":   {"binlog_ignore", "scratch", filter},
		"IgnoresErrors": {"binlog_error_action", "IGNORE_ERROR", "continue without the binary log"},
		"IgnoresNumber": {"binlog_error_action", "0", "continue without the binary log"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := CheckServer(Server{Image: "mysql:8.4", HasGTIDs: true, Config: map[string]v1.Setting{tc.key: v1.Setting(tc.value)}},
				field.NewPath("spec"))
			compareErrors(t, tc.key, tc.want, got)
		})
	}
}

func TestCheckGTIDs(t *testing.T) {
	const want = "spec.config[gtid_mode]: Required value: durability Store requires GTIDs"
	cases := map[string]struct {
		byDefault bool
		config    map[string]v1.Setting
		want      string
	}{
		"Default":         {byDefault: true},
		"Set":             {config: map[string]v1.Setting{"gtid_mode": "ON"}},
		"SetNumber":       {config: map[string]v1.Setting{"loose-gtid-mode": "3"}},
		"ConsistencyOn":   {byDefault: true, config: map[string]v1.Setting{"enforce_gtid_consistency": "1"}},
		"Earlier":         {want: want},
		"Off":             {byDefault: true, config: map[string]v1.Setting{"gtid_mode": "OFF"}, want: want},
		"Permissive":      {byDefault: true, config: map[string]v1.Setting{"gtid_mode": "ON_PERMISSIVE"}, want: want},
		"ConsistencyOff":  {byDefault: true, config: map[string]v1.Setting{"enforce_gtid_consistency": "OFF"}, want: want},
		"ConsistencyWarn": {byDefault: true, config: map[string]v1.Setting{"enforce_gtid_consistency": "WARN"}, want: want},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := CheckServer(Server{Image: "mysql:8.4", HasGTIDs: tc.byDefault, Config: tc.config}, field.NewPath("spec"))
			compareErrors(t, name, tc.want, got)
		})
	}
}
