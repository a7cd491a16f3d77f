package rotate

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestStepsAreLogged checks that the log contains each login and each step of a change, but no password.
func TestStepsAreLogged(t *testing.T) {
	c := newCluster(t, "correct horse", "", root("correct horse"))
	var got strings.Builder
	ctx := log.IntoContext(t.Context(),
		funcr.New(func(_, line string) { got.WriteString(line + "\n") }, funcr.Options{Verbosity: 1}))
	r := c.rotator()
	c.mustRest(r, c.input("correct horse"))
	if _, err := r.Reconcile(ctx, c.input("battery staple")); err != nil {
		t.Fatal(err)
	}
	rest := got.String()
	for _, want := range []string{
		`"msg"="Tried to log in to the server" "address"="shop.team.svc:3306" "isAccepted"=true`, `"action"="Stage"`,
		`"action"="Change"`, `"isAccepted"=true`, `"action"="Promote"`,
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("want %s in its place, got:\n%s", want, got.String())
		}
		rest = after
	}
	if s := got.String(); strings.Contains(s, "horse") || strings.Contains(s, "staple") {
		t.Errorf("a password is in the log:\n%s", s)
	}
}
