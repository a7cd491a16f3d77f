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

// The following authentication plugins use a password that the server stores.
const (
	cachingSHA2 = "caching_sha2_password"
	native      = "mysql_native_password"
)

var passwordPlugins = []string{cachingSHA2, native, "sha256_password", "ed25519", "parsec"}

// An Account is an account of the user root in a server. Each Host pattern has its own account.
type Account struct {
	// Host is the pattern for the hosts of clients.
	Host string
	// Plugin is the authentication plugin.
	Plugin string
	// Loaded is false if the server has not loaded the plugin. No client can log in then.
	Loaded bool
	// Empty is true if the account has no password.
	Empty bool
	// Retained is true if an old password is valid in addition to the current one.
	Retained bool
	// Locked is true if no client can log in. Certified is true if only clients with their own certificate can
	// (REQUIRE X509, SUBJECT or ISSUER).
	Locked, Certified bool
	// Unprivileged is true if the account may not change accounts.
	Unprivileged bool
	// FailedLogins is the number of consecutive failed logins after which the account is locked
	// (FAILED_LOGIN_ATTEMPTS), or 0 if there is no limit.
	FailedLogins int
}

// TakesPassword reports whether clients log in to the account with a password. The controller does not change other
// accounts, such as accounts that authenticate by the operating system's user.
func (a Account) TakesPassword() bool { return slices.Contains(passwordPlugins, a.Plugin) }

// retains reports whether the account can retain its current password. The server refuses to retain an empty password
// (3878), or any password if the plugin changes (3894).
func (a Account) retains() bool { return a.Loaded && !a.Empty }

// KeepsOld reports whether a server can retain an old password in addition to the current one
// (https://dev.mysql.com/doc/refman/8.0/en/password-management.html#dual-passwords).
func KeepsOld(v version.Version) bool {
	if v.Flavour != version.MySQL {
		return false
	}
	return slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{8, 0, 14}) >= 0
}

// RootAccounts returns the root accounts, ordered by host.
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
	err = s.queryRows(ctx, []sql.Scanner{&host, &plugin, &empty, &keeps, &locked, &certified, &unprivileged, &limit},
		func() {
			out = append(out, Account{
				Host: host.String, Plugin: plugin.String, Loaded: slices.Contains(loaded, plugin.String),
				Empty: empty.Bool, Retained: keeps.Bool, Locked: locked.Bool, Certified: certified.Bool,
				Unprivileged: unprivileged.Bool, FailedLogins: int(limit.Int32),
			})
		}, accountQuery(v), Root)
	if err != nil {
		return nil, s.wrapError(err, doing)
	}
	return out, nil
}

// accountQuery returns the query for the root accounts. Older servers lack some columns, because they do not have the
// corresponding features. MariaDB stores locks in a separate table.
func accountQuery(v version.Version) string {
	retained, locked, limit := "0", "0", "0"
	switch {
	case KeepsOld(v):
		retained = "JSON_CONTAINS_PATH(COALESCE(User_attributes, '{}'), 'one', '$.additional_password')"
		locked = "account_locked = 'Y'"
		limit = "COALESCE(JSON_EXTRACT(User_attributes, '$.Password_locking.failed_login_attempts'), 0)"
	case v.Flavour == version.MariaDB && !v.Before(10, 4):
		locked =
			`EXISTS (SELECT 1 FROM mysql.global_priv g WHERE g.User = user.User AND g.Host = user.Host AND g.Priv LIKE '%"account_locked":true%')`
	}
	return "SELECT Host, plugin, authentication_string = '', " + retained + ", " + locked +
		", ssl_type IN ('X509', 'SPECIFIED'), Create_user_priv <> 'Y' OR Select_priv <> 'Y', " + limit +
		" FROM mysql.user WHERE User = ? ORDER BY Host"
}

// plugins returns the active authentication plugins.
func (s *Session) plugins(ctx context.Context) ([]string, error) {
	name, out := sql.NullString{}, []string{}
	err := s.queryRows(ctx, []sql.Scanner{&name}, func() { out = append(out, name.String) },
		"SELECT PLUGIN_NAME FROM information_schema.PLUGINS WHERE PLUGIN_TYPE = 'AUTHENTICATION' AND PLUGIN_STATUS = 'ACTIVE'")
	return out, err
}

// SetPassword sets the password of all accounts in one statement, which MySQL executes for all of them or for none.
// With retain, the current password remains valid. SetPassword then returns an error if an account already retains an
// old password. The server retains only one, so a repetition would discard the password that clients use. Without
// retain, a retained old password remains valid.
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

// withRules adds the server's password rules to the error if the server refused a password and lists its rules.
func (s *Session) withRules(ctx context.Context, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !IsAgainstPolicy(err) {
		return err
	}
	if rules, rerr := s.passwordRules(ctx); rerr == nil && rules != (PasswordRules{}) {
		e.Text = "the server requires " + rules.String()
	}
	return err
}

// checkAltersPasswords returns an error if the server does not support the required statement. This is ALTER USER …
// IDENTIFIED from MySQL 5.7.6 on, and IDENTIFIED VIA … USING PASSWORD from MariaDB 10.4 on.
func checkAltersPasswords(v version.Version) error {
	switch {
	case v.Flavour == version.MySQL && slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{5, 7, 6}) < 0:
		return fmt.Errorf("%w: %s is too old, because changing a password requires MySQL 5.7.6 or later. Choose a newer "+
			"image",
			ErrTooOld, v)
	case v.Flavour == version.MariaDB && v.Before(10, 4):
		return fmt.Errorf("%w: %s is too old, because changing a password requires MariaDB 10.4 or later. Choose a newer "+
			"image",
			ErrTooOld, v)
	}
	return nil
}

// ErrTooOld means that the server lacks a required feature.
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

// identified returns the clause with the plugin and the password. Without a plugin, the server would use its default,
// which other clients may not support.
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

// EnsureRoot ensures that root can log in over the network with a password and all privileges, as in a database from
// an official image. It does not change accounts that clients can already use. The clients have the given addresses,
// or any address if none are given.
func (s *Session) EnsureRoot(ctx context.Context, p Password, clients []netip.Addr) error {
	accounts, err := s.RootAccounts(ctx)
	if err != nil {
		return err
	}
	return s.execAll(ctx, "allow logins of root over the network", letRootIn(accounts, p, clients)...)
}

// letRootIn returns the statements that make root's accounts usable for clients. If no account matches the clients,
// they create one. An account that takes no password is replaced only if its host pattern is known to match clients.
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

// newRoot returns the statements that create an account. They delete an existing account with the same host.
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

// isFor reports whether network clients can match the account's host pattern. If no client addresses are known, it
// assumes that they can.
func (a Account) isFor(clients []netip.Addr) bool {
	if slices.Contains(ownHosts, a.Host) {
		return false
	}
	return len(clients) == 0 || slices.ContainsFunc(clients, func(c netip.Addr) bool { return matchesHost(a.Host, c) })
}

// matchesHost reports whether a client address matches an account's host pattern. The server does not resolve names
// (skip_name_resolve), so a pattern with a name matches no client (MySQL manual, 8.2.4 Specifying Account Names).
func matchesHost(pattern string, client netip.Addr) bool {
	client = client.Unmap()
	if network, mask, ok := strings.Cut(pattern, "/"); ok {
		prefix, err := netip.ParsePrefix(network + "/" + bitsOf(mask))
		return err == nil && prefix.Contains(client)
	}
	return pattern == "" || isLike(pattern, client.String())
}

// bitsOf returns the prefix length of a mask such as 255.255.0.0. It returns any other text unchanged.
func bitsOf(mask string) string {
	ip := net.ParseIP(mask).To4()
	if ip == nil {
		return mask
	}
	ones, _ := net.IPMask(ip).Size()
	return strconv.Itoa(ones)
}

// isLike implements LIKE of SQL with its two wildcards. Go's regular expressions need only linear time, even with
// many wildcards.
func isLike(pattern, text string) bool {
	expression := strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("^(?:" + expression + ")$").MatchString(text)
}

// ownHosts are hosts that match only clients on the server's own machine.
var ownHosts = []string{"localhost", "127.0.0.1", "::1"}

// TakeOver prepares the imported data of a foreign server. It unlocks root. It also removes the replication
// configuration, because otherwise the server would continue to receive data from its source.
func (s *Session) TakeOver(ctx context.Context) error {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return err
	}
	reset := "RESET SLAVE ALL"
	if v.Flavour == version.MySQL && !v.Before(8, 4) { // MySQL 8.4 removed the older keyword.
		reset = "RESET REPLICA ALL"
	}
	all := []statement{{reset, nil}}
	accounts, err := s.RootAccounts(ctx)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if a.TakesPassword() && a.Host == anyHost {
			all = append(all, statement{"ALTER USER ?@? REQUIRE NONE ACCOUNT UNLOCK", []any{Root, a.Host}},
				statement{"GRANT ALL PRIVILEGES ON *.* TO ?@? WITH GRANT OPTION", []any{Root, a.Host}})
		}
	}
	return s.execAll(ctx, "prepare the imported data", all...)
}

// A statement is an SQL statement with its arguments.
type statement struct {
	text string
	args []any
}

func (s *Session) execAll(ctx context.Context, doing string, all ...statement) error {
	for _, statement := range all {
		if err := s.execStatement(ctx, statement.text, statement.args...); err != nil {
			return s.wrapSecret(err, doing)
		}
	}
	return nil
}

// anyHost is the host pattern that matches all clients.
const anyHost = "%"

// DiscardOld discards the retained old passwords of the accounts.
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
