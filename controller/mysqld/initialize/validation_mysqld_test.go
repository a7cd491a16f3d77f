//go:build mysqld

package initialize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/rootfs"
)

// with settings in its my.cnf.
func (b box) with(t *testing.T, lines ...string) box {
	t.Helper()
	b.Settings = t.TempDir()
	must(t, os.Chmod(filepath.Dir(b.Settings), 0o755)) //nolint:gosec // The server's account goes through it.
	must(t, os.Chmod(b.Settings, 0o755))               //nolint:gosec // And reads it.
	text := "[mysqld]\nskip_name_resolve = ON\nloose_innodb_redo_log_capacity = 32M\n" + strings.Join(lines, "\n") + "\n"
	must(t, os.WriteFile(filepath.Join(b.Settings, v1.ConfigKey), []byte(text), 0o644))
	return b
}

// validate the settings of a box.
func (b box) validate(t *testing.T) (string, error) {
	t.Helper()
	b.Initialize, b.Serve, b.Validate = nil, nil, true
	b.Volume = t.TempDir()
	rootfs.Own(t, b.Volume)
	return b.begin(t).end()
}

// TestRealValidateSettings: a server without data finds what a running server would not come up with, of the server and of its storage
// engines, and takes what a server serves with.
func TestRealValidateSettings(t *testing.T) {
	cases := map[string]struct {
		lines []string
		// says is what a refusal says; empty for settings that are fine.
		says string
	}{
		"None":            {},
		"Usual":           {lines: []string{"max_connections = 200", "innodb_buffer_pool_size = 64M"}},
		"EmptyValues":     {lines: []string{"sql_mode =", "init_connect =", "secure_file_priv =", "ft_stopword_file ="}},
		"ReadOnly":        {lines: []string{"super_read_only = ON", "offline_mode = ON"}},
		"LogOff":          {lines: []string{"skip_log_bin"}},
		"LogOn":           {lines: []string{"log_bin = binlog", "server_id = 7"}},
		"Fixed":           {lines: []string{"lower_case_table_names = 1", "innodb_page_size = 8K"}},
		"Unknown":         {lines: []string{"no_such_setting = 1"}, says: "no_such_setting"},
		"UnknownOfEngine": {lines: []string{"innodb_no_such = 1"}, says: "innodb_no_such"},
		"NoNumber":        {lines: []string{"max_connections = many"}, says: "max_connections"},
		"NoPageSize":      {lines: []string{"innodb_page_size = 5000"}, says: "innodb_page_size"},
		"NoCollation":     {lines: []string{"collation_server = klingon"}, says: "klingon"},
		"NoFolder":        {lines: []string{"tmpdir = /nowhere"}, says: "/nowhere"},
		"Contradiction":   {lines: []string{"gtid_mode = ON", "enforce_gtid_consistency = OFF"}, says: "GTID"},
		"NoMemory":        {lines: []string{"innodb_buffer_pool_size = 90T"}, says: "buffer pool"},
		"BadValue":        {lines: []string{"binlog_format = SOMETIMES"}, says: "binlog_format"},
		"NoPlugin":        {lines: []string{"default_storage_engine = nothing"}, says: "nothing"},
	}
	b := newBox(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := b.with(t, tc.lines...).validate(t)
			if (err != nil) != (tc.says != "") || !strings.Contains(out, tc.says) {
				t.Errorf("want a refusal with %q, got %v:\n%s", tc.says, err, out)
			}
		})
	}
}

// TestRealReadOnly: a server whose settings let nobody write is initialized, and gets its password, all the same.
func TestRealReadOnly(t *testing.T) {
	b := newBox(t).with(t, "super_read_only = ON", "read_only = ON")
	b.Env = []string{quick, "MYSQL_DATABASE=app"}
	b.initialize(t, "it's")
	if out := b.serve(t, "it's", "SELECT @@super_read_only, (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'app')"); out != "1\t1" {
		t.Errorf("want a read-only server with its database, got %q", out)
	}
}
