package stores

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// probePrefix is the prefix of the objects for probes. It is followed by the name of the BackupStore and the ID of
// the process. Two BackupStores with the same prefix therefore do not overwrite each other's objects. The same holds
// for two clusters with the same BackupStore name.
const probePrefix = "v1/probe"

// process is a random ID of this process.
var process = strings.ToLower(rand.Text())

// errIdentity means that the identity cannot decrypt data that is encrypted for the recipients.
var errIdentity = errors.New("the identity cannot decrypt objects that are encrypted for the recipients, so " +
	"backups could be written but not restored")

func (s *Store) probeKey() string { return path.Join(probePrefix, s.Name, process, "object") }

// Look probes a store. It writes, reads, decrypts and deletes an object.
func (s *Store) Look(ctx context.Context) (store.Finding, error) {
	word := rand.Text()
	raw, err := s.encrypt(word)
	if err != nil {
		return store.Finding{}, err
	}
	found, err := s.Probe(ctx, s.probeKey(), raw)
	if err != nil {
		return found, err
	}
	if len(s.recipients) > 0 && len(s.identities) > 0 && s.decrypt(raw) != word {
		return found, errIdentity
	}
	return found, nil
}

// encrypt encrypts a word in the same way as an archive.
func (s *Store) encrypt(word string) ([]byte, error) {
	if len(s.recipients) == 0 {
		return []byte(word), nil
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, s.recipients...)
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt for the recipients: %w", err)
	}
	if _, err := io.WriteString(w, word); err != nil {
		return nil, err
	}
	err = w.Close() // Close writes the remaining data.
	return b.Bytes(), err
}

// decrypt decrypts a word. It returns "" if this fails.
func (s *Store) decrypt(raw []byte) string {
	r, err := age.Decrypt(bytes.NewReader(raw), s.identities...)
	if err != nil {
		return ""
	}
	word, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	return string(word)
}

// NextStatus returns the status of a BackupStore after a probe. open is nil if the store could not be opened.
func NextStatus(s *v1.BackupStore, open *Store, found store.Finding, err error, now time.Time) (v1.BackupStoreStatus,
	error) {
	next := *s.Status.DeepCopy()
	c := metav1.Condition{Type: v1.ConditionReachable, Status: metav1.ConditionTrue, Reason: v1.ReasonProbed,
		Message: messageOf(found), ObservedGeneration: s.Generation}
	switch {
	case open == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1.ReasonSettings, v1.PrintableText(err.Error(),
			v1.MaxForeignText)
	case err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonOf(err), whyFailed(err)
	default:
		next.ProbeTime = &metav1.Time{Time: now}
		if next.Challenge, err = open.nextChallenge(s); err != nil {
			return next, err
		}
		if q := next.Challenge; q != nil && !q.Answered {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1.ReasonChallenge, howToAnswer(s.Name)
		}
	}
	meta.SetStatusCondition(&next.Conditions, c)
	return next, nil
}

// reasonOf returns the reason of a failed probe.
func reasonOf(err error) string {
	if errors.As(err, new(*HeldError)) {
		return v1.ReasonPrefixInUse
	}
	return string(store.KindOf(err))
}

// whyFailed returns the message of a failed probe. A HeldError is longer than other messages, because it is written
// for users and ends with a command.
func whyFailed(err error) string {
	if held := new(HeldError); errors.As(err, &held) {
		return v1.PrintableText(held.reason, maxHeld)
	}
	return v1.PrintableText(err.Error(), v1.MaxForeignText)
}

// maxHeld is the maximum length in bytes of a HeldError in the status.
const maxHeld = 2048

func messageOf(f store.Finding) string {
	parts := []string{"an object was written, read and deleted"}
	if !f.Deletes {
		parts[0] = "an object was written and read, but the credentials may not delete it, so backups are never " +
			"deleted"
	}
	if !f.WritesOnce {
		parts = append(parts, "the store has no conditional writes, so only the lease prevents concurrent writers. Two "+
			"clusters with the same prefix are detected late")
	}
	return strings.Join(parts, "; ")
}

func howToAnswer(name string) string {
	return fmt.Sprintf("the cluster does not have the identity: prove that you have it. Run: kubectl annotate "+
		"backupstore %[1]s --overwrite %[2]s=\"$(kubectl get backupstore %[1]s --output "+
		"jsonpath='{.status.challenge.text}' | age --decrypt --identity FILE)\"", name, v1.AnnotationAnswer)
}

// nextChallenge returns the challenge with which a user proves possession of the identity. It returns nil if archives
// are not encrypted, or if the cluster has the identity itself. A response is valid only for the same recipients.
func (s *Store) nextChallenge(backupStore *v1.BackupStore) (*v1.StoreChallenge, error) {
	if len(s.recipients) == 0 || len(s.identities) > 0 {
		return nil, nil //nolint:nilnil // A missing challenge is no error.
	}
	if q := backupStore.Status.Challenge; q != nil && q.Recipients == sumOf(strings.Join(s.Recipients, "\n")) {
		next := *q
		next.Answered = q.Answered || sumOf(strings.TrimSpace(backupStore.Annotations[v1.AnnotationAnswer])) == q.Answer
		return &next, nil
	}
	return s.newChallenge()
}

// newChallenge returns a challenge that only the recipients can decrypt.
func (s *Store) newChallenge() (*v1.StoreChallenge, error) {
	word := rand.Text()
	raw, err := s.encrypt(word)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := armor.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &v1.StoreChallenge{Recipients: sumOf(strings.Join(s.Recipients, "\n")), Text: b.String(),
		Answer: sumOf(word)}, nil
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
