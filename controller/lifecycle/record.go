package lifecycle

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// heldBackup is the name of the backup that has no record, as status.heldBackup has it.
func heldBackup(s *instance.State) string {
	if n := s.Missing(); n != nil {
		return n.Name
	}
	return ""
}

// nextBackupNumber is that of a backup after the newest one there is, with a record or
// without.
func nextBackupNumber(s *instance.State) int64 {
	if n := s.Missing(); n != nil && !n.Unreadable {
		return n.Spec.Number + 1
	}
	if b := v1.LatestBackup(s.Records, (*v1.MySQLBackup).IsProven); b != nil {
		return b.Spec.Number + 1
	}
	return 1
}

// newRecord of the backup that is to be taken.
func newRecord(s *instance.State) *v1.MySQLBackup {
	number := s.Identity().BackupNumber
	if number == 0 { // Its status was lost, and it never had a volume that knew.
		number = nextBackupNumber(s)
	}
	return &v1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{Name: s.Life.RecordName(), Labels: s.Life.Labels(), Finalizers: []string{v1.Finalizer}},
		Spec: v1.MySQLBackupSpec{
			Instance: v1.BackedUpInstance{
				Kind: s.Life.Kind, Namespace: s.Life.Namespace, NamespaceUID: s.NamespaceUID(), Name: s.Life.Name, XR: s.Life.XR,
			},
			Image:       serverImage(s),
			Version:     serverVersion(s),
			StorageSize: s.Identity().Size,
			Number:      number,
			Choice:      s.Identity().Choice,
		},
	}
}

// createBackup makes the record before anything stops.
func createBackup(s *instance.State, _ Step) []change.Change {
	r := newRecord(s)
	return []change.Change{change.NewObject(r), patchRecordStatus(r, func(st *v1.MySQLBackupStatus) { st.Phase = v1.BackupPending })}
}

func markRunning(s *instance.State, _ Step) []change.Change {
	return []change.Change{patchRecordStatus(s.Record(), func(st *v1.MySQLBackupStatus) {
		st.Phase, st.Message = v1.BackupRunning, ""
		if st.StartedAt == nil {
			st.StartedAt = &metav1.Time{Time: s.Now}
		}
	})}
}

func markFailed(s *instance.State, step Step) []change.Change {
	return []change.Change{patchRecordStatus(s.Record(), func(st *v1.MySQLBackupStatus) { st.Phase, st.Message = v1.BackupFailed, step.Message })}
}

func patchRecordStatus(r *v1.MySQLBackup, how func(*v1.MySQLBackupStatus)) change.Change {
	return change.PatchObjectStatus(r, func(r *v1.MySQLBackup) { how(&r.Status) })
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
func savePassword(s *instance.State, _ Step) []change.Change {
	return []change.Change{keepPassword(s, map[string]string{v1.AnnotationFinal: string(s.Life.XR)})}
}

// KeepPassword of root while the instance lives. Its own Secrets go with the XR
// and with the namespace, by whatever way those go.
func KeepPassword(s *instance.State) change.Change { return keepPassword(s, nil) }

// keepPassword keeps what clients use, what a change is about to bring, and what the server was
// started with. What cannot be read any more stays as it was kept earlier.
func keepPassword(s *instance.State, annotations map[string]string) change.Change {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Settings.SystemNamespace, Name: s.Life.RecordName(), Labels: s.Life.Labels(), Annotations: agent.Annotations(s.Life),
	}}
	maps.Copy(secret.Annotations, annotations)
	from := func(name string) change.Source {
		return change.Source{Namespace: s.Life.Namespace, Name: name, Key: v1.PasswordKey, Label: v1.LabelXR, Value: string(s.Life.XR)}
	}
	return change.Change{Verb: change.CopySecret, Object: secret, Sources: map[string]change.Source{
		v1.PasswordKey: from(s.Life.ConnectionSecretName()),
		keyPending:     from(s.Life.PendingSecretName()),
		keyInitial:     from(s.Life.RootSecretName()),
	}}
}
