package sql

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// LoadGrants loads the grant tables of a server that was started with --skip-grant-tables. Accounts cannot be changed
// before that. It also disables read_only and super_read_only until the server stops
// (https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html#sysvar_read_only).
func (s *Session) LoadGrants(ctx context.Context) error {
	for _, statement := range []string{"FLUSH LOCAL PRIVILEGES", "SET GLOBAL read_only = OFF"} {
		if err := s.execStatement(ctx, statement); err != nil {
			return s.wrapError(err, "load the accounts of the server")
		}
	}
	return nil
}

// ResetPasswordHistory deletes the password history of root. The history could forbid a password that the instance
// used before (https://dev.mysql.com/doc/refman/8.4/en/password-management.html#password-reuse-policy).
func (s *Session) ResetPasswordHistory(ctx context.Context) error {
	if err := s.execStatement(ctx, "DELETE FROM mysql.password_history WHERE User = ?", Root); err != nil {
		return s.wrapError(err, "delete the password history of root")
	}
	return nil
}

// ResetServerID removes a persisted server_id from the data (SET PERSIST). It belongs to the backed-up server, and
// would override my.cnf. Only MySQL 8.0 and newer persist settings.
func (s *Session) ResetServerID(ctx context.Context) error {
	v, err := s.knownVersion(ctx)
	if err != nil || v.Flavour != version.MySQL || v.Before(8, 0) {
		return err
	}
	if err := s.execStatement(ctx, "RESET PERSIST IF EXISTS server_id"); err != nil {
		return s.wrapError(err, "reset the server_id of the server that was backed up")
	}
	return nil
}
