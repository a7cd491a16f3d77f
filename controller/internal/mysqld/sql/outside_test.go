package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

func TestOutsideOf(t *testing.T) {
	for name, want := range map[string]Outside{
		"shop/orders":        {Name: "`shop`.`orders`", Place: "/x"},
		"shop/years#P#p0":    {Name: "`shop`.`years`", Place: "/x"},
		"shop/years#p#a#sp#": {Name: "`shop`.`years`", Place: "/x"},
		"big":                {Name: "`big`", Place: "/x", Tablespace: true},
	} {
		if diff := cmp.Diff(want, outsideOf(name, "/x")); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
}

// TestOutsideQuery checks the query for each release series, because their system tables differ.
func TestOutsideQuery(t *testing.T) {
	for text, want := range map[string]string{
		"5.6.24": "INNODB_SYS_DATAFILES", "5.7.44": "INNODB_SYS_DATAFILES", "8.0.11": "information_schema.FILES",
		"9.7.4":           "information_schema.FILES",
		"10.5.29-MariaDB": "INNODB_SYS_DATAFILES", "10.6.1-MariaDB": "SELECT NAME, FILENAME",
		"11.8.2-MariaDB": "SELECT NAME, FILENAME",
	} {
		v, err := version.Parse(text)
		if err != nil || !strings.Contains(outsideQuery(v), want) {
			t.Errorf("%s: %v, %q without %s", text, err, outsideQuery(v), want)
		}
	}
}

func TestPrefixOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "transactional=0 DATA DIRECTORY='/out/'": "/out/", "DATA DIRECTORY='/a/' INDEX DIRECTORY='/b/'": "/a/",
		"INDEX DIRECTORY='/b/'": "/b/",
		"CREATE TABLE `a` (\n  `i` int\n) ENGINE=MyISAM COMMENT='x' DATA DIRECTORY='/out/'": "/out/",
	} {
		if got := dirOf(text); got != want {
			t.Errorf("folderOf(%q): %q, want %q", text, got, want)
		}
	}
}

// TestOutsideText checks that the message about data outside of the data directory contains the tables, their paths
// and the statement that moves them.
func TestOutsideText(t *testing.T) {
	if got := OutsideText(nil); got != "" {
		t.Errorf("without any: %q", got)
	}
	many := make([]Outside, 0, 8)
	for n := range 8 {
		many = append(many, Outside{Name: fmt.Sprintf("`s`.`t%d`", n), Place: "/tmp/x"})
	}
	got := OutsideText(many)
	for _, want := range []string{"`s`.`t0` (/tmp/x)", " and 3 more",
		"NO_DIR_IN_CREATE'; ALTER TABLE `s`.`t0` FORCE, ALGORITHM = COPY"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
	if got := OutsideText([]Outside{{Name: "`big`", Place: "/x", Tablespace: true}}); !strings.Contains(got,
		"DROP TABLESPACE `big`") {
		t.Errorf("of a tablespace: %q", got)
	}
}
