package initialize

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// withoutGrants are options of a server that requires no password and loads no installed plugins. The server neither
// loads nor overwrites the buffer pool dump in the restored data, so that the instance's own server can use the dump.
var withoutGrants = append([]string{"--skip-grant-tables", "--loose-innodb-buffer-pool-load-at-startup=OFF",
	"--loose-innodb-buffer-pool-dump-at-shutdown=OFF"}, withoutReplication...)

// withoutReplication are options that prevent a replica from starting replication.
var withoutReplication = []string{"--loose-skip-replica-start", "--loose-skip-slave-start"}

// enterRestored sets the requested password in restored data, unless an earlier run has done this. It does not need
// the old password (https://dev.mysql.com/doc/refman/8.4/en/resetting-permissions.html). After an unclean shutdown,
// it first starts a server with all installed plugins and the binary log, which recovers the data. Without them, a
// transaction that the binary log contains, but that a storage engine has only prepared, would be lost.
func (i *Initialization) enterRestored(ctx context.Context, r *agent.Report, v *datavolume.Initial) error {
	old, err := v.HasOldPassword()
	if err != nil || !old {
		return err
	}
	if i.Password == "" {
		return errors.New("the requested password is empty")
	}
	shutdown, err := v.HowDataStopped()
	if err != nil {
		return err
	}
	if !shutdown.Clean {
		i.printLinef("Recovering the data of the backup: %s", shutdown.Reason)
		if err := i.runOnData(ctx, v.Data(), withoutReplication, func(*server) error { return nil }); err != nil {
			return fmt.Errorf("cannot recover the restored data: %w", err)
		}
	}
	foreign, err := v.IsImported()
	if err != nil {
		return err
	}
	i.printLinef("Setting the password in the restored data")
	err = i.runOnData(ctx, v.Data(), withoutGrants, func(s *server) (err error) {
		r.Version, err = s.replacePassword(ctx, i.Password, foreign, i.clients())
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoAccount):
		i.printLinef("The restored data has no accounts: %v", err)
	case err != nil:
		return fmt.Errorf("cannot set the requested password in the restored data: %w", err)
	}
	return v.RecordPassword()
}

// runOnData starts a server on existing data, runs a function, and stops the server cleanly. It stops the server
// cleanly even if the function fails or the context is canceled.
func (i *Initialization) runOnData(ctx context.Context, data string, options []string, run func(*server) error) error {
	s, err := i.startEntrypoint(data, "", options...)
	if err != nil {
		return err
	}
	defer s.Kill() // Other processes of the entrypoint are killed with the container.
	if err = s.awaitServer(ctx); err == nil {
		err = run(s)
	}
	if err != nil && s.Ended() {
		return err // The server has exited on its own, and err contains the reason.
	}
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
}

// replacePassword sets the requested password of root, and returns the server's version. The old and the new password
// may be equal. An imported server may have no root account for network connections, as in the packages of Linux
// distributions.
func (s *server) replacePassword(ctx context.Context, wanted sql.Password, foreign bool, clients []netip.Addr) (string,
	error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	session, err := s.sql().Login(ctx, "")
	if err != nil {
		return "", err
	}
	defer session.Close()
	version, _, err := session.Version(ctx)
	if err != nil {
		return "", err
	}
	if err := session.LoadGrants(ctx); err != nil {
		return "", err
	}
	// The backed-up server may have stopped while it was being cloned. The data then still contains the clone
	// account.
	if err := session.WithdrawClone(ctx, sql.CloneAccount); err != nil {
		return "", err
	}
	// The account of the archive has the password of the backed-up instance, too.
	if err := session.WithdrawClone(ctx, sql.ArchiveAccount); err != nil {
		return "", err
	}
	// The account of the exporter has the password of the backed-up instance. The controller creates the account of this
	// instance, if metrics are enabled.
	if err := sql.ExporterAccountsOf(session).DropExporter(ctx); err != nil {
		return "", err
	}
	if foreign {
		if err := takeOverForeign(ctx, session); err != nil {
			return "", err
		}
	}
	if err := session.ResetServerID(ctx); err != nil {
		return "", err
	}
	if err := session.EnsureRoot(ctx, wanted, clients); err != nil {
		return "", err
	}
	accounts, err := session.RootAccounts(ctx)
	if err != nil {
		return "", err
	}
	err = session.SetPassword(ctx, accounts, wanted, false)
	if sql.IsAgainstHistory(err) {
		if err = session.ResetPasswordHistory(ctx); err == nil {
			err = session.SetPassword(ctx, accounts, wanted, false)
		}
	}
	if err != nil {
		return "", err
	}
	return version, session.DiscardOld(ctx, accounts)
}

// clients returns the addresses of this pod. Clients are assumed to be in the same networks.
func (i *Initialization) clients() []netip.Addr {
	if i.Clients != nil {
		return i.Clients
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			out = append(out, p.Addr())
		}
	}
	return out
}

// takeOverForeign prepares imported data. It returns an error if a part of the data is stored outside of the data
// directory.
func takeOverForeign(ctx context.Context, session *sql.Session) error {
	found, err := session.OutsideData(ctx)
	switch {
	case err != nil:
		return err
	case len(found) > 0:
		places := make([]string, 0, len(found))
		for _, f := range found {
			places = append(places, f.Place)
		}
		return fmt.Errorf("some tables were stored outside of the imported data directory, and were not imported: "+
			"%s. Move them into the data directory on the old server (SET SESSION sql_mode = 'NO_DIR_IN_CREATE'; "+
			"ALTER TABLE … FORCE, ALGORITHM = COPY, or innodb_undo_directory), or import a dump", strings.Join(places, ", "))
	}
	return session.TakeOver(ctx)
}
