package rotate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// attempts remembers which passwords each server refused. A server can lock root after a number of failed logins
// (FAILED_LOGIN_ATTEMPTS), for every client, so a password that was refused is not tried again: not before the server
// restarts, which resets its count, or this program sets that very password.
//
// It keeps no password: a digest is keyed with a key of this process, and never leaves it.
type attempts struct {
	redact.All

	mu      sync.Mutex
	key     []byte
	servers map[types.UID]*serverAttempts
}

// serverAttempts of one server, since its last start.
type serverAttempts struct {
	start string
	// refused passwords, and accepted ones: those that are set.
	refused, accepted map[digest]bool
	// earlier are those that were refused before the last start. They are tried last.
	earlier map[digest]bool
	// failed logins since the last one that succeeded, and limit at which the server locks root: 0 where it does not, or
	// where that is not known.
	failed, limit int
}

type digest [sha256.Size]byte

// attemptsLeftError says that one more refused password would lock root.
type attemptsLeftError struct{ limit, left int }

// Error says what to do.
func (e *attemptsLeftError) Error() string {
	return fmt.Sprintf("root is locked in the server after %d failed logins in a row (FAILED_LOGIN_ATTEMPTS), and %d are left: another password is not tried, because that would lock out every client. "+
		"Set the password of this instance to the one that the server accepts, and restart the server, which resets the count", e.limit, e.left)
}

// decideAttempt reports whether the server has refused the password already. An error says that it must not be tried.
func (s *serverAttempts) decideAttempt(d digest) (refused bool, err error) {
	switch {
	case s.refused[d]:
		return true, nil
	case s.limit == 0, s.accepted[d], s.failed < s.limit-1, s.failed == 0 && len(s.accepted) == 0: // The last: one try after each start.
		return false, nil
	}
	return false, &attemptsLeftError{limit: s.limit, left: max(s.limit-s.failed, 0)}
}

// of one server. A start that is not known is the last one. The caller has the lock.
func (a *attempts) of(xr types.UID, start string) *serverAttempts {
	if a.servers == nil {
		a.servers = map[types.UID]*serverAttempts{}
	}
	s := a.servers[xr]
	if s == nil || start != "" && s.start != "" && s.start != start {
		next := &serverAttempts{refused: map[digest]bool{}, accepted: map[digest]bool{}}
		if s != nil {
			next.limit, next.earlier = s.limit, s.refused
		}
		s = next
		a.servers[xr] = s
	}
	if start != "" {
		s.start = start
	}
	return s
}

// digestOf a password. The caller has the lock.
func (a *attempts) digestOf(p sql.Password) digest {
	if a.key == nil {
		a.key = make([]byte, sha256.Size)
		_, _ = rand.Read(a.key) // It never fails.
	}
	mac := hmac.New(sha256.New, a.key)
	_, _ = mac.Write([]byte(p)) // It never fails.
	return digest(mac.Sum(nil))
}

// mayTry reports whether the server refused the password before. An error says that it must not be tried.
func (a *attempts) mayTry(in *Input, p sql.Password) (refused bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(in.Instance.XR, in.ServerStart).decideAttempt(a.digestOf(p))
}

// inOrder of how likely the server accepts them: those first that it did not refuse before its last start.
func (a *attempts) inOrder(in *Input, all []sql.Password) []sql.Password {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(in.Instance.XR, in.ServerStart)
	first, last := []sql.Password{}, []sql.Password{}
	for _, p := range all {
		if s.earlier[a.digestOf(p)] {
			last = append(last, p)
			continue
		}
		first = append(first, p)
	}
	return append(first, last...)
}

// note what the server said to a password.
func (a *attempts) note(in *Input, p sql.Password, accepted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, d := a.of(in.Instance.XR, in.ServerStart), a.digestOf(p)
	if accepted {
		s.failed, s.accepted[d] = 0, true
		delete(s.refused, d)
		return
	}
	s.failed++
	s.refused[d] = true
	delete(s.accepted, d)
}

// noteLimit of the accounts that take a password: the lowest one.
func (a *attempts) noteLimit(in *Input, accounts []sql.Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(in.Instance.XR, in.ServerStart).limit = lowestLimit(accounts)
}

// lowestLimit of failed logins; 0 where there is none.
func lowestLimit(accounts []sql.Account) int {
	out := 0
	for _, account := range accounts {
		if n := account.FailedLogins; account.TakesPassword() && n > 0 && (out == 0 || n < out) {
			out = n
		}
	}
	return out
}

// noteSet before a password is set: it is not refused any more. The answer may be lost, so the login that finds out is worth a
// failed one. Alone is true if no other password works beside it.
func (a *attempts) noteSet(in *Input, p sql.Password, alone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, d := a.of(in.Instance.XR, in.ServerStart), a.digestOf(p)
	if alone {
		clear(s.accepted)
	}
	delete(s.refused, d)
	s.accepted[d] = true
}
