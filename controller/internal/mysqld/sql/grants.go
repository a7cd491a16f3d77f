package sql

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// LoadGrants of a server that was started without them (--skip-grant-tables): accounts cannot be
// changed before. Nor can they where the settings forbid to write, which this takes back until the
// server ends: it does so for super_read_only, too
// (https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html#sysvar_read_only).
func (s *Session) LoadGrants(ctx context.Context) error {
	for _, statement := range []string{"FLUSH LOCAL PRIVILEGES", "SET GLOBAL read_only = OFF"} {
		if err := s.execStatement(ctx, statement); err != nil {
			return s.wrapError(err, "load the accounts of the server")
		}
	}
	return nil
}

// ForgetHistory of root's passwords, which may forbid that an instance gets the one that it had
// (https://dev.mysql.com/doc/refman/8.4/en/password-management.html#password-reuse-policy).
func (s *Session) ForgetHistory(ctx context.Context) error {
	if err := s.execStatement(ctx, "DELETE FROM mysql.password_history WHERE User = ?", Root); err != nil {
		return s.wrapError(err, "forget the earlier passwords of root")
	}
	return nil
}

// ForgetServerID that was persisted in the data (SET PERSIST): it counts before my.cnf, and is that of the server which was backed
// up. Only MySQL persists settings, from 8.0 on.
func (s *Session) ForgetServerID(ctx context.Context) error {
	v, err := s.knownVersion(ctx)
	if err != nil || v.Flavour != version.MySQL || v.Before(8, 0) {
		return err
	}
	if err := s.execStatement(ctx, "RESET PERSIST IF EXISTS server_id"); err != nil {
		return s.wrapError(err, "forget the server_id of the server that was backed up")
	}
	return nil
}
