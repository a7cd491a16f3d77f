package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadOptions(t *testing.T) {
	type want struct {
		opts options
		err  string
	}
	for name, tc := range map[string]struct {
		reason   string
		prefixes []string
		env      map[string]string
		files    map[string]string
		want     want
	}{
		"everything": {
			reason:   "Each option has its own variable.",
			prefixes: []string{"MYSQL"},
			env: map[string]string{
				"MYSQL_ROOT_PASSWORD": "p", "MYSQL_ROOT_HOST": "h", "MYSQL_DATABASE": "d", "MYSQL_USER": "u", "MYSQL_PASSWORD": "q",
				"MYSQL_ONETIME_PASSWORD": "no", "MYSQL_INITDB_SKIP_TZINFO": "1",
			},
			want: want{opts: options{rootPassword: "p", rootHost: "h", database: "d", user: "u", password: "q", oneTime: true,
				skipTimeZones: true}},
		},
		"file": {
			reason:   "Only line breaks at the end of the file must be removed from the password.",
			prefixes: []string{"MYSQL"},
			env:      map[string]string{"MYSQL_ROOT_PASSWORD_FILE": "/f"},
			files:    map[string]string{"/f": " a\nb \n\n"},
			want:     want{opts: options{rootPassword: " a\nb ", rootHost: "%"}},
		},
		"missing file": {
			reason:   "A missing file must not result in an empty password.",
			prefixes: []string{"MYSQL"},
			env:      map[string]string{"MYSQL_ROOT_PASSWORD_FILE": "/f", "MYSQL_ALLOW_EMPTY_PASSWORD": "1"},
			want:     want{err: "cannot read MYSQL_ROOT_PASSWORD_FILE"},
		},
		"both": {
			reason:   "A variable and its _FILE variant must not both be set.",
			prefixes: []string{"MYSQL"},
			env:      map[string]string{"MYSQL_DATABASE": "a", "MYSQL_DATABASE_FILE": "/f", "MYSQL_ROOT_PASSWORD": "p"},
			want:     want{err: "both MYSQL_DATABASE and MYSQL_DATABASE_FILE are set"},
		},
		"none": {
			reason:   "A server without a password must be requested explicitly.",
			prefixes: []string{"MYSQL"},
			env:      map[string]string{"MYSQL_DATABASE": "a"},
			want:     want{err: "password option is not specified"},
		},
		"first prefix": {
			reason:   "A variable of MariaDB must take precedence over the same variable of MySQL.",
			prefixes: []string{"MARIADB", "MYSQL"},
			env:      map[string]string{"MARIADB_ROOT_PASSWORD": "a", "MYSQL_ROOT_PASSWORD": "b", "MYSQL_DATABASE": "d"},
			want:     want{opts: options{rootPassword: "a", rootHost: "%", database: "d"}},
		},
		"root as the user": {
			reason:   "The regular user must not be root, which has its own password.",
			prefixes: []string{"MYSQL"},
			env:      map[string]string{"MYSQL_ROOT_PASSWORD": "a", "MYSQL_USER": "root"},
			want:     want{err: "are for a regular user"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readOptions(env{
				prefixes: tc.prefixes,
				lookup:   func(k string) string { return tc.env[k] },
				readFile: func(f string) ([]byte, error) {
					if c, ok := tc.files[f]; ok {
						return []byte(c), nil
					}
					return nil, fs.ErrNotExist
				},
			})
			if tc.want.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want.err) {
					t.Errorf("%s\nwant an error with %q, got %v", tc.reason, tc.want.err, err)
				}
				return
			}
			if diff := cmp.Diff(tc.want.opts, got, cmp.AllowUnexported(options{})); diff != "" || err != nil {
				t.Errorf("%s\n%v\n-want, +got:\n%s", tc.reason, err, diff)
			}
		})
	}
}

func TestFirstSQL(t *testing.T) {
	o := options{rootPassword: "a'\\b\"", rootHost: "%", database: "my_d", user: "it's", password: "q"}
	for name, tc := range map[string]struct {
		reason string
		flavor flavor
		want   []string
	}{
		"mysql": {
			reason: "MySQL's image inserts values into SQL without escaping them.",
			flavor: mysql,
			want: []string{
				"SET autocommit = 1;\nSET SESSION sql_log_bin = 0;\n" +
					"ALTER USER 'root'@'localhost' IDENTIFIED BY 'a'\\b\"';\nGRANT ALL ON *.* TO 'root'@'localhost' WITH GRANT " +
					"OPTION;\n" +
					"CREATE USER IF NOT EXISTS 'root'@'%';\nALTER USER 'root'@'%' IDENTIFIED BY 'a'\\b\"';\nGRANT ALL ON *.* TO " +
					"'root'@'%' WITH GRANT OPTION;\n" +
					"DROP DATABASE IF EXISTS test;\n",
				"CREATE DATABASE IF NOT EXISTS `my_d`;\n",
				"CREATE USER 'it's'@'%' IDENTIFIED BY 'q';\n",
				"GRANT ALL ON `my\\_d`.* TO 'it's'@'%';\n",
			},
		},
		"mariadb": {
			reason: "MariaDB's image escapes special characters in names and passwords.",
			flavor: mariadb,
			want: []string{
				"SET autocommit = 1;\nSET SESSION sql_log_bin = 0;\n" + mariadb.cleanUp + ";\n" +
					"CREATE USER IF NOT EXISTS 'root'@'localhost';\nALTER USER 'root'@'localhost' IDENTIFIED BY " +
					"'a\\'\\\\b\"';\nGRANT ALL ON *.* TO 'root'@'localhost' WITH GRANT OPTION;\n" +
					"CREATE USER IF NOT EXISTS 'root'@'%';\nALTER USER 'root'@'%' IDENTIFIED BY 'a\\'\\\\b\"';\nGRANT ALL ON *.* " +
					"TO 'root'@'%' WITH GRANT OPTION;\n" +
					"DROP DATABASE IF EXISTS test;\n",
				"CREATE DATABASE IF NOT EXISTS `my_d`;\n",
				"CREATE USER 'it\\'s'@'%' IDENTIFIED BY 'q';\n",
				"GRANT ALL ON `my\\_d`.* TO 'it\\'s'@'%';\n",
			},
		},
	} {
		if diff := cmp.Diff(tc.want, firstSQL(tc.flavor, o)); diff != "" {
			t.Errorf("%s: %s\n-want, +got:\n%s", name, tc.reason, diff)
		}
	}
}

func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct{ args, want []string }{
		"nothing":         {nil, []string{"mysqld"}},
		"options":         {[]string{"--a", "b"}, []string{"mysqld", "--a", "b"}},
		"the server":      {[]string{"mysqld", "--a"}, []string{"mysqld", "--a"}},
		"another program": {[]string{"bash", "-c", "x"}, []string{"bash", "-c", "x"}},
	} {
		if diff := cmp.Diff(tc.want, command(mysql, tc.args)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
}

func TestVariable(t *testing.T) {
	help := "  --socket=name  The\n   socket  file\n\nVariables (--variable-name=value)\ndatadir    /a b/\nsocket     " +
		"/s.sock\nsocket-x   /x\n"
	for name, want := range map[string]string{"datadir": "/a b/", "socket": "/s.sock", "none": ""} {
		if got := variable(help, name); got != want {
			t.Errorf("%s is %q instead of %q", name, got, want)
		}
	}
}

func TestOpener(t *testing.T) {
	for file, want := range map[string]bool{"a.sql": true, "a.sql.gz": true, "a.sql.bz2": true, "a.sql.zst": true,
		"a.sql.xz": false, "a.txt": false, "sql": false} {
		if got := opener("/d/"+file) != nil; got != want {
			t.Errorf("%s is taken: %t instead of %t", file, got, want)
		}
	}
}

func TestInitialized(t *testing.T) {
	if done, err := initialized(t.TempDir()); done || err != nil {
		t.Errorf("An empty folder is a database, or %v", err)
	}
	if _, err := initialized("\x00"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("A folder that cannot be looked into is none: %v", err)
	}
}
