package lifecycle

import (
	"fmt"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A server of a newer series changes the data that it starts on, and none of the series before starts
// on that again (MySQL manual, 3.4 Downgrading MySQL). So the function holds an image of another series
// back, and says so (status.pendingImage), until there is a backup to go back to.

// decideImageChange of an instance whose image is to be one of another series. What is in between is as in
// a deletion, with a record of its own:
//
//	BeginImageChange   the function stops the server
//	CreateBackup       a record says that it begins
//	CreateBackupJob    when the server's pod is gone: an agent copies the volume, and reads the copy again
//	NoteBackup         from here on it is proven
//	MarkProven         the record says so
//	DeleteObjects      the Job, which holds PVCs
//	AllowImage         the function starts the new image, and the next backup has the next number
//	EndImageChange     it has taken clients
//
// Where the image is not wanted any more, what is not proven goes, and the server starts as it was. A
// deletion in between takes its own backup.
func decideImageChange(s *instance.State) (step steps.Step, open bool) {
	is := s.XR.Status
	switch c := is.ImageChange; {
	case s.Attempt().Origin != v1.OriginImageChange:
		return steps.Step{}, false
	case is.PendingImage == "":
		step = backup.PutAside(s, steps.EndImageChange)
	case c == nil || c.From != is.ServedImage:
		return steps.Step{Action: steps.BeginImageChange, Message: fmt.Sprintf("Image %s is of another series than %s, on whose data no older server starts once it has run: the server is stopped for a backup first", is.PendingImage, is.ServedImage)}, true
	default:
		step = backUpForImage(s)
	}
	step.Hint = ""
	return step, true
}

// backUpForImage the data of a server that has been told to stop.
func backUpForImage(s *instance.State) steps.Step {
	if step, open := backup.Stopped(s, fmt.Sprintf("A backup of the data is taken before image %s starts: %s", s.XR.Status.PendingImage, s.Attempt().Record)); open {
		return step
	}
	return steps.Step{Action: steps.AllowImage, Message: fmt.Sprintf("Backup %q is proven: image %s starts on the data", s.Record().Name, s.XR.Status.PendingImage)}
}

// beginImageChange with a number that no backup has.
func beginImageChange(s *instance.State, _ steps.Step) []change.Change {
	fields := backup.CountTo(s, backup.UnusedNumber(s))
	fields["blockedBy"], fields["imageChange"] = nil, map[string]any{
		"from": s.XR.Status.ServedImage, "fence": true, "allowed": nil, "backup": nil, "percent": nil, "message": nil,
	}
	return append(backup.CheckData(s), steps.PatchXRStatus(s, fields)...)
}

// allowImage, and count the backup: the next one is of what comes after it.
func allowImage(s *instance.State, _ steps.Step) []change.Change {
	fields := backup.CountBackup(s)
	fields["imageChange"] = map[string]any{"fence": nil, "allowed": true, "backup": s.Record().Name, "percent": nil, "message": nil}
	return steps.PatchXRStatus(s, fields)
}

// endOfImageChange counts a backup that was proven, and then not needed.
func endOfImageChange(s *instance.State, _ steps.Step) []change.Change {
	fields := map[string]any{}
	switch c := s.XR.Status.ImageChange; {
	case backup.HasProvenBackup(s):
		fields = backup.CountBackup(s)
	case c != nil && !c.Allowed:
		fields = backup.LeaveNumber(s)
	}
	fields["imageChange"], fields["blockedBy"] = nil, nil // What kept the other image from running.
	return steps.PatchXRStatus(s, fields)
}
