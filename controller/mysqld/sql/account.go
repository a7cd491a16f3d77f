package sql

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/version"
)

// Plugins that log a user in by a password that the server keeps.
const (
	cachingSHA2 = "caching_sha2_password"
	native      = "mysql_native_password"
)

var passwordPlugins = []string{cachingSHA2, native, "sha256_password", "ed25519", "parsec"}

// An Account is one of root's.
type Account struct {
	// Host pattern of the clients that it is for.
	Host string
	// Plugin that logs its user in.
	Plugin string
	// Loaded is false if the server does not have the plugin, and so nobody can
	// log in.
	Loaded bool
	// Empty is true if the account has no password.
	Empty bool
	// Retained is true if an old password works beside the current one.
	Retained bool
}

// TakesPassword is false for accounts that are logged in by something else, such
// as the name of the client's system user. They are left alone.
func (a Account) TakesPassword() bool { return slices.Contains(passwordPlugins, a.Plugin) }

// retains the current password when it gets a new one. What cannot work now
// cannot be retained: the server refuses an empty password (3878), and one of a
// plugin that changes (3894).
func (a Account) retains() bool { return a.Loaded && !a.Empty }

// KeepsOld is true if a server keeps an old password beside the current one
// (https://dev.mysql.com/doc/refman/8.0/en/password-management.html#dual-passwords).
func KeepsOld(v version.Version) bool {
	if v.Flavour != version.MySQL {
		return false
	}
	return slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{8, 0, 14}) >= 0
}

// RootAccounts are the accounts of root, ordered by host.
func (s *Session) RootAccounts(ctx context.Context) ([]Account, error) {
	const doing = "read the accounts of root"
	v, err := s.knownVersion(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := s.plugins(ctx)
	if err != nil {
		return nil, s.wrapError(err, doing)
	}
	retained := "0"
	if KeepsOld(v) {
		retained = "JSON_CONTAINS_PATH(COALESCE(User_attributes, '{}'), 'one', '$.additional_password')"
	}
	host, plugin, empty, keeps := sql.NullString{}, sql.NullString{}, sql.NullBool{}, sql.NullBool{}
	out := []Account{}
	err = s.queryRows(ctx, []sql.Scanner{&host, &plugin, &empty, &keeps}, func() {
		out = append(out, Account{
			Host: host.String, Plugin: plugin.String, Loaded: slices.Contains(loaded, plugin.String),
			Empty: empty.Bool, Retained: keeps.Bool,
		})
	}, "SELECT Host, plugin, authentication_string = '', "+retained+" FROM mysql.user WHERE User = ? ORDER BY Host", Root)
	if err != nil {
		return nil, s.wrapError(err, doing)
	}
	return out, nil
}

// plugins that log users in and work.
func (s *Session) plugins(ctx context.Context) ([]string, error) {
	name, out := sql.NullString{}, []string{}
	err := s.queryRows(ctx, []sql.Scanner{&name}, func() { out = append(out, name.String) },
		"SELECT PLUGIN_NAME FROM information_schema.PLUGINS WHERE PLUGIN_TYPE = 'AUTHENTICATION' AND PLUGIN_STATUS = 'ACTIVE'")
	return out, err
}

// SetPassword of all accounts that take one, in one statement, which MySQL does
// for all of them or for none. With retain the current password goes on to work,
// and an error is returned if one does so already: the server keeps a single
// one, and doing the same twice would push out what clients use. Without retain
// an old password that is kept stays.
func (s *Session) SetPassword(ctx context.Context, accounts []Account, p Password, retain bool) error {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return err
	}
	text, args, err := alterStatement(v, accounts, p, retain)
	if err != nil {
		return err
	}
	if err := s.execStatement(ctx, text, args...); err != nil {
		return s.wrapSecret(err, "change the password of root")
	}
	return nil
}

func alterStatement(v version.Version, accounts []Account, p Password, retain bool) (string, []any, error) {
	clauses, args := []string{}, []any{}
	for _, a := range accounts {
		if !a.TakesPassword() {
			continue
		}
		if retain && a.Retained {
			return "", nil, ErrRetained
		}
		clauses = append(clauses, "?@? "+identified(v, a, retain))
		args = append(args, Root, a.Host, string(p))
	}
	if len(clauses) == 0 {
		return "", nil, ErrNoAccount
	}
	return "ALTER USER " + strings.Join(clauses, ", "), args, nil
}

// identified names the plugin, or the server would take its default, and change
// what other clients of the account rely on.
func identified(v version.Version, a Account, retain bool) string {
	plugin, usual := a.Plugin, cachingSHA2
	if v.Flavour == version.MariaDB {
		usual = native
	}
	if !a.Loaded {
		plugin = usual
	}
	if v.Flavour == version.MariaDB {
		return "IDENTIFIED VIA " + Quote(plugin) + " USING PASSWORD(?)"
	}
	out := "IDENTIFIED WITH " + Quote(plugin) + " BY ?"
	if retain && a.retains() {
		out += " RETAIN CURRENT PASSWORD"
	}
	return out
}

// EnsureRoot sees that root can come over a network, with a password and all rights, as in a database that an official image
// makes. Who can come already keeps what it has.
func (s *Session) EnsureRoot(ctx context.Context, p Password) error {
	accounts, err := s.RootAccounts(ctx)
	if err != nil || slices.ContainsFunc(accounts, func(a Account) bool { return a.TakesPassword() && !slices.Contains(ownHosts, a.Host) }) {
		return err
	}
	return s.execAll(ctx, "make an account of root that comes from anywhere",
		statement{"DROP USER IF EXISTS ?@?", []any{Root, anyHost}}, // It would be logged in by something else.
		statement{"CREATE USER ?@? IDENTIFIED BY ?", []any{Root, anyHost, string(p)}},
		statement{"GRANT ALL PRIVILEGES ON *.* TO ?@? WITH GRANT OPTION", []any{Root, anyHost}})
}

// ownHosts are those of clients that come from the server's own machine.
var ownHosts = []string{"localhost", "127.0.0.1", "::1"}

// TakeOver data of a server that was not ours: root is let in again where it was kept out, and what that server was the replica of is
// forgotten: rows would come on from there.
func (s *Session) TakeOver(ctx context.Context) error {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return err
	}
	reset := "RESET SLAVE ALL"
	if v.Flavour == version.MySQL && !v.Before(8, 4) { // There is no other word any more.
		reset = "RESET REPLICA ALL"
	}
	all := []statement{{reset, nil}}
	accounts, err := s.RootAccounts(ctx)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if a.TakesPassword() && a.Host == anyHost {
			all = append(all, statement{"ALTER USER ?@? REQUIRE NONE ACCOUNT UNLOCK", []any{Root, a.Host}}, statement{"GRANT ALL PRIVILEGES ON *.* TO ?@? WITH GRANT OPTION", []any{Root, a.Host}})
		}
	}
	return s.execAll(ctx, "take the imported data over", all...)
}

// ForeignFiles of tables that lie outside the data directory, as absolute paths; some of them.
func (s *Session) ForeignFiles(ctx context.Context) ([]string, error) {
	v, err := s.knownVersion(ctx)
	if err != nil || v.Flavour != version.MySQL || v.Before(8, 0) {
		return nil, err
	}
	var out []string
	name := sql.NullString{}
	err = s.queryRows(ctx, []sql.Scanner{&name}, func() { out = append(out, s.printable(name.String)) },
		"SELECT FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE IN ('TABLESPACE', 'UNDO LOG') AND FILE_NAME LIKE '/%' ORDER BY 1 LIMIT 20")
	if err != nil {
		return nil, s.wrapError(err, "see where its tables lie")
	}
	return out, nil
}

// A statement with its values.
type statement struct {
	text string
	args []any
}

func (s *Session) execAll(ctx context.Context, doing string, all ...statement) error {
	for _, of := range all {
		if err := s.execStatement(ctx, of.text, of.args...); err != nil {
			return s.wrapSecret(err, doing)
		}
	}
	return nil
}

// anyHost is the pattern of an account for clients from anywhere.
const anyHost = "%"

// DiscardOld passwords of the accounts that keep one.
func (s *Session) DiscardOld(ctx context.Context, accounts []Account) error {
	clauses, args := []string{}, []any{}
	for _, a := range accounts {
		if a.Retained {
			clauses, args = append(clauses, "?@? DISCARD OLD PASSWORD"), append(args, Root, a.Host)
		}
	}
	if len(clauses) == 0 {
		return nil
	}
	if err := s.execStatement(ctx, "ALTER USER "+strings.Join(clauses, ", "), args...); err != nil {
		return s.wrapError(err, "discard the old password of root")
	}
	return nil
}
