package rotate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

func TestDecideExporter(t *testing.T) {
	cases := map[string]struct {
		state exporterState
		want  exporterAction
	}{
		"Off":         {exporterState{}, exporterNoOp},
		"TurnedOff":   {exporterState{HasSecret: true, IsComplete: true, HasAccount: true, IsNoted: true}, exporterDrop},
		"Restored":    {exporterState{HasAccount: true}, exporterDrop},
		"AccountGone": {exporterState{HasSecret: true, IsComplete: true}, exporterForget},
		"On":          {exporterState{Enabled: true}, exporterStore},
		"OnRestored":  {exporterState{Enabled: true, HasAccount: true}, exporterStore},
		"Edited":      {exporterState{Enabled: true, HasSecret: true, HasAccount: true}, exporterStore},
		"Stored":      {exporterState{Enabled: true, HasSecret: true, IsComplete: true}, exporterCreate},
		"Dropped":     {exporterState{Enabled: true, HasSecret: true, IsComplete: true, IsNoted: true}, exporterCreate},
		"OtherPassword": {exporterState{Enabled: true, HasSecret: true, IsComplete: true, HasAccount: true},
			exporterCreate},
		"Rests": {exporterState{Enabled: true, HasSecret: true, IsComplete: true, HasAccount: true, IsNoted: true},
			exporterNoOp},
	}
	for name, tc := range cases {
		if got := decideExporter(tc.state); got != tc.want {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}

func (c *cluster) metricsSecret() *corev1.Secret { return c.secret(testInstance().MetricsSecretName()) }

// withMetrics returns an input of an instance with metrics, for a pass that verifies the password.
func (c *cluster) withMetrics(enabled bool) Input {
	in := c.input("a")
	in.Metrics, in.VerifyPassword = enabled, true
	return in
}

// exporterWorks checks that the exporter can log in with the my.cnf in the Secret.
func (c *cluster) exporterWorks() {
	c.t.Helper()
	s := c.metricsSecret()
	if s == nil || c.exporter == "" || !strings.Contains(string(s.Data[v1.MetricsKey]),
		"\npassword = "+string(c.exporter)+"\nsocket = /var/run/mysqld/mysqld.sock\n") {
		c.t.Errorf("the server accepts %q, and the Secret has %v", string(c.exporter), s)
	}
}

// TestExporterAccount enables and disables metrics, and changes the account as a user or a restore does.
func TestExporterAccount(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	c.mustRest(r, c.withMetrics(false))
	if s := c.metricsSecret(); s != nil || c.exporter != "" {
		t.Errorf("metrics are disabled, but there is %v and %q", s, string(c.exporter))
	}
	c.effects = nil
	c.mustRest(r, c.withMetrics(true))
	c.exporterWorks()
	if diff := cmp.Diff([]string{"create shop-metrics", "create exporter", "update shop-metrics"}, c.effects); diff != "" {
		t.Errorf("the password must be stored before it is set: -want, +got:\n%s", diff)
	}
	first := c.exporter
	for reason, change := range map[string]func(){
		"Dropped":  func() { c.exporter = "" },
		"Restored": func() { c.exporter, c.exporterAge = "of-the-previous-instance", 100 },
		"Edited": func() {
			s := c.metricsSecret()
			s.Data[v1.MetricsKey] = []byte("[client]\nuser = root\n")
			mustSucceed(t, c.Update(t.Context(), s))
		},
		"OtherPassword": func() {
			s := c.metricsSecret()
			s.Data = exporterData("other-password")
			mustSucceed(t, c.Update(t.Context(), s))
		},
		"Deleted": func() { mustSucceed(t, c.Delete(t.Context(), c.metricsSecret())) },
	} {
		change()
		c.mustRest(r, c.withMetrics(true))
		c.exporterWorks()
		c.effects = nil
		if c.mustRest(r, c.withMetrics(true)); len(c.effects) > 0 {
			t.Errorf("%s: nothing is left to do, but it did %q", reason, c.effects)
		}
	}
	if c.exporter == first {
		t.Error("a deleted Secret must not bring the same password back")
	}
	c.effects = nil
	c.mustRest(r, c.withMetrics(false))
	if diff := cmp.Diff([]string{"drop exporter", "delete shop-metrics"}, c.effects); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func mustSucceed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestExporterCrash stops the controller before and after each write, while metrics are enabled or disabled.
func TestExporterCrash(t *testing.T) {
	for n := 1; n <= 3; n++ {
		for _, after := range []bool{false, true} {
			for _, enabled := range []bool{true, false} {
				c := newCluster(t, "a", "", root("a"))
				c.mustRest(c.rotator(), c.withMetrics(!enabled))
				c.effects, c.failAt, c.after = nil, n, after
				got, err := c.rotator().Reconcile(t.Context(), c.withMetrics(enabled))
				if err != nil || got.Credentials.State != v1.CredentialsInSync {
					t.Errorf("the password of root is not affected: %+v, %v", got, err)
				}
				failed := len(c.effects) >= n
				c.failAt = 0
				if failed && n > 1 && got.RequeueAfter == 0 {
					t.Errorf("effect %d failed, and no pass follows: %+v", n, got)
				}
				c.mustRest(c.rotator(), c.withMetrics(enabled))
				if enabled {
					c.exporterWorks()
				} else if s := c.metricsSecret(); s != nil || c.exporter != "" {
					t.Errorf("%d, %v: left are %v and %q", n, after, s, string(c.exporter))
				}
			}
		}
	}
}

// TestExporterPassword checks that the password of the exporter follows the password rules of the server.
func TestExporterPassword(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	c.shortest = 100
	c.mustRest(c.rotator(), c.withMetrics(true))
	c.exporterWorks()
	if len(c.exporter) != 100 {
		t.Errorf("it has %d characters", len(c.exporter))
	}
}

// TestExporterFails checks that the status contains the reason why the exporter has no account. The password of root
// must be maintained anyway.
func TestExporterFails(t *testing.T) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testInstance().MetricsSecretName()}}
	c := newCluster(t, "a", "", root("a"), foreign)
	r := c.rotator()
	got, err := r.Reconcile(t.Context(), c.withMetrics(true))
	if err != nil || got.Credentials.State != v1.CredentialsInSync || got.RequeueAfter != pauseBlocked ||
		!strings.HasPrefix(got.Credentials.Message, "The account for metrics is not up to date: Secret team/shop-metrics exists") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = r.Reconcile(t.Context(), c.withMetrics(false)); err != nil || got.Credentials.Message != "" {
		t.Errorf("without metrics, the Secret of a user is none of our business: %+v, %v", got, err)
	}
	in := c.withMetrics(true)
	in.Wanted = "b"
	if got, err = r.Reconcile(t.Context(), in); err != nil || !c.accepts("b") {
		t.Errorf("%+v, %v", got, err)
	}
	if s := c.metricsSecret(); s == nil || len(s.Data) > 0 {
		t.Errorf("the Secret of a user has changed: %v", s)
	}
}

// TestExporterQuiet checks that the controller logs in to the server only if the account may need a change.
func TestExporterQuiet(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	in := c.withMetrics(false)
	c.mustRest(r, in)
	in.VerifyPassword = false
	logins := func(metrics bool) int {
		before := c.logins
		in.Metrics = metrics
		c.mustRest(r, in)
		return c.logins - before
	}
	if diff := cmp.Diff("0 1 0", fmt.Sprint(logins(false), logins(true), logins(true))); diff != "" {
		t.Errorf("logins: -want, +got:\n%s", diff)
	}
	c.exporterWorks()
}

// TestExporterIsEarly checks that the Secret exists before the login, so that the new pod of the server finds it.
func TestExporterIsEarly(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	c.mustRest(c.rotator(), c.withMetrics(false))
	c.down = sql.ErrSlow
	in := c.withMetrics(true)
	if got, err := c.rotator().Reconcile(t.Context(), in); err != nil || got.RequeueAfter > 10*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
	if c.metricsSecret() == nil {
		t.Error("there is no Secret while the server restarts")
	}
	c.down = nil
	c.mustRest(c.rotator(), in)
	c.exporterWorks()
}
