package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
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
	// Locked is true if nobody can log in to it, and Certified if only clients with a certificate of their own can (REQUIRE
	// X509, SUBJECT or ISSUER).
	Locked, Certified bool
	// Unprivileged is true if it may not change accounts.
	Unprivileged bool
	// FailedLogins in a row lock it (FAILED_LOGIN_ATTEMPTS); 0 if they do not.
	FailedLogins int
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
	host, plugin, empty, keeps := sql.NullString{}, sql.NullString{}, sql.NullBool{}, sql.NullBool{}
	locked, certified, unprivileged, limit := sql.NullBool{}, sql.NullBool{}, sql.NullBool{}, sql.NullInt32{}
	out := []Account{}
	err = s.queryRows(ctx, []sql.Scanner{&host, &plugin, &empty, &keeps, &locked, &certified, &unprivileged, &limit}, func() {
		out = append(out, Account{
			Host: host.String, Plugin: plugin.String, Loaded: slices.Contains(loaded, plugin.String),
			Empty: empty.Bool, Retained: keeps.Bool, Locked: locked.Bool, Certified: certified.Bool, Unprivileged: unprivileged.Bool, FailedLogins: int(limit.Int32),
		})
	}, accountQuery(v), Root)
	if err != nil {
		return nil, s.wrapError(err, doing)
	}
	return out, nil
}

// accountQuery of root's accounts. Older servers have fewer columns, and nothing that those would say. MariaDB keeps its locks in
// a table of its own.
func accountQuery(v version.Version) string {
	retained, locked, limit := "0", "0", "0"
	switch {
	case KeepsOld(v):
		retained = "JSON_CONTAINS_PATH(COALESCE(User_attributes, '{}'), 'one', '$.additional_password')"
		locked = "account_locked = 'Y'"
		limit = "COALESCE(JSON_EXTRACT(User_attributes, '$.Password_locking.failed_login_attempts'), 0)"
	case v.Flavour == version.MariaDB && !v.Before(10, 4):
		locked = `EXISTS (SELECT 1 FROM mysql.global_priv g WHERE g.User = user.User AND g.Host = user.Host AND g.Priv LIKE '%"account_locked":true%')`
	}
	return "SELECT Host, plugin, authentication_string = '', " + retained + ", " + locked + ", ssl_type IN ('X509', 'SPECIFIED'), Create_user_priv <> 'Y' OR Select_priv <> 'Y', " + limit +
		" FROM mysql.user WHERE User = ? ORDER BY Host"
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
	if err := checkAltersPasswords(v); err != nil {
		return err
	}
	text, args, err := alterStatement(v, accounts, p, retain)
	if err != nil {
		return err
	}
	if err := s.execStatement(ctx, text, args...); err != nil {
		return s.withRules(ctx, s.wrapSecret(err, "change the password of root"))
	}
	return nil
}

// withRules has an error of a password say which rules it breaks, if the server says them.
func (s *Session) withRules(ctx context.Context, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !IsAgainstPolicy(err) {
		return err
	}
	if rules, rerr := s.passwordRules(ctx); rerr == nil && rules != (PasswordRules{}) {
		e.Text = "the server asks for " + rules.String()
	}
	return err
}

// checkAltersPasswords refuses servers that do not know the statement: MySQL has ALTER USER … IDENTIFIED since 5.7.6, and MariaDB
// IDENTIFIED VIA … USING PASSWORD since 10.4.
func checkAltersPasswords(v version.Version) error {
	switch {
	case v.Flavour == version.MySQL && slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{5, 7, 6}) < 0:
		return fmt.Errorf("%w: %s is too old, its passwords can be changed from MySQL 5.7.6 on: choose a newer image", ErrTooOld, v)
	case v.Flavour == version.MariaDB && v.Before(10, 4):
		return fmt.Errorf("%w: %s is too old, its passwords can be changed from MariaDB 10.4 on: choose a newer image", ErrTooOld, v)
	}
	return nil
}

// ErrTooOld is of a server that does not know what is asked of it.
var ErrTooOld = errors.New("the server is not supported")

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

// EnsureRoot sees that root can come over a network from where clients are, with a password and all rights, as in a database that an
// official image makes. Who can come already keeps what it has. Clients are taken to come from such addresses as this machine has.
func (s *Session) EnsureRoot(ctx context.Context, p Password, clients []netip.Addr) error {
	accounts, err := s.RootAccounts(ctx)
	if err != nil {
		return err
	}
	return s.execAll(ctx, "let root in over the network", letRootIn(accounts, p, clients)...)
}

// letRootIn returns the statements that make root's accounts usable for clients, or that make one if no account is for them. An
// account that takes no password is replaced only if clients are known to land on it.
func letRootIn(accounts []Account, p Password, clients []netip.Addr) (out []statement) {
	found := false
	for _, a := range accounts {
		switch {
		case !a.isFor(clients), !a.TakesPassword() && (len(clients) == 0 || a.Host == anyHost):
			continue
		case !a.TakesPassword():
			out = append(out, newRoot(a.Host, p)...)
		case a.Locked || a.Certified:
			out = append(out, statement{"ALTER USER ?@? REQUIRE SSL ACCOUNT UNLOCK", []any{Root, a.Host}})
		}
		if a.TakesPassword() && a.Unprivileged {
			out = append(out, grantAll(a.Host))
		}
		found = true
	}
	if found {
		return out
	}
	return newRoot(anyHost, p)
}

// newRoot in the place of an account of its host, which would be logged in by something else.
func newRoot(host string, p Password) []statement {
	return []statement{
		{"DROP USER IF EXISTS ?@?", []any{Root, host}},
		{"CREATE USER ?@? IDENTIFIED BY ?", []any{Root, host, string(p)}},
		grantAll(host),
	}
}

func grantAll(host string) statement {
	return statement{"GRANT ALL PRIVILEGES ON *.* TO ?@? WITH GRANT OPTION", []any{Root, host}}
}

// isFor clients that come over a network: one of them matches the pattern, or could where no address is known.
func (a Account) isFor(clients []netip.Addr) bool {
	if slices.Contains(ownHosts, a.Host) {
		return false
	}
	return len(clients) == 0 || slices.ContainsFunc(clients, func(c netip.Addr) bool { return matchesHost(a.Host, c) })
}

// matchesHost reports whether a client of the address is one of an account's host pattern. Names are not looked up
// (skip_name_resolve), so they match nobody (MySQL manual, 8.2.4 Specifying Account Names).
func matchesHost(pattern string, client netip.Addr) bool {
	client = client.Unmap()
	if network, mask, ok := strings.Cut(pattern, "/"); ok {
		prefix, err := netip.ParsePrefix(network + "/" + bitsOf(mask))
		return err == nil && prefix.Contains(client)
	}
	return pattern == "" || isLike(pattern, client.String())
}

// bitsOf a mask such as 255.255.0.0; any other text stays as it is.
func bitsOf(mask string) string {
	ip := net.ParseIP(mask).To4()
	if ip == nil {
		return mask
	}
	ones, _ := net.IPMask(ip).Size()
	return strconv.Itoa(ones)
}

// isLike is LIKE of SQL, with its two wildcards. A regular expression of Go takes no longer for a pattern with many.
func isLike(pattern, text string) bool {
	expression := strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("^(?:" + expression + ")$").MatchString(text)
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
