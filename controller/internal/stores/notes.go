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
	// maxBackups of a store, and maxOfNamespace of a namespace, that are looked at. Whoever can write to the bucket may have written any
	// number of other objects beside them. Those that a Job has left are removed atATime, as often as maxTimes before others have their turn.
	maxBackups     = 100_000
	maxOfNamespace = 20_000
	// maxUID and maxRecord in bytes of a part of a key. What is longer was not written by a controller, and is not kept in memory.
	maxUID    = 64
	maxRecord = 128
	atATime   = 1000
	maxTimes  = 5
)

// errMore is left than is removed in one turn.
var errMore = errors.New("the removal goes on")

func manifestOf(folder string) string { return path.Join(folder, gateway.ManifestName) }

// An otherNoteError is of a backup whose note is there, and says something else.
type otherNoteError struct{ There *v1.StoreNote }

func (e *otherNoteError) Error() string {
	return fmt.Sprintf("the store has a note of backup %q already, of another archive: %s", e.There.Name, e.There.Spec.Archive.Path)
}

// Publish the note of a backup: once, whoever does so at the same time. It is an error where there is another one.
func (s *Store) Publish(ctx context.Context, n *v1.StoreNote) error {
	key := manifestOf(v1.StoreFolder(n.Spec.Instance, n.Name))
	raw, err := s.Seal.Seal(key, n)
	if err != nil {
		return err
	}
	if len(raw) > store.MaxSealed {
		return fmt.Errorf("the note has %d bytes, and may have %d", len(raw), store.MaxSealed)
	}
	err = s.PutOnce(ctx, key, raw)
	if store.Is(err, store.Unsupported) {
		// Only the controller's lease is left to keep two apart.
		if _, err = s.Stat(ctx, key); store.Is(err, store.NotFound) {
			err = s.Put(ctx, key, raw)
		}
	}
	if err != nil && !store.Is(err, store.Exists) {
		return err
	}
	// It is read back also where the store has said that it wrote it: some say so and write over what is there.
	there, err := s.ReadNote(ctx, n.Spec.Instance, n.Name)
	if err != nil {
		return err
	}
	if !equalNotes(there, n) {
		return &otherNoteError{there}
	}
	return nil
}

func equalNotes(n, other *v1.StoreNote) bool {
	a, aerr := json.Marshal(n)
	b, berr := json.Marshal(other)
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

// ReadNote of a backup. The error is of store.NotFound where there is none.
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

// parseNote that a folder has. What is no note of ours is an error, and none of the store.
func (s *Store) parseNote(folder string, raw []byte) (*v1.StoreNote, error) {
	n := &v1.StoreNote{}
	if err := s.Seal.Open(manifestOf(folder), raw, n); err != nil {
		return nil, err
	}
	if err := checkNote(n, folder); err != nil {
		return nil, err
	}
	n.Spec.Archive.Store = s.Name // The cluster that wrote it may have called it something else.
	return n, nil
}

// NoteIn a folder, as StoreFolder makes it. The error is of store.NotFound where there is none.
func (s *Store) NoteIn(ctx context.Context, folder string) (*v1.StoreNote, error) {
	if parts := strings.Split(folder, "/"); len(parts) != 4 || parts[0] != v1.StoreLayout || path.Clean(folder) != folder {
		return nil, fmt.Errorf("%q is no folder of a backup: it is %s/NAMESPACE-UID/COMPOSITE-UID/RECORD", folder, v1.StoreLayout)
	}
	return s.readNote(ctx, folder)
}

// checkNote is nil if a note is of the folder that it lies in, and of an archive in its own. Its seal holds for no other, so that this is
// no attack but a fault.
func checkNote(n *v1.StoreNote, folder string) error {
	a := n.Spec.Archive
	switch {
	case v1.StoreFolder(n.Spec.Instance, n.Name) != folder:
		return fmt.Errorf("the note in %q is of backup %q of %s/%s", folder, n.Name, n.Spec.Instance.Namespace, n.Spec.Instance.Name)
	case a == nil || path.Dir(a.Path) != n.ArchiveFolder():
		return fmt.Errorf("the note in %q names no archive in %q", folder, n.ArchiveFolder())
	}
	return nil
}

// A Found backup has a note, whatever that says; its folder says whose it is.
type Found struct {
	NamespaceUID, XR types.UID
	Record           string
}

// Folder of the note.
func (f Found) Folder() string {
	return v1.StoreFolder(v1.BackedUpInstance{NamespaceUID: f.NamespaceUID, XR: f.XR}, f.Record)
}

// BackupsIn a namespace, but for those that are known.
func (s *Store) BackupsIn(ctx context.Context, namespace types.UID, isKnown func(record string) bool) ([]Found, error) {
	return s.backupsBelow(ctx, path.Join(v1.StoreLayout, string(namespace)), maxOfNamespace, isKnown)
}

// AllBackups of all namespaces that ever were.
func (s *Store) AllBackups(ctx context.Context) ([]Found, error) {
	return s.backupsBelow(ctx, v1.StoreLayout, maxBackups, func(string) bool { return false })
}

func (s *Store) backupsBelow(ctx context.Context, folder string, limit int, isKnown func(record string) bool) ([]Found, error) {
	os, more, err := s.Find(ctx, folder, limit, func(key string) bool {
		record, ok := recordOf(key)
		return ok && strings.HasPrefix(key, folder+"/") && !isKnown(record)
	})
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("there are more than %d backups below %q", limit, folder)
	}
	out := make([]Found, 0, len(os))
	for _, o := range os {
		parts := strings.Split(o.Key, "/")
		out = append(out, Found{NamespaceUID: types.UID(parts[1]), XR: types.UID(parts[2]), Record: parts[3]})
	}
	return out, nil
}

// recordOf returns the record that the key of a note names, if a controller may have written a note there.
func recordOf(key string) (record string, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 5 || parts[4] != gateway.ManifestName || len(parts[1]) > maxUID || len(parts[2]) > maxUID || len(parts[3]) > maxRecord {
		return "", false
	}
	return parts[3], true
}

// readAtOnce is how many notes are read beside each other: a namespace, or a cluster that is gone, may have thousands.
const readAtOnce = 16

// A readNote is what a note says, or why it cannot be read.
type readNote struct {
	note *v1.StoreNote
	err  error
}

// readNotes of backups that were found, in their order. It ends with the first that the store does not give, but for one that has gone.
func (s *Store) readNotes(ctx context.Context, of []Found) ([]readNote, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, slots := make([]readNote, len(of)), make(chan struct{}, readAtOnce)
	var all sync.WaitGroup
	for i := range of {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			n, err := s.readNote(ctx, of[i].Folder())
			if errors.As(err, new(*store.Error)) && !store.Is(err, store.NotFound) {
				stop(err)
			}
			out[i] = readNote{n, err}
		})
	}
	all.Wait()
	return out, context.Cause(ctx)
}

// Tidy the folder of a backup whose note is published: what other attempts have left goes.
func (s *Store) Tidy(ctx context.Context, n *v1.StoreNote) error {
	folder := v1.StoreFolder(n.Spec.Instance, n.Name)
	// As the store has it: nothing goes that some note may name.
	there, err := s.readNote(ctx, folder)
	switch {
	case err != nil:
		return err
	case there.PublishedArchive() != n.PublishedArchive(): // The archive of the note that is meant may be beside it.
		return &otherNoteError{there}
	}
	return s.removeAllBut(ctx, folder, manifestOf(folder), there.Spec.Archive.Path)
}

// Remove a backup, its note first: an archive without one is nobody's. What may not be deleted is later an error, and the rest is
// gone. Of an adopted one the archive goes first, with its old note: who is cut short finds it by the new one. A note of an archive with another
// sum than the record's is another cluster's, or of another time: it stays, and so does what is beside it.
func (s *Store) Remove(ctx context.Context, i v1.BackedUpInstance, record, sum string) error {
	folder := v1.StoreFolder(i, record)
	raw, err := s.ReadSmall(ctx, manifestOf(folder), store.MaxSealed)
	if errors.As(err, new(*store.Error)) && !store.Is(err, store.NotFound) {
		return err
	}
	// One that cannot be read is of no other folder.
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

// Discard what attempts at a backup have left. Where anything is in the place of its note, all of it stays: it may be proven.
func (s *Store) Discard(ctx context.Context, i v1.BackedUpInstance, record string) error {
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

// removeAllBut what is to be kept. Who is cut short, or finds more than can be removed in one turn, has removed what came before, and is
// called again.
func (s *Store) removeAllBut(ctx context.Context, folder string, keep ...string) error {
	for range maxTimes {
		var failed []error
		us, err := s.Uploads(ctx, folder, atATime)
		if err != nil {
			return err
		}
		for _, u := range us {
			failed = append(failed, s.AbortUpload(ctx, u.Key, u.ID))
		}
		os, more, err := s.Find(ctx, folder, atATime, func(string) bool { return true })
		if err != nil {
			return err
		}
		for _, o := range os {
			if !slices.Contains(keep, o.Key) {
				failed = append(failed, s.Delete(ctx, o.Key))
			}
		}
		if err := errors.Join(failed...); err != nil || !more && len(us) < atATime {
			return err
		}
	}
	return fmt.Errorf("%w: there is more below %q", errMore, folder)
}
