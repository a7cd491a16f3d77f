package rotate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// TestSteps checks the order of the steps of a password change, and the status after each of them.
func TestSteps(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	c.mustRest(r, c.input("a"))
	got, err := r.Reconcile(t.Context(), c.input("b"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Action{Stage, Change, Promote}, got.Done); diff != "" {
		t.Errorf("The new password works at once: -want, +got:\n%s", diff)
	}
	if got.Credentials.State != v1.CredentialsInSync ||
		!strings.Contains(got.Credentials.Message, "until 2026-01-02T03:") || got.RequeueAfter != time.Minute {
		t.Errorf("The old one goes on to work: %+v", got)
	}
	got, err = r.Reconcile(t.Context(), c.input("c"))
	if err != nil || got.Credentials.State != v1.CredentialsChanging || got.RequeueAfter != 5*time.Second ||
		len(got.Done) > 0 {
		t.Errorf("Another change waits a little: %+v, %v", got, err)
	}
	c.clock = c.clock.Add(got.RequeueAfter)
	got, err = r.Reconcile(t.Context(), c.input("c"))
	if diff := cmp.Diff([]Action{Discard, Stage, Change, Promote}, got.Done); diff != "" || err != nil {
		t.Errorf("And pushes the oldest out: %v -want, +got:\n%s", err, diff)
	}
	got = c.mustRest(r, c.input("c"))
	if diff := cmp.Diff([]Action{Discard, Forget}, got.Done); diff != "" {
		t.Errorf("In the end one is left: -want, +got:\n%s", diff)
	}
}

// TestNotAllowed checks that a password which the platform does not allow is not set. A server that already has it
// keeps it.
func TestNotAllowed(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	c.mustRest(r, c.input("a"))
	for wanted, state := range map[sql.Password]string{"a": v1.CredentialsInSync, "b": v1.CredentialsFailed} {
		in := c.input(wanted)
		in.NotAllowed = "it is too short"
		c.effects = nil
		got, err := r.Reconcile(t.Context(), in)
		if err != nil || got.Credentials.State != state || len(c.effects) > 0 ||
			strings.Contains(got.Credentials.Message, "too short") != (wanted == "b") {
			t.Errorf("%q: %+v, %v, %v", wanted, got, c.effects, err)
		}
	}
	got, err := r.Reconcile(t.Context(), c.input("b"))
	if err != nil || c.connection() != "b" {
		t.Errorf("Allowed again: %+v, %v", got, err)
	}
}

// TestClocksDiffer continues a change with a controller whose clock differs. The old password must be valid for the
// grace period, but not much longer.
func TestClocksDiffer(t *testing.T) {
	for name, off := range map[string]time.Duration{"Ahead": time.Hour, "Behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "", root("a"))
			first := c.rotator()
			c.mustRest(first, c.input("a"))
			if _, err := first.Reconcile(t.Context(), c.input("b")); err != nil {
				t.Fatal(err)
			}
			c.clock = c.clock.Add(off)
			next := c.rotator()
			for _, wait := range []time.Duration{0, 30 * time.Second} {
				c.clock = c.clock.Add(wait)
				if got, err := next.Reconcile(t.Context(), c.input("b")); err != nil || len(got.Done) > 0 ||
					got.RequeueAfter != time.Minute-wait {
					t.Errorf("after %s: want it to wait for the rest of a minute, got %+v, %v", wait, got, err)
				}
			}
			c.clock = c.clock.Add(30 * time.Second)
			got, err := next.Reconcile(t.Context(), c.input("b"))
			if diff := cmp.Diff([]Action{Discard, Forget}, got.Done); diff != "" || err != nil {
				t.Errorf("after the grace: %v -want, +got:\n%s", err, diff)
			}
		})
	}
}

// TestPublished checks clients that use Crossplane's Secret. The old password must stay valid until the new one is
// published there, and for the grace period after that.
func TestPublished(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	c.mustRest(r, c.input("a"))
	in := c.input("b")
	in.PublishedIn, in.Published = "for-clients", "a"
	reconcile := func(later time.Duration) Result {
		c.clock = c.clock.Add(later)
		got, err := r.Reconcile(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	reconcile(0)
	for range 3 {
		got := reconcile(time.Hour)
		if len(got.Done) > 0 || got.RequeueAfter != publishing ||
			!strings.Contains(got.Credentials.Message, "until Crossplane has published the new one in Secret "+
				in.Instance.Namespace+"/for-clients") {
			t.Fatalf("want it to wait for Crossplane, got %+v", got)
		}
	}
	in.Published = "b"
	for _, later := range []time.Duration{time.Hour, 30 * time.Second} {
		if got := reconcile(later); len(got.Done) > 0 {
			t.Errorf("want clients to have a minute from when it is seen to be published, got %v", got.Done)
		}
	}
	if diff := cmp.Diff([]Action{Discard, Forget}, reconcile(30*time.Second).Done); diff != "" {
		t.Errorf("after the grace: -want, +got:\n%s", diff)
	}
}

// TestQuiet checks that the controller does not connect to a server if nothing is left to do.
func TestQuiet(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	c.mustRest(r, c.input("a"))
	c.clock = c.clock.Add(time.Hour)
	before := c.logins
	got := c.mustRest(r, c.input("a"))
	if c.logins != before || got.Credentials.State != v1.CredentialsInSync {
		t.Errorf("%d logins, %+v", c.logins-before, got)
	}
	in := c.input("a")
	in.VerifyPassword = true
	if got := c.mustRest(r, in); c.logins == before || got.Version != "8.4.6" {
		t.Errorf("VerifyPassword asks the server: %d logins, %+v", c.logins-before, got)
	}
}

// TestRepair checks that the controller repairs changes of the Secrets and of the server by other clients.
func TestRepair(t *testing.T) {
	cases := map[string]struct {
		reason string
		harm   func(c *cluster)
		wanted sql.Password
	}{
		"ServerChanged": {reason: "A user set the wanted password in the server.", wanted: "h",
			harm: func(c *cluster) { c.accounts[0].primary, c.accounts[1].primary = "h", "h" }},
		"SecretDeleted": {reason: "A deleted connection Secret must be created again.", wanted: "a", harm: func(c *cluster) {
			if err := c.Delete(c.t.Context(), c.secret("shop-connection")); err != nil {
				c.t.Fatal(err)
			}
		}},
		"SecretEdited": {reason: "A password that a user wrote to the connection Secret must be replaced.", wanted: "a",
			harm: func(c *cluster) {
				s := c.secret("shop-connection")
				s.Data[keyPassword] = []byte("evil")
				if err := c.Update(c.t.Context(), s); err != nil {
					c.t.Fatal(err)
				}
			}},
		"ByHandWithRetain": {reason: "It is unknown which of the two valid passwords is older.", wanted: "a",
			harm: func(c *cluster) {
				c.accounts[0].primary, c.accounts[0].retained = "h", "a"
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "", root("a"))
			c.mustRest(c.rotator(), c.input("a"))
			c.clock = c.clock.Add(time.Hour)
			tc.harm(c)
			in := c.input(tc.wanted)
			in.VerifyPassword = true
			got := c.mustRest(c.rotator(), in)
			if got.Credentials.State != v1.CredentialsInSync || c.connection() != tc.wanted || !c.accepts(tc.wanted) ||
				c.accounts[0].retained != "" {
				t.Errorf("%s %+v", tc.reason, got)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	down := func(err error) func(*cluster) { return func(c *cluster) { c.down = err } }
	number := func(n uint16) func(*cluster) { return down(&sql.Error{Doing: "log in", Number: n, State: "HY000"}) }
	cases := map[string]struct {
		reason string
		harm   func(c *cluster)
		wanted sql.Password
		state  string
		says   string
		fails  bool
	}{
		"Down": {reason: "The server may be available again, so the controller must wait.",
			harm: down(errGone), wanted: "b", state: v1.CredentialsChanging,
			says: "Waiting for the server"},
		"Refused": {reason: "A user must specify the password that the server accepts.",
			harm: func(c *cluster) { c.accounts[0].primary = "x" }, wanted: "b", state: v1.CredentialsFailed,
			says: "Set the password of this instance to the one that the server accepts"},
		"Expired": {reason: "The controller cannot log in with an expired password, so the status must contain the fix.",
			harm: number(1862), wanted: "b", state: v1.CredentialsFailed,
			says: "expired", fails: true},
		"Locked": {reason: "The controller cannot unlock the account, so the status must contain the fix.",
			harm: number(3118), wanted: "b", state: v1.CredentialsFailed,
			says: "ACCOUNT UNLOCK", fails: true},
		"Blocked": {reason: "The server blocks the controller's address, so the status must contain the fix.",
			harm: number(1129), wanted: "b", state: v1.CredentialsFailed,
			says: "FLUSH HOSTS", fails: true},
		"NoAccount": {reason: "The root account allows only logins from localhost, so the status must contain the fix.",
			harm: number(1130), wanted: "b", state: v1.CredentialsFailed,
			says: "controller's address", fails: true},
		"ReadOnly": {reason: "A read-only server accepts no change, so the status must contain the fix.",
			harm: number(1290), wanted: "b", state: v1.CredentialsFailed,
			says: "super_read_only", fails: true},
		"Policy": {reason: "The password policy refuses the password, so the user must choose another one.",
			harm: number(1819), wanted: "b", state: v1.CredentialsFailed,
			says: "choose another", fails: true},
		"History": {reason: "The password was used before, so the user must choose another one.",
			harm: number(3638), wanted: "b", state: v1.CredentialsFailed,
			says: "choose another", fails: true},
		"Busy": {reason: "All connections are in use, so the controller must wait.",
			harm: number(1040), wanted: "b", state: v1.CredentialsChanging,
			says: "Waiting for the server"},
		"Missing": {reason: "The Secret with the wanted password does not exist.", harm: func(*cluster) {}, wanted: "",
			state: v1.CredentialsFailed, says: "cannot be read"},
		"Stranger": {reason: "The Service routes to a server that is not MySQL.",
			harm: down(fmt.Errorf("cannot log in: %w", sql.ErrNonsense)), wanted: "b",
			state: v1.CredentialsFailed, says: "which pods the Service selects"},
		"LockTaken": {reason: "Another session holds the lock, so the controller must wait.",
			harm: func(c *cluster) { c.locked = true }, wanted: "b",
			state: v1.CredentialsChanging, says: "another session"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "", root("a"))
			c.mustRest(c.rotator(), c.input("a"))
			effects := len(c.effects)
			tc.harm(c)
			got, err := c.rotator().Reconcile(t.Context(), c.input(tc.wanted))
			if got.Credentials.State != tc.state || !strings.Contains(got.Credentials.Message, tc.says) ||
				(err != nil) != tc.fails || got.RequeueAfter == 0 {
				t.Errorf("%s got %+v, %v", tc.reason, got, err)
			}
			if len(c.effects) != effects {
				t.Errorf("%s did %q", tc.reason, c.effects[effects:])
			}
		})
	}
}

// TestTimesAfter checks that the timeouts grow with the time that a server was not contacted.
func TestTimesAfter(t *testing.T) {
	for leftAlone, want := range map[time.Duration]time.Duration{
		0: 0, 8 * time.Second: 0, 10 * time.Second: 0, 16 * time.Second: 8 * time.Second, 32 * time.Second: 16 * time.Second,
		time.Hour: 20 * time.Second,
	} {
		var got time.Duration
		if times := timesAfter(leftAlone); times != nil {
			got = times.Handshake
		}
		if got != want {
			t.Errorf("after %s a handshake has %s, want %s", leftAlone, got, want)
		}
	}
}

// TestStrained checks for which passes isStrained and isWell return true.
func TestStrained(t *testing.T) {
	denied := rotationStep{Do: Refused}
	cases := map[string]struct {
		reason string
		last   rotationStep
		err    error
		took   time.Duration
		want   bool
		well   bool
	}{
		"Well": {reason: "The pass was completed quickly.", took: 999 * time.Millisecond, well: true},
		"Busy": {reason: "A completed pass may take some seconds on a busy server.", took: 4 * time.Second, well: true},
		"Slow": {reason: "A slow pass that was completed must not count as strained.", took: time.Minute, well: true},
		"Denied": {reason: "The server refused the password quickly, so the pass is not strained.",
			last: denied, took: time.Millisecond},
		"DeniedSlow": {reason: "The server took a second to refuse the password, which is too slow.",
			last: denied, took: time.Second, want: true},
		"Down": {reason: "The server refused the connection quickly, so the pass is not strained.",
			err: errGone, took: time.Millisecond},
		"Unknown": {reason: "The state of the server is unknown, so the pass is neither strained nor completed.",
			last: rotationStep{Do: Unreachable}, took: time.Millisecond},
		"NoAnswer": {reason: "The server did not respond before the timeout.", err: sql.ErrSlow, took: 5 * time.Second, want: true},
		"Flood": {reason: "The server sent more data than allowed.",
			err: fmt.Errorf("cannot log in: %w", sql.ErrTooMuch), want: true},
		"Nonsense":    {reason: "The server does not use the MySQL protocol.", err: sql.ErrNonsense, want: true},
		"OtherPlugin": {reason: "The server requests the password in plain text.", err: sql.ErrPlugin, want: true},
		"API": {reason: "A slow API server does not show that the database server is slow.",
			err: secrets.Failed(errBoom, "read", "default", "db-connection"), took: time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, well := isStrained(tc.last, tc.err, tc.took), isWell(tc.last, tc.err); got != tc.want || well != tc.well {
				t.Errorf("%s Got %v, %v", tc.reason, got, well)
			}
		})
	}
}
