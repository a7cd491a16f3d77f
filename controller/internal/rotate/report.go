package rotate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// These are the delays before the next pass.
const (
	// pauseUnreachable is for a server that does not respond. Events of its pod usually trigger a pass earlier.
	pauseUnreachable = 2 * time.Second
	// pauseBlocked is for a problem that a user has to fix.
	pauseBlocked = 30 * time.Second
	// publishing is the interval at which the controller checks whether Crossplane has published a password.
	// Crossplane reconciles a claim at least once a minute.
	publishing = 5 * time.Second
)

// These are the maximum durations of a pass with a healthy server. slowPass is for a pass that completes, and
// slowFailure for a pass that does not.
const (
	slowPass    = 5 * time.Second
	slowFailure = time.Second
)

// isStrained reports whether a pass took too long and was not completed. A completed pass may be slow, because every
// server is slow under load.
func isStrained(last rotationStep, err error, took time.Duration) bool {
	_, kube := errors.AsType[*secrets.KubeError](err)
	switch {
	case kube:
		return false
	case sql.IsMisbehaviour(err):
		return true
	}
	return (err != nil || last.Do == Refused) && took >= slowFailure
}

// isWell reports whether a pass was completed: the server responded, and accepted a password.
func isWell(last rotationStep, err error) bool {
	return err == nil && last.Do != Refused && last.Do != Unreachable
}

// recordStep adds a performed step, and the event about it, to the result of the pass.
func (p *pass) recordStep(s rotationStep) {
	p.result.Done = append(p.result.Done, s.Do)
	say := func(reason v1.EventReason, format string, args ...any) {
		p.result.Events = append(p.result.Events, event.Normal(event.Reason(reason), fmt.Sprintf(format, args...)))
	}
	switch {
	case s.Do == Create:
		say(v1.EventConnectionPublished, "The server accepts the password in Secret %s/%s", p.in.Instance.Namespace,
			p.in.Instance.ConnectionSecretName())
	case s.Do == Promote && p.dual && p.Grace > 0:
		say(v1.EventPasswordChanged, "The server accepts the new password. It accepts the previous one for another %s", p.Grace)
	case s.Do == Promote:
		say(v1.EventPasswordChanged, "The server accepts the new password")
	case s.Do == Discard:
		say(v1.EventOldPasswordDiscarded, "The server no longer accepts the previous password")
	}
}

// reportResult returns the result of a pass from its last step or its error.
func (p *pass) reportResult(last rotationStep, err error) (Result, error) {
	out := p.result
	out.Credentials.ChangedAt = p.changedAt()
	if err != nil {
		return p.explainFailure(out, err)
	}
	switch {
	case last.Do == Refused:
		return p.failWith(out, "The server accepts none of the known passwords of root. Either the password was "+
			"changed in the server, or the account root@'%' was renamed or removed, or it requires a client "+
			"certificate (REQUIRE X509). Set the password of this instance to the one that the server accepts. Or, "+
			"as another administrator, create the account again ("+createRoot+") or remove the requirement "+
			"(ALTER USER … REQUIRE SSL). "+
			"The controller does not try a refused password again before the server restarts, so that the account "+
			"is not locked"), nil
	case last.Do == Wait && p.in.isUnpublished(p.kept.connection):
		out.Credentials.State = v1.CredentialsInSync
		if passwordOf(p.kept.connection) != p.in.Wanted {
			out.Credentials.State = v1.CredentialsChanging
		}
		last.After = min(last.After, publishing)
		out.Credentials.Message = fmt.Sprintf(
			"The server accepts the previous password until Crossplane has published the new one in Secret %s/%s",
			p.in.Instance.Namespace, p.in.PublishedIn)
	case last.Do == Wait && passwordOf(p.kept.connection) == p.in.Wanted:
		out.Credentials.State = v1.CredentialsInSync
		out.Credentials.Message = "The server accepts the previous password until " +
			p.currentTime().Add(last.After).UTC().Round(time.Second).Format(time.RFC3339)
	case last.Do == Wait:
		out.Credentials.State = v1.CredentialsChanging
		out.Credentials.Message = fmt.Sprintf(
			"The password was changed a moment ago. The next change follows after %s, so that clients can read the current "+
				"one first",
			min(p.Settle, p.Grace))
	default:
		out.Credentials.State = v1.CredentialsInSync
		out.Credentials.Message = p.windowText()
	}
	if last.Do == Wait {
		out.RequeueAfter = last.After
	}
	if retry := out.ExporterRetry; retry > 0 && (out.RequeueAfter == 0 || out.RequeueAfter > retry) {
		out.RequeueAfter = retry
	}
	if out.ExporterFailure != "" {
		out.Credentials.Message = strings.TrimPrefix(out.Credentials.Message+". "+out.ExporterFailure, ". ")
	}
	if p.awaitsCertificate && (out.RequeueAfter == 0 || out.RequeueAfter > uncertified) {
		out.RequeueAfter = uncertified
	}
	return out, nil
}

func (p *pass) changedAt() *metav1.Time {
	timestamp := timeOf(p.kept.connection, v1.AnnotationPasswordChangedAt)
	if timestamp.IsZero() {
		return nil
	}
	return &metav1.Time{Time: timestamp.Truncate(time.Second)}
}

// windowText describes for how long the server refused the password in the connection Secret during the last change. It
// returns "" if the server supports dual passwords, because it then accepts the password all the time.
func (p *pass) windowText() string {
	if p.kept.connection == nil || p.kept.connection.Annotations[v1.AnnotationPasswordWindow] == "" {
		return ""
	}
	return "This server cannot accept two passwords. During the last change, it refused the password in the " +
		"connection Secret for at most " + p.kept.connection.Annotations[v1.AnnotationPasswordWindow]
}

// explainFailure returns the result for an error, with a message for users. It returns the error itself only if the
// pass is to be retried with increasing delays.
func (p *pass) explainFailure(out Result, err error) (Result, error) {
	if f, ok := errors.AsType[*secrets.ForeignError](err); ok && !f.Goes {
		return p.failWith(out, f.Error()), nil
	} else if ok {
		return p.waitForServer(out, f.Error()), nil
	}
	_, kube := errors.AsType[*secrets.KubeError](err)
	_, notLetIn := errors.AsType[*secrets.NotLetInError](err)
	_, notAllowed := errors.AsType[*notAllowedError](err)
	_, noLogin := errors.AsType[*noLoginError](err)
	_, fewLeft := errors.AsType[*attemptsLeftError](err)
	switch {
	case noLogin && passwordOf(p.kept.connection) == p.in.Wanted:
		out.Credentials.State, out.Credentials.Message = v1.CredentialsInSync, err.Error()
		return out, nil
	case noLogin:
		return p.failWith(out, err.Error()), nil
	case kube:
		return p.waitForServer(out, err.Error()), err
	case notLetIn:
		return p.failWith(out, err.Error()), nil
	case notAllowed:
		return p.failWith(out, "The new password is not set in the server: "+err.Error()), nil
	case errors.Is(err, errNoPassword):
		return p.failWith(out, "The Secret that contains the password of this instance cannot be read, or its password "+
			"cannot be used"), nil
	case sql.IsUnreachable(err), sql.IsBusy(err), errors.Is(err, sql.ErrLocked), errors.Is(err, context.Canceled):
		return p.waitForServer(out, "Waiting for the server: "+err.Error()), nil
	case fewLeft, sql.IsMisbehaviour(err):
		return p.failWith(out, adviceFor(err)), nil
	}
	return p.failWith(out, adviceFor(err)), err
}

// waitForServer returns a result with a message for the status and a retry after a short delay.
func (p *pass) waitForServer(out Result, message string) Result {
	out.Credentials.State, out.Credentials.Message = v1.CredentialsChanging, message
	if c := passwordOf(p.kept.connection); c != "" && c == p.in.Wanted {
		out.Credentials.State = v1.CredentialsInSync
	}
	out.RequeueAfter = pauseUnreachable
	return out
}

// failWith returns a result with a message for the status and an event.
func (p *pass) failWith(out Result, message string) Result {
	out.Credentials.State, out.Credentials.Message = v1.CredentialsFailed, message
	out.Events = append(out.Events, event.Warning(event.Reason(v1.EventPasswordChangeFailed), errors.New(message)))
	out.RequeueAfter = pauseBlocked
	return out
}

// orRestore is the advice for the case that no administrator can log in. A restore makes root's accounts usable.
const orRestore = ". If no administrator can log in, delete this claim and create it again: the restore makes the " +
	"account of root usable"

// A user can run these statements as another administrator. createRoot creates the account with which the controller
// logs in.
const (
	grantRoot  = "GRANT ALL PRIVILEGES ON *.* TO root@'%' WITH GRANT OPTION"
	createRoot = "CREATE USER root@'%' IDENTIFIED BY '…' REQUIRE SSL; " + grantRoot
)

// adviceFor returns the problem and the next step for an error.
func adviceFor(err error) string {
	for _, known := range []struct {
		matches func(error) bool
		say     string
	}{
		{sql.IsPasswordExpired, "the password of root has expired in the server: log in with a client, set the " +
			"password again (ALTER USER … PASSWORD EXPIRE NEVER), and remove default_password_lifetime from " +
			"spec.config"},
		{sql.IsBlockedByFailures, "too many logins with a wrong password have locked root in the server " +
			"(FAILED_LOGIN_ATTEMPTS, or max_password_errors of MariaDB), for every client: find the client with the wrong " +
			"password. Then wait until the lock expires, or unlock the account as another administrator (ALTER USER … " +
			"ACCOUNT UNLOCK)"},
		{sql.IsLocked, "the account root is locked in the server: unlock it there (ALTER USER … ACCOUNT UNLOCK)" + orRestore},
		{sql.IsHostBlocked, "the server has blocked the controller's address: restart it, or run FLUSH HOSTS"},
		{sql.IsHostNotAllowed, "root may not log in from the controller's address: run " + createRoot +
			", as an administrator that can log in" + orRestore},
		{sql.IsPluginMissing, "the server does not have the authentication plugin of root: set another one as an " +
			"administrator that can log in (ALTER USER … IDENTIFIED WITH caching_sha2_password BY …)" + orRestore},
		{sql.IsWithoutPrivilege, "root lacks a privilege that the controller needs, or the role with that " +
			"privilege is not active: run " + grantRoot + ", and, with partial_revokes, GRANT ALL PRIVILEGES ON mysql.* TO root@'%'"},
		{sql.IsReadOnly, "the server is read-only: set read_only and super_read_only to OFF"},
		{sql.IsAgainstPolicy, "the server's password policy (validate_password) does not allow the new password: " +
			"choose another password, or change the policy"},
		{sql.IsAgainstHistory,
			"the server does not allow a password that was used before (password_history): choose another password"},
		{sql.IsUntrusted, "the server behind the Service of this instance did not present the certificate of this " +
			"instance, so the controller did not send the password. Check which pods the Service selects, and which proxies " +
			"its traffic passes. If it is the server itself, restart it, so that it presents its current certificate"},
		{sql.IsMisbehaviour, "the Service of this instance routes to a server that is not MySQL or that responds " +
			"incorrectly. Check which pods the Service selects. The controller retries at growing intervals"},
	} {
		if known.matches(err) {
			return known.say + " (" + err.Error() + ")"
		}
	}
	return err.Error()
}
