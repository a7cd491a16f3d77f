package rotate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// Pauses before another look.
const (
	// away is for a server that does not answer: its pod's events come first.
	away = 2 * time.Second
	// stuck is for what somebody has to mend.
	stuck = 30 * time.Second
	// publishing is for Crossplane, which looks at a claim once a minute at least.
	publishing = 5 * time.Second
)

// Times that a pass may take, with a server that is well: one that comes to its
// end, and one that does not.
const (
	slow  = 5 * time.Second
	tardy = time.Second
)

// isStrained is true if a pass with the server cost too much, and nothing came of it. One that
// came to its end may be slow: where much is to do, so is every server, and its password is
// changed all the same.
func isStrained(last rotationStep, err error, took time.Duration) bool {
	_, kube := errors.AsType[*secrets.KubeError](err)
	switch {
	case kube:
		return false
	case sql.IsMisbehaviour(err):
		return true
	}
	return (err != nil || last.Do == Refused) && took >= tardy
}

// isWell is true if a pass came to its end.
func isWell(last rotationStep, err error) bool {
	return err == nil && last.Do != Refused && last.Do != Unreachable
}

// noteStep that was done.
func (p *pass) noteStep(s rotationStep) {
	p.result.Done = append(p.result.Done, s.Do)
	say := func(reason v1.EventReason, format string, args ...any) {
		p.result.Events = append(p.result.Events, event.Normal(event.Reason(reason), fmt.Sprintf(format, args...)))
	}
	switch {
	case s.Do == Create:
		say(v1.EventConnectionPublished, "The server accepts the password that Secret %s/%s has", p.in.Instance.Namespace, p.in.Instance.ConnectionSecretName())
	case s.Do == Promote && p.dual && p.Grace > 0:
		say(v1.EventPasswordChanged, "The server accepts the new password; the previous one goes on to work for %s", p.Grace)
	case s.Do == Promote:
		say(v1.EventPasswordChanged, "The server accepts the new password")
	case s.Do == Discard:
		say(v1.EventOldPasswordDiscarded, "The server refuses the previous password now")
	}
}

// reportResult of a pass that ended with a step or an error.
func (p *pass) reportResult(last rotationStep, err error) (Result, error) {
	out := p.result
	out.Credentials.ChangedAt = p.changedAt()
	if err != nil {
		return p.explainFailure(out, err)
	}
	switch {
	case last.Do == Refused:
		return p.failWith(out, "The server accepts no password that is known for root: it was changed there, the account root@'%' was renamed or removed, or it requires a client certificate (REQUIRE X509). "+
			"Set the password of this instance to the one that the server accepts. As another administrator, make the account again ("+createRoot+"), or remove the requirement (ALTER USER … REQUIRE SSL). "+
			"A password that was refused is not tried again before the server restarts, so that the account is not locked"), nil
	case last.Do == Wait && p.in.isUnpublished(p.kept.connection):
		out.Credentials.State = v1.CredentialsInSync
		if passwordOf(p.kept.connection) != p.in.Wanted {
			out.Credentials.State = v1.CredentialsChanging
		}
		last.After = min(last.After, publishing)
		out.Credentials.Message = fmt.Sprintf("The previous password goes on to work until Crossplane has published the new one in Secret %s/%s", p.in.Instance.Namespace, p.in.PublishedIn)
	case last.Do == Wait && passwordOf(p.kept.connection) == p.in.Wanted:
		out.Credentials.State = v1.CredentialsInSync
		out.Credentials.Message = "The previous password goes on to work until " + p.currentTime().Add(last.After).UTC().Round(time.Second).Format(time.RFC3339)
	case last.Do == Wait:
		out.Credentials.State = v1.CredentialsChanging
		out.Credentials.Message = fmt.Sprintf("The password was changed a moment ago: another change follows when clients have had %s to take the last one in", min(p.Settle, p.Grace))
	default:
		out.Credentials.State = v1.CredentialsInSync
		out.Credentials.Message = p.windowText()
	}
	if last.Do == Wait {
		out.RequeueAfter = last.After
	}
	if p.awaitsCertificate && (out.RequeueAfter == 0 || out.RequeueAfter > uncertified) {
		out.RequeueAfter = uncertified
	}
	return out, nil
}

func (p *pass) changedAt() *metav1.Time {
	at := timeOf(p.kept.connection, v1.AnnotationPasswordChangedAt)
	if at.IsZero() {
		return nil
	}
	return &metav1.Time{Time: at.Truncate(time.Second)}
}

// windowText says for how long a server without dual passwords accepted only a
// password that no client could know.
func (p *pass) windowText() string {
	if p.kept.connection == nil || p.kept.connection.Annotations[v1.AnnotationPasswordWindow] == "" {
		return ""
	}
	return "This server keeps no old password: during the last change, the one in the connection Secret was refused for at most " + p.kept.connection.Annotations[v1.AnnotationPasswordWindow]
}

// explainFailure says what an error means. One that comes and goes with the server
// is not returned.
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
		return p.failWith(out, "The wanted password is not brought into the server: "+err.Error()), nil
	case errors.Is(err, errNoPassword):
		return p.failWith(out, "The Secret that holds the password of this instance cannot be read, or its password cannot be used"), nil
	case sql.IsUnreachable(err), sql.IsBusy(err), errors.Is(err, sql.ErrLocked), errors.Is(err, context.Canceled):
		return p.waitForServer(out, "Waiting for the server: "+err.Error()), nil
	case fewLeft, sql.IsMisbehaviour(err):
		return p.failWith(out, adviceFor(err)), nil
	}
	return p.failWith(out, adviceFor(err)), err
}

// waitForServer, which comes by itself.
func (p *pass) waitForServer(out Result, message string) Result {
	out.Credentials.State, out.Credentials.Message = v1.CredentialsChanging, message
	if c := passwordOf(p.kept.connection); c != "" && c == p.in.Wanted {
		out.Credentials.State = v1.CredentialsInSync
	}
	out.RequeueAfter = away
	return out
}

// failWith a message for the status and for an event.
func (p *pass) failWith(out Result, message string) Result {
	out.Credentials.State, out.Credentials.Message = v1.CredentialsFailed, message
	out.Events = append(out.Events, event.Warning(event.Reason(v1.EventPasswordChangeFailed), errors.New(message)))
	out.RequeueAfter = stuck
	return out
}

// orRestore is the way out where no administrator may log in: a restore makes root's accounts usable.
const orRestore = ". If none may, delete this claim and create it again: its restore lets root in"

// Statements that a user runs as another administrator. createRoot creates the account with which the controller logs in.
const (
	grantRoot  = "GRANT ALL PRIVILEGES ON *.* TO root@'%' WITH GRANT OPTION"
	createRoot = "CREATE USER root@'%' IDENTIFIED BY '…' REQUIRE SSL; " + grantRoot
)

// adviceFor says what is wrong, and what to do.
func adviceFor(err error) string {
	for _, known := range []struct {
		is  func(error) bool
		say string
	}{
		{sql.IsPasswordExpired, "the password of root has expired in the server: log in with a client, set it anew (ALTER USER … PASSWORD EXPIRE NEVER), and remove default_password_lifetime from spec.config"},
		{sql.IsBlockedByFailures, "too many logins with a wrong password have locked root in the server (FAILED_LOGIN_ATTEMPTS, or max_password_errors of MariaDB), for every client: find the client that has the wrong one. Wait until the lock ends, or unlock the account as another administrator (ALTER USER … ACCOUNT UNLOCK)"},
		{sql.IsLocked, "the account root is locked in the server: unlock it there (ALTER USER … ACCOUNT UNLOCK)" + orRestore},
		{sql.IsHostBlocked, "the server has blocked the controller's address: restart it, or run FLUSH HOSTS"},
		{sql.IsHostNotAllowed, "root may not log in from the controller's address: run " + createRoot + ", as an administrator that may log in" + orRestore},
		{sql.IsPluginMissing, "the server does not have the plugin by which root logs in: set another one as an administrator that may log in (ALTER USER … IDENTIFIED WITH caching_sha2_password BY …)" + orRestore},
		{sql.IsWithoutPrivilege, "root lacks a privilege that the controller needs, or a role that would give it is not active: run " + grantRoot + ", and, with partial_revokes, GRANT ALL PRIVILEGES ON mysql.* TO root@'%'"},
		{sql.IsReadOnly, "the server is read-only: set read_only and super_read_only to OFF"},
		{sql.IsAgainstPolicy, "the server's rules for passwords do not allow the wanted one (validate_password): choose another, or change the rules"},
		{sql.IsAgainstHistory, "the server does not allow a password that was used before (password_history): choose another"},
		{sql.IsUntrusted, "somebody else answers at the Service of this instance, or in between, and was told nothing: see which pods it selects and what its traffic goes through. Where it is the server itself, restart it, so that it shows the certificate that it has now"},
		{sql.IsMisbehaviour, "the Service of this instance leads to something that is not its server, or does not behave as one: see which pods it selects; it is asked less and less often"},
	} {
		if known.is(err) {
			return known.say + " (" + err.Error() + ")"
		}
	}
	return err.Error()
}
