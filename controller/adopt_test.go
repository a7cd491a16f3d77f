package main

import (
	"strings"
	"testing"
)

// TestAdoptWhose: the name of the PersistentVolumeClaim says whose backups are there, where it was not cut.
func TestAdoptWhose(t *testing.T) {
	long := strings.Repeat("n", 63)
	cases := map[string]struct {
		given adoptCommand
		want  string
		fails string
	}{
		"Plain":     {given: adoptCommand{Kind: "MySQL", Volume: "backup-db-pvc"}, want: "db"},
		"Database":  {given: adoptCommand{Kind: "Database", Volume: "backup-db.database-pvc"}, want: "db"},
		"OtherKind": {given: adoptCommand{Kind: "Database", Volume: "backup-db-pvc"}, fails: "--name"},
		"Other":     {given: adoptCommand{Kind: "MySQL", Volume: "db-pvc"}, fails: "--name"},
		"Nothing":   {given: adoptCommand{Kind: "MySQL", Volume: "backup--pvc"}, fails: "--name"},
		"Said":      {given: adoptCommand{Kind: "MySQL", Volume: "backup-db-pvc", Name: "db"}, want: "db"},
		"SaidOther": {given: adoptCommand{Kind: "MySQL", Volume: "backup-db-pvc", Name: "other"}, fails: "are on PersistentVolumeClaim backup-other-pvc"},
		"Long":      {given: adoptCommand{Kind: "MySQL", Volume: "backup-" + long + "-pvc"}, fails: "--name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.given.instanceOf()
			switch {
			case tc.fails == "" && (err != nil || got.Name != tc.want):
				t.Errorf("want %q, got %q, %v", tc.want, got.Name, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("want %q, got %v", tc.fails, err)
			}
		})
	}
}
