package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// maxBackups is the maximum number of backups that are read per store, and maxOfNamespace per namespace. A user
	// with write access to the bucket may have written any number of other objects. Files of Jobs are removed in
	// batches of atATime, and at most maxTimes batches in a row, so that other work is not delayed.
	maxBackups     = 100_000
	maxOfNamespace = 20_000
	// maxUID and maxRecord are the maximum lengths in bytes of parts of a key. Longer keys were not written by the
	// controller. They are skipped and not kept in memory.
	maxUID    = 64
	maxRecord = 128
	atATime   = 1000
	maxTimes  = 5
)

// errMore means that more files are left than one call removes.
var errMore = errors.New("the deletion is not finished")

func manifestOf(dir string) string { return path.Join(dir, gateway.ManifestName) }

// An otherEntryError reports that a backup has a different catalog entry than expected.
type otherEntryError struct{ There *v1.StoreEntry }

func (e *otherEntryError) Error() string {
	return fmt.Sprintf("the store already has a catalog entry for backup %q with another archive: %s", e.There.Name,
		e.There.Spec.Archive.Path)
}

// Publish writes the catalog entry of a backup if there is none, even if another process publishes at the same time.
// It returns an error if there is a different entry.
func (s *Store) Publish(ctx context.Context, n *v1.StoreEntry) error {
	key := manifestOf(v1.StorePrefix(n.Spec.Instance, n.Name))
	raw, err := s.Sign.Sign(key, n)
	if err != nil {
		return err
	}
	if len(raw) > store.MaxSigned {
		return fmt.Errorf("the catalog entry is %d bytes long, but the maximum is %d bytes", len(raw), store.MaxSigned)
	}
	err = s.PutOnce(ctx, key, raw)
	if store.Is(err, store.Unsupported) {
		// The store cannot write an object on the condition that it does not exist. Only the controller's leader
		// election then prevents concurrent writes.
		if _, err = s.Stat(ctx, key); store.Is(err, store.NotFound) {
			err = s.Put(ctx, key, raw)
		}
	}
	if err != nil && !store.Is(err, store.Exists) {
		return err
	}
	// The entry is read back even if the store has reported success, because some stores report success although they
	// have overwritten an existing object.
	existing, err := s.ReadEntry(ctx, n.Spec.Instance, n.Name)
	if err != nil {
		return err
	}
	if !equalEntries(existing, n) {
		return &otherEntryError{existing}
	}
	return nil
}

func equalEntries(n, other *v1.StoreEntry) bool {
	a, aerr := json.Marshal(n)
	b, berr := json.Marshal(other)
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

// ReadEntry returns the catalog entry of a backup, or a store.NotFound error if there is none.
func (s *Store) ReadEntry(ctx context.Context, i v1.BackedUpInstance, record string) (*v1.StoreEntry, error) {
	return s.readEntry(ctx, v1.StorePrefix(i, record))
}

func (s *Store) readEntry(ctx context.Context, dir string) (*v1.StoreEntry, error) {
	raw, err := s.ReadSmall(ctx, manifestOf(dir), store.MaxSigned)
	if err != nil {
		return nil, err
	}
	return s.parseEntry(dir, raw)
}

// parseEntry decodes and verifies the catalog entry in a prefix. An error about an invalid entry is not a store.Error.
func (s *Store) parseEntry(dir string, raw []byte) (*v1.StoreEntry, error) {
	n := &v1.StoreEntry{}
	if err := s.Sign.Open(manifestOf(dir), raw, n); err != nil {
		return nil, err
	}
	if err := checkEntry(n, dir); err != nil {
		return nil, err
	}
	n.Spec.Archive.Store = s.Name // The BackupStore may have had a different name in the cluster that wrote the entry.
	return n, nil
}

// EntryIn returns the catalog entry in a prefix, which has the format of StorePrefix. It returns a store.NotFound
// error if there is no entry.
func (s *Store) EntryIn(ctx context.Context, dir string) (*v1.StoreEntry, error) {
	if parts := strings.Split(dir, "/"); len(parts) != 4 || parts[0] != v1.StoreLayout || path.Clean(dir) != dir {
		return nil, fmt.Errorf("%q is not the prefix of a backup, which is %s/NAMESPACE-UID/COMPOSITE-UID/RECORD", dir,
			v1.StoreLayout)
	}
	return s.readEntry(ctx, dir)
}

// checkEntry returns an error if a catalog entry does not belong to its prefix, or refers to an archive in a different
// prefix. The signature covers the prefix, so this is caused by a bug and not by an attack.
func checkEntry(n *v1.StoreEntry, dir string) error {
	a := n.Spec.Archive
	switch {
	case v1.StorePrefix(n.Spec.Instance, n.Name) != dir:
		return fmt.Errorf("the catalog entry in %q belongs to backup %q of %s/%s", dir, n.Name, n.Spec.Instance.Namespace,
			n.Spec.Instance.Name)
	case a == nil || path.Dir(a.Path) != n.ArchivePrefix():
		return fmt.Errorf("the catalog entry in %q does not refer to an archive in %q", dir, n.ArchivePrefix())
	}
	return nil
}

// Found is a backup that has a catalog entry, which may be unreadable. The fields come from its prefix.
type Found struct {
	NamespaceUID, XR types.UID
	Record           string
}

// Prefix returns the prefix of the entry.
func (f Found) Prefix() string {
	return v1.StorePrefix(v1.BackedUpInstance{NamespaceUID: f.NamespaceUID, XR: f.XR}, f.Record)
}

// BackupsIn returns the backups of a namespace. It omits known backups.
func (s *Store) BackupsIn(ctx context.Context, namespace types.UID, isKnown func(record string) bool) ([]Found, error) {
	return s.backupsBelow(ctx, path.Join(v1.StoreLayout, string(namespace)), maxOfNamespace, isKnown)
}

// AllBackups returns the backups of all namespaces, including deleted ones.
func (s *Store) AllBackups(ctx context.Context) ([]Found, error) {
	return s.backupsBelow(ctx, v1.StoreLayout, maxBackups, func(string) bool { return false })
}

func (s *Store) backupsBelow(ctx context.Context, dir string, limit int, isKnown func(record string) bool) ([]Found,
	error) {
	os, hasMore, err := s.Find(ctx, dir, limit, func(key string) bool {
		record, ok := recordOf(key)
		return ok && strings.HasPrefix(key, dir+"/") && !isKnown(record)
	})
	if err != nil {
		return nil, err
	}
	if hasMore {
		return nil, fmt.Errorf("there are more than %d backups below %q", limit, dir)
	}
	out := make([]Found, 0, len(os))
	for _, o := range os {
		parts := strings.Split(o.Key, "/")
		out = append(out, Found{NamespaceUID: types.UID(parts[1]), XR: types.UID(parts[2]), Record: parts[3]})
	}
	return out, nil
}

// recordOf returns the BackupRecord name in the key of a catalog entry. It returns false if the controller cannot
// have written an entry with this key.
func recordOf(key string) (record string, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 5 || parts[4] != gateway.ManifestName || len(parts[1]) > maxUID || len(parts[2]) > maxUID ||
		len(parts[3]) > maxRecord {
		return "", false
	}
	return parts[3], true
}

// readAtOnce is the maximum number of catalog entries that are read concurrently. A namespace, or a lost cluster, may
// have thousands of entries.
const readAtOnce = 16

// A readEntry is the result of reading a catalog entry: the entry or an error.
type readEntry struct {
	entry *v1.StoreEntry
	err   error
}

// readEntries reads the catalog entries of backups. The result has the same order. It stops at the first store error.
// An object that was removed in the meantime has a NotFound error in the result.
func (s *Store) readEntries(ctx context.Context, found []Found) ([]readEntry, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, slots := make([]readEntry, len(found)), make(chan struct{}, readAtOnce)
	var all sync.WaitGroup
	for i := range found {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			n, err := s.readEntry(ctx, found[i].Prefix())
			if errors.As(err, new(*store.Error)) && !store.Is(err, store.NotFound) {
				stop(err)
			}
			out[i] = readEntry{n, err}
		})
	}
	all.Wait()
	return out, context.Cause(ctx)
}

// RemoveLeftovers deletes the files of other attempts from the prefix of a published backup.
func (s *Store) RemoveLeftovers(ctx context.Context, n *v1.StoreEntry) error {
	dir := v1.StorePrefix(n.Spec.Instance, n.Name)
	// The entry is read from the store, so that no file is deleted to which an entry refers.
	existing, err := s.readEntry(ctx, dir)
	switch {
	case err != nil:
		return err
	case existing.PublishedArchive() != n.PublishedArchive(): // The archive of the requested entry may be in the same prefix.
		return &otherEntryError{existing}
	}
	return s.removeAllBut(ctx, dir, manifestOf(dir), existing.Spec.Archive.Path)
}

// Remove deletes a backup. It deletes the catalog entry first, because an archive without an entry belongs to no
// backup. For an imported backup, it first deletes the archive and the original entry. If it is interrupted, the new
// entry still refers to them. If a file must not be deleted yet, Remove deletes the rest and returns an error. It
// deletes nothing if the checksum in the entry differs from the BackupRecord. The backup then belongs to another
// cluster, or to an earlier state of this one.
func (s *Store) Remove(ctx context.Context, i v1.BackedUpInstance, record, sum string) error {
	dir := v1.StorePrefix(i, record)
	raw, err := s.ReadSmall(ctx, manifestOf(dir), store.MaxSigned)
	if errors.As(err, new(*store.Error)) && !store.Is(err, store.NotFound) {
		return err
	}
	// An unreadable entry cannot refer to another prefix.
	n, err := s.parseEntry(dir, raw)
	if err == nil && sum != "" && n.Spec.Archive.SHA256 != sum {
		return &otherEntryError{n}
	}
	if err == nil && n.From != nil {
		if err := s.removePrefix(ctx, n.ArchivePrefix()); err != nil {
			return err
		}
	}
	return s.removePrefix(ctx, dir)
}

// RemoveAttempts deletes the files of attempts at a backup. If the key of its catalog entry exists, it deletes
// nothing, because the backup may be verified.
func (s *Store) RemoveAttempts(ctx context.Context, i v1.BackedUpInstance, record string) error {
	dir := v1.StorePrefix(i, record)
	switch _, err := s.Stat(ctx, manifestOf(dir)); {
	case err == nil:
		return nil
	case !store.Is(err, store.NotFound):
		return err
	}
	return s.removeAllBut(ctx, dir)
}

func (s *Store) removePrefix(ctx context.Context, dir string) error {
	if err := s.Delete(ctx, manifestOf(dir)); err != nil {
		return err
	}
	return s.removeAllBut(ctx, dir)
}

// removeAllBut deletes all files of a prefix except the given keys. If it is interrupted, or finds too many files for
// one call, the caller must call it again.
func (s *Store) removeAllBut(ctx context.Context, dir string, keep ...string) error {
	for range maxTimes {
		var failed []error
		uploads, err := s.Uploads(ctx, dir, atATime)
		if err != nil {
			return err
		}
		for _, u := range uploads {
			failed = append(failed, s.AbortUpload(ctx, u.Key, u.ID))
		}
		os, hasMore, err := s.Find(ctx, dir, atATime, func(string) bool { return true })
		if err != nil {
			return err
		}
		for _, o := range os {
			if !slices.Contains(keep, o.Key) {
				failed = append(failed, s.Delete(ctx, o.Key))
			}
		}
		if err := errors.Join(failed...); err != nil || !hasMore && len(uploads) < atATime {
			return err
		}
	}
	return fmt.Errorf("%w: there are more objects below %q", errMore, dir)
}
