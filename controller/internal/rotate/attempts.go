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

// attempts records which passwords each server has refused. A server can lock root for every client after a number of
// failed logins (FAILED_LOGIN_ATTEMPTS). The controller therefore does not try a refused password again until the
// server restarts, which resets its count, or until the controller itself sets that password.
//
// It stores no passwords, only digests. Their key never leaves this process.
type attempts struct {
	redact.All

	mu      sync.Mutex
	key     []byte
	servers map[types.UID]*serverAttempts
}

// serverAttempts contains the passwords that one server has refused or accepted since its last start.
type serverAttempts struct {
	start string
	// refused contains the refused passwords. accepted contains the passwords that the server accepted, or that were
	// set.
	refused, accepted map[digest]bool
	// earlier contains the passwords that were refused before the last start. They are tried last.
	earlier map[digest]bool
	// failed is the number of failed logins since the last success. limit is the number at which the server locks
	// root, or 0 if it does not lock or the number is unknown.
	failed, limit int
}

type digest [sha256.Size]byte

// attemptsLeftError reports that one more wrong password would lock root.
type attemptsLeftError struct{ limit, left int }

// Error returns the message with the next step.
func (e *attemptsLeftError) Error() string {
	return fmt.Sprintf("root is locked in the server after %d failed logins in a row (FAILED_LOGIN_ATTEMPTS), and "+
		"%d are left. The controller tries no other password, because that could lock out every client. Set the "+
		"password of this instance to the one that the server accepts. Then restart the server, which resets the "+
		"count", e.limit, e.left)
}

// decideAttempt reports whether the server has already refused the password. It returns an error if the password must
// not be tried.
func (s *serverAttempts) decideAttempt(d digest) (refused bool, err error) {
	switch {
	case s.refused[d]:
		return true, nil
	// The last condition allows one attempt after each start of the server.
	case s.limit == 0, s.accepted[d], s.failed < s.limit-1, s.failed == 0 && len(s.accepted) == 0:
		return false, nil
	}
	return false, &attemptsLeftError{limit: s.limit, left: max(s.limit-s.failed, 0)}
}

// of returns the attempts of one server. It discards them if the server has started again. If the start is unknown,
// the last known start is assumed. The caller holds the lock.
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

// digestOf returns the digest of a password. The caller holds the lock.
func (a *attempts) digestOf(p sql.Password) digest {
	if a.key == nil {
		a.key = make([]byte, sha256.Size)
		_, _ = rand.Read(a.key) // It never fails.
	}
	mac := hmac.New(sha256.New, a.key)
	_, _ = mac.Write([]byte(p)) // It never fails.
	return digest(mac.Sum(nil))
}

// mayTry reports whether the server has already refused the password. It returns an error if the password must not be
// tried.
func (a *attempts) mayTry(in *Input, p sql.Password) (refused bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(in.Instance.XR, in.ServerStart).decideAttempt(a.digestOf(p))
}

// inOrder sorts passwords by how likely the server accepts them. It moves passwords that were refused before the
// server's last start to the end.
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

// record stores whether the server accepted a password.
func (a *attempts) record(in *Input, p sql.Password, accepted bool) {
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

// recordLimit stores the lowest limit of the accounts that log in with a password.
func (a *attempts) recordLimit(in *Input, accounts []sql.Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(in.Instance.XR, in.ServerStart).limit = lowestLimit(accounts)
}

// lowestLimit returns the lowest limit of failed logins, or 0 if there is none.
func lowestLimit(accounts []sql.Account) int {
	out := 0
	for _, account := range accounts {
		if n := account.FailedLogins; account.TakesPassword() && n > 0 && (out == 0 || n < out) {
			out = n
		}
	}
	return out
}

// recordSet records that the server accepts a password. The controller calls it before it sets the password, so that a
// password that was refused before can be tried again. If the response of the server is lost, the next login shows
// whether the password was set, and at most one login fails. alone is true if the server will accept no other
// password.
func (a *attempts) recordSet(in *Input, p sql.Password, alone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, d := a.of(in.Instance.XR, in.ServerStart), a.digestOf(p)
	if alone {
		clear(s.accepted)
	}
	delete(s.refused, d)
	s.accepted[d] = true
}
