package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			tc.given.Namespace = []string{"default"}
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

// TestAdoptNamespaces: who gets what is said, and said once.
func TestAdoptNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		given []string
		want  map[string]string
		fails string
	}{
		"None":     {want: map[string]string{}},
		"Same":     {given: []string{"shop"}, want: map[string]string{"shop": "shop"}},
		"Others":   {given: []string{"shop=new-shop", "crm"}, want: map[string]string{"shop": "new-shop", "crm": "crm"}},
		"Together": {given: []string{"a=c", "b=c"}, want: map[string]string{"a": "c", "b": "c"}},
		"Again":    {given: []string{"a=c", "a=c"}, want: map[string]string{"a": "c"}},
		"Twice":    {given: []string{"a=c", "a=d"}, fails: "go to c already"},
		"NoName":   {given: []string{"a="}, fails: "is no namespace"},
		"BadName":  {given: []string{"A=b"}, fails: `"A" is no namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&adoptCommand{Namespace: tc.given}).namespaces()
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("want %q, got %v", tc.fails, err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v, -want, +got:\n%s", err, diff)
			}
		})
	}
	if _, err := (&adoptCommand{Volume: "backup-db-pvc", Kind: "MySQL", Namespace: []string{"a=b"}}).instanceOf(); err == nil {
		t.Error("a volume is not moved")
	}
}
