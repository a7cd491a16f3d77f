package adopt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// instanceID is the instance that the backups in the tests belong to.
var instanceID = v1.Instance{Kind: v1.KindMySQL, Namespace: "shop", Name: "db", XR: "uid-1"} //nolint:gochecknoglobals // A constant.

func of() v1.Instance {
	i := instanceID
	i.XR = ""
	return i
}

// foundBackup returns the final backup of instanceID, as the Job that reads the volume reports it.
func foundBackup(changes ...func(*agent.Found)) agent.Found {
	f := agent.Found{
		Dir: instanceID.RecordName(), Record: instanceID.RecordName(), FinishedAt: time.Unix(1000, 0),
		Spec: v1.BackupRecordSpec{
			Instance: v1.BackedUpInstance{Kind: instanceID.Kind, Namespace: instanceID.Namespace, NamespaceUID: "ns-1", Name: instanceID.Name,
				XR: instanceID.XR},
			Image: "mysql:8.4", Version: "8.4.6", Number: 2,
			Archive: &v1.Archive{Path: instanceID.RecordName() + "/data.tar.zst", SHA256: strings.Repeat("a", 64), Size: "10"},
		},
	}
	for _, c := range changes {
		c(&f)
	}
	return f
}

// foundInInstance returns a backup that was taken while the server was running, as the Job that reads the volume reports
// it.
func foundInInstance(number int64, changes ...func(*agent.Found)) agent.Found {
	name := instanceID.NumberedRecordName(number)
	return foundBackup(append([]func(*agent.Found){func(f *agent.Found) {
		f.Dir, f.Record, f.Spec.Number, f.Spec.Archive.Path = name, name, number, name+"/data.tar.zst"
	}}, changes...)...)
}

func knownRecord(sum string, phase v1.BackupPhase) v1.BackupRecord {
	f := foundBackup()
	r := v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: f.Record}, Spec: f.Spec,
		Status: v1.BackupRecordStatus{Phase: phase}}
	r.Spec.Archive.SHA256 = strings.Repeat(sum, 64)
	return r
}

func knownInInstance(number int64) v1.BackupRecord {
	f := foundInInstance(number)
	return v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: f.Record}, Spec: f.Spec,
		Status: v1.BackupRecordStatus{Phase: v1.BackupVerified}}
}

func TestJudge(t *testing.T) {
	cases := map[string]struct {
		reason      string
		found       agent.Found
		records     []v1.BackupRecord
		living      map[types.UID]string
		want        Verdict
		explanation string
	}{
		"Lost": {reason: "The catalog does not contain the backup, so it must be imported.", found: foundBackup(), want: Adopt},
		"Living": {reason: "The instance still exists after a restore of etcd, and its data is newer than the backup.",
			found:  foundBackup(),
			living: map[types.UID]string{"uid-1": "XMySQL db-x"}, want: Refused,
			explanation: "XMySQL db-x still exists. Its data is backed up when it is deleted"},
		"In life": {reason: "A backup before an image change has a number in its name and must be imported.",
			found: foundInInstance(2), want: Adopt},
		"Renumbered": {reason: "The number in the manifest must match the number in the name of the backup.",
			found: foundInInstance(2, func(f *agent.Found) { f.Spec.Number = 9 }), want: Refused,
			explanation: "which is not a valid backup name for this instance"},
		"Other life": {reason: "Another instance with this name exists, which must not prevent the import.", found: foundBackup(),
			living: map[types.UID]string{"uid-2": "XMySQL db-y"}, want: Adopt},
		"Known": {reason: "The backup already has a BackupRecord.", found: foundBackup(),
			records: []v1.BackupRecord{knownRecord("a", v1.BackupVerified)}, want: Known},
		"Its own": {reason: "The instance still exists, but the backup already has a BackupRecord.", found: foundInInstance(2),
			records: []v1.BackupRecord{knownInInstance(2)}, living: map[types.UID]string{"uid-1": "XMySQL db-x"}, want: Known},
		"Statusless": {reason: "A BackupRecord without a status is not verified, so the backup must be imported.", found: foundBackup(),
			records: []v1.BackupRecord{knownRecord("a", "")}, want: Adopt},
		"Replaced": {reason: "The verified BackupRecord belongs to an archive with a different checksum.", found: foundBackup(),
			records: []v1.BackupRecord{knownRecord("b", v1.BackupVerified)}, want: Refused, explanation: "a different checksum"},
		"Damaged": {reason: "A damaged archive cannot be restored.", found: foundBackup(func(f *agent.Found) { f.Problem = "damaged" }),
			want: Refused, explanation: "damaged"},
		"Empty": {reason: "A directory without a manifest contains no backup.",
			found: agent.Found{Dir: "x", Problem: "there is no manifest in it"}, want: Refused, explanation: "no manifest"},
		"Other": {reason: "The backup belongs to another claim.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Instance.Name = "other" }), want: Refused,
			explanation: `belongs to "MySQL" "other" in namespace "shop"`},
		"Elsewhere": {reason: "The backup belongs to a claim in another namespace.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Instance.Namespace = "theirs" }), want: Refused,
			explanation: `in namespace "theirs"`},
		"OtherKind": {reason: "The backup belongs to a Database with the same name.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Instance.Kind = v1.KindDatabase }), want: Refused,
			explanation: "Database"},
		"Forged": {reason: "The name of the BackupRecord must match the instance in the manifest.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Instance.XR = "uid-2" }), want: Refused,
			explanation: "which is not a valid backup name for this instance"},
		"Nameless": {reason: "The manifest must contain the UID of the XR.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Instance.XR = "" }),
			want:  Refused, explanation: "its manifest names the BackupRecord"},
		"Copied": {reason: "A copied directory must not get the BackupRecord of the original.",
			found: foundBackup(func(f *agent.Found) { f.Dir = "copy" }), want: Refused,
			explanation: "not in the directory where the controller stores"},
		"Path": {reason: "The archive must be in the directory of the backup.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Archive.Path = "../x/data.tar.zst" }), want: Refused,
			explanation: "not in the directory where"},
		"Image": {reason: "The image name is shown to users and started, so it must be printable.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Image = "x\x1b[2J" }), want: Refused, explanation: "image"},
		"Version": {reason: "The version is shown to users, so it must be printable.",
			found: foundBackup(func(f *agent.Found) { f.Spec.Version = "8\n4" }),
			want:  Refused, explanation: "version"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := judge([]agent.Found{tc.found}, of(), tc.records, tc.living)[0]
			if got.Verdict != tc.want || !strings.Contains(got.Why, tc.explanation) ||
				(got.Why == "") != (tc.explanation == "") {
				t.Errorf("%s want %s %q, got %s %q", tc.reason, tc.want, tc.explanation, got.Verdict, got.Why)
			}
		})
	}
}

// TestBackups checks that the catalog entry on the volume has priority over the manifest, because it contains more
// fields.
func TestBackups(t *testing.T) {
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "backup-db-pvc"}}
	findings := judge([]agent.Found{foundBackup(), foundBackup(func(f *agent.Found) { f.Dir = "copy" })}, of(), nil,
		nil)
	alone := backups(findings, nil, pvc)
	if len(alone) != 1 || alone[0].Name != instanceID.RecordName() || alone[0].Spec.Archive.PVCName != pvc.Name ||
		alone[0].Announced().Unix() != 1000 || alone[0].Spec.Number != 2 {
		t.Errorf("want the one that is whole, as its manifest has it, got %+v", alone)
	}
	both := backups(judge([]agent.Found{foundBackup(), foundInInstance(1)}, of(), nil, nil), nil, pvc)
	if last, first := both[0].Spec, both[1].Spec; last.Origin != v1.OriginDeletion || last.Since != 1 ||
		first.Origin != v1.OriginImageChange || first.Since != 0 {
		t.Errorf("want the one of the deletion to say that there was one before, got %+v and %+v", last, first)
	}
	entry := instance.Entry{Name: instanceID.RecordName(),
		BackupEntry: v1.BackupEntry{Record: "record-1", AnnouncedAt: metav1.Unix(500, 0), Spec: alone[0].Spec}}
	entry.Spec.Choice = "Never"
	noted := backups(findings, []instance.Entry{entry}, pvc)
	if diff := cmp.Diff([]string{"record-1", "Never"}, []string{string(noted[0].UID), noted[0].Spec.Choice}); diff != "" ||
		noted[0].Announced().Unix() != 500 {
		t.Errorf("want what the note says: %s, %v", diff, noted[0].Announced())
	}
	entry.Spec.Archive = entry.Spec.Archive.DeepCopy()
	entry.Spec.Archive.SHA256 = strings.Repeat("b", 64)
	if other := backups(findings, []instance.Entry{entry}, pvc); other[0].UID != "" {
		t.Errorf("a note of another archive was believed: %+v", other)
	}
}
