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
	// askTimeout is how long all stores together may take to say what they have: an instance waits for it, and others for
	// their turn.
	askTimeout = 30 * time.Second
	// newTimeout is how long one may take that has not worked yet.
	newTimeout = 5 * time.Second
)

// A Cluster has the stores of all BackupStores, by what the API server says of them at each call.
type Cluster struct {
	Reader client.Reader
	// Namespace is the controller's own, which has the Secrets.
	Namespace string
	Clock     func() time.Time
	// Lanes keep those who wait for one store from others. Nil where nobody else waits.
	Lanes *Lanes
	// Holders of the prefixes that this process holds: without the hold nothing is published or deleted. Nil where none are kept.
	Holders *Holders
}

var (
	_ instance.Stores = Cluster{}
	_ change.Stores   = Cluster{}
)

// SecretsOf a BackupStore, as far as they are there.
func (c Cluster) SecretsOf(ctx context.Context, s *v1.BackupStore) (out Secrets, err error) {
	if out.Credentials, err = c.Secret(ctx, s.Spec.CredentialsSecretRef.Name); err != nil {
		return out, err
	}
	out.Key, err = c.Secret(ctx, s.Spec.KeySecretRef.Name)
	return out, err
}

// Secret of the controller's namespace; nil where there is none.
func (c Cluster) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, s)
	if kerrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // None, and no error.
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// GatewayState that there is.
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

// ReadNote of a backup in a store, or nil where it has none.
func (c Cluster) ReadNote(ctx context.Context, name string, of v1.BackedUpInstance, record string) (*v1.StoreNote, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var n *v1.StoreNote
	err := c.ask(ctx, name, func(s *Store) (err error) {
		n, err = s.ReadNote(ctx, of, record)
		return err
	})
	switch {
	case store.Is(err, store.NotFound):
		return nil, nil //nolint:nilnil // None, and no error.
	case errors.As(err, new(*unopenedError)):
		return nil, err
	case err != nil && !errors.As(err, new(*store.Error)):
		return nil, &instance.UnreadableNoteError{Err: inStore(name, err)}
	}
	return n, inStore(name, err)
}

// FindNotes in all stores about backups of a namespace.
func (c Cluster) FindNotes(ctx context.Context, namespace types.UID, isKnown func(record string) bool) ([]instance.FoundNote, error) {
	all := &v1.BackupStoreList{}
	if err := c.Reader.List(ctx, all); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil // The kind is not installed.
		}
		return nil, fmt.Errorf("cannot list BackupStores: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, errs := make([][]instance.FoundNote, len(all.Items)), make([]error, len(all.Items))
	var asked sync.WaitGroup
	for i := range all.Items {
		find := c.findNotesIn
		if s := &all.Items[i]; s.Status.ProbedAt == nil && !s.Unreadable.Has("status.probedAt") {
			find = c.findNotesInNew
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

// Publish a note, if the store has the archive that it is of. A Job that was led elsewhere has reported one as well.
func (c Cluster) Publish(ctx context.Context, name string, n *v1.StoreNote) error {
	return c.askHeld(ctx, name, func(s *Store) error { return s.publishArchived(ctx, n) })
}

// publishArchived publishes a note if its archive is there.
func (s *Store) publishArchived(ctx context.Context, n *v1.StoreNote) error {
	a := n.Spec.Archive
	o, err := s.Stat(ctx, a.Path)
	if store.Is(err, store.NotFound) {
		return change.NewMissingError(fmt.Errorf("BackupStore %s has no %q, which the Job has sent there", s.Name, a.Path))
	}
	if err != nil {
		return inStore(s.Name, err)
	}
	if size, err := v1.ParseQuantity(a.Size); err != nil || o.Size < size.Value() {
		return change.NewMissingError(fmt.Errorf("BackupStore %s has %d bytes in %q, and the Job has reported %s", s.Name, o.Size, a.Path, a.Size))
	}
	err = s.Publish(ctx, n)
	if other := new(otherNoteError); errors.As(err, &other) {
		return kerrors.NewConflict(v1.GroupVersion.WithResource("backupstores").GroupResource(), s.Name, err)
	}
	return inStore(s.Name, err)
}

// Tidy what other attempts at a published backup have left. What may not be deleted stays, and so does what is very much: it goes with the backup.
func (c Cluster) Tidy(ctx context.Context, name string, n *v1.StoreNote) error {
	return c.askHeld(ctx, name, func(s *Store) error {
		if err := s.Tidy(ctx, n); !store.Is(err, store.Denied) && !errors.Is(err, errMore) {
			return inStore(name, err)
		}
		return nil
	})
}

// Remove a backup with its note.
func (c Cluster) Remove(ctx context.Context, name string, i v1.BackedUpInstance, record, sum string) error {
	return c.askHeld(ctx, name, func(s *Store) error { return inStore(name, s.Remove(ctx, i, record, sum)) })
}

// Discard what attempts at a backup have left that has no note.
func (c Cluster) Discard(ctx context.Context, name string, i v1.BackedUpInstance, record string) error {
	return c.askHeld(ctx, name, func(s *Store) error { return inStore(name, s.Discard(ctx, i, record)) })
}

// Access of a Job to a store, as the content of its Secret.
func (c Cluster) Access(ctx context.Context, what *change.Remote) (map[string][]byte, error) {
	var s *Store
	ask := c.ask
	if what.Folder != "" { // What a Job sends there is to be published.
		ask = c.askHeld
	}
	if err := ask(ctx, what.Store, func(of *Store) error {
		s = of
		return nil
	}); err != nil {
		return nil, err
	}
	g, err := c.GatewayState(ctx)
	switch {
	case err != nil:
		return nil, err
	case g.Signer == nil || g.Address == nil:
		return nil, errors.New("the gateway to stores is not there: apply controller/deploy/gateway")
	}
	signer, ca, err := readSigner(g.Signer)
	if err != nil {
		return nil, err
	}
	life := agent.ReadAccessLife
	if what.Folder != "" {
		life = agent.BackupAccessLife
	}
	token, err := signer.Sign(gateway.Grant{Store: what.Store, Folder: what.Folder, Object: what.Archive}, c.Clock().Add(life))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{
		gateway.URLFile: []byte("https://" + net.JoinHostPort(g.Address.String(), strconv.Itoa(agent.GatewayPort))), gateway.CAFile: ca.Certificate, gateway.TokenFile: []byte(token),
	}
	if what.Folder != "" {
		out[archive.RecipientsFile] = []byte(strings.Join(s.Recipients, "\n"))
	}
	if len(what.Manifest) > 0 {
		out[archive.ManifestFile] = what.Manifest
	}
	return out, nil
}

func (c Cluster) findNotesIn(ctx context.Context, of *v1.BackupStore, namespace types.UID, isKnown func(record string) bool) ([]instance.FoundNote, error) {
	name := of.Name
	s, err := c.open(ctx, of)
	if err != nil {
		return nil, err
	}
	var backups []Found
	var notes []readNote
	err = c.Lanes.do(ctx, of, func() (err error) {
		if backups, err = s.BackupsIn(ctx, namespace, isKnown); err == nil {
			notes, err = s.readNotes(ctx, backups)
		}
		return err
	})
	if err != nil {
		return nil, inStore(name, err)
	}
	var out []instance.FoundNote
	for i, b := range backups {
		f := instance.FoundNote{Store: name, Record: b.Record, XR: b.XR}
		n, err := notes[i].note, notes[i].err
		if store.Is(err, store.NotFound) {
			continue // It has just been removed.
		}
		if err == nil {
			f.StoreNote = n
		}
		word := of.Annotations[v1.AnnotationForgetPrefix+b.Record]
		f.Forgotten = word != "" && (f.StoreNote == nil && word == b.Record || f.StoreNote != nil && word == string(n.Record))
		out = append(out, f)
	}
	return out, nil
}

// findNotesInNew is the same of a BackupStore that has not worked yet. It may be one that was made again: its bucket may have backups of
// this namespace. Where it does not answer, that keeps nobody waiting as long as no claim may use it: somebody is setting it up.
func (c Cluster) findNotesInNew(ctx context.Context, of *v1.BackupStore, namespace types.UID, isKnown func(record string) bool) ([]instance.FoundNote, error) {
	asking, cancel := context.WithTimeout(ctx, newTimeout)
	defer cancel()
	found, err := c.findNotesIn(asking, of, namespace, isKnown)
	if err == nil {
		return found, nil
	}
	if p, perr := instance.ReadPlatform(ctx, c.Reader); perr == nil && p != nil && !p.OffersBackupStore(of.Name) {
		return nil, nil
	}
	return nil, err
}

// ask the store of a BackupStore of this name, with the callers that may ask it now.
func (c Cluster) ask(ctx context.Context, name string, use func(*Store) error) error {
	of := &v1.BackupStore{}
	switch err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, of); {
	case kerrors.IsNotFound(err): // That is not what whoever asks has just read.
		return &unopenedError{fmt.Errorf("there is no BackupStore %s: create it, or create it again with the bucket and the Secrets that it had", name)}
	case err != nil:
		return &unopenedError{fmt.Errorf("cannot get BackupStore %s: %w", name, err)}
	}
	s, err := c.open(ctx, of)
	if err != nil {
		return &unopenedError{err}
	}
	return c.Lanes.do(ctx, of, func() error { return use(s) })
}

// An unopenedError is of a store that was not asked.
type unopenedError struct{ error }

// Unwrap it.
func (e *unopenedError) Unwrap() error { return e.error }

// askHeld is ask for what is published or deleted: only one cluster at a time does that.
func (c Cluster) askHeld(ctx context.Context, name string, use func(*Store) error) error {
	return c.ask(ctx, name, func(s *Store) error {
		if err := c.Holders.Check(ctx, s); err != nil {
			return inStore(name, err)
		}
		return use(s)
	})
}

// open a BackupStore with its Secrets.
func (c Cluster) open(ctx context.Context, of *v1.BackupStore) (*Store, error) {
	with, err := c.SecretsOf(ctx, of)
	if err != nil {
		return nil, inStore(of.Name, err)
	}
	s, err := Open(of, with)
	return s, inStore(of.Name, err)
}

// inStore says of an error in which store.
func inStore(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("BackupStore %s: %w", name, err)
}
