package sql

import (
	"context"
	"errors"
	"slices"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// ErrReadsAtStart means that a server reads its certificate only when it starts.
var ErrReadsAtStart = errors.New("this server reads a certificate only when it starts")

// reloadStatement returns the statement that reloads the certificate, or "" if the server does not support one
// (https://dev.mysql.com/doc/refman/8.0/en/alter-instance.html,
// https://mariadb.com/docs/server/reference/sql-statements/administrative-sql-statements/flush-commands/flush).
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

// ReloadTLS makes the server read its certificate and key again. If the server cannot use the new files, it keeps the
// old certificate, and ReloadTLS returns an error.
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
		return s.wrapError(err, "reload the server's certificate")
	}
	return nil
}
