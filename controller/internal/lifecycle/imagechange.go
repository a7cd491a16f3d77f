package lifecycle

import (
	"fmt"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A server of a newer release series upgrades the data directory, and no server of an older series can start from it
// again (MySQL manual, 3.4 Downgrading MySQL). The function therefore delays an image of a different series and
// reports it in status.internal.pendingImage until a backup exists.

// decideImageChange takes a backup before an instance changes to an image of a different release series. The backup
// is taken as in a deletion and has its own BackupRecord:
//
//	BeginImageChange   the function stops the server.
//	CreateBackup       a BackupRecord is created.
//	CreateBackupJob    when the server's pod is deleted, a Job copies the volume and reads the copy back.
//	RecordBackup         the backup is verified.
//	MarkVerified         the BackupRecord reports it.
//	DeleteObjects      the Job is deleted, because its pods hold PVCs.
//	AllowImage         the function starts the new image, and the next backup gets the next number.
//	EndImageChange     the new server accepts clients.
//
// If the user no longer requests the image, an unverified backup is deleted and the server starts with the previous
// image. If the instance is deleted, the deletion takes its own backup.
func decideImageChange(s *instance.State) (step steps.Step, open bool) {
	status := s.XR.Status
	switch {
	case s.Attempt().Origin != v1.OriginImageChange:
		return steps.Step{}, false
	case status.PendingImage == "":
		step = backup.DiscardAttempt(s, steps.EndImageChange)
	case !hasBegun(s) && s.StoreFailure != "": // The server would be down until the store responds.
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater, Attempt: steps.AttemptAnnounced,
			Message: fmt.Sprintf("The backup before image %s cannot be written, so image %s keeps running: %s",
				status.PendingImage, status.ServedImage, s.StoreFailure)}, true
	case !hasBegun(s):
		return steps.Step{Action: steps.BeginImageChange,
			Message: fmt.Sprintf("Image %s belongs to a different release series than %s, and the data cannot be "+
				"downgraded. Stopping the server to take a backup first", status.PendingImage, status.ServedImage)}, true
	default:
		step = backUpForImage(s)
	}
	step.Hint = ""
	return step, true
}

// hasBegun reports whether the server was stopped for the requested image change.
func hasBegun(s *instance.State) bool {
	c := s.XR.Status.ImageChange
	return c != nil && c.From == s.XR.Status.ServedImage
}

// backUpForImage takes the backup after the function has stopped the server.
func backUpForImage(s *instance.State) steps.Step {
	if step, open := backup.Stopped(s,
		fmt.Sprintf("Taking a backup before image %s starts: %s", s.XR.Status.PendingImage,
			s.Attempt().Record)); open {
		return step
	}
	return steps.Step{Action: steps.AllowImage,
		Message: fmt.Sprintf("Backup %q is verified. Starting image %s", s.Record().Name, s.XR.Status.PendingImage)}
}

// beginImageChange stores the start of the image change and an unused backup number.
func beginImageChange(s *instance.State, _ steps.Step) []change.Change {
	fields := backup.CountTo(s, backup.UnusedNumber(s))
	fields["blockedBy"], fields["imageChange"] = nil, map[string]any{
		"from": s.XR.Status.ServedImage, "fence": true, "allowed": nil, "backup": nil, "percent": nil, "message": nil,
	}
	return append(backup.CheckData(s), steps.PatchXRInternal(s, fields)...)
}

// allowImage lets the function start the new image, and increments the backup number for the data that the new image
// writes.
func allowImage(s *instance.State, _ steps.Step) []change.Change {
	fields := backup.CountBackup(s)
	fields["imageChange"] = map[string]any{"fence": nil, "allowed": true, "backup": s.Record().Name, "percent": nil,
		"message": nil}
	return backup.PatchCounted(s, fields)
}

// endOfImageChange ends the image change. If the user canceled the change after its backup started, it also
// increments the backup number.
func endOfImageChange(s *instance.State, _ steps.Step) []change.Change {
	fields := map[string]any{}
	switch c := s.XR.Status.ImageChange; {
	case backup.HasVerifiedBackup(s):
		fields = backup.CountBackup(s)
	case c != nil && !c.Allowed:
		fields = backup.LeaveNumber(s)
	}
	fields["imageChange"], fields["blockedBy"] = nil, nil // Both fields may contain why the new image was delayed.
	return backup.PatchCounted(s, fields)
}
