// Package adopt finds again what lies on a backup volume whose index is lost: the records, the
// notes on the volume, or its labels. A Job reads all archives there, what their manifests say is
// judged, and the volume is told; the controller makes the records from that.
package adopt

import (
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A Verdict on what lies in a folder.
type Verdict string

// Verdicts.
const (
	// Adopt it: it is a backup of this instance that nobody knows.
	Adopt Verdict = "Adopt"
	// Known is one that has its record.
	Known Verdict = "Known"
	// Refused is what is no backup of this instance, or cannot be restored.
	Refused Verdict = "Refused"
)

// A Finding is a folder with the verdict on it.
type Finding struct {
	agent.Found

	Verdict Verdict
	// Why it is refused.
	Why string
}

// maxImage in bytes of a manifest's name of an image.
const maxImage = 512

// judge what was found on the volume of an instance. What a manifest says is believed of this very
// instance only: whoever can write to the volume can write one, and gets with it what lies on
// that volume, and nothing else. A life that goes on, or whose data is still somewhere, by the name of what
// says so, has no backup yet: what it has written since would be taken for backed up.
func judge(found []agent.Found, of v1.Instance, records []v1.MySQLBackup, living map[types.UID]string) []Finding {
	out := make([]Finding, 0, len(found))
	for _, f := range found {
		verdict, why := Adopt, whyRefused(&f, of)
		r := recordOf(&f, records)
		by, lives := living[f.Spec.Instance.XR]
		switch {
		case why != "":
		case r != nil && r.IsProven():
			verdict = Known
			if a := r.Spec.Archive; a == nil || a.SHA256 != f.Spec.Archive.SHA256 {
				why = "its record has another checksum"
			}
		case lives:
			why = by + " is there: its own backup is taken when it goes. See again then"
		}
		if why != "" {
			verdict = Refused
		}
		out = append(out, Finding{Found: f, Verdict: verdict, Why: why})
	}
	return out
}

func whyRefused(f *agent.Found, of v1.Instance) string {
	i := f.Spec.Instance
	life := i.Life()
	switch {
	case f.Problem != "":
		return f.Problem
	case i.Kind != of.Kind || i.Namespace != of.Namespace || i.Name != of.Name:
		return fmt.Sprintf("it says that it is of %.64q %.64q in namespace %.64q", i.Kind, i.Name, i.Namespace)
	case i.XR == "" || i.NamespaceUID == "" || f.Record != life.RecordName() && f.Record != life.RecordNameInLife(f.Spec.Number):
		return fmt.Sprintf("it says that its record is %.64q, which no backup of this instance is called", f.Record)
	case f.Folder != f.Record || f.Spec.Archive == nil || f.Spec.Archive.Path != f.Record+"/"+catalog.ArchiveName:
		return "it is not where the controller puts a backup of that name"
	case len(f.Spec.Image) > maxImage || !utf8.ValidString(f.Spec.Image) || v1.PrintableText(f.Spec.Image, maxImage) != f.Spec.Image:
		return "its manifest's image has no name that prints"
	case v1.PrintableText(f.Spec.Version, v1.MaxForeignText) != f.Spec.Version:
		return "its manifest's version does not print"
	}
	return ""
}

// recordOf what was found, or nil.
func recordOf(f *agent.Found, records []v1.MySQLBackup) *v1.MySQLBackup {
	for i := range records {
		if r := &records[i]; r.Name == f.Record && r.Spec.Instance.XR == f.Spec.Instance.XR {
			return r
		}
	}
	return nil
}

// firstNumber of the backups of one life that were found.
func firstNumber(findings []Finding, of *agent.Found) int64 {
	first := of.Spec.Number
	for i := range findings {
		if f := &findings[i]; f.Verdict != Refused && f.Spec.Instance.XR == of.Spec.Instance.XR && f.Spec.Number > 0 {
			first = min(first, f.Spec.Number)
		}
	}
	return first
}

// backups that are to be adopted, as their records will be. Where a note is on the volume
// already, that knows more.
func backups(findings []Finding, notes []instance.Note, pvc *corev1.PersistentVolumeClaim) []v1.MySQLBackup {
	noted := map[string]v1.BackupNote{}
	for _, n := range notes {
		if !n.Unreadable {
			noted[n.Name] = n.BackupNote
		}
	}
	var out []v1.MySQLBackup
	for i := range findings {
		f := &findings[i]
		if f.Verdict != Adopt {
			continue
		}
		b := v1.MySQLBackup{Spec: *f.Spec.DeepCopy()}
		b.Name, b.Spec.AnnouncedAt = f.Record, &metav1.Time{Time: f.FinishedAt}
		b.Spec.Archive.PVCName = pvc.Name
		if b.Spec.Origin = v1.OriginDeletion; b.Name != f.Spec.Instance.Life().RecordName() {
			b.Spec.Origin = v1.OriginImageChange
		}
		if first := firstNumber(findings, &f.Found); first < b.Spec.Number {
			b.Spec.Since = first
		}
		if n, ok := noted[f.Record]; ok && n.Spec.Archive.SHA256 == b.Spec.Archive.SHA256 {
			b.UID, b.Spec, b.CreationTimestamp = n.Record, n.Spec, n.AnnouncedAt
			b.Spec.AnnouncedAt = &n.AnnouncedAt
		}
		out = append(out, b)
	}
	return out
}
