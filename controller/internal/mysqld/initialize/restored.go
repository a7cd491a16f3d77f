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

// withoutGrants are options of a server that asks nobody for a password, and loads nothing that was
// installed in it. What it keeps of its cache is the backup's, for the server that comes next.
var withoutGrants = append([]string{"--skip-grant-tables", "--loose-innodb-buffer-pool-load-at-startup=OFF", "--loose-innodb-buffer-pool-dump-at-shutdown=OFF"}, withoutReplication...)

// withoutReplication a server whose data says that it is a replica gets no rows from elsewhere.
var withoutReplication = []string{"--loose-skip-replica-start", "--loose-skip-slave-start"}

// enterRestored brings the wanted password into what a restore put there, unless that was
// done. It has the one of the server that was backed up, which nobody has to know
// (https://dev.mysql.com/doc/refman/8.4/en/resetting-permissions.html). Data that was not
// stopped cleanly is recovered first, by a server that loads what is installed in it: a
// transaction that engine and binary log share would be lost without one of the two.
func (i *Initialization) enterRestored(ctx context.Context, r *agent.Report, v *datavolume.Initial) error {
	old, err := v.HasOldPassword()
	if err != nil || !old {
		return err
	}
	if i.Password == "" {
		return errors.New("the wanted password is empty")
	}
	how, err := v.HowDataStopped()
	if err != nil {
		return err
	}
	if !how.Clean {
		i.printLinef("Recovering the data of the backup: %s", how.Reason)
		if err := i.runOnData(ctx, v.Data(), withoutReplication, func(*server) error { return nil }); err != nil {
			return fmt.Errorf("cannot recover the restored data: %w", err)
		}
	}
	foreign, err := v.IsImported()
	if err != nil {
		return err
	}
	i.printLinef("Bringing the password into what was restored")
	err = i.runOnData(ctx, v.Data(), withoutGrants, func(s *server) (err error) {
		r.Version, err = s.replacePassword(ctx, i.Password, foreign, i.clients())
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoAccount):
		i.printLinef("There is nothing to bring it into: %v", err)
	case err != nil:
		return fmt.Errorf("cannot bring the wanted password into the restored data: %w", err)
	}
	return v.NotePassword()
}

// runOnData a server on data that counts, do something with it, and let it end cleanly, also
// where that fails or this program is told to stop.
func (i *Initialization) runOnData(ctx context.Context, data string, options []string, do func(*server) error) error {
	s, err := i.startEntrypoint(data, "", options...)
	if err != nil {
		return err
	}
	defer s.Kill() // What it started besides ends with the container.
	if err = s.awaitServer(ctx); err == nil {
		err = do(s)
	}
	if err != nil && s.Ended() {
		return err // It was not told to, and has said why.
	}
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
}

// replacePassword of root, whatever it is, by the wanted one, and return the server's version. An
// instance may get the one that it had. A server that was imported once may have had no root who comes over a network, as
// those of distributions have not.
func (s *server) replacePassword(ctx context.Context, wanted sql.Password, foreign bool, clients []netip.Addr) (string, error) {
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
	// A server that went down while it was cloned has the account of that.
	if err := session.WithdrawClone(ctx, sql.CloneAccount); err != nil {
		return "", err
	}
	if foreign {
		if err := takeOverForeign(ctx, session); err != nil {
			return "", err
		}
	}
	if err := session.ForgetServerID(ctx); err != nil {
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
		if err = session.ForgetHistory(ctx); err == nil {
			err = session.SetPassword(ctx, accounts, wanted, false)
		}
	}
	if err != nil {
		return "", err
	}
	return version, session.DiscardOld(ctx, accounts)
}

// clients are the addresses that this pod has in the networks which it shares with them.
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

// takeOverForeign data, all of which has to be there.
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
		return fmt.Errorf("tables of what was imported lie outside its data directory, and were not imported with it: %s. Move them into it there (SET SESSION sql_mode = 'NO_DIR_IN_CREATE'; ALTER TABLE … FORCE, ALGORITHM = COPY, or innodb_undo_directory), or import a dump", strings.Join(places, ", "))
	}
	return session.TakeOver(ctx)
}
