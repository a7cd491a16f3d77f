package foreign

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A tree lists the entries of a volume. The value of a directory, whose name ends with a slash, is not used. A value
// that begins with an arrow is the target of a symbolic link, and "|" is a FIFO.
type tree map[string]string

func (tr tree) open(t *testing.T) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range tr {
		place := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(place), 0o755)
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(place, 0o755)
		case text == "|":
			err = syscall.Mkfifo(place, 0o644)
		case strings.HasPrefix(text, "→"):
			err = os.Symlink(strings.TrimPrefix(text, "→"), place)
		default:
			err = os.WriteFile(place, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// with returns a tree with the entries of tr, and with the entries of more below the directory dir.
func (tr tree) with(dir string, more tree) tree {
	out := maps.Clone(tr)
	for name, text := range more {
		if strings.HasSuffix(name, "/") {
			text = ""
			name = path.Join(dir, name) + "/"
		} else {
			name = path.Join(dir, name)
		}
		out[name] = text
	}
	return out
}

// Files of data directories of MySQL 8.0 and newer, and of older servers.
var (
	mysql80 = tree{"ibdata1": "", "mysql.ibd": "", "mysql/": "", "shop/t.ibd": "", "#innodb_redo/#ib_redo1": ""}
	mysql57 = tree{"ibdata1": "", "mysql/user.frm": "", "shop/t.frm": ""}
)

func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		volume tree
		start  string
		want   []string
		err    error
	}{
		"Empty":      {volume: tree{}},
		"Bitnami":    {volume: tree{"lost+found/": ""}.with("data", mysql80), want: []string{"data"}},
		"SubPath":    {volume: tree{}.with("mysql", mysql57), want: []string{"mysql"}},
		"Deeper":     {volume: tree{}.with("var/lib/mysql", mysql80), want: []string{"var/lib/mysql"}},
		"TooDeep":    {volume: tree{}.with("a/b/c/d", mysql80)},
		"Two":        {volume: tree{}.with("new", mysql80).with("old/data", mysql57), want: []string{"new", "old/data"}},
		"From":       {volume: tree{}.with("new", mysql80).with("old/data", mysql57), start: "old", want: []string{"old/data"}},
		"NotNested":  {volume: tree{}.with("data", mysql80).with("data/data", mysql80), want: []string{"data"}},
		"OnlySpace":  {volume: tree{"data/ibdata1": ""}},
		"OnlyTables": {volume: tree{"data/mysql.ibd": "", "data/mysql/": ""}},
		"Link":       {volume: tree{"data": "→/var/lib/mysql", "up": "→..", "self": "→."}.with("real", mysql80), want: []string{"real"}},
		"LinkedFile": {volume: tree{"data/ibdata1": "→/etc/passwd", "data/mysql.ibd": ""}},
		"Fifo":       {volume: tree{"data/ibdata1": "|", "data/mysql.ibd": "|", "pipe": "|"}},
		"Folder":     {volume: tree{"data/ibdata1/": "", "data/mysql.ibd/": "", "data/mysql/": ""}},
		"Hidden":     {volume: tree{}.with(".snapshot", mysql80).with("#old", mysql80).with("lost+found/mysql", mysql80)},
		"Control":    {volume: tree{}.with("a\nb", mysql80)},
	} {
		t.Run(name, func(t *testing.T) {
			start := tc.start
			if start == "" {
				start = "."
			}
			got, err := Find(tc.volume.open(t), start)
			if !errors.Is(err, tc.err) || !slices.Equal(got, tc.want) {
				t.Errorf("want %q, got %q, %v", tc.want, got, err)
			}
		})
	}
}

// TestFindIsBounded checks that a volume with many directories does not delay an import.
func TestFindIsBounded(t *testing.T) {
	volume := tree{}
	for n := range maxVisited + 1 {
		volume[fmt.Sprintf("d%d/", n)] = ""
	}
	if got, err := Find(volume.open(t), "."); !errors.Is(err, ErrTooMany) {
		t.Errorf("it finds %q, %v", got, err)
	}
}

func TestFindDump(t *testing.T) {
	for name, tc := range map[string]struct {
		volume tree
		want   string
	}{
		"None":   {volume: mysql80},
		"Root":   {volume: tree{"lost+found/": "", "mysql-instance.sql": ""}, want: "mysql-instance.sql"},
		"Folder": {volume: tree{"dumps/all.sql.gz": "", "a/": ""}, want: "dumps/all.sql.gz"},
		"Hidden": {volume: tree{".x.sql": "", "x.sql.bak": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FindDump(tc.volume.open(t), "."); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestNested(t *testing.T) {
	for name, tc := range map[string]struct {
		dir  tree
		want []string
	}{
		"None":    {dir: mysql80},
		"Data":    {dir: mysql80.with("data", mysql80), want: []string{"data"}},
		"SubPath": {dir: mysql80.with("mysql", mysql57), want: []string{"mysql"}},
		"Schema":  {dir: mysql80.with("shop", tree{"ibdata1.ibd": "", "mysql.ibd": ""})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Nested(tc.dir.open(t))
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("want %q, got %q, %v", tc.want, got, err)
			}
		})
	}
}

// galera returns the content of grastate.dat.
func galera(seqno, last string) string {
	return "# GALERA saved state\nversion: 2.1\nuuid:    8b6b2e92-320c-11e7-9498-53f394e3a32a\nseqno:   " + seqno +
		"\nsafe_to_bootstrap: " + last + "\n"
}

// TestCheck checks which data directories Check refuses. The reason of each refusal must end with the next step.
func TestCheck(t *testing.T) {
	header := func(flags string) string {
		return strings.Repeat("\x00", 25) + "\x08" + strings.Repeat("\x00", 28) + flags
	}
	for name, tc := range map[string]struct {
		more tree
		want string
	}{
		"Nothing":         {},
		"Bitnami":         {more: tree{".user_scripts_initialized": "", "mysql_upgrade_info": "8.0.36"}},
		"Replica":         {more: tree{"host-relay-bin.000001": "", "host-relay-bin.index": ""}},
		"Sockets":         {more: tree{"mysql.sock": "→/run/x", "pipe": "|"}},
		"MyRocks":         {more: tree{".rocksdb/CURRENT": ""}, want: "MyRocks (.rocksdb)"},
		"MyRocksMariaDB":  {more: tree{"#rocksdb/CURRENT": ""}, want: "MyRocks (#rocksdb)"},
		"TokuDB":          {more: tree{"tokudb.environment": ""}, want: "TokuDB (tokudb.environment)"},
		"TokuDBLog":       {more: tree{"log000000000001.tokulog29": ""}, want: "TokuDB"},
		"TokuDBSchema":    {more: tree{"tokudb/": ""}},
		"GroupMember":     {more: tree{"h-relay-bin-group_replication_applier.000002": ""}, want: "member of Group Replication"},
		"GroupRecovery":   {more: tree{"h-relay-bin-group_replication_recovery.index": ""}, want: "member of Group Replication"},
		"GroupPersisted":  {more: tree{persistedOptions: `{"Version":2,"x":{"group_replication_group_name":{}}}`}, want: "member of Group"},
		"Persisted":       {more: tree{persistedOptions: `{"Version":2,"x":{"max_connections":{}}}`}},
		"Transfer":        {more: tree{"sst_in_progress": ""}, want: "was interrupted (sst_in_progress)"},
		"Clone":           {more: tree{"#clone/#status_in_progress": ""}, want: "was interrupted"},
		"CloneDone":       {more: tree{"#clone/#view_status": ""}},
		"CloneLink":       {more: tree{"#clone": "→/"}},
		"GaleraLast":      {more: tree{galeraState: galera("12", "1")}},
		"GaleraNotLast":   {more: tree{galeraState: galera("12", "0")}, want: "seqno 12 and safe_to_bootstrap 0 in grastate.dat"},
		"GaleraCrashed":   {more: tree{galeraState: galera("-1", "0")}, want: "seqno -1"},
		"GaleraOld":       {more: tree{galeraState: "seqno: 7\n"}, want: "safe_to_bootstrap missing"},
		"GaleraEmpty":     {more: tree{galeraState: ""}, want: "seqno missing"},
		"GaleraFifo":      {more: tree{galeraState: "|"}, want: "seqno missing"},
		"GaleraLink":      {more: tree{galeraState: "→/etc/passwd"}, want: "seqno missing"},
		"GaleraFolder":    {more: tree{galeraState + "/": ""}, want: "seqno missing"},
		"GaleraNoise":     {more: tree{galeraState: "seqno: \x1b[31m\n"}, want: `seqno "\x1b[31m"`},
		"GaleraMember":    {more: tree{galeraState: galera("12", "1"), galeraView: ""}, want: "did not leave the cluster"},
		"Prepared":        {more: tree{"xtrabackup_checkpoints": "backup_type = full-prepared\n"}},
		"NotPrepared":     {more: tree{"xtrabackup_checkpoints": "backup_type = full-backuped\n"}, want: "is not prepared"},
		"Incremental":     {more: tree{"xtrabackup_checkpoints": "backup_type = incremental\n"}, want: "is not prepared"},
		"LogApplied":      {more: tree{"xtrabackup_checkpoints": "backup_type = log-applied\n"}, want: "backup_type log-applied"},
		"EncryptedTable":  {more: tree{"shop/x.ibd": header("\x00\x00\x60\x21")}, want: "shop/x.ibd is encrypted"},
		"EncryptedUndo":   {more: tree{"undo_001": header("\x00\x00\x20\x00")}, want: "undo_001 is encrypted"},
		"EncryptedBinlog": {more: tree{"binlog.000003": "\xfdbin\x01"}, want: "binlog.000003 is encrypted"},
		"Binlog":          {more: tree{"binlog.000003": "\xfebin\x01"}},
		"Table":           {more: tree{"shop/x.ibd": header("\x00\x00\x40\x21"), "mysql.ibd": header("\x00\x00\x48\x00")}},
		"MariaDBTable":    {more: tree{"shop/x.ibd": header("\x00\x00\x20\x15")}},
		"LinkedTable":     {more: tree{"shop/x.ibd": "→/etc/passwd"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(mysql80.with("", tc.more).open(t))
			unusable := new(UnusableError)
			switch {
			case tc.want == "" && err != nil, tc.want != "" && !errors.As(err, &unusable):
				t.Errorf("want %q, got %v", tc.want, err)
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("want %q in %q", tc.want, err)
			}
		})
	}
}

// TestCheckRedo checks the key in the header of a redo log file. A real server has written such a header.
func TestCheckRedo(t *testing.T) {
	header := strings.Repeat("\x00", 1072)
	for name, tc := range map[string]struct {
		more tree
		want string
	}{
		"Plain":     {more: tree{"#innodb_redo/#ib_redo1": header + "\x00\x00\x00"}},
		"Short":     {more: tree{"#innodb_redo/#ib_redo1": header}},
		"Reserved":  {more: tree{"#innodb_redo/#ib_redo2_tmp": header + "lCC"}},
		"Encrypted": {more: tree{"#innodb_redo/#ib_redo1": header + "lCC\x00"}, want: "#innodb_redo/#ib_redo1 is encrypted"},
		"Link":      {more: tree{"#innodb_redo": "→/"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckRedo(tc.more.open(t))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
	if err := CheckRedo(mysql57.open(t)); err != nil {
		t.Error(err)
	}
}

func TestPatterns(t *testing.T) {
	for _, m := range marks {
		if _, err := path.Match(m.pattern, "x"); err != nil || strings.Count(m.reason, "%s") != 1 {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestStarted(t *testing.T) {
	for text, want := range map[string]string{
		"mysqld  Ver 8.0.36-28.1 for Linux on x86_64 (Percona XtraDB Cluster (GPL))\n": "8.0.36-28.1",
		"": "", "nonsense": "", strings.Repeat("x", 2*maxSmall): "",
	} {
		if got := Started(tree{"version_info": text}.open(t)); got != want {
			t.Errorf("%.40q: want %q, got %q", text, want, got)
		}
	}
	if got := Started(tree{"version_info": "→/etc/passwd"}.open(t)); got != "" {
		t.Errorf("it follows a link: %q", got)
	}
}

func TestSkip(t *testing.T) {
	for name, want := range map[string]bool{"auto.cnf": true, persistedOptions: true, galeraState: true, galeraCache: true,
		"lost+found": true, "shop/auto.cnf": false, "ibdata1": false, "my.cnf": false} {
		if Skip(name) != want {
			t.Errorf("%s: want %t", name, want)
		}
	}
}
