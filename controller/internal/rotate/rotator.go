package rotate

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/event"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// These are the defaults of a Rotator.
const (
	// DefaultGrace is longer than the kubelet takes to update a changed Secret in a running pod.
	DefaultGrace = 2 * time.Minute
	// DefaultSettle is longer than a client takes from reading a Secret until it logs in.
	DefaultSettle = 5 * time.Second
)

const (
	// passTimeout is the timeout for a whole pass.
	passTimeout = time.Minute
	// maxSteps is the maximum number of steps of a pass. A password change takes four.
	maxSteps = 16
	// longestHandshake is the timeout for a login to a server that was not contacted for a long time.
	longestHandshake = 20 * time.Second
)

// timesAfter returns the timeouts for a server that was not contacted for a while. A handshake may take half of that
// time. It returns nil if the default timeouts are longer.
func timesAfter(leftAlone time.Duration) *sql.Times {
	handshake := min(leftAlone/2, longestHandshake)
	if handshake <= sql.HandshakeTime {
		return nil
	}
	return &sql.Times{Handshake: handshake, Session: passTimeout}
}

// A Rotator sets the requested passwords in running servers, and maintains their connection Secrets.
type Rotator struct {
	redact.All

	// Kube must read Secrets from the API server and not from a cache.
	Kube client.Client
	// Dial connects to the server. It is nil for a direct connection.
	Dial sql.Dial
	// Now returns the current time. It is nil for the system clock.
	Now func() time.Time
	// Grace is the time for which an old password remains valid after a change.
	Grace time.Duration
	// Settle is the grace period if another change is waiting.
	Settle time.Duration

	// rested contains, for each instance, the versions of the Secret and the certificate for which nothing is left to
	// do (restMark).
	rested sync.Map
	// published contains, for each instance, the published password, and since when this process has known it.
	published sync.Map
	// attempts records the refused logins of servers.
	attempts attempts
	// login connects to the server. It is nil for the real implementation.
	login func(ctx context.Context, s sql.Server, p sql.Password) (session, error)
}

// ForgetInstance removes what is stored about instances that no longer exist.
func (r *Rotator) ForgetInstance(instance v1.Instance, living []types.UID) {
	for _, known := range []*sync.Map{&r.rested, &r.published} {
		known.Range(func(key, _ any) bool {
			if instanceID, ok := key.(v1.Instance); ok && instanceID.Kind == instance.Kind && instanceID.Namespace == instance.Namespace &&
				instanceID.Name == instance.Name && !slices.Contains(living, instanceID.XR) {
				known.Delete(key)
			}
			return true
		})
	}
}

// A session is a connection to a server, with the operations of package sql that a Rotator needs.
type session interface {
	donor
	exporterSession
	certifiedSession

	Lock(ctx context.Context) error
	Version(ctx context.Context) (string, version.Version, error)
	RootAccounts(ctx context.Context) ([]sql.Account, error)
	SetPassword(ctx context.Context, accounts []sql.Account, p sql.Password, retain bool) error
	DiscardOld(ctx context.Context, accounts []sql.Account) error
	EnsureDatabase(ctx context.Context, name string) error
	Close()
}

// A certifiedSession is a session with a server that may present a certificate.
type certifiedSession interface {
	Certificate() *x509.Certificate
	ReloadTLS(ctx context.Context) error
}

// An Input contains the desired state of an instance and the known facts about it.
type Input struct {
	// Instance is the instance of the server.
	Instance v1.Instance
	// Owner is the composite resource (XR) that owns the Secrets of the instance.
	Owner metav1.OwnerReference
	// Wanted is the requested password, as v1.Password returns it.
	Wanted sql.Password
	// NotAllowed is the reason why the platform does not allow this password, or "" if it does. The controller does
	// not set a password that is not allowed. A server that already has it keeps it.
	NotAllowed string
	// Metrics is true if the instance has metrics. The exporter then has an account on the server.
	Metrics bool
	// Database is the database for clients. It is created if it does not exist.
	Database string
	// Host and Port are the address for clients.
	Host string
	Port int32
	// Address is the address that the controller uses. If it is empty, the instance's own host and port are used.
	Address string
	// Trust decides which server may receive a password. NoLogin is the reason why no server may receive one now, or
	// "".
	Trust   sql.Trust
	NoLogin string
	// Certificate is the certificate that the server should present. Authorities are its certificate authorities for
	// clients, as PEM. Both are nil if the server has no certificate.
	Certificate *x509.Certificate
	Authorities []byte
	// PublishedIn is the Secret in which Crossplane publishes the connection for the claim. Published is the password
	// in it. Both are empty if Crossplane does not publish the connection, or has not done so yet.
	PublishedIn string
	Published   sql.Password
	// VerifyPassword makes the pass log in to the server even if nothing seems to be left to do. This is used after a
	// start of the server and at intervals, because another client may have changed the password.
	VerifyPassword bool
	// ServerStart identifies the current start of the server, and changes with each restart. It is empty if unknown.
	ServerStart string
	// LeftAlone is the time for which the server was not contacted, because earlier passes took too long. The timeouts
	// grow with this time, because a server on a busy node may respond slowly. A server that never responds therefore
	// uses at most a fifth of a worker, and less with each longer delay. A pass takes at most a minute.
	LeftAlone time.Duration
}

// A Result is the state of the password after a pass.
type Result struct {
	// Credentials are the fields for the status. They contain no password.
	Credentials v1.CredentialsStatus
	// RequeueAfter is the delay until the next pass without an event. Zero means never.
	RequeueAfter time.Duration
	// Events are the events for the claim.
	Events []event.Event
	// Done lists the performed actions, for metrics.
	Done []Action
	// Version is the version that the server reports to clients, or "" if no login was made.
	Version string
	// ServedNotAfter is the expiry of the certificate that the server presents. It is nil if no login was made, or if
	// the server has no certificate of the product. ServedMessage is the reason why the server presents an unexpected
	// certificate, or "".
	ServedNotAfter *metav1.Time
	ServedMessage  string
	// Outside describes data outside of the data directory and how to move it. It is empty if there is none. It is
	// valid only if CheckedOutside is true.
	Outside        string
	CheckedOutside bool
	// ExporterFailure is the reason why the account of the exporter is not up to date, or "". ExporterRetry is the delay
	// until the next attempt, or 0.
	ExporterFailure string
	ExporterRetry   time.Duration
	// Strained is true if the pass took longer than with a healthy server, and was not completed. The server should
	// then be contacted less often.
	Strained bool
	// Well is true if the pass was completed. If Kubernetes interrupted a pass, or the server refused it quickly, the
	// pass says nothing about how slow the server is.
	Well bool
	// Slow is the duration of a pass that was completed but took too long. Otherwise it is zero.
	Slow time.Duration
}

// A pass is one call of Reconcile with its intermediate results.
type pass struct {
	*Rotator

	in      Input
	kept    kept
	session session
	// accepted contains for each tried password whether the server accepts it.
	accepted map[sql.Password]bool
	dual     bool
	// stale is true once the Secrets must be read again for each step, because they were first read before the lock
	// was acquired.
	stale bool
	// exporterErr is the error of the last read of the exporter's Secret.
	exporterErr error
	// awaitsCertificate is true if the server does not present the expected certificate yet and may do so soon.
	awaitsCertificate bool
	result            Result
}

// Reconcile performs all steps that are currently possible. The Result is valid even if an error is returned. The
// caller logs the error and retries with increasing delays.
func (r *Rotator) Reconcile(ctx context.Context, in Input) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	p := &pass{Rotator: r, in: in, accepted: map[sql.Password]bool{}}
	start := p.currentTime()
	last, err := p.runPass(ctx)
	if p.session != nil {
		p.session.Close()
	}
	took := p.currentTime().Sub(start)
	p.result.Strained, p.result.Well = isStrained(last, err, took), isWell(last, err)
	if p.result.Well && took >= slowPass {
		p.result.Slow = took
	}
	return p.reportResult(last, err)
}

func (p *pass) runPass(ctx context.Context) (rotationStep, error) {
	if err := p.readSecrets(ctx); err != nil {
		return rotationStep{}, err
	}
	if p.in.Wanted == "" {
		return rotationStep{}, errNoPassword
	}
	if p.in.NotAllowed != "" && p.in.Wanted != passwordOf(p.kept.connection) {
		return rotationStep{}, &notAllowedError{p.in.NotAllowed}
	}
	p.readExporter(ctx)
	if !p.in.VerifyPassword && p.isQuiet() {
		return rotationStep{Do: NoOp}, nil
	}
	if p.in.NoLogin != "" {
		return rotationStep{}, &noLoginError{p.in.NoLogin}
	}
	p.prepareExporter(ctx)
	if err := p.enterServer(ctx); err != nil {
		return rotationStep{}, err
	}
	if p.session == nil {
		return decideStep(rotationState{Reachable: true}), nil
	}
	for range maxSteps {
		step, err := p.takeStep(ctx)
		if err != nil {
			return step, err
		}
		if step.changesAnything() {
			continue
		}
		if step.Do != NoOp && step.Do != Wait {
			return step, nil
		}
		p.checkOutside(ctx)
		p.keepExporter(ctx)
		if p.awaitsCertificate, err = p.refreshCertificate(ctx); step.Do == NoOp && err == nil && !p.awaitsCertificate {
			p.rested.Store(p.in.Instance, p.restMark())
		}
		return step, err
	}
	return rotationStep{}, errors.New("the password keeps changing: another client changes it as well")
}

// checkOutside checks for data outside of the data directory whenever the password is verified. If the server does not
// respond, the next pass checks again.
func (p *pass) checkOutside(ctx context.Context) {
	if !p.in.VerifyPassword || p.result.CheckedOutside {
		return
	}
	found, err := p.session.OutsideData(ctx)
	p.result.CheckedOutside, p.result.Outside = err == nil, sql.OutsideText(found)
}

// isQuiet reports whether the Secrets have not changed since the last pass that had nothing left to do. No Secret
// shows whether a server retains an old password, so a new process logs in to each server once.
func (p *pass) isQuiet() bool {
	if p.kept.pending != nil || p.kept.connection == nil || passwordOf(p.kept.connection) != p.in.Wanted ||
		!p.in.isDescribed(p.kept.connection) || !p.isExporterQuiet() {
		return false
	}
	seen, ok := p.rested.Load(p.in.Instance)
	return ok && seen == p.restMark()
}

// enterServer logs in with the first password that the server accepts, and acquires the lock. If the server accepts
// no password, there is no session.
func (p *pass) enterServer(ctx context.Context) error {
	for _, candidate := range p.attempts.inOrder(&p.in, p.candidatePasswords()) {
		s, err := p.tryPassword(ctx, candidate)
		if err != nil {
			return err
		}
		p.accepted[candidate] = s != nil
		if s == nil {
			continue
		}
		p.session = s
		if err := s.Lock(ctx); err != nil {
			return err
		}
		text, v, err := s.Version(ctx)
		p.result.Version, p.dual = text, sql.KeepsOld(v)
		return err
	}
	return nil
}

// tryPassword logs in with a password. It returns no session if the server refuses the password, or has refused it
// before.
func (p *pass) tryPassword(ctx context.Context, candidate sql.Password) (session, error) {
	refused, err := p.attempts.mayTry(&p.in, candidate)
	if refused || err != nil {
		return nil, err
	}
	s, err := p.openSession(ctx, candidate)
	if err == nil || sql.IsAccessDenied(err) {
		p.attempts.record(&p.in, candidate, err == nil)
	}
	if sql.IsAccessDenied(err) {
		return nil, nil //nolint:nilnil // A refused password is a valid result and no error.
	}
	return s, err
}

// candidatePasswords returns the known passwords in the order in which they are tried. The password that clients have
// is first, because it is usually valid. Each refused login counts towards the lock of the account.
func (p *pass) candidatePasswords() []sql.Password {
	out := []sql.Password{}
	for _, c := range []sql.Password{passwordOf(p.kept.connection), p.in.Wanted, passwordOf(p.kept.pending),
		passwordOf(p.kept.initial)} {
		if c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func (p *pass) openSession(ctx context.Context, candidate sql.Password) (session, error) {
	server := sql.Server{Address: p.in.Address, Dial: p.Dial, Hidden: p.candidatePasswords(), Trust: p.in.Trust,
		Times: timesAfter(p.in.LeftAlone)}
	if server.Address == "" {
		server.Address = net.JoinHostPort(p.in.Instance.Host(), strconv.Itoa(v1.Port))
	}
	start := time.Now()
	s, err := p.logIn(ctx, server, candidate)
	log.FromContext(ctx).V(1).Info("Tried to log in to the server", "address", server.Address, "isAccepted", err == nil,
		"took", time.Since(start), "error", err)
	return s, err
}

func (p *pass) logIn(ctx context.Context, server sql.Server, candidate sql.Password) (session, error) {
	if p.login != nil {
		return p.login(ctx, server, candidate)
	}
	s, err := server.Login(ctx, candidate)
	if err != nil {
		return nil, err
	}
	return serverSession{Session: s, ExporterAccounts: sql.ExporterAccountsOf(s)}, nil
}

// A serverSession is a session with a real server.
type serverSession struct {
	redact.All
	*sql.Session
	sql.ExporterAccounts
}

// takeStep reads the state, decides on a step and performs it. If another client writes in between, the next step
// reads the state again. The Secrets were read before the lock was acquired. They are read again under the lock only
// if there is a step to perform, which is rare.
func (p *pass) takeStep(ctx context.Context) (rotationStep, error) {
	if p.stale {
		if err := p.readSecrets(ctx); err != nil {
			return rotationStep{}, err
		}
	}
	accounts, err := p.session.RootAccounts(ctx)
	if err != nil {
		return rotationStep{}, err
	}
	p.attempts.recordLimit(&p.in, accounts)
	state, err := p.gatherState(ctx, accounts)
	if err != nil {
		return rotationStep{}, err
	}
	next := decideStep(state)
	if !next.changesAnything() {
		return next, nil
	}
	if !p.stale {
		p.stale = true
		return p.takeStep(ctx)
	}
	start := time.Now()
	err = p.performStep(ctx, next, accounts)
	log.FromContext(ctx).V(1).Info("Performed a step of the password change",
		"action", next.Do, "took", time.Since(start),
		"error", err)
	if err != nil {
		if kerrors.IsConflict(err) || kerrors.IsAlreadyExists(err) {
			return next, nil
		}
		return next, err
	}
	p.recordStep(next)
	return next, nil
}

// changesAnything reports whether the step has an effect, so that another step follows.
func (s rotationStep) changesAnything() bool {
	return !slices.Contains([]Action{NoOp, Wait, Unreachable, Refused}, s.Do)
}

func (p *pass) currentTime() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// A publication contains a password that Crossplane has published, and the time at which this process first saw it.
type publication struct {
	redact.All

	password sql.Password
	changed  string
	seen     time.Time
}

// sincePublished returns for how long this process has known that the connection Secret and Crossplane's Secret
// contain the same password. The time of the change in the annotation is not used, because it may come from a clock
// that was wrong. The old password would then be discarded too early or too late. A new process starts from zero, so
// the old password remains valid a little longer.
func (p *pass) sincePublished() time.Duration {
	if p.kept.connection == nil || p.in.isUnpublished(p.kept.connection) {
		p.published.Delete(p.in.Instance)
		return 0
	}
	now := publication{password: passwordOf(p.kept.connection),
		changed: p.kept.connection.Annotations[v1.AnnotationPasswordChangedAt], seen: p.currentTime()}
	last, _ := p.published.Load(p.in.Instance)
	if previous, seen := last.(publication); seen && previous.password == now.password && previous.changed == now.changed {
		return max(0, now.seen.Sub(previous.seen))
	}
	p.published.Store(p.in.Instance, now)
	return 0
}

// A notAllowedError contains the reason why the platform does not allow the requested password.
type notAllowedError struct{ text string }

// Error returns the reason.
func (e *notAllowedError) Error() string { return e.text }

// A noLoginError contains the reason why no server may receive a password.
type noLoginError struct{ text string }

// Error returns the reason.
func (e *noLoginError) Error() string { return e.text }

var errNoPassword = errors.New("the requested password is unknown")
