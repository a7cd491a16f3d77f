package finalize

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// newRecord of the backup that is to be taken.
func newRecord(s *instance.State) *v1.MySQLBackup {
	size, _ := s.XR.Spec.Size()
	return &v1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{Name: s.Life.RecordName(), Labels: s.Life.Labels(), Finalizers: []string{v1.Finalizer}},
		Spec: v1.MySQLBackupSpec{
			Instance: v1.BackedUpInstance{
				Kind: s.Life.Kind, Namespace: s.Life.Namespace, NamespaceUID: s.NamespaceUID(), Name: s.Life.Name, XR: s.Life.XR,
			},
			Image:       serverImage(s),
			Version:     serverVersion(s),
			StorageSize: size,
		},
	}
}

// createBackup makes the record before anything stops.
func (p *Performer) createBackup(ctx context.Context, s *instance.State, _ Step) error {
	r := newRecord(s)
	if err := p.createObject(ctx, r); err != nil {
		return err
	}
	if r.UID == "" {
		return nil // It was there already, and the next look finds it.
	}
	return p.phase(ctx, r, func(st *v1.MySQLBackupStatus) { st.Phase = v1.BackupPending })
}

func (p *Performer) markRunning(ctx context.Context, s *instance.State, _ Step) error {
	return p.phase(ctx, s.Record(), func(st *v1.MySQLBackupStatus) {
		st.Phase, st.Message = v1.BackupRunning, ""
		if st.StartedAt == nil {
			st.StartedAt = &metav1.Time{Time: s.Now}
		}
	})
}

func (p *Performer) markFailed(ctx context.Context, s *instance.State, step Step) error {
	return p.phase(ctx, s.Record(), func(st *v1.MySQLBackupStatus) { st.Phase, st.Message = v1.BackupFailed, step.Message })
}

func (p *Performer) phase(ctx context.Context, r *v1.MySQLBackup, how func(*v1.MySQLBackupStatus)) error {
	before := r.DeepCopy()
	how(&r.Status)
	return p.Client.Status().Patch(ctx, r, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Keys of a record's Secret. A change of the password may have been under way: the
// server accepts one of them.
const (
	keyPending = "pending"
	keyInitial = "initial"
)

// PasswordKeys of a record's Secret, the likeliest password first.
func PasswordKeys() []string { return []string{v1.PasswordKey, keyPending, keyInitial} }

// savePassword of root in the record's Secret, after the fence: no change comes
// later.
func (p *Performer) savePassword(ctx context.Context, s *instance.State, _ Step) error {
	return p.keep(ctx, s, map[string]string{v1.AnnotationFinal: string(s.Life.XR)})
}

// KeepPassword of root while the instance lives. Its own Secrets go with the XR
// and with the namespace, by whatever way those go.
func (p *Performer) KeepPassword(ctx context.Context, s *instance.State) error {
	return p.keep(ctx, s, nil)
}

// keep what clients use, what a change is about to bring, and what the server was
// started with. What cannot be read any more stays as it was kept earlier.
func (p *Performer) keep(ctx context.Context, s *instance.State, annotations map[string]string) error {
	found, err := p.passwords(ctx, s)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.SystemNamespace, Name: s.Life.RecordName(), Labels: s.Life.Labels(), Annotations: agent.Annotations(s.Life),
		},
		Data: found,
	}
	maps.Copy(secret.Annotations, annotations)
	err = p.Client.Create(ctx, secret.DeepCopy())
	if !kerrors.IsAlreadyExists(err) {
		return err
	}
	old := &corev1.Secret{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(secret), old); err != nil {
		return err
	}
	for key, password := range old.Data {
		if _, newer := found[key]; !newer {
			found[key] = password
		}
	}
	if equality.Semantic.DeepEqual(old.Data, found) && old.Annotations[v1.AnnotationFinal] == annotations[v1.AnnotationFinal] {
		return nil
	}
	return p.updateObject(ctx, old, func() {
		old.Data = found
		setLabelsAndAnnotations(old, nil, annotations)
	})
}

// passwords that the server may have.
func (p *Performer) passwords(ctx context.Context, s *instance.State) (map[string][]byte, error) {
	out := map[string][]byte{}
	sources := map[string]string{
		v1.PasswordKey: s.Life.ConnectionSecretName(),
		keyPending:     s.Life.PendingSecretName(),
		keyInitial:     s.Life.RootSecretName(),
	}
	for key, name := range sources {
		from := &corev1.Secret{}
		err := p.Reader.Get(ctx, client.ObjectKey{Namespace: s.Life.Namespace, Name: name}, from)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		ours := from.Labels[v1.LabelXR] == string(s.Life.XR)
		if password := from.Data[v1.PasswordKey]; err == nil && ours && len(password) > 0 {
			out[key] = password
		}
	}
	return out, nil
}
