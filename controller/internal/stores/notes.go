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

func manifestOf(folder string) string { return path.Join(folder, gateway.ManifestName) }

// An otherNoteError reports that a backup has a different catalog entry than expected.
type otherNoteError struct{ There *v1.StoreNote }

func (e *otherNoteError) Error() string {
	return fmt.Sprintf("the store already has a catalog entry for backup %q with another archive: %s", e.There.Name,
		e.There.Spec.Archive.Path)
}

// Publish writes the catalog entry of a backup if there is none, even if another process publishes at the same time.
// It returns an error if there is a different entry.
func (s *Store) Publish(ctx context.Context, n *v1.StoreNote) error {
	key := manifestOf(v1.StoreFolder(n.Spec.Instance, n.Name))
	raw, err := s.Seal.Seal(key, n)
	if err != nil {
		return err
	}
	if len(raw) > store.MaxSealed {
		return fmt.Errorf("the catalog entry is %d bytes long, but the maximum is %d bytes", len(raw), store.MaxSealed)
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
	existing, err := s.ReadNote(ctx, n.Spec.Instance, n.Name)
	if err != nil {
		return err
	}
	if !equalNotes(existing, n) {
		return &otherNoteError{existing}
	}
	return nil
}

func equalNotes(n, other *v1.StoreNote) bool {
	a, aerr := json.Marshal(n)
	b, berr := json.Marshal(other)
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

// ReadNote returns the catalog entry of a backup, or a store.NotFound error if there is none.
func (s *Store) ReadNote(ctx context.Context, i v1.BackedUpInstance, record string) (*v1.StoreNote, error) {
	return s.readNote(ctx, v1.StoreFolder(i, record))
}

func (s *Store) readNote(ctx context.Context, folder string) (*v1.StoreNote, error) {
	raw, err := s.ReadSmall(ctx, manifestOf(folder), store.MaxSealed)
	if err != nil {
		return nil, err
	}
	return s.parseNote(folder, raw)
}

// parseNote decodes and verifies the catalog entry in a prefix. An error about an invalid entry is not a store.Error.
func (s *Store) parseNote(folder string, raw []byte) (*v1.StoreNote, error) {
	n := &v1.StoreNote{}
	if err := s.Seal.Open(manifestOf(folder), raw, n); err != nil {
		return nil, err
	}
	if err := checkNote(n, folder); err != nil {
		return nil, err
	}
	n.Spec.Archive.Store = s.Name // The BackupStore may have had a different name in the cluster that wrote the entry.
	return n, nil
}

// NoteIn returns the catalog entry in a prefix, which has the format of StoreFolder. It returns a store.NotFound
// error if there is no entry.
func (s *Store) NoteIn(ctx context.Context, folder string) (*v1.StoreNote, error) {
	if parts := strings.Split(folder, "/"); len(parts) != 4 || parts[0] != v1.StoreLayout || path.Clean(folder) != folder {
		return nil, fmt.Errorf("%q is not the prefix of a backup, which is %s/NAMESPACE-UID/COMPOSITE-UID/RECORD", folder,
			v1.StoreLayout)
	}
	return s.readNote(ctx, folder)
}

// checkNote returns an error if a catalog entry does not belong to its prefix, or refers to an archive in a different
// prefix. The signature covers the prefix, so this is caused by a bug and not by an attack.
func checkNote(n *v1.StoreNote, folder string) error {
	a := n.Spec.Archive
	switch {
	case v1.StoreFolder(n.Spec.Instance, n.Name) != folder:
		return fmt.Errorf("the catalog entry in %q belongs to backup %q of %s/%s", folder, n.Name, n.Spec.Instance.Namespace,
			n.Spec.Instance.Name)
	case a == nil || path.Dir(a.Path) != n.ArchiveFolder():
		return fmt.Errorf("the catalog entry in %q does not refer to an archive in %q", folder, n.ArchiveFolder())
	}
	return nil
}

// Found is a backup that has a catalog entry, which may be unreadable. The fields come from its prefix.
type Found struct {
	NamespaceUID, XR types.UID
	Record           string
}

// Folder returns the prefix of the entry.
func (f Found) Folder() string {
	return v1.StoreFolder(v1.BackedUpInstance{NamespaceUID: f.NamespaceUID, XR: f.XR}, f.Record)
}

// BackupsIn returns the backups of a namespace. It omits known backups.
func (s *Store) BackupsIn(ctx context.Context, namespace types.UID, isKnown func(record string) bool) ([]Found, error) {
	return s.backupsBelow(ctx, path.Join(v1.StoreLayout, string(namespace)), maxOfNamespace, isKnown)
}

// AllBackups returns the backups of all namespaces, including deleted ones.
func (s *Store) AllBackups(ctx context.Context) ([]Found, error) {
	return s.backupsBelow(ctx, v1.StoreLayout, maxBackups, func(string) bool { return false })
}

func (s *Store) backupsBelow(ctx context.Context, folder string, limit int, isKnown func(record string) bool) ([]Found,
	error) {
	os, hasMore, err := s.Find(ctx, folder, limit, func(key string) bool {
		record, ok := recordOf(key)
		return ok && strings.HasPrefix(key, folder+"/") && !isKnown(record)
	})
	if err != nil {
		return nil, err
	}
	if hasMore {
		return nil, fmt.Errorf("there are more than %d backups below %q", limit, folder)
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

// A readNote is the result of reading a catalog entry: the entry or an error.
type readNote struct {
	note *v1.StoreNote
	err  error
}

// readNotes reads the catalog entries of backups. The result has the same order. It stops at the first store error.
// An object that was removed in the meantime has a NotFound error in the result.
func (s *Store) readNotes(ctx context.Context, found []Found) ([]readNote, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, slots := make([]readNote, len(found)), make(chan struct{}, readAtOnce)
	var all sync.WaitGroup
	for i := range found {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			n, err := s.readNote(ctx, found[i].Folder())
			if errors.As(err, new(*store.Error)) && !store.Is(err, store.NotFound) {
				stop(err)
			}
			out[i] = readNote{n, err}
		})
	}
	all.Wait()
	return out, context.Cause(ctx)
}

// RemoveLeftovers deletes the files of other attempts from the prefix of a published backup.
func (s *Store) RemoveLeftovers(ctx context.Context, n *v1.StoreNote) error {
	folder := v1.StoreFolder(n.Spec.Instance, n.Name)
	// The entry is read from the store, so that no file is deleted to which an entry refers.
	existing, err := s.readNote(ctx, folder)
	switch {
	case err != nil:
		return err
	case existing.PublishedArchive() != n.PublishedArchive(): // The archive of the requested entry may be in the same prefix.
		return &otherNoteError{existing}
	}
	return s.removeAllBut(ctx, folder, manifestOf(folder), existing.Spec.Archive.Path)
}

// Remove deletes a backup. It deletes the catalog entry first, because an archive without an entry belongs to no
// backup. For an imported backup, it first deletes the archive and the original entry. If it is interrupted, the new
// entry still refers to them. If a file must not be deleted yet, Remove deletes the rest and returns an error. It
// deletes nothing if the checksum in the entry differs from the BackupRecord. The backup then belongs to another
// cluster, or to an earlier state of this one.
func (s *Store) Remove(ctx context.Context, i v1.BackedUpInstance, record, sum string) error {
	folder := v1.StoreFolder(i, record)
	raw, err := s.ReadSmall(ctx, manifestOf(folder), store.MaxSealed)
	if errors.As(err, new(*store.Error)) && !store.Is(err, store.NotFound) {
		return err
	}
	// An unreadable entry cannot refer to another prefix.
	n, err := s.parseNote(folder, raw)
	if err == nil && sum != "" && n.Spec.Archive.SHA256 != sum {
		return &otherNoteError{n}
	}
	if err == nil && n.From != nil {
		if err := s.removeFolder(ctx, n.ArchiveFolder()); err != nil {
			return err
		}
	}
	return s.removeFolder(ctx, folder)
}

// RemoveAttempts deletes the files of attempts at a backup. If the key of its catalog entry exists, it deletes
// nothing, because the backup may be verified.
func (s *Store) RemoveAttempts(ctx context.Context, i v1.BackedUpInstance, record string) error {
	folder := v1.StoreFolder(i, record)
	switch _, err := s.Stat(ctx, manifestOf(folder)); {
	case err == nil:
		return nil
	case !store.Is(err, store.NotFound):
		return err
	}
	return s.removeAllBut(ctx, folder)
}

func (s *Store) removeFolder(ctx context.Context, folder string) error {
	if err := s.Delete(ctx, manifestOf(folder)); err != nil {
		return err
	}
	return s.removeAllBut(ctx, folder)
}

// removeAllBut deletes all files of a prefix except the given keys. If it is interrupted, or finds too many files for
// one call, the caller must call it again.
func (s *Store) removeAllBut(ctx context.Context, folder string, keep ...string) error {
	for range maxTimes {
		var failed []error
		uploads, err := s.Uploads(ctx, folder, atATime)
		if err != nil {
			return err
		}
		for _, u := range uploads {
			failed = append(failed, s.AbortUpload(ctx, u.Key, u.ID))
		}
		os, hasMore, err := s.Find(ctx, folder, atATime, func(string) bool { return true })
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
	return fmt.Errorf("%w: there are more objects below %q", errMore, folder)
}
