package gateway

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// A File contains the gateway's settings, which the controller writes as JSON.
type File struct {
	redact.Logs

	// Signers are the public keys for grants. There is more than one during a rotation.
	Signers []ed25519.PublicKey `json:"signers"`
	// Stores contains the stores by the names of their BackupStores.
	Stores map[string]StoreFile `json:"stores"`
}

// A StoreFile contains the settings of one store.
type StoreFile struct {
	store.Settings

	// Identity is the age identity that decrypts backups. It is empty if the cluster has no identity for the store.
	Identity string `json:"identity,omitempty"`
}

// Stores are the stores of a gateway. If the settings file changes, it is read again.
type Stores struct {
	redact.All

	path string
	now  func() time.Time

	mu      sync.Mutex
	raw     string
	current opened
}

type opened struct {
	redact.All

	signers []ed25519.PublicKey
	stores  map[string]openStore
}

type openStore struct {
	redact.All
	*store.Bucket

	identities []age.Identity
}

// ReadStores opens the stores in the gateway's settings file.
func ReadStores(path string) (*Stores, error) {
	s := &Stores{path: path, now: time.Now}
	_, err := s.read()
	return s, err
}

// read reads the settings file, and opens the stores again if the file has changed.
func (s *Stores) read() (opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return opened{}, err
	}
	if string(raw) == s.raw {
		return s.current, nil
	}
	var f File
	if err := json.Unmarshal(raw, &f); err != nil {
		return opened{}, fmt.Errorf("cannot read %s: %w", s.path, err)
	}
	next := opened{signers: f.Signers, stores: map[string]openStore{}}
	for name, sf := range f.Stores {
		o, err := sf.open()
		if err != nil {
			return opened{}, fmt.Errorf("BackupStore %s: %w", name, err)
		}
		next.stores[name] = o
	}
	s.raw, s.current = string(raw), next
	return next, nil
}

func (f StoreFile) open() (openStore, error) {
	b, err := store.Open(f.Settings)
	if err != nil || f.Identity == "" {
		return openStore{Bucket: b}, err
	}
	ids, err := age.ParseIdentities(strings.NewReader(f.Identity))
	if err != nil {
		return openStore{}, fmt.Errorf("the identity cannot be used: %w", err)
	}
	return openStore{Bucket: b, identities: ids}, nil
}
