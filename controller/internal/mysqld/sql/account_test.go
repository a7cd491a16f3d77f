package sql

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatchesHost(t *testing.T) {
	for pattern, want := range map[string]bool{
		"%": true, "": true, "10.%": true, "10.42.0.7": true, "10.42.0._": true, "10.42.0.0/255.255.255.0": true,
		"10.42.0.0/16": true,
		"10.99.0.%":    false, "10.99.0.0/255.255.0.0": false, "10.42.0.17": false, "localhost": false, "db.example": false,
		"10_42_0_8": false, "10.42.0.0/x": false,
		"%" + strings.Repeat("%1", 100): false, "(": false,
	} {
		if got := matchesHost(pattern, netip.MustParseAddr("10.42.0.7")); got != want {
			t.Errorf("%q: want %v", pattern, want)
		}
	}
	if !matchesHost("fd00::%", netip.MustParseAddr("fd00::1")) ||
		!matchesHost("10.%", netip.MustParseAddr("::ffff:10.1.2.3")) {
		t.Error("an address of IPv6 is not matched")
	}
}

// TestLetRootIn checks that network clients can log in as root after a restore or an import. Accounts that are usable
// must not change.
func TestLetRootIn(t *testing.T) {
	here := []netip.Addr{netip.MustParseAddr("10.42.0.7")}
	account := func(host string, change func(*Account)) Account {
		a := Account{Host: host, Plugin: cachingSHA2, Loaded: true}
		if change != nil {
			change(&a)
		}
		return a
	}
	const create, grant = "CREATE USER ?@? IDENTIFIED BY ?", "GRANT ALL PRIVILEGES ON *.* TO ?@? WITH GRANT OPTION"
	const drop, repair = "DROP USER IF EXISTS ?@?", "ALTER USER ?@? REQUIRE SSL ACCOUNT UNLOCK"
	anew := func(host string) []string {
		return []string{drop + " " + host, create + " " + host, grant + " " + host}
	}
	cases := map[string]struct {
		reason   string
		accounts []Account
		clients  []netip.Addr
		want     []string
	}{
		"Usual": {reason: "An official image creates these accounts, and clients can already log in with them.",
			accounts: []Account{account("%", nil), account("localhost", nil)}, clients: here},
		"Elsewhere": {reason: "No client matches the host pattern of the account, so a new account must be created.",
			accounts: []Account{account("10.99.0.%", nil)},
			clients:  here, want: anew("%")},
		"Narrow": {reason: "The host pattern matches the clients, so the account must not be opened to other hosts.",
			accounts: []Account{account("10.%", nil)},
			clients:  here},
		"Local": {reason: "The root account of a Linux distribution allows only local logins.",
			accounts: []Account{account("localhost", nil)}, clients: here,
			want: anew("%")},
		"None": {reason: "There is no root account, so one must be created.", clients: here, want: anew("%")},
		"Unknown": {reason: "The addresses of the clients are unknown, so the account must not change.",
			accounts: []Account{account("10.99.0.%", nil)}},
		"Locked": {reason: "No client can log in to a locked account, so it must be unlocked.",
			accounts: []Account{account("%", func(a *Account) { a.Locked = true })}, clients: here,
			want: []string{repair + " %"}},
		"X509": {reason: "The controller has no client certificate, so the account must not require one.",
			accounts: []Account{account("10.42.%", func(a *Account) { a.Certified = true }), account("%", nil)}, clients: here,
			want: []string{repair + " 10.42.%"}},
		"LockedAway": {reason: "The locked account matches none of the clients, so it must not change.",
			accounts: []Account{account("10.99.%", func(a *Account) { a.Locked = true }), account("%", nil)}, clients: here},
		"NoRights": {reason: "The account must be allowed to change its own password.",
			accounts: []Account{account("%", func(a *Account) { a.Unprivileged = true })}, clients: here,
			want: []string{grant + " %"}},
		"Socket": {reason: "Network clients cannot log in through a socket, so the account must be replaced.",
			accounts: []Account{account("%", func(a *Account) { a.Plugin = "auth_socket" })}, clients: here, want: anew("%")},
		"Closer": {reason: "The server uses the account with the most specific host pattern, so it must be replaced.",
			accounts: []Account{account("%", nil), account("10.42.%", func(a *Account) { a.Plugin = "auth_socket" })},
			clients:  here, want: anew("10.42.%")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range letRootIn(tc.accounts, "wanted", tc.clients) {
				got = append(got, s.text+" "+s.args[1].(string))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
