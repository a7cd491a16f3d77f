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

// Defaults of a Rotator.
const (
	// DefaultGrace is longer than the kubelet takes to bring a changed Secret into
	// a running pod.
	DefaultGrace = 2 * time.Minute
	// DefaultSettle is longer than a client takes from reading a Secret to logging
	// in.
	DefaultSettle = 5 * time.Second
)

const (
	// passTimeout is for all steps of a pass.
	passTimeout = time.Minute
	// maxSteps of a pass. A change takes four.
	maxSteps = 16
	// longestHandshake is for a server that was left alone for long.
	longestHandshake = 20 * time.Second
)

// timesAfter it was left alone: half of that for a handshake; nil, the usual ones, where
// they are longer.
func timesAfter(leftAlone time.Duration) *sql.Times {
	handshake := min(leftAlone/2, longestHandshake)
	if handshake <= sql.HandshakeTime {
		return nil
	}
	return &sql.Times{Handshake: handshake, Session: passTimeout}
}

// A Rotator brings wanted passwords into running servers.
type Rotator struct {
	redact.All

	// Kube must read Secrets from the API server, and not from a cache.
	Kube client.Client
	// Dial the server; nil for the network's own way.
	Dial sql.Dial
	// Now is the clock; nil for the machine's.
	Now func() time.Time
	// Grace in which an old password goes on to work.
	Grace time.Duration
	// Settle is the same where another change waits for its end.
	Settle time.Duration

	// rested is the version of each life's connection Secret, and its server's certificate,
	// with which nothing was left to do.
	rested sync.Map
	// published is for each life's password in the connection Secret since when it is
	// known to be there.
	published sync.Map
	// attempts to log in that servers have refused.
	attempts attempts
	// login is the real one where it is nil.
	login func(ctx context.Context, s sql.Server, p sql.Password) (session, error)
}

// ForgetInstance forgets what is known of the lives of an instance that are gone.
func (r *Rotator) ForgetInstance(of v1.Instance, living []types.UID) {
	for _, known := range []*sync.Map{&r.rested, &r.published} {
		known.Range(func(key, _ any) bool {
			if life, is := key.(v1.Instance); is && life.Kind == of.Kind && life.Namespace == of.Namespace && life.Name == of.Name && !slices.Contains(living, life.XR) {
				known.Delete(key)
			}
			return true
		})
	}
}

// A session with the server.
type session interface {
	donor

	Lock(ctx context.Context) error
	Version(ctx context.Context) (string, version.Version, error)
	RootAccounts(ctx context.Context) ([]sql.Account, error)
	SetPassword(ctx context.Context, accounts []sql.Account, p sql.Password, retain bool) error
	DiscardOld(ctx context.Context, accounts []sql.Account) error
	EnsureDatabase(ctx context.Context, name string) error
	Certificate() *x509.Certificate
	ReloadTLS(ctx context.Context) error
	Close()
}

// An Input is what is wanted of an instance, and known of it.
type Input struct {
	// Instance whose server it is.
	Instance v1.Instance
	// Owner is the XR.
	Owner metav1.OwnerReference
	// Wanted password, as v1.Password returns it.
	Wanted sql.Password
	// NotAllowed says why the platform does not allow it; empty where it does. It is
	// brought into no server, and one that has it already keeps it.
	NotAllowed string
	// Database that clients are led to, and that is made where it is missing.
	Database string
	// Host and Port at which clients reach the server.
	Host string
	Port int32
	// Address at which this program reaches it; the instance's own host and port
	// where it is empty.
	Address string
	// Trust says which server may be told a password, and NoLogin why none may, for now; empty
	// where one may.
	Trust   sql.Trust
	NoLogin string
	// Certificate that the server is to show, and the Authorities of it, as PEM, which clients get.
	// Both are nil where it has none.
	Certificate *x509.Certificate
	Authorities []byte
	// PublishedIn is the Secret in which Crossplane publishes the connection to the
	// claim's clients, and Published the password there. Both are empty where it does
	// not, or has not yet.
	PublishedIn string
	Published   sql.Password
	// VerifyPassword asks the server also where nothing is to be done as far as is known:
	// after a start of the server, and now and then, in case that somebody changed
	// the password there.
	VerifyPassword bool
	// ServerStart is another text after each start of the server; empty where that is not known.
	ServerStart string
	// LeftAlone is how long the server was left alone because it cost too much. The
	// longer, the longer it may take to answer now: on a node that is busy it would
	// not be heard otherwise. One that never answers has a fifth of a worker by that,
	// and less with each longer pause; a pass has a minute in all.
	LeftAlone time.Duration
}

// A Result is how the password is.
type Result struct {
	// Credentials for the status; they hold no password.
	Credentials v1.CredentialsStatus
	// RequeueAfter this time without an event; zero for never.
	RequeueAfter time.Duration
	// Events for the claim.
	Events []event.Event
	// Done are the actions that were performed, for metrics.
	Done []Action
	// Version that the server gives to clients, or "" where it was not asked.
	Version string
	// ServedNotAfter is when the certificate ends that the server shows; nil where it was not asked,
	// or has none of ours. ServedMessage says why it is not the one that it is to show.
	ServedNotAfter *metav1.Time
	ServedMessage  string
	// Outside says which data the server stores outside of its data directory, and how it is moved; empty if there is none.
	// It counts if LookedOutside is true.
	Outside       string
	LookedOutside bool
	// Strained is true if the server cost more than one that is well does, and nothing came
	// of it: it should be asked less and less often.
	Strained bool
	// Well is true if the pass came to its end. One that Kubernetes ended, or the server with a
	// quick no, says neither that the server costs too much nor that it does not.
	Well bool
	// Slow is how long a pass took that came to its end and took too long, and zero for
	// every other.
	Slow time.Duration
}

// A pass is one run of Reconcile.
type pass struct {
	*Rotator

	in      Input
	kept    kept
	session session
	// accepted passwords, as far as the server was asked.
	accepted map[sql.Password]bool
	dual     bool
	// stale is what was kept of the Secrets before the lock was taken, once there is a step to take.
	stale bool
	// awaitsCertificate: the server does not show the one that it is to, and may soon.
	awaitsCertificate bool
	result            Result
}

// Reconcile does all steps that can be done now. The Result is right also beside
// an error, which the caller logs and retries with growing pauses.
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
	if p.result.Well && took >= slow {
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
	if !p.in.VerifyPassword && p.isQuiet() {
		return rotationStep{Do: NoOp}, nil
	}
	if p.in.NoLogin != "" {
		return rotationStep{}, &noLoginError{p.in.NoLogin}
	}
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
		p.lookOutside(ctx)
		if p.awaitsCertificate, err = p.refreshCertificate(ctx); step.Do == NoOp && err == nil && !p.awaitsCertificate {
			p.rested.Store(p.in.Instance, p.restMark())
		}
		return step, err
	}
	return rotationStep{}, errors.New("the password does not come to rest: somebody else changes it, too")
}

// lookOutside of the data directory, now and then. A server that does not say it is asked again with the next pass.
func (p *pass) lookOutside(ctx context.Context) {
	if !p.in.VerifyPassword || p.result.LookedOutside {
		return
	}
	found, err := p.session.OutsideData(ctx)
	p.result.LookedOutside, p.result.Outside = err == nil, sql.OutsideText(found)
}

// isQuiet is true if the Secrets are as they were when the server was last asked,
// and nothing was left to do. No Secret tells whether a server retains an old
// password: a new program asks each server once.
func (p *pass) isQuiet() bool {
	if p.kept.pending != nil || p.kept.connection == nil || passwordOf(p.kept.connection) != p.in.Wanted || !p.in.isDescribed(p.kept.connection) {
		return false
	}
	seen, ok := p.rested.Load(p.in.Instance)
	return ok && seen == p.restMark()
}

// enterServer with the first password that it accepts, and keep others out.
// There is no session where it accepts none.
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

// tryPassword returns no session if the server refuses the password, or has refused it before.
func (p *pass) tryPassword(ctx context.Context, candidate sql.Password) (session, error) {
	refused, err := p.attempts.mayTry(&p.in, candidate)
	if refused || err != nil {
		return nil, err
	}
	s, err := p.openSession(ctx, candidate)
	if err == nil || sql.IsAccessDenied(err) {
		p.attempts.note(&p.in, candidate, err == nil)
	}
	if sql.IsAccessDenied(err) {
		return nil, nil //nolint:nilnil // A refused password is an answer, and no error.
	}
	return s, err
}

// candidatePasswords in the order in which they are tried. The one that clients have comes first: it is the one that the
// server accepts, and each refused login counts towards the lock of the account.
func (p *pass) candidatePasswords() []sql.Password {
	out := []sql.Password{}
	for _, c := range []sql.Password{passwordOf(p.kept.connection), p.in.Wanted, passwordOf(p.kept.pending), passwordOf(p.kept.initial)} {
		if c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func (p *pass) openSession(ctx context.Context, candidate sql.Password) (session, error) {
	server := sql.Server{Address: p.in.Address, Dial: p.Dial, Hidden: p.candidatePasswords(), Trust: p.in.Trust, Times: timesAfter(p.in.LeftAlone)}
	if server.Address == "" {
		server.Address = net.JoinHostPort(p.in.Instance.Host(), strconv.Itoa(v1.Port))
	}
	start := time.Now()
	s, err := p.logIn(ctx, server, candidate)
	log.FromContext(ctx).V(1).Info("Tried to log in to the server", "address", server.Address, "isAccepted", err == nil, "took", time.Since(start), "error", err)
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
	return s, nil
}

// takeStep gathers, decides and acts. Where somebody else wrote since it was
// gathered, the next one gathers again. The Secrets, which were read before the lock was taken, are read again
// under it where they are acted on: mostly there is nothing to do.
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
	p.attempts.noteLimit(&p.in, accounts)
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
	log.FromContext(ctx).V(1).Info("Took a step of the password change", "action", next.Do, "took", time.Since(start), "error", err)
	if err != nil {
		if kerrors.IsConflict(err) || kerrors.IsAlreadyExists(err) {
			return next, nil
		}
		return next, err
	}
	p.noteStep(next)
	return next, nil
}

// changesAnything is true if the step has an effect, after which there is a next one.
func (s rotationStep) changesAnything() bool {
	return !slices.Contains([]Action{NoOp, Wait, Unreachable, Refused}, s.Do)
}

func (p *pass) currentTime() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// A publication is a password of a connection Secret, since this program has seen it there.
type publication struct {
	redact.All

	password sql.Password
	changed  string
	seen     time.Time
}

// sincePublished is for how long this program knows that the connection Secret has its
// password, and Crossplane's Secret the same. When it got that stands there, by the clock of whoever wrote it, which may
// have been an hour ahead, or behind: an old password would be discarded under its
// clients, or be kept for an hour. Who has just been started counts anew, and an old
// password works a little longer.
func (p *pass) sincePublished() time.Duration {
	if p.kept.connection == nil || p.in.isUnpublished(p.kept.connection) {
		p.published.Delete(p.in.Instance)
		return 0
	}
	now := publication{password: passwordOf(p.kept.connection), changed: p.kept.connection.Annotations[v1.AnnotationPasswordChangedAt], seen: p.currentTime()}
	last, _ := p.published.Load(p.in.Instance)
	if was, seen := last.(publication); seen && was.password == now.password && was.changed == now.changed {
		return max(0, now.seen.Sub(was.seen))
	}
	p.published.Store(p.in.Instance, now)
	return 0
}

// A notAllowedError is what the platform says of the wanted password.
type notAllowedError struct{ text string }

// Error says it.
func (e *notAllowedError) Error() string { return e.text }

// A noLoginError is why no server may be told a password.
type noLoginError struct{ text string }

// Error says it.
func (e *noLoginError) Error() string { return e.text }

var errNoPassword = errors.New("the wanted password is not known")
