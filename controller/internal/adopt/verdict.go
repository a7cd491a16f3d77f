// Package adopt rebuilds the catalog of a backup volume if its index is lost: the BackupRecords, the catalog entries
// on the volume, or its labels. A Job reads all archives on the volume. The package evaluates their manifests and
// writes the catalog entries to the volume. From these, the controller creates the BackupRecords.
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

// A Verdict decides whether the backup in a directory of the volume is imported.
type Verdict string

// Values of Verdict.
const (
	// Adopt means that the directory contains a backup of this instance that the catalog does not contain.
	Adopt Verdict = "Adopt"
	// Known means that the backup already has a BackupRecord.
	Known Verdict = "Known"
	// Refused means that the directory contains no backup of this instance, or a backup that cannot be restored.
	Refused Verdict = "Refused"
)

// A Finding is what the import Job found in a directory of the volume, with the verdict on it.
type Finding struct {
	agent.Found

	Verdict Verdict
	// Why is the reason for the verdict Refused.
	Why string
}

// maxImage is the maximum length in bytes of an image name in a manifest.
const maxImage = 512

// judge returns a Finding for each directory on the backup volume of an instance.
//
// A manifest is accepted only if it names this instance, because any user with write access to the volume can write a
// manifest. Such a user can therefore only restore data that is already on this volume.
//
// A backup is refused as long as its instance or the instance's data still exists. Otherwise rows that were written
// after the backup could be lost. living maps the XR UID of such an instance to the object that proves its existence.
func judge(found []agent.Found, instance v1.Instance, records []v1.BackupRecord, living map[types.UID]string) []Finding {
	out := make([]Finding, 0, len(found))
	for _, f := range found {
		verdict, reason := Adopt, whyRefused(&f, instance)
		r := recordOf(&f, records)
		owner, instances := living[f.Spec.Instance.XR]
		switch {
		case reason != "":
		case r != nil && r.IsVerified():
			verdict = Known
			if a := r.Spec.Archive; a == nil || a.SHA256 != f.Spec.Archive.SHA256 {
				reason = "its BackupRecord has a different checksum"
			}
		case instances:
			reason = owner + " still exists. Its data is backed up when it is deleted. Run the command again after " +
				"that"
		}
		if reason != "" {
			verdict = Refused
		}
		out = append(out, Finding{Found: f, Verdict: verdict, Why: reason})
	}
	return out
}

func whyRefused(f *agent.Found, instance v1.Instance) string {
	i := f.Spec.Instance
	instanceID := i.Instance()
	switch {
	case f.Problem != "":
		return f.Problem
	case i.Kind != instance.Kind || i.Namespace != instance.Namespace || i.Name != instance.Name:
		return fmt.Sprintf("its manifest belongs to %.64q %.64q in namespace %.64q", i.Kind, i.Name, i.Namespace)
	case i.XR == "" || i.NamespaceUID == "" || f.Record != instanceID.RecordName() &&
		f.Record != instanceID.NumberedRecordName(f.Spec.Number):
		return fmt.Sprintf("its manifest names the BackupRecord %.64q, which is not a valid backup name for this instance",
			f.Record)
	case f.Dir != f.Record || f.Spec.Archive == nil || f.Spec.Archive.Path != f.Record+"/"+catalog.ArchiveName:
		return "it is not in the directory where the controller stores a backup with that name"
	case len(f.Spec.Image) > maxImage || !utf8.ValidString(f.Spec.Image) ||
		v1.PrintableText(f.Spec.Image, maxImage) != f.Spec.Image:
		return "the image name in its manifest contains unprintable characters"
	case v1.PrintableText(f.Spec.Version, v1.MaxForeignText) != f.Spec.Version:
		return "the version in its manifest contains unprintable characters"
	}
	return ""
}

// recordOf returns the BackupRecord of a found backup, or nil.
func recordOf(f *agent.Found, records []v1.BackupRecord) *v1.BackupRecord {
	for i := range records {
		if r := &records[i]; r.Name == f.Record && r.Spec.Instance.XR == f.Spec.Instance.XR {
			return r
		}
	}
	return nil
}

// firstNumber returns the lowest backup number of an instance UID among the found backups.
func firstNumber(findings []Finding, found *agent.Found) int64 {
	first := found.Spec.Number
	for i := range findings {
		if f := &findings[i]; f.Verdict != Refused && f.Spec.Instance.XR == found.Spec.Instance.XR && f.Spec.Number > 0 {
			first = min(first, f.Spec.Number)
		}
	}
	return first
}

// backups returns the BackupRecords of the backups to import. An existing catalog entry on the volume has priority
// over the manifest, because it contains more fields.
func backups(findings []Finding, entries []instance.Entry, pvc *corev1.PersistentVolumeClaim) []v1.BackupRecord {
	noted := map[string]v1.BackupEntry{}
	for _, n := range entries {
		if !n.Unreadable {
			noted[n.Name] = n.BackupEntry
		}
	}
	var out []v1.BackupRecord
	for i := range findings {
		f := &findings[i]
		if f.Verdict != Adopt {
			continue
		}
		b := v1.BackupRecord{Spec: *f.Spec.DeepCopy()}
		b.Name, b.Spec.AnnouncedAt = f.Record, &metav1.Time{Time: f.FinishedAt}
		b.Spec.Archive.PVCName = pvc.Name
		if b.Spec.Origin = v1.OriginDeletion; b.Name != f.Spec.Instance.Instance().RecordName() {
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
