package sql

import (
	"context"
	"database/sql"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// ExporterAccount is the account with which mysqld_exporter reads metrics over the server's socket. Clients on the
// network cannot log in to it.
const ExporterAccount = "crossplane-mysql-exporter"

// findExporter returns a digest of the account's password as the server stores it, with a salt. The digest changes
// when the account is created again or its password is changed.
const findExporter = "SELECT SHA2(CONCAT(CAST(plugin AS BINARY), ' ', CAST(authentication_string AS BINARY)), 256) " +
	"FROM mysql.user WHERE User = ? AND Host = 'localhost'"

// ExporterAccounts maintains the account of the exporter in a session.
type ExporterAccounts struct {
	redact.All

	session *Session
}

// ExporterAccountsOf returns the part of a session that maintains the account of the exporter.
func ExporterAccountsOf(s *Session) ExporterAccounts { return ExporterAccounts{session: s} }

// FindExporter returns a digest of the exporter's account, or "" if the account does not exist.
func (e ExporterAccounts) FindExporter(ctx context.Context) (string, error) {
	s := e.session
	found := sql.NullString{}
	if err := s.queryRows(ctx, []sql.Scanner{&found}, func() {}, findExporter, ExporterAccount); err != nil {
		return "", s.wrapError(err, "find the account of the exporter")
	}
	return found.String, nil
}

// CreateExporter creates the account of the exporter with a password. It deletes an existing account first, because
// restored data can contain the account of another instance. The statements are not written to the binary log, so
// replicas do not get the account.
func (e ExporterAccounts) CreateExporter(ctx context.Context, p Password) error {
	s := e.session
	v, err := s.knownVersion(ctx)
	if err != nil {
		return err
	}
	if err := checkAltersPasswords(v); err != nil {
		return err
	}
	const doing = "create the account of the exporter"
	err = e.withoutBinlog(ctx, doing, append([]statement{
		{"DROP USER IF EXISTS ?@'localhost'", []any{ExporterAccount}},
		{"CREATE USER ?@'localhost' IDENTIFIED " + exporterPlugin(v) + "BY ? WITH MAX_USER_CONNECTIONS 3 PASSWORD " +
			"EXPIRE NEVER", []any{ExporterAccount, string(p)}},
	}, grantExporter(v)...)...)
	return s.withRules(ctx, err)
}

// exporterPlugin returns the clause with the authentication plugin. The default plugin of a server may be one that
// the exporter does not support.
func exporterPlugin(v version.Version) string {
	if v.Flavour == version.MySQL && !v.Before(8, 0) {
		return "WITH " + cachingSHA2 + " "
	}
	return ""
}

// grantExporter returns the statements that grant what the default collectors of mysqld_exporter need. None of these
// privileges gives access to tables of users. SHOW REPLICA STATUS needs another privilege in MariaDB since 10.5
// (https://mariadb.com/docs/server/reference/sql-statements/account-management-sql-statements/grant#replica-monitor).
func grantExporter(v version.Version) []statement {
	global := "PROCESS, REPLICATION CLIENT"
	if v.Flavour == version.MariaDB && !v.Before(10, 5) {
		global = "PROCESS, BINLOG MONITOR, SLAVE MONITOR"
	}
	return []statement{
		{"GRANT " + global + " ON *.* TO ?@'localhost'", []any{ExporterAccount}},
		{"GRANT SELECT ON performance_schema.* TO ?@'localhost'", []any{ExporterAccount}},
	}
}

// DropExporter deletes the account of the exporter if it exists. Sessions of the account continue.
func (e ExporterAccounts) DropExporter(ctx context.Context) error {
	found, err := e.FindExporter(ctx)
	if err != nil || found == "" {
		return err
	}
	return e.withoutBinlog(ctx, "delete the account of the exporter",
		statement{"DROP USER ?@'localhost'", []any{ExporterAccount}})
}

// NewExporterPassword returns a password that follows the server's rules.
func (e ExporterAccounts) NewExporterPassword(ctx context.Context) (Password, error) {
	rules, err := e.session.passwordRules(ctx)
	if err != nil {
		return "", err
	}
	return passwordFor(rules, "disable metrics")
}

// withoutBinlog executes statements that are not written to the binary log. Later statements of the session are
// written to it again.
func (e ExporterAccounts) withoutBinlog(ctx context.Context, doing string, all ...statement) error {
	err := e.session.execAll(ctx, doing, append([]statement{{"SET SESSION sql_log_bin = 0", nil}}, all...)...)
	if resetErr := e.session.execAll(ctx, doing, statement{"SET SESSION sql_log_bin = 1", nil}); err == nil {
		err = resetErr
	}
	return err
}
