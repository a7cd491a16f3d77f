package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// ErrNoClone is of a server whose data cannot be cloned while it runs.
var ErrNoClone = errors.New("this server has no CLONE, which came with MySQL 8.0.17: take backups with method Cold")

// CloneAccount is who may clone a server, as long as its Job does.
const CloneAccount = "crossplane-mysql-clone"

// A noPluginError is of a server without the clone plugin.
type noPluginError struct{ error }

// IsNoDonor is true of an error that says that a server cannot be cloned as it is, whenever one tries.
func IsNoDonor(err error) bool {
	_, wrong := errors.AsType[*WrongEngineError](err)
	_, none := errors.AsType[*noPluginError](err)
	_, forbidden := errors.AsType[*RuleError](err)
	return errors.Is(err, ErrNoClone) || wrong || none || forbidden
}

// A WrongEngineError names tables that a clone has, and their rows not.
type WrongEngineError struct{ Tables []string }

// Error says what to do.
func (e *WrongEngineError) Error() string {
	return fmt.Sprintf("tables that are not InnoDB's come out empty where a server is cloned: %s. Change them (ALTER TABLE … ENGINE=InnoDB), or take backups with method Cold", strings.Join(e.Tables, ", "))
}

// OtherEngines asks for tables of users that are not InnoDB's, as many as are named. The server itself has two, for its logs.
const OtherEngines = `SELECT CONCAT(table_schema, '.', table_name, ' (', engine, ')') FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND engine <> 'InnoDB' AND table_schema NOT IN ('performance_schema', 'information_schema')
AND NOT (table_schema = 'mysql' AND table_name IN ('general_log', 'slow_log'))
ORDER BY 1 LIMIT 20`

// canClone is true of a server that can be the donor of a clone (MySQL manual, 7.6.7 The Clone Plugin).
func canClone(v version.Version) bool {
	return v.Flavour == version.MySQL && slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{8, 0, 17}) >= 0
}

// A Layout is what a data directory was made with: a server that is told anything else does not start on a copy of it, nor clone it
// (MySQL manual, 7.6.7.3 Cloning Remote Data, and 11.2.3 Identifier Case Sensitivity).
type Layout struct {
	// PageSize of InnoDB in bytes, and LowerCase, which is lower_case_table_names.
	PageSize, LowerCase int
}

// OfferClone of the server's data to an account that may do nothing else, and that comes over TLS; one of that name goes first. It
// is not written to the binary log: no replica has it. The password is a new one, which the server's rules allow.
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
	l, err := s.layout(ctx)
	if err != nil {
		return "", Layout{}, err
	}
	p, err := s.createCloner(ctx, account)
	if err != nil {
		return "", Layout{}, err
	}
	if err := s.execStatement(ctx, "GRANT BACKUP_ADMIN ON *.* TO ?@'%'", account); err != nil {
		return "", Layout{}, s.wrapError(err, "let that account clone")
	}
	return p, l, nil
}

// leastPacket in bytes that a donor of a clone must allow (clone_local.h in MySQL; error 3863 otherwise).
const leastPacket = 2 << 20

// checkPacket before the clone, which fails where the server allows less.
func (s *Session) checkPacket(ctx context.Context) error {
	size := sql.NullInt64{}
	if err := s.queryRow(ctx, []sql.Scanner{&size}, "SELECT @@GLOBAL.max_allowed_packet"); err != nil {
		return s.wrapError(err, "read max_allowed_packet")
	}
	if size.Int64 >= leastPacket {
		return nil
	}
	return &RuleError{fmt.Sprintf("max_allowed_packet is %d in the server, and a clone needs %d or more: raise it in spec.config, or take backups with method Cold", size.Int64, leastPacket)}
}

// newTries is how many passwords are generated for a server that forbids words.
const newTries = 5

// createCloner with a password that the server's rules allow. A password that has a forbidden word by chance is not the last one.
func (s *Session) createCloner(ctx context.Context, account string) (Password, error) {
	rules, err := s.passwordRules(ctx)
	if err != nil {
		return "", err
	}
	for range newTries {
		p, perr := passwordFor(rules)
		if perr != nil {
			return "", perr
		}
		err = s.execStatement(ctx, "CREATE USER ?@'%' IDENTIFIED WITH caching_sha2_password BY ? REQUIRE SSL", account, string(p))
		if err == nil {
			return p, nil
		}
		if err = s.wrapSecret(err, "make the account of a clone"); !IsAgainstPolicy(err) {
			return "", err
		}
	}
	return "", &RuleError{fmt.Sprintf("the server's rules for passwords (validate_password: %s) refuse every generated one (%v): change them, or take backups with method Cold", rules, err)}
}

// CheckDonor that somebody else runs, and whose data is to be copied. Nothing is changed there.
func (s *Session) CheckDonor(ctx context.Context) (Layout, error) {
	v, err := s.knownVersion(ctx)
	if err != nil {
		return Layout{}, err
	}
	if !canClone(v) {
		return Layout{}, errors.New("that server has no CLONE, which came with MySQL 8.0.17: import a dump of it, or its volume")
	}
	has, err := s.hasClone(ctx)
	if err != nil {
		return Layout{}, err
	}
	if !has {
		return Layout{}, errors.New("the clone plugin is not loaded there: INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
	}
	if err := s.checkPacket(ctx); err != nil {
		return Layout{}, err
	}
	return s.layout(ctx)
}

// layout of the server's data.
func (s *Session) layout(ctx context.Context) (Layout, error) {
	var page, names sql.NullInt32
	if err := s.queryRow(ctx, []sql.Scanner{&page, &names}, "SELECT @@innodb_page_size, @@lower_case_table_names"); err != nil {
		return Layout{}, s.wrapError(err, "see how its data is laid out")
	}
	return Layout{PageSize: int(page.Int32), LowerCase: int(names.Int32)}, nil
}

// WithdrawClone takes the account away, if there is one. A clone that is under way goes on; no other begins.
func (s *Session) WithdrawClone(ctx context.Context, account string) error {
	if v, err := s.knownVersion(ctx); err != nil || !canClone(v) {
		return err
	}
	for _, statement := range []struct {
		text string
		args []any
	}{{"SET SESSION sql_log_bin = 0", nil}, {"DROP USER IF EXISTS ?@'%'", []any{account}}} {
		if err := s.execStatement(ctx, statement.text, statement.args...); err != nil {
			return s.wrapError(err, "take the account of a clone away")
		}
	}
	return nil
}

// hasClone is true of a server with the plugin.
func (s *Session) hasClone(ctx context.Context) (bool, error) {
	count := sql.NullInt64{}
	if err := s.queryRow(ctx, []sql.Scanner{&count}, "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'clone' AND plugin_status = 'ACTIVE'"); err != nil {
		return false, s.wrapError(err, "see whether the server can be cloned")
	}
	return count.Int64 > 0, nil
}

// loadClone, the plugin, where it is not there. It stays.
func (s *Session) loadClone(ctx context.Context) error {
	if has, err := s.hasClone(ctx); err != nil || has {
		return err
	}
	if err := s.execStatement(ctx, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'"); err != nil {
		err = s.wrapError(err, "load the clone plugin, which the official images have: take backups with method Cold where this one has not")
		if _, says := errors.AsType[*Error](err); says {
			return &noPluginError{err}
		}
		return err
	}
	return nil
}

// checkEngines of all tables of users.
func (s *Session) checkEngines(ctx context.Context) error {
	wrong, name := &WrongEngineError{}, sql.NullString{}
	err := s.queryRows(ctx, []sql.Scanner{&name}, func() { wrong.Tables = append(wrong.Tables, s.printable(name.String)) }, OtherEngines)
	switch {
	case err != nil:
		return s.wrapError(err, "see which engines its tables have")
	case len(wrong.Tables) > 0:
		return wrong
	}
	return nil
}
