package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// TestCloneDonor checks that missing and invalid keys in the donor's Secret cause an error before a server is
// started.
func TestCloneDonor(t *testing.T) {
	all := map[string]string{"host": "db.team.svc", "port": "3306", "username": "clone-one", "password": "secret\n",
		"page-size": "16384", "lower-case-table-names": "1"}
	cases := map[string]struct {
		change map[string]string
		want   string
	}{
		"All":      {nil, ""},
		"NoHost":   {map[string]string{"host": ""}, "host is 0 bytes"},
		"NoSecret": {map[string]string{"password": "-"}, "no such file"},
		"Port":     {map[string]string{"port": "70000"}, "value out of range"},
		"PortText": {map[string]string{"port": "mysql"}, "invalid syntax"},
		"PageSize": {map[string]string{"page-size": "16k"}, "invalid syntax"},
		"NoNames":  {map[string]string{"lower-case-table-names": "-"}, "no such file"},
		"Long":     {map[string]string{"username": strings.Repeat("x", maxDonorFile+1)}, "username is 4097 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, value := range all {
				if changed, ok := tc.change[file]; ok {
					value = changed
				}
				if value == "-" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d, err := readDonor(dir)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("want %q, got %v", tc.want, err)
			}
			if err == nil && (d.Host != "db.team.svc" || d.Port != 3306 || d.Password != "secret" ||
				d.Layout != (sql.Layout{PageSize: 16384, LowerCase: 1}) || d.Authorities != filepath.Join(dir, "ca.crt")) {
				t.Errorf("got %+v", d)
			}
		})
	}
}
