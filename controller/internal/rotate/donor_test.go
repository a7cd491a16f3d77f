package rotate

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// donorAt returns a fake server with a known certificate, behind a Service with these addresses.
func donorAt(t *testing.T, addresses ...string) (*cluster, Donors, *change.Server) {
	t.Helper()
	a, err := certificate.NewAuthority(time.Now(), "authority-of-the-donor")
	if err != nil {
		t.Fatal(err)
	}
	i := testInstance()
	c := newCluster(t, "old", "", root("old"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.ServiceName(), Labels: i.Labels()},
		Spec:       corev1.ServiceSpec{ClusterIPs: addresses},
	})
	return c, Donors{c.rotator()}, &change.Server{Of: i, Authorities: string(a.Certificate)}
}

// TestOfferClone checks that the Job's Secret contains the account that was created in the server. The next call must
// create a new account.
func TestOfferClone(t *testing.T) {
	for name, tc := range map[string]struct {
		addresses []string
		host      string
	}{
		"IPv4":      {[]string{"10.1.2.3"}, "10.1.2.3"},
		"DualStack": {[]string{"fd00::1", "10.1.2.3"}, "10.1.2.3"},
		"IPv6":      {[]string{"fd00::1"}, "shop.team.svc"},
		"Headless":  {[]string{"None"}, "shop.team.svc"},
	} {
		t.Run(name, func(t *testing.T) {
			c, d, in := donorAt(t, tc.addresses...)
			seen := map[string]bool{}
			for range 2 {
				got, err := d.OfferClone(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				p := string(got[keyPassword])
				if len(p) < 20 || seen[p] || !maps.Equal(c.cloners, map[string]sql.Password{sql.CloneAccount: sql.Password(p)}) {
					t.Errorf("the account has %v, and the Job %q", c.cloners, p)
				}
				seen[p] = true
				delete(got, keyPassword)
				want := map[string][]byte{keyHost: []byte(tc.host), keyPort: []byte("3306"), keyUsername: []byte(sql.CloneAccount),
					keyCA: []byte(in.Authorities), keyPageSize: []byte("8192"), keyLowerCase: []byte("1")}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want, +got:\n%s", diff)
				}
				if c.locked {
					t.Error("nobody else may change a password any more")
				}
			}
			if err := d.WithdrawClone(t.Context(), in); err != nil || len(c.cloners) > 0 {
				t.Errorf("it stays: %v, %v", c.cloners, err)
			}
			if err := d.WithdrawClone(t.Context(), in); err != nil {
				t.Errorf("it cannot be done again: %v", err)
			}
		})
	}
}

// TestCheckData checks that a server must not be stopped if it has data outside of its data directory. A server that
// does not respond may be stopped.
func TestCheckData(t *testing.T) {
	for name, tc := range map[string]struct {
		outside []sql.Outside
		down    error
		want    string
	}{
		"Nothing": {},
		"Outside": {outside: []sql.Outside{{Name: "`shop`.`orders`", Place: "/tmp/shop/orders.ibd"}},
			want: "`shop`.`orders` (/tmp/shop/orders.ibd)"},
		"Unreachable": {outside: []sql.Outside{{Name: "`shop`.`orders`"}}, down: errGone},
	} {
		t.Run(name, func(t *testing.T) {
			c, d, in := donorAt(t, "10.1.2.3")
			c.outside, c.down = tc.outside, tc.down
			err := d.CheckData(t.Context(), in)
			serverError, refused := errors.AsType[*change.ServerError](err)
			if refused != (tc.want != "") || refused && (serverError.Final || !strings.Contains(err.Error(), tc.want)) ||
				!refused && err != nil {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// TestLookOutside checks that passes look for data outside of the data directory only if the password is verified.
func TestLookOutside(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	c.outside = []sql.Outside{{Name: "`shop`.`orders`", Place: "/tmp/shop/orders.ibd"}}
	in, r := c.input("a"), c.rotator()
	for _, verify := range []bool{true, false} {
		in.VerifyPassword = verify
		out, err := r.Reconcile(t.Context(), in)
		if err != nil || out.CheckedOutside != verify ||
			strings.Contains(out.Outside, "`shop`.`orders` (/tmp/shop/orders.ibd)") != verify {
			t.Errorf("asked %v: %v, %v, %q", verify, err, out.CheckedOutside, out.Outside)
		}
	}
}

// TestOfferCloneFails checks which errors are not retried.
func TestOfferCloneFails(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(*cluster, *change.Server)
		says   string
		final  bool
	}{
		"Down": {reason: "The server may be available again, so the error must not be final.", change: func(c *cluster, _ *change.Server) {
			c.down = errors.New("connection refused")
		}, says: "connection refused"},
		"Denied": {reason: "The Rotator reports an unknown password, so the error must not be final.",
			change: func(c *cluster, _ *change.Server) {
				c.accounts[0].primary = testForeign
			}, says: "none of the known passwords"},
		"Locked": {reason: "A password change holds the lock only for a short time, so the error must not be final.",
			change: func(c *cluster, _ *change.Server) { c.locked = true },
			says:   sql.ErrLocked.Error()},
		"Engine": {reason: "A user must change the engine of the tables, so the error must be final.",
			change: func(c *cluster, _ *change.Server) {
				c.noDonor = &sql.WrongEngineError{Tables: []string{"a.b (MyISAM)"}}
			}, says: "a.b (MyISAM)", final: true},
		"Version": {reason: "The version of the server does not support cloning, so the error must be final.",
			change: func(c *cluster, _ *change.Server) {
				c.noDonor = fmt.Errorf("no: %w", sql.ErrNoClone)
			}, says: "method Cold", final: true},
		"Other": {reason: "The next attempt may succeed, so the error must not be final.", change: func(c *cluster, _ *change.Server) {
			c.noDonor = errors.New("too many connections")
		}, says: "too many"},
		"Unknown": {reason: "The certificate of the server is unknown, so it must not receive a password.",
			change: func(_ *cluster, in *change.Server) { in.Authorities = "" },
			says:   "no certificate", final: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, d, in := donorAt(t, "10.1.2.3")
			tc.change(c, in)
			_, err := d.OfferClone(t.Context(), in)
			serverError, ok := errors.AsType[*change.ServerError](err)
			if !ok || serverError.Final != tc.final || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s want %q (final: %v), got %v", tc.reason, tc.says, tc.final, err)
			}
			if err := d.WithdrawClone(t.Context(), in); in.Authorities == "" && err != nil {
				t.Errorf("what was never offered cannot be withdrawn: %v", err)
			}
		})
	}
}
