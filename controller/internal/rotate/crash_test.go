package rotate

import (
	"fmt"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// rest calls Reconcile until nothing is left to do. Before each further call, it advances the clock by RequeueAfter.
func (c *cluster) rest(r *Rotator, in Input) (Result, error) {
	all := Result{}
	for range 20 {
		got, err := r.Reconcile(c.t.Context(), in)
		got.Done, got.Events = append(all.Done, got.Done...), append(all.Events, got.Events...)
		all = got
		if err != nil || got.RequeueAfter == 0 {
			return all, err
		}
		c.clock = c.clock.Add(got.RequeueAfter)
	}
	c.t.Errorf("no rest: %+v", all)
	return all, nil
}

func (c *cluster) mustRest(r *Rotator, in Input) Result {
	c.t.Helper()
	got, err := c.rest(r, in)
	if err != nil {
		c.t.Fatal(err)
	}
	return got
}

// A story is a sequence of desired states of an instance, for a rotator whose process may crash.
type story struct {
	reason            string
	primary, retained sql.Password
	root              sql.Password
	version           string
	tell              func(c *cluster, run func(Input))
}

func stories() map[string]story {
	return map[string]story{
		"New": {
			reason: "A new server has the wanted password.", primary: "a", root: "a",
			tell: func(c *cluster, run func(Input)) { run(c.input("a")) },
		},
		"Changed": {
			reason: "The user requests one password change.", primary: "a", root: "a",
			tell: func(c *cluster, run func(Input)) { run(c.input("a")); run(c.input("b")) },
		},
		"ChangedBeforeTheStart": {
			reason: "The wanted password changed before the first login, after the server had started.", primary: "a", root: "a",
			tell: func(c *cluster, run func(Input)) { run(c.input("b")) },
		},
		"ThereAndBack": {
			reason: "The user requests the first password again before the old one is discarded.", primary: "a", root: "a",
			tell: func(c *cluster, run func(Input)) {
				run(c.input("a"))
				run(c.input("b"))
				run(c.input("a"))
				run(c.input("b"))
			},
		},
		"ChangedByOthers": {
			reason: "Another client changed the password before the first login and retained the initial one.", primary: "q", retained: "r",
			root: "r",
			tell: func(c *cluster, run func(Input)) {
				in := c.input("a")
				in.Database = "other"
				run(in)
				in.Wanted = "q"
				run(in)
			},
		},
		"Older": {
			reason:  "The wanted password is the older of two valid ones, and the newer one is unknown.",
			primary: "q", retained: "a", root: "a",
			tell: func(c *cluster, run func(Input)) { run(c.input("a")) },
		},
		"MariaDB": {
			reason: "MariaDB cannot retain an old password.", primary: "a", root: "a", version: "10.11.18-MariaDB",
			tell: func(c *cluster, run func(Input)) { run(c.input("a")); run(c.input("b")); run(c.input("c")) },
		},
		"Moved": {
			reason: "The database and the address change together with the password.", primary: "a", root: "a",
			tell: func(c *cluster, run func(Input)) {
				run(c.input("a"))
				in := c.input("b")
				in.Database, in.Host, in.Port = "new", "db.example.com", 3307
				run(in)
			},
		},
	}
}

// TestCrash simulates a crash of the controller before and after each write to the server or to a Secret, and
// continues with a new process. The user then requests the same password or another one.
func TestCrash(t *testing.T) {
	crashes := 0
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			total := len(s.run(t, 0, false, "").effects)
			for n := 1; n <= total; n++ {
				for _, after := range []bool{false, true} {
					for _, last := range []sql.Password{"", "z"} {
						s.run(t, n, after, last)
						crashes++
					}
				}
			}
		})
	}
	t.Logf("%d crashes", crashes)
}

// run runs a story that crashes at the nth effect. After that, the user may request another password.
func (s story) run(t *testing.T, n int, after bool, last sql.Password) *cluster {
	t.Helper()
	c := newCluster(t, s.primary, s.retained, root(s.root))
	c.failAt, c.after = n, after
	if s.version != "" {
		c.version = s.version
	}
	place := fmt.Sprintf("%s crash at effect %d (after: %v), then %q", s.reason, n, after, string(last))
	c.check = func() {
		if p := c.connection(); p != "" && !c.accepts(p) &&
			(s.version == "" || !c.accepts(passwordOf(c.secret(testInstance().PendingSecretName())))) {
			t.Errorf("%s: the connection Secret's password is refused after %q", place, c.effects)
		}
	}
	s.tell(c, func(in Input) {
		r := c.rotator()
		if _, err := c.rest(r, in); err != nil {
			if last != "" {
				in.Wanted = last
			}
			r = c.rotator()
			c.mustRest(r, in)
		}
		// If there was no crash, this pass runs in the same process and must find nothing left to do.
		got := c.mustRest(r, in)
		connection, pending := c.secret(testInstance().ConnectionSecretName()), c.secret(testInstance().PendingSecretName())
		if got.Credentials.State != v1.CredentialsInSync || passwordOf(connection) != in.Wanted || pending != nil ||
			!in.isDescribed(connection) {
			t.Errorf("%s: ends with %+v, pending %v", place, got, pending != nil)
		}
		for _, a := range c.accounts {
			if a.primary != in.Wanted || a.retained != "" {
				t.Errorf("%s: root@%s has %q and %q", place, a.Host, string(a.primary), string(a.retained))
			}
		}
	})
	return c
}
