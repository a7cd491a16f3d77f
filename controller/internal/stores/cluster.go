package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// askTimeout is the timeout for reading the catalogs of all stores. During this time, the instance waits, and its
	// worker is not available to other instances.
	askTimeout = 30 * time.Second
	// newTimeout is the timeout for a store that has never been reachable.
	newTimeout = 5 * time.Second
)

// A Cluster provides the stores of all BackupStores. It reads the BackupStores from the API server at each call.
type Cluster struct {
	Reader client.Reader
	// Namespace is the controller's own namespace, which contains the Secrets.
	Namespace string
	Clock     func() time.Time
	// Lanes limits the concurrent calls to each store. It is nil if there are no concurrent callers.
	Lanes *Lanes
	// Holders contains the store prefixes that belong to this cluster (see Holder). Publishing and deleting backups
	// below any other prefix is refused. It is nil if the check is disabled.
	Holders *Holders
}

var (
	_ instance.Stores = Cluster{}
	_ change.Stores   = Cluster{}
)

// SecretsOf returns the existing Secrets of a BackupStore. Missing Secrets are nil.
func (c Cluster) SecretsOf(ctx context.Context, s *v1.BackupStore) (out Secrets, err error) {
	if ref := s.Spec.CredentialsSecretRef; ref != nil {
		if out.Credentials, err = c.Secret(ctx, ref.Name); err != nil {
			return out, err
		}
	}
	out.Key, err = c.Secret(ctx, s.Spec.KeySecretRef.Name)
	return out, err
}

// Secret returns a Secret of the controller's namespace, or nil if it does not exist.
func (c Cluster) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, s)
	if kerrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing Secret is no error.
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// GatewayState returns the existing objects of the gateway.
func (c Cluster) GatewayState(ctx context.Context) (*GatewayState, error) {
	s := &GatewayState{Namespace: c.Namespace, Now: c.Clock()}
	var err error
	if s.Signer, err = c.Secret(ctx, SignerSecret); err != nil {
		return nil, err
	}
	if s.Gateway, err = c.Secret(ctx, GatewaySecret); err != nil {
		return nil, err
	}
	service := &corev1.Service{}
	err = c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: GatewayName}, service)
	if err == nil {
		s.Address = net.ParseIP(service.Spec.ClusterIP)
	}
	return s, client.IgnoreNotFound(err)
}

// ReadEntry returns the catalog entry of a backup in a store, or nil if there is none.
func (c Cluster) ReadEntry(ctx context.Context, name string, origin v1.BackedUpInstance, record string) (*v1.StoreEntry,
	error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var n *v1.StoreEntry
	err := c.ask(ctx, name, func(s *Store) (err error) {
		n, err = s.ReadEntry(ctx, origin, record)
		return err
	})
	switch {
	case store.Is(err, store.NotFound):
		return nil, nil //nolint:nilnil // A missing entry is no error.
	case errors.As(err, new(*unopenedError)):
		return nil, err
	case err != nil && !errors.As(err, new(*store.Error)):
		return nil, &instance.UnreadableEntryError{Err: inStore(name, err)}
	}
	return n, inStore(name, err)
}

// FindEntries returns the catalog entries in all stores for backups of a namespace. It omits known backups.
func (c Cluster) FindEntries(ctx context.Context, namespace types.UID,
	isKnown func(record string) bool) ([]instance.FoundEntry, error) {
	all := &v1.BackupStoreList{}
	if err := c.Reader.List(ctx, all); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil // The kind is not installed.
		}
		return nil, fmt.Errorf("cannot list BackupStores: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, errs := make([][]instance.FoundEntry, len(all.Items)), make([]error, len(all.Items))
	var asked sync.WaitGroup
	for i := range all.Items {
		find := c.findEntriesIn
		if s := &all.Items[i]; s.Status.ProbeTime == nil && !s.Unreadable.Has("status.probeTime") {
			find = c.findEntriesInNew
		}
		asked.Go(func() { found[i], errs[i] = find(ctx, &all.Items[i], namespace, isKnown) })
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(found...), nil
}

// Publish publishes a catalog entry if the store contains its archive. It checks this because a Job may have written
// the archive to a different store by mistake.
func (c Cluster) Publish(ctx context.Context, name string, n *v1.StoreEntry) error {
	return c.askHeld(ctx, name, func(s *Store) error { return s.publishArchived(ctx, n) })
}

// publishArchived publishes a catalog entry if its archive exists.
func (s *Store) publishArchived(ctx context.Context, n *v1.StoreEntry) error {
	a := n.Spec.Archive
	o, err := s.Stat(ctx, a.Path)
	if store.Is(err, store.NotFound) {
		return change.NewMissingError(fmt.Errorf("BackupStore %s does not contain %q, which the Job has uploaded", s.Name, a.Path))
	}
	if err != nil {
		return inStore(s.Name, err)
	}
	if size, err := v1.ParseQuantity(a.Size); err != nil || o.Size < size.Value() {
		return change.NewMissingError(fmt.Errorf("BackupStore %s has %d bytes in %q, but the Job reported %s", s.Name,
			o.Size, a.Path, a.Size))
	}
	err = s.Publish(ctx, n)
	if other := new(otherEntryError); errors.As(err, &other) {
		return kerrors.NewConflict(v1.GroupVersion.WithResource("backupstores").GroupResource(), s.Name, err)
	}
	return inStore(s.Name, err)
}

// RemoveLeftovers deletes the files of failed attempts at a backup that is now published. It returns no error if the
// store does not permit a deletion, or if there are too many files for one call. The remaining files are deleted
// together with the backup.
func (c Cluster) RemoveLeftovers(ctx context.Context, name string, n *v1.StoreEntry) error {
	return c.askHeld(ctx, name, func(s *Store) error {
		if err := s.RemoveLeftovers(ctx, n); !store.Is(err, store.Denied) && !errors.Is(err, errMore) {
			return inStore(name, err)
		}
		return nil
	})
}

// Remove deletes a backup and its catalog entry.
func (c Cluster) Remove(ctx context.Context, name string, i v1.BackedUpInstance, record, sum string) error {
	return c.askHeld(ctx, name, func(s *Store) error { return inStore(name, s.Remove(ctx, i, record, sum)) })
}

// RemoveAttempts deletes the files of attempts at a backup that has no catalog entry.
func (c Cluster) RemoveAttempts(ctx context.Context, name string, i v1.BackedUpInstance, record string) error {
	return c.askHeld(ctx, name, func(s *Store) error { return inStore(name, s.RemoveAttempts(ctx, i, record)) })
}

// Access returns the content of a Job's Secret with the access to a store.
func (c Cluster) Access(ctx context.Context, remote *change.Remote) (map[string][]byte, error) {
	var s *Store
	ask := c.ask
	if remote.Prefix != "" { // The files that a Job uploads there will later be published.
		ask = c.askHeld
	}
	if err := ask(ctx, remote.Store, func(opened *Store) error {
		s = opened
		return nil
	}); err != nil {
		return nil, err
	}
	g, err := c.GatewayState(ctx)
	switch {
	case err != nil:
		return nil, err
	case g.Signer == nil || g.Address == nil:
		return nil, errors.New("the gateway to the stores is not installed: apply controller/deploy/gateway")
	}
	signer, ca, err := readSigner(g.Signer)
	if err != nil {
		return nil, err
	}
	instanceID := agent.ReadAccessLifetime
	if remote.Prefix != "" {
		instanceID = agent.BackupAccessLifetime
	}
	token, err := signer.Sign(gateway.Grant{Store: remote.Store, Prefix: remote.Prefix, Object: remote.Archive, Log: remote.Log},
		c.Clock().Add(instanceID))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{
		gateway.URLFile: []byte("https://" + net.JoinHostPort(g.Address.String(), strconv.Itoa(agent.GatewayPort))),
		gateway.CAFile:  ca.Certificate, gateway.TokenFile: []byte(token),
	}
	if remote.Prefix != "" {
		out[archive.RecipientsFile] = []byte(strings.Join(s.Recipients, "\n"))
	}
	if len(remote.Manifest) > 0 {
		out[archive.ManifestFile] = remote.Manifest
	}
	return out, nil
}

// Open opens a BackupStore in which this cluster may write. The store is not limited by Lanes.
func (c Cluster) Open(ctx context.Context, name string) (out *Store, err error) {
	err = c.askHeld(ctx, name, func(s *Store) error {
		out = s
		return nil
	})
	return out, err
}

func (c Cluster) findEntriesIn(ctx context.Context, backupStore *v1.BackupStore, namespace types.UID,
	isKnown func(record string) bool) ([]instance.FoundEntry, error) {
	name := backupStore.Name
	s, err := c.open(ctx, backupStore)
	if err != nil {
		return nil, err
	}
	var backups []Found
	var entries []readEntry
	err = c.Lanes.do(ctx, backupStore, func() (err error) {
		if backups, err = s.BackupsIn(ctx, namespace, isKnown); err == nil {
			entries, err = s.readEntries(ctx, backups)
		}
		return err
	})
	if err != nil {
		return nil, inStore(name, err)
	}
	var out []instance.FoundEntry
	for i, b := range backups {
		f := instance.FoundEntry{Store: name, Record: b.Record, XR: b.XR}
		n, err := entries[i].entry, entries[i].err
		if store.Is(err, store.NotFound) {
			continue // The object has just been removed.
		}
		if err == nil {
			f.StoreEntry = n
		}
		word := backupStore.Annotations[v1.AnnotationForgetPrefix+b.Record]
		f.Forgotten = word != "" && (f.StoreEntry == nil && word == b.Record || f.StoreEntry != nil && word == string(n.Record))
		out = append(out, f)
	}
	return out, nil
}

// findEntriesInNew calls findEntriesIn for a BackupStore that has never been reachable. The BackupStore may have been
// created again, and its bucket may contain backups of this namespace. If it does not respond, instances wait for it
// only if claims may use it. Otherwise the platform team is probably still setting it up.
func (c Cluster) findEntriesInNew(ctx context.Context, backupStore *v1.BackupStore, namespace types.UID,
	isKnown func(record string) bool) ([]instance.FoundEntry, error) {
	asking, cancel := context.WithTimeout(ctx, newTimeout)
	defer cancel()
	found, err := c.findEntriesIn(asking, backupStore, namespace, isKnown)
	if err == nil {
		return found, nil
	}
	if p, perr := instance.ReadPlatform(ctx, c.Reader); perr == nil && p != nil && !p.OffersBackupStore(backupStore.Name) {
		return nil, nil
	}
	return nil, err
}

// ask opens a BackupStore and calls a function with it. It limits the number of concurrent calls to one store (see
// Lanes).
func (c Cluster) ask(ctx context.Context, name string, use func(*Store) error) error {
	backupStore := &v1.BackupStore{}
	switch err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, backupStore); {
	case kerrors.IsNotFound(err): // It must not be mistaken for a NotFound error of the store.
		return &unopenedError{fmt.Errorf(
			"there is no BackupStore %s: create it. If it existed before, use the same bucket and Secrets", name)}
	case err != nil:
		return &unopenedError{fmt.Errorf("cannot get BackupStore %s: %w", name, err)}
	}
	s, err := c.open(ctx, backupStore)
	if err != nil {
		return &unopenedError{err}
	}
	return c.Lanes.do(ctx, backupStore, func() error { return use(s) })
}

// An unopenedError is an error that occurred before the store was called.
type unopenedError struct{ error }

// Unwrap returns the wrapped error.
func (e *unopenedError) Unwrap() error { return e.error }

// askHeld calls ask for a function that publishes or deletes. It returns an error unless this cluster holds the
// store's prefix, because only one cluster at a time may publish and delete.
func (c Cluster) askHeld(ctx context.Context, name string, use func(*Store) error) error {
	return c.ask(ctx, name, func(s *Store) error {
		if err := c.Holders.Check(ctx, s); err != nil {
			return inStore(name, err)
		}
		return use(s)
	})
}

// open reads the Secrets of a BackupStore and opens it.
func (c Cluster) open(ctx context.Context, backupStore *v1.BackupStore) (*Store, error) {
	secrets, err := c.SecretsOf(ctx, backupStore)
	if err != nil {
		return nil, inStore(backupStore.Name, err)
	}
	s, err := Open(backupStore, secrets)
	return s, inStore(backupStore.Name, err)
}

// inStore adds the name of the BackupStore to an error.
func inStore(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("BackupStore %s: %w", name, err)
}
