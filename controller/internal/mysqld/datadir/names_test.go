package datadir

import (
	"io/fs"
	"path"
	"testing"
)

func TestNames(t *testing.T) {
	cases := map[string]struct {
		mode               fs.FileMode
		skip, held, locked bool
	}{
		"ibdata1":                    {held: true, locked: true},
		"ibdata2":                    {held: true, locked: true},
		"mysql.ibd":                  {held: true, locked: true},
		"undo_001":                   {held: true, locked: true},
		"undo001":                    {held: true, locked: true},
		"more.ibu":                   {held: true, locked: true},
		"#ib_16384_0.dblwr":          {held: true, locked: true},
		"#ib_16384_1.bdblwr":         {},
		"ib_logfile0":                {held: true, locked: true},
		"aria_log_control":           {held: true, locked: true},
		"aria_log.00000001":          {held: true, locked: true},
		"shop/orders.ibd":            {locked: true},
		"shop/ibdata1":               {},
		"#innodb_redo/#ib_redo5":     {held: true, locked: true},
		"#innodb_redo/#ib_redo6_tmp": {skip: true, held: true, locked: true},
		"#innodb_redo":               {mode: fs.ModeDir},
		"#innodb_temp":               {mode: fs.ModeDir},
		"#innodb_temp/temp_1.ibt":    {skip: true},
		"ibtmp1":                     {skip: true, held: true, locked: true},
		"shop/ibtmp1":                {},
		"mysql.sock":                 {mode: fs.ModeSymlink, skip: true},
		"mysql.sock.lock":            {skip: true},
		"mysqlx.sock":                {mode: fs.ModeSocket, skip: true},
		"shop/odd":                   {mode: fs.ModeSocket, skip: true},
		"host.pid":                   {skip: true},
		"shop/host.pid":              {},
		"a.pid":                      {mode: fs.ModeDir},
		"binlog.000001":              {},
		"auto.cnf":                   {},
		"ca-key.pem":                 {skip: true},
		"private_key.pem":            {skip: true},
		"shop/ca-key.pem":            {},
		"other.pem":                  {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Skip(name, tc.mode); got != tc.skip {
				t.Errorf("Skip(%q): %v", name, got)
			}
			if got := Held(name); got != tc.held && tc.mode == 0 {
				t.Errorf("Held(%q): %v", name, got)
			}
			if got := Locked(name); got != tc.locked && tc.mode == 0 {
				t.Errorf("Locked(%q): %v", name, got)
			}
		})
	}
}

func TestPatterns(t *testing.T) {
	for _, pattern := range held {
		if _, err := path.Match(pattern, "x"); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
