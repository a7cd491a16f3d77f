package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// ErrNoClone means that a server cannot be cloned while it runs.
var ErrNoClone = errors.New("this server does not support CLONE, which requires MySQL 8.0.17 or later: take " +
	"backups with method Cold")

// CloneAccount is the account with which a Job may clone the server. It exists only during the Job.
const CloneAccount = "crossplane-mysql-clone"

// A noPluginError means that a server has no clone plugin.
type noPluginError struct{ error }

// IsNoDonor reports whether an error means that a server cannot be cloned. A retry cannot succeed then.
func IsNoDonor(err error) bool {
	_, wrong := errors.AsType[*WrongEngineError](err)
	_, none := errors.AsType[*noPluginError](err)
	_, forbidden := errors.AsType[*RuleError](err)
	return errors.Is(err, ErrNoClone) || wrong || none || forbidden
}

// A WrongEngineError lists tables that would be empty in a clone.
type WrongEngineError struct{ Tables []string }

// Error returns the message with the next step.
func (e *WrongEngineError) Error() string {
	return fmt.Sprintf("tables that do not use InnoDB are empty in a clone: %s. Convert them (ALTER TABLE … "+
		"ENGINE=InnoDB), or take backups with method Cold", strings.Join(e.Tables, ", "))
}

// OtherEngines is the query for user tables that do not use InnoDB, up to a limit. It omits the two log tables of the
// server.
const OtherEngines = `SELECT CONCAT(table_schema, '.', table_name, ' (', engine, ')') FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND engine <> 'InnoDB' AND table_schema NOT IN ('performance_schema', 'information_schema')
AND NOT (table_schema = 'mysql' AND table_name IN ('general_log', 'slow_log'))
ORDER BY 1 LIMIT 20`

// canClone reports whether the server's version supports CLONE (MySQL manual, 7.6.7 The Clone Plugin).
func canClone(v version.Version) bool {
	return v.Flavour == version.MySQL && slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{8, 0, 17}) >= 0
}

// A Layout contains the settings with which a data directory was initialized. A server with other settings cannot
// clone the directory, and does not start on a copy of it. See the MySQL manual, 7.6.7.3 Cloning Remote Data, and
// 11.2.3 Identifier Case Sensitivity.
type Layout struct {
	// PageSize is the page size of InnoDB in bytes. LowerCase is lower_case_table_names.
	PageSize, LowerCase int
}

// OfferClone creates an account that may only clone the server's data, and only over TLS. It first deletes an
// existing account with that name. The statements are not written to the binary log, so replicas do not get the
// account. The password is new and follows the server's rules.
func (s *Session) OfferClone(ctx context.Context, account string) (Password, Layout, error) {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return "", Layout{}, err
	}
	if !canClone(v) {
		return "", Layout{}, ErrNoClone
	}
	if err := s.checkEngines(ctx); err != nil {
		return "", Layout{}, err
	}
	if err := s.checkPacket(ctx); err != nil {
		return "", Layout{}, err
	}
	if err := s.loadClone(ctx); err != nil {
		return "", Layout{}, err
	}
	if err := s.WithdrawClone(ctx, account); err != nil {
		return "", Layout{}, err
	}
	l, err := readLayout(ctx, s)
	if err != nil {
		return "", Layout{}, err
	}
	p, err := createAccount(ctx, s, account, "clone")
	if err != nil {
		return "", Layout{}, err
	}
	if err := s.execStatement(ctx, "GRANT BACKUP_ADMIN ON *.* TO ?@'%'", account); err != nil {
		return "", Layout{}, s.wrapError(err, "grant BACKUP_ADMIN to the clone account")
	}
	return p, l, nil
}

// leastPacket is the minimum max_allowed_packet of a donor in bytes (clone_local.h in MySQL). With a lower value, a
// clone fails with error 3863.
const leastPacket = 2 << 20

// checkPacket returns an error if max_allowed_packet is too low for a clone.
func (s *Session) checkPacket(ctx context.Context) error {
	size := sql.NullInt64{}
	if err := s.queryRow(ctx, []sql.Scanner{&size}, "SELECT @@GLOBAL.max_allowed_packet"); err != nil {
		return s.wrapError(err, "read max_allowed_packet")
	}
	if size.Int64 >= leastPacket {
		return nil
	}
	return &RuleError{fmt.Sprintf(
		"max_allowed_packet is %d in the server, but a clone needs at least %d: raise it in spec.config, or take "+
			"backups with method Cold", size.Int64, leastPacket)}
}

// newTries is the maximum number of passwords that are tried if the server's password rules forbid words.
const newTries = 5

// createAccount creates the account with a password that follows the server's rules. It tries several passwords,
// because a random password may contain a forbidden word. Errors mention the purpose of the account.
func createAccount(ctx context.Context, s *Session, account, purpose string) (Password, error) {
	rules, err := s.passwordRules(ctx)
	if err != nil {
		return "", err
	}
	for range newTries {
		p, perr := passwordFor(rules, "take backups with method Cold")
		if perr != nil {
			return "", perr
		}
		err = s.execStatement(ctx, "CREATE USER ?@'%' IDENTIFIED WITH caching_sha2_password BY ? REQUIRE SSL "+
			"PASSWORD EXPIRE NEVER", account,
			string(p))
		if err == nil {
			return p, nil
		}
		if err = s.wrapSecret(err, "create the "+purpose+" account"); !IsAgainstPolicy(err) {
			return "", err
		}
	}
	return "", &RuleError{fmt.Sprintf(
		"the server's password policy (validate_password: %s) refuses every generated password (%v): change the "+
			"policy, or take backups with method Cold", rules, err)}
}

// ErrNoArchive means that the binary log of a server cannot be archived.
var ErrNoArchive = errors.New("the binary log of this server cannot be archived, because this requires MySQL 8.0.26 or " +
	"later with gtid_mode=ON and log_bin=ON")

// ArchiveAccount is the account with which the controller reads the binary log of the server.
const ArchiveAccount = "crossplane-mysql-archive"

// OfferArchive creates an account that may only read the server's binary log, and only over TLS. It first deletes an
// existing account with that name. The statements are not written to the binary log. The password is new and follows
// the server's rules.
func (s *Session) OfferArchive(ctx context.Context) (Password, error) {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return "", err
	}
	mode, log := sql.NullString{}, sql.NullInt64{}
	if v.Flavour == version.MySQL && slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{8, 0, 26}) >= 0 {
		if err := s.queryRow(ctx, []sql.Scanner{&mode, &log}, "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.log_bin"); err != nil {
			return "", s.wrapError(err, "read gtid_mode")
		}
	}
	if mode.String != "ON" || log.Int64 != 1 {
		return "", ErrNoArchive
	}
	if err := s.WithdrawClone(ctx, ArchiveAccount); err != nil {
		return "", err
	}
	p, err := createAccount(ctx, s, ArchiveAccount, "archive")
	if err != nil {
		return "", err
	}
	if err := s.execStatement(ctx, "GRANT REPLICATION SLAVE ON *.* TO ?@'%'", ArchiveAccount); err != nil {
		return "", s.wrapError(err, "grant REPLICATION SLAVE to the archive account")
	}
	return p, nil
}

// SetCommitWait makes commits wait until the archiver acknowledges them, or not. It changes only a server that was started
// for durability Store, and returns whether it was.
func (s *Session) SetCommitWait(ctx context.Context, waits bool) (canWait bool, err error) {
	count, wanted := sql.NullInt64{}, "OFF"
	if waits {
		wanted = "ON"
	}
	if err := s.queryRow(ctx, []sql.Scanner{&count}, "SELECT COUNT(*) FROM performance_schema.global_variables WHERE "+
		"VARIABLE_NAME = 'rpl_semi_sync_source_timeout' AND VARIABLE_VALUE = '"+v1.CommitTimeout+"'"); err != nil {
		return false, s.wrapError(err, "read rpl_semi_sync_source_timeout")
	}
	if count.Int64 == 0 {
		return false, nil
	}
	if err := s.execStatement(ctx, "SET GLOBAL rpl_semi_sync_source_enabled = "+wanted); err != nil {
		return true, s.wrapError(err, "set rpl_semi_sync_source_enabled")
	}
	return true, nil
}

// CheckDonor checks whether a foreign server can be cloned. It does not change that server.
func (s *Session) CheckDonor(ctx context.Context) (Layout, error) {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return Layout{}, err
	}
	if !canClone(v) {
		return Layout{}, errors.New("that server does not support CLONE, which requires MySQL 8.0.17 or later: import a " +
			"dump or its volume")
	}
	hasClone, err := s.hasClone(ctx)
	if err != nil {
		return Layout{}, err
	}
	if !hasClone {
		return Layout{}, errors.New("the clone plugin is not loaded on that server: run INSTALL PLUGIN clone SONAME " +
			"'mysql_clone.so'")
	}
	if err := s.checkPacket(ctx); err != nil {
		return Layout{}, err
	}
	return readLayout(ctx, s)
}

// readLayout returns the layout of the server's data directory.
func readLayout(ctx context.Context, s *Session) (Layout, error) {
	var page, names sql.NullInt32
	if err := s.queryRow(ctx, []sql.Scanner{&page, &names},
		"SELECT @@innodb_page_size, @@lower_case_table_names"); err != nil {
		return Layout{}, s.wrapError(err, "read its page size and lower_case_table_names")
	}
	return Layout{PageSize: int(page.Int32), LowerCase: int(names.Int32)}, nil
}

// WithdrawClone deletes the account if it exists. A running clone continues, but no new clone can start.
func (s *Session) WithdrawClone(ctx context.Context, account string) error {
	if v, err := s.knownVersion(ctx); err != nil || !canClone(v) {
		return err
	}
	for _, statement := range []struct {
		text string
		args []any
	}{{"SET SESSION sql_log_bin = 0", nil}, {"DROP USER IF EXISTS ?@'%'", []any{account}}} {
		if err := s.execStatement(ctx, statement.text, statement.args...); err != nil {
			return s.wrapError(err, "delete the clone account")
		}
	}
	return nil
}

// hasClone reports whether the clone plugin is loaded.
func (s *Session) hasClone(ctx context.Context) (bool, error) {
	count := sql.NullInt64{}
	if err := s.queryRow(ctx, []sql.Scanner{&count},
		"SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'clone' AND plugin_status = 'ACTIVE'"); err != nil {
		return false, s.wrapError(err, "check whether the server can be cloned")
	}
	return count.Int64 > 0, nil
}

// loadClone loads the clone plugin if it is not loaded. The plugin stays loaded.
func (s *Session) loadClone(ctx context.Context) error {
	if loaded, err := s.hasClone(ctx); err != nil || loaded {
		return err
	}
	if err := s.execStatement(ctx, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'"); err != nil {
		err = s.wrapError(err, "load the clone plugin. The official images contain it; with other images, take "+
			"backups with method Cold")
		if _, says := errors.AsType[*Error](err); says {
			return &noPluginError{err}
		}
		return err
	}
	return nil
}

// checkEngines returns an error if user tables do not use InnoDB.
func (s *Session) checkEngines(ctx context.Context) error {
	wrong, name := &WrongEngineError{}, sql.NullString{}
	err := s.queryRows(ctx, []sql.Scanner{&name}, func() { wrong.Tables = append(wrong.Tables, s.printable(name.String)) },
		OtherEngines)
	switch {
	case err != nil:
		return s.wrapError(err, "read the storage engines of its tables")
	case len(wrong.Tables) > 0:
		return wrong
	}
	return nil
}
