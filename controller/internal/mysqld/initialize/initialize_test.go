package initialize

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/hostile"
)

func TestDecideStep(t *testing.T) {
	errDoubt := errors.New("doubt")
	cases := map[string]struct {
		reason           string
		hasData, allowed bool
		nothing          error
		want             step
		err              error
	}{
		"New": {reason: "The volume is empty and has never contained data, so a database must be created.",
			allowed: true, want: create},
		"Data":    {reason: "A volume with data must not be initialized.", hasData: true, allowed: true, nothing: errDoubt, want: leave},
		"Restart": {reason: "A restarted server must use its existing data.", hasData: true, want: leave},
		"Emptied": {reason: "If the data of an existing instance is missing, no new database must be created.", err: &agent.ExitError{}},
		"Doubtful": {reason: "If the volume may have contained data before, no new database must be created.",
			allowed: true, nothing: errDoubt, err: errDoubt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decideStep(tc.hasData, tc.allowed, func() error { return tc.nothing })
			if coded := new(agent.ExitError); errors.As(tc.err, &coded) {
				if agent.CodeOf(err) != agent.ExitNoData {
					t.Errorf("%s got %v", tc.reason, err)
				}
				return
			}
			if diff := cmp.Diff(tc.err, err, cmpopts.EquateErrors()); diff != "" || got != tc.want {
				t.Errorf("%s want %v, got %v\n%s", tc.reason, tc.want, got, diff)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	own := []string{
		"PATH=/bin", "MYSQL_DATABASE=app", "MYSQL_ROOT_HOST=localhost", "MYSQL_USER=me", "MYSQL_ROOT_PASSWORD=image",
		"MYSQL_ROOT_PASSWORD_FILE=/x",
		"MYSQL_ALLOW_EMPTY_PASSWORD=1", "MARIADB_ROOT_PASSWORD_HASH=x", "MARIADB_RANDOM_ROOT_PASSWORD=1",
	}
	want := []string{"PATH=/bin", "MYSQL_DATABASE=app", "MYSQL_ROOT_HOST=localhost", "MYSQL_USER=me",
		"MYSQL_ROOT_PASSWORD=generated"}
	if diff := cmp.Diff(want, environment(own, "generated")); diff != "" {
		t.Errorf("The entrypoint takes one choice of a password, and it is ours.\n-want, +got:\n%s", diff)
	}
}

// TestCheckPassword checks that a server is refused if root can also log in with a different password.
func TestCheckPassword(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // The test is complete.
	go hostile.Server{Trick: hostile.Open()}.Serve(l)
	err = (&server{socket: socket, generated: sql.NewPassword()}).checkPassword(t.Context(), "wanted")
	if err == nil || !strings.Contains(err.Error(), "root can log in to the new server with") {
		t.Errorf("want it to say that everybody is let in, got %v", err)
	}
}
