//go:build mysqld

package rotate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// A realSession is a session with a mysqld process. It records each write as an effect of the cluster.
type realSession struct {
	serverSession

	cluster *cluster
}

func (s realSession) SetPassword(ctx context.Context, accounts []sql.Account, p sql.Password, retain bool) error {
	return s.cluster.effect("set", func() error { return s.Session.SetPassword(ctx, accounts, p, retain) })
}

func (s realSession) DiscardOld(ctx context.Context, accounts []sql.Account) error {
	return s.cluster.effect("discard", func() error { return s.Session.DiscardOld(ctx, accounts) })
}

// rotator returns a Rotator for the real server, with Secrets in memory and the clock of the cluster.
func (s *server) rotator(c *cluster) *Rotator {
	r := c.rotator()
	r.login = func(ctx context.Context, requested sql.Server, p sql.Password) (session, error) {
		target := s.address()
		if requested.Trust.Name != "" {
			target.Trust = requested.Trust
		}
		out, err := target.Login(ctx, p)
		if err != nil {
			return nil, err
		}
		return realSession{serverSession{Session: out, ExporterAccounts: sql.ExporterAccountsOf(out)}, c}, nil
	}
	return r
}

// check returns a function that checks whether the server accepts the password in the connection Secret. The tests
// call it after each effect.
func (s *server) check(c *cluster, checks *int) func() {
	return func() {
		p := c.connection()
		if p == "" {
			return
		}
		*checks++
		if err := s.ping(c.t.Context(), p); err != nil && !s.mariadb {
			c.t.Errorf("after %q: %v", c.effects, err)
		}
	}
}

func hostilePasswords() []sql.Password {
	return []sql.Password{
		`'`, `\`, `\'`, `a'; DROP DATABASE mysql; -- `, `"` + "`" + `%_?/*#--`, "пароль🔑", " leading and trailing ", "?",
		"${HOME}%s%00",
		sql.Password(strings.Repeat("ü", 128)), sql.Password(strings.Repeat(`\'`, 128)), "plain",
	}
}

func TestRealPasswords(t *testing.T) {
	s := newServer(t, "first")
	c, checks := newCluster(t, "", ""), 0
	c.check = s.check(c, &checks)
	r := s.rotator(c)
	must(t, second(r.Reconcile(t.Context(), c.input("first"))))
	before := sql.Password("first")
	for _, wanted := range hostilePasswords() {
		in := c.input(wanted)
		got, err := r.Reconcile(t.Context(), in)
		must(t, err)
		if c.connection() != wanted || s.ping(t.Context(), wanted) != nil {
			t.Errorf("%q is refused: %+v", string(wanted), got)
		}
		if err := s.ping(t.Context(), before); (err == nil) == s.mariadb {
			t.Errorf("%q, the previous one: %v", string(before), err)
		}
		c.mustRest(r, in)
		if err := s.ping(t.Context(), before); !sql.IsAccessDenied(err) {
			t.Errorf("%q goes on to work: %v", string(before), err)
		}
		before = wanted
	}
	t.Logf("%d passwords, %d checks after an effect", len(hostilePasswords()), checks)
}

func second(_ Result, err error) error { return err }

// TestRealBinary checks a server with a binary password. v1.Password refuses such a password, but a server that was
// set up without the product may have one.
func TestRealBinary(t *testing.T) {
	s := newServer(t, "first")
	session := s.login(t, "first")
	accounts, err := session.RootAccounts(t.Context())
	must(t, err)
	for _, p := range []sql.Password{"\x01\x02\n\r\t\x1a\x7f", "\xff\xfe'\\\x80"} {
		err := session.SetPassword(t.Context(), accounts, p, false)
		t.Logf("%q: %v, then %v", string(p), err, s.ping(t.Context(), p))
		if err == nil && s.ping(t.Context(), p) != nil {
			t.Errorf("%q was set to something else", string(p))
		}
	}
}

// TestRealCrash simulates a crash of the controller before and after each write of a password change. It also tests
// each crash with a killed server, and with a user who then requests another password.
func TestRealCrash(t *testing.T) {
	s := newServer(t, "p0")
	c, checks, crashes := newCluster(t, "", ""), 0, 0
	c.check = s.check(c, &checks)
	must(t, second(s.rotator(c).Reconcile(t.Context(), c.input("p0"))))
	for n := 1; n <= 5; n++ {
		for variant := range 8 {
			after, killed, other := variant&1 > 0, variant&2 > 0, variant&4 > 0
			crashes++
			in := c.input(sql.Password(fmt.Sprintf("p%d", crashes)))
			c.failAt, c.after = len(c.effects)+n, after
			if _, err := c.rest(s.rotator(c), in); err == nil {
				t.Fatalf("effect %d of a change is missing: %q", n, c.effects)
			}
			if killed {
				s.kill()
				in.VerifyPassword = true
				got, err := s.rotator(c).Reconcile(t.Context(), in)
				if err != nil || got.RequeueAfter == 0 || !strings.Contains(got.Credentials.Message, "Waiting for the server") {
					t.Errorf("while the server is down: %+v, %v", got, err)
				}
				s.start(t)
			}
			if other {
				in.Wanted += "-other"
			}
			c.failAt = 0
			in.VerifyPassword = true
			got := c.mustRest(s.rotator(c), in)
			if got.Credentials.State != v1.CredentialsInSync || c.connection() != in.Wanted ||
				s.ping(t.Context(), in.Wanted) != nil {
				t.Errorf("after a crash at %d (after it: %v, server killed: %v): %+v", n, after, killed, got)
			}
		}
		if s.mariadb && n == 4 {
			break // There is no old password to discard.
		}
	}
	t.Logf("%d crashes, %d checks after an effect", crashes, checks)
}

// TestRealClient logs in with the connection Secret twenty times a second, during ten changes. The first two changes
// are requested at the same time.
func TestRealClient(t *testing.T) {
	s := newServer(t, "p0")
	c := newCluster(t, "", "")
	r := s.rotator(c)
	r.Now, r.Grace, r.Settle = nil, 3*time.Second, time.Second
	must(t, second(r.Reconcile(t.Context(), c.input("p0"))))
	logins, refused, group := atomic.Int64{}, atomic.Int64{}, sync.WaitGroup{}
	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		group.Go(func() {
			for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				if err := s.ping(context.WithoutCancel(ctx), c.connection()); err != nil { //nolint:contextcheck // The Secret is in memory.
					refused.Add(1)
					t.Logf("login %d: %v", logins.Load(), err)
				}
				logins.Add(1)
			}
		})
	}
	took := []time.Duration{}
	for n := 1; n <= 10; n++ {
		in := c.input(sql.Password(fmt.Sprintf("p%d", n)))
		asked, began, waited := time.Now(), time.Now(), time.Duration(0)
		for c.connection() != in.Wanted || s.ping(ctx, in.Wanted) != nil {
			began = time.Now()
			got, err := r.Reconcile(ctx, in)
			must(t, err)
			if c.connection() != in.Wanted {
				time.Sleep(got.RequeueAfter)
				waited = time.Since(asked)
			}
		}
		took = append(took, time.Since(began))
		t.Logf("change %d: accepted after %s of work, and %s of waiting for clients of the last one", n,
			time.Since(began).Round(time.Millisecond), waited.Round(time.Millisecond))
		if n > 1 {
			time.Sleep(200 * time.Millisecond)
		}
	}
	time.Sleep(r.Grace)
	must(t, second(r.Reconcile(ctx, c.input("p10"))))
	stop()
	group.Wait()
	slices.Sort(took)
	t.Logf("%d logins during 10 changes, %d refused; change to accepted: median %s, worst %s", logins.Load(),
		refused.Load(), took[5].Round(time.Millisecond), took[9].Round(time.Millisecond))
	if refused.Load() > 0 && !s.mariadb {
		t.Errorf("%d of %d logins were refused", refused.Load(), logins.Load())
	}
	if !sql.IsAccessDenied(s.ping(t.Context(), "p9")) {
		t.Error("the old password goes on to work")
	}
}

// TestRealChangedByOthers uses a server whose password is not in the connection Secret, and which retains the
// password from its first start.
func TestRealChangedByOthers(t *testing.T) {
	s := newServer(t, "old")
	if !s.mariadb {
		session := s.login(t, "old")
		accounts, err := session.RootAccounts(t.Context())
		must(t, err)
		must(t, session.SetPassword(t.Context(), accounts, "newer", true))
	}
	c := newCluster(t, "", "", root("old"))
	in := c.input("wanted")
	in.Database = "shop-`1"
	got := c.mustRest(s.rotator(c), in)
	if c.connection() != "wanted" || s.ping(t.Context(), "wanted") != nil || got.Version == "" {
		t.Errorf("%+v", got)
	}
	for _, p := range []sql.Password{"old", "newer"} {
		if !sql.IsAccessDenied(s.ping(t.Context(), p)) {
			t.Errorf("%s goes on to work", string(p))
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "d", "shop@002d@00601")); err != nil {
		t.Errorf("the database was not made: %v", err)
	}
}
