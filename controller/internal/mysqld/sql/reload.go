package sql

import (
	"context"
	"errors"
	"slices"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// ErrReadsAtStart is of a server that reads its certificate when it starts, and never again.
var ErrReadsAtStart = errors.New("this server reads a certificate only when it starts")

// reloadStatement of a server; empty where it has none
// (https://dev.mysql.com/doc/refman/8.0/en/alter-instance.html, https://mariadb.com/docs/server/reference/sql-statements/administrative-sql-statements/flush-commands/flush).
func reloadStatement(v version.Version) string {
	number := []int{v.Major, v.Minor, v.Patch}
	switch {
	case v.Flavour == version.MySQL && slices.Compare(number, []int{8, 0, 16}) >= 0:
		return "ALTER INSTANCE RELOAD TLS"
	case v.Flavour == version.MariaDB && slices.Compare(number, []int{10, 4, 0}) >= 0:
		return "FLUSH SSL"
	}
	return ""
}

// ReloadTLS has the server read its certificate and its key again. Where it cannot use what it finds it goes on with what it
// has, which is an error.
func (s *Session) ReloadTLS(ctx context.Context) error {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return err
	}
	statement := reloadStatement(v)
	if statement == "" {
		return ErrReadsAtStart
	}
	if err := s.execStatement(ctx, statement); err != nil {
		return s.wrapError(err, "have the server read its certificate again")
	}
	return nil
}
