package e2e

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestMariaDBComesBack creates, deletes and restores a MariaDB server. Before the deletion, root gets a different
// password and an authentication plugin that was installed later. The restored server must accept the claim's
// password again. The backup must be restore-tested. A table whose DATA DIRECTORY is outside of the data directory
// must keep its rows.
func TestMariaDBComesBack(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestEverythingComesBack has MySQL, and MariaDB is refused where it cannot take over")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"] = "mariadb:10.11"
	s.Create(t)
	reach(t, s, func(ctx context.Context, c driver.ExecerContext) error {
		for _, statement := range []string{
			"CREATE TABLE `" + s.Database + "`.o (i INT) ENGINE=InnoDB DATA DIRECTORY='/tmp'",
			"INSERT INTO `" + s.Database + "`.o VALUES (42)",
			"CREATE TABLE `" + s.Database + "`.t (i INT)", "INSERT INTO `" + s.Database + "`.t VALUES (42)",
			"INSTALL SONAME 'auth_ed25519'", "ALTER USER root@'%' IDENTIFIED VIA ed25519 USING PASSWORD('behind our back')",
		} {
			if _, err := c.ExecContext(ctx, statement, nil); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	if message := hasVerdict(t, s, "True"); !strings.Contains(message, "tables are intact") {
		t.Errorf("want the tables that were checked, got %q", message)
	}
	s.Password, s.Spec["password"] = "of the next life", "of the next life"
	s.Create(t)
	reach(t, s, func(ctx context.Context, c driver.ExecerContext) error {
		q, ok := c.(driver.QueryerContext)
		if !ok {
			return errors.New("it cannot be asked")
		}
		rows, err := q.QueryContext(ctx, "SELECT t.i FROM `"+s.Database+"`.t JOIN `"+s.Database+"`.o ON o.i = t.i", nil)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // It was read.
		row := make([]driver.Value, 1)
		if err := rows.Next(row); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if got := fmt.Sprint(row[0]); got != "42" {
			return fmt.Errorf("the row is %q", got)
		}
		return nil
	})
}

// reach waits until the MariaDB server is ready, and runs statements through the Go driver, because a MySQL client
// cannot log in to it.
func reach(t *testing.T, s *framework.Server, run func(context.Context, driver.ExecerContext) error) {
	t.Helper()
	s.BecomesReady(t)
	c, err := framework.Dial(t.Context(), s.Client().Forward(t), s.Password)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // Closing it cannot lose data.
	e, ok := c.(driver.ExecerContext)
	if !ok {
		t.Fatalf("a %T does not write", c)
	}
	if err := run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}
