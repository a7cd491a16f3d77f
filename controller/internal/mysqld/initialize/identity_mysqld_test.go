//go:build mysqld

package initialize

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

// podAddress is the address of a client in the cluster.
var podAddress = []netip.Addr{netip.MustParseAddr("10.42.0.7")}

// letIn sets the password in restored data, and makes root usable for clients in the cluster.
func (b box) letIn(t *testing.T, password string) {
	t.Helper()
	b.Serve, b.Initialize = nil, &initialization{Password: password, Clients: podAddress}
	if out, err := b.begin(t).end(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestRealRootElsewhere restores data in which root could not log in from the cluster's network. Clients must be able
// to log in as root afterwards. Other accounts must not change.
func TestRealRootElsewhere(t *testing.T) {
	b := newBox(t)
	b.Env = []string{quick}
	b.initialize(t, "p")
	for name, statement := range map[string]string{
		"Renamed": "RENAME USER root@'%' TO root@'10.99.0.%'",
		"Locked":  "ALTER USER root@'%' REQUIRE X509 PASSWORD EXPIRE ACCOUNT LOCK",
		"Revoked": "REVOKE ALL PRIVILEGES, GRANT OPTION FROM root@'%'",
	} {
		b.serve(t, "p", statement)
		b.restored(t)
		b.letIn(t, "p")
		if got := b.serve(t, "p", "SELECT CURRENT_USER(); SELECT COUNT(*) > 0 FROM mysql.user"); got != "root@%\n1" {
			t.Errorf("%s: want root with its rights, got %q", name, got)
		}
	}
	if got := b.serve(t, "p", "SELECT Host FROM mysql.user WHERE User = 'root' AND Host LIKE '10%'"); got != "10.99.0.%" {
		t.Errorf("want the account that was there, got %q", got)
	}
}

// gtids are the lines about GTIDs in the my.cnf that the function writes for a new instance.
var gtids = []string{"loose_gtid_mode = ON", "loose_enforce_gtid_consistency = ON", "[mysqld-5.6]",
	"loose_gtid_mode = OFF", "loose_enforce_gtid_consistency = OFF", "[mysqld-5.7]", "loose_gtid_mode = OFF",
	"loose_enforce_gtid_consistency = OFF"}

// noGTIDs are my.cnf lines with the defaults of MySQL before 9.7. binaryLog is the line with the default of all
// versions.
var (
	noGTIDs   = []string{binaryLog, "gtid_mode = OFF", "enforce_gtid_consistency = OFF"}
	binaryLog = "log_bin = binlog"
)

const askGTIDs = "SELECT @@gtid_mode, @@enforce_gtid_consistency, @@gtid_executed <> ''"

// TestRealGTIDs checks that GTIDs are enabled on a new server. They must also be enabled on restored data of a server
// without them, even after an unclean shutdown. A persisted server_id of the backed-up server must not be used.
func TestRealGTIDs(t *testing.T) {
	b := newBox(t)
	b.Env = []string{quick}
	b.settings(t, noGTIDs...)
	b.initialize(t, "p")
	// The server is killed together with its box.
	if got := b.serve(t, "p", "CREATE DATABASE d; CREATE TABLE d.t AS SELECT 42 AS i; SET PERSIST server_id = 7; SET "+
		"PERSIST max_connections = 77; SELECT @@gtid_mode"); got != "OFF" {
		t.Fatalf("the backup is of a server with GTIDs: %q", got)
	}
	b.settings(t, append([]string{binaryLog, "server_id = 4711"}, gtids...)...)
	b.restored(t)
	b.letIn(t, "p")
	if got := b.serve(t, "p", "INSERT INTO d.t VALUES (43); SELECT i FROM d.t; SELECT @@server_id, @@max_connections; "+
		askGTIDs); got != "42\n43\n4711\t77\nON\tON\t1" {
		t.Errorf("on an older backup: got %q", got)
	}
	b.removeData(t)
	b.initialize(t, "p")
	if got := b.serve(t, "p", "CREATE DATABASE d; "+askGTIDs); got != "ON\tON\t1" {
		t.Errorf("a new server: got %q", got)
	}
	b.settings(t, append([]string{"skip_log_bin"}, gtids...)...)
	if got := b.serve(t, "p", "SELECT @@gtid_mode, @@log_bin"); got != "ON\t0" {
		t.Errorf("without a binary log: got %q", got)
	}
}

// TestRealOnlineSwitch enables GTIDs on a running server with the statements of the documentation, and checks that
// they stay enabled.
func TestRealOnlineSwitch(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/how-to/upgrade-mysql.md")
	must(t, err)
	_, after, _ := strings.Cut(string(raw), "```sql\nSET PERSIST enforce_gtid_consistency = WARN;\n")
	statements, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("docs/how-to/upgrade-mysql.md has no statements that switch GTIDs on")
	}
	b := newBox(t)
	b.Env = []string{quick}
	b.settings(t, noGTIDs...)
	b.initialize(t, "p")
	if got := b.serve(t, "p", "SET PERSIST enforce_gtid_consistency = WARN;\n"+statements+"CREATE DATABASE d; "+
		askGTIDs); !strings.HasSuffix(got, "ON\tON\t1") {
		t.Errorf("after the switch: got %q", got)
	}
	if got := b.serve(t, "p", askGTIDs); got != "ON\tON\t1" {
		t.Errorf("after a restart: got %q", got)
	}
}
