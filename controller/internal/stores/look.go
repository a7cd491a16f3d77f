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

// probeFolder has the objects that stores are tried with, by the name of the BackupStore and by process. Two BackupStores of one prefix, or
// those of one name in two clusters, do not write over each other's.
const probeFolder = "v1/probe"

// process is another one in each process.
var process = strings.ToLower(rand.Text())

// errIdentity is of an identity that does not open what is written.
var errIdentity = errors.New("the identity does not open what is encrypted to the recipients: a backup could be written, and never be read")

func (s *Store) probeKey() string { return path.Join(probeFolder, s.Name, process, "object") }

// Look at a store: write, read, decrypt and delete.
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
	if len(s.to) > 0 && len(s.with) > 0 && s.decrypt(raw) != word {
		return found, errIdentity
	}
	return found, nil
}

// encrypt a word as archives are.
func (s *Store) encrypt(word string) ([]byte, error) {
	if len(s.to) == 0 {
		return []byte(word), nil
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, s.to...)
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt to the recipients: %w", err)
	}
	if _, err := io.WriteString(w, word); err != nil {
		return nil, err
	}
	err = w.Close() // What is left is written by it.
	return b.Bytes(), err
}

// decrypt a word; empty where that cannot be done.
func (s *Store) decrypt(raw []byte) string {
	r, err := age.Decrypt(bytes.NewReader(raw), s.with...)
	if err != nil {
		return ""
	}
	word, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	return string(word)
}

// NextStatus of a BackupStore after a look at it; open is nil where it could not be opened.
func NextStatus(s *v1.BackupStore, open *Store, found store.Finding, err error, now time.Time) (v1.BackupStoreStatus, error) {
	next := *s.Status.DeepCopy()
	c := metav1.Condition{Type: v1.ConditionReachable, Status: metav1.ConditionTrue, Reason: v1.ReasonProbed, Message: messageOf(found), ObservedGeneration: s.Generation}
	switch {
	case open == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1.ReasonSettings, v1.PrintableText(err.Error(), v1.MaxForeignText)
	case err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonOf(err), whyFailed(err)
	default:
		next.ProbedAt = &metav1.Time{Time: now}
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

// reasonOf a failed look.
func reasonOf(err error) string {
	if errors.As(err, new(*HeldError)) {
		return v1.ReasonPrefixHeld
	}
	return string(store.KindOf(err))
}

// whyFailed says why a look failed. A HeldError is in our own words, and ends with a command.
func whyFailed(err error) string {
	if held := new(HeldError); errors.As(err, &held) {
		return v1.PrintableText(held.why, maxHeld)
	}
	return v1.PrintableText(err.Error(), v1.MaxForeignText)
}

// maxHeld in bytes of why a prefix is held.
const maxHeld = 2048

func messageOf(f store.Finding) string {
	said := []string{"an object was written, read and deleted"}
	if !f.Deletes {
		said[0] = "an object was written and read; it may not be deleted, so that no backup of it ever is"
	}
	if !f.WritesOnce {
		said = append(said, "the store writes over what is there: only the controller's lease keeps two of them apart, and two clusters of one prefix see each other late")
	}
	return strings.Join(said, "; ")
}

func howToAnswer(name string) string {
	return fmt.Sprintf("the cluster has no identity: show that somebody has it. Run: kubectl annotate backupstore %[1]s --overwrite "+
		"%[2]s=\"$(kubectl get backupstore %[1]s --output jsonpath='{.status.challenge.text}' | age --decrypt --identity FILE)\"", name, v1.AnnotationAnswer)
}

// nextChallenge is nil where nothing is encrypted, or the cluster itself has the identity. An answer counts for these
// recipients.
func (s *Store) nextChallenge(of *v1.BackupStore) (*v1.StoreChallenge, error) {
	if len(s.to) == 0 || len(s.with) > 0 {
		return nil, nil //nolint:nilnil // No question, and no error.
	}
	if q := of.Status.Challenge; q != nil && q.Recipients == sumOf(strings.Join(s.Recipients, "\n")) {
		next := *q
		next.Answered = q.Answered || sumOf(strings.TrimSpace(of.Annotations[v1.AnnotationAnswer])) == q.Answer
		return &next, nil
	}
	return s.newChallenge()
}

// newChallenge with a word that only they can read.
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
	return &v1.StoreChallenge{Recipients: sumOf(strings.Join(s.Recipients, "\n")), Text: b.String(), Answer: sumOf(word)}, nil
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
