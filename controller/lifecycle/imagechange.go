package lifecycle

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
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
func decideImageChange(s *instance.State) (step Step, open bool) {
	is := s.XR.Status
	switch c := is.ImageChange; {
	case s.Attempt().Origin != v1.OriginImageChange:
		return Step{}, false
	case is.PendingImage == "":
		step = putAside(s, EndImageChange)
	case c == nil || c.From != is.ServedImage:
		return Step{Action: BeginImageChange, Message: fmt.Sprintf("Image %s is of another series than %s, on whose data no older server starts once it has run: the server is stopped for a backup first", is.PendingImage, is.ServedImage)}, true
	default:
		step = backUpForImage(s)
	}
	step.Hint = ""
	return step, true
}

// backUpForImage the data of a server that has been told to stop.
func backUpForImage(s *instance.State) Step {
	if step, open := backUpStopped(s, fmt.Sprintf("A backup of the data is taken before image %s starts: %s", s.XR.Status.PendingImage, s.Attempt().Record)); open {
		return step
	}
	return Step{Action: AllowImage, Message: fmt.Sprintf("Backup %q is proven: image %s starts on the data", s.Record().Name, s.XR.Status.PendingImage)}
}

// backUpStopped is what there is to do until the backup is proven of an instance that goes on, and whose server the function
// stops; and its Job is gone.
func backUpStopped(s *instance.State, announcement string) (step Step, open bool) {
	return backUpInLife(s, announcement, awaitStop)
}

// backUpResumed is the same of a server that runs again after its copy: nothing is stopped for what is left to do.
func backUpResumed(s *instance.State, announcement string) (step Step, open bool) {
	return backUpInLife(s, announcement, func(*instance.State) (Step, bool) { return Step{}, false })
}

// backUpInLife is what there is to do until a backup of an instance that goes on is proven, and its Job gone, once nothing has to
// be done first.
func backUpInLife(s *instance.State, announcement string, first func(*instance.State) (Step, bool)) (step Step, open bool) {
	if n := s.ForeignNote(); n != nil && !hasProvenBackup(s) {
		step := putAside(s, SkipNumber)
		step.Attempt, step.Message = AttemptAnnounced, announcement
		return step, true
	}
	if s.Record() == nil && s.OwnNote() == nil {
		if s.StoreFailure != "" { // Whether that number is free is not known.
			return Step{Action: Wait, After: requeueLater, Attempt: AttemptAnnounced, Message: announcement + ": " + s.StoreFailure}, true
		}
		return Step{Action: CreateBackup, Attempt: AttemptAnnounced, Message: announcement}, true
	}
	if step, open := first(s); open {
		return step, true
	}
	switch {
	case !hasProvenBackup(s) && s.OwnNote() != nil:
		return writeIndex(s), true
	case !hasProvenBackup(s):
		return decideBackup(s), true
	case s.Backup != nil:
		step, _ := deleteAndWait([]client.Object{s.Backup.Job})
		return step, true
	}
	return Step{}, false
}

// awaitStop of a server that the function stops.
func awaitStop(s *instance.State) (step Step, open bool) {
	if !isScaledDown(s.Deployment) {
		return Step{Action: Wait, After: requeueSoon, Attempt: AttemptStopping, Message: "Waiting for the server to stop"}, true
	}
	if p := endedPod(s); p != nil {
		return Step{Action: DeleteObjects, Attempt: AttemptStopping, Message: "Stopping the server", Targets: []client.Object{p}}, true
	}
	if len(s.Pods) > 0 {
		return Step{Action: Wait, After: requeueSoon, Attempt: AttemptStopping, Message: whoUsesVolume(&s.Pods[0], string(s.Life.XR))}, true
	}
	return Step{}, false
}

// isScaledDown is true of a Deployment that makes no pods any more.
func isScaledDown(d *appsv1.Deployment) bool {
	return d == nil || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == 0
}

// putAside what was made for a backup that is over, or is not wanted any more, and end that. What is proven is kept.
func putAside(s *instance.State, end Action) Step {
	switch r := s.Record(); {
	case s.Backup != nil:
		step, _ := deleteAndWait([]client.Object{s.Backup.Job})
		return step
	case !hasProvenBackup(s) && s.OwnNote() != nil:
		return writeIndex(s)
	case r != nil && !r.IsProven():
		return Step{Action: DeleteUnprovenBackup, Targets: []client.Object{r}}
	}
	return Step{Action: end}
}

// unusedNumber that no backup has: a status that was lost may name one that is proven already, of what the data was then.
func unusedNumber(s *instance.State) int64 {
	return max(s.XR.Status.BackupNumber, nextBackupNumber(s))
}

// beginImageChange with a number that no backup has.
func beginImageChange(s *instance.State, _ Step) []change.Change {
	fields := countTo(s, unusedNumber(s))
	fields["blockedBy"], fields["imageChange"] = nil, map[string]any{
		"from": s.XR.Status.ServedImage, "fence": true, "allowed": nil, "backup": nil, "percent": nil, "message": nil,
	}
	return append(checkData(s), patchXRStatus(s, fields)...)
}

// skipNumber of a backup that a store has already, from a time that the cluster knows nothing of.
func skipNumber(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, countTo(s, s.XR.Status.BackupNumber+1))
}

// allowImage, and count the backup: the next one is of what comes after it.
func allowImage(s *instance.State, _ Step) []change.Change {
	fields := countBackup(s)
	fields["imageChange"] = map[string]any{"fence": nil, "allowed": true, "backup": s.Record().Name, "percent": nil, "message": nil}
	return patchXRStatus(s, fields)
}

// countBackup that is proven of a life that goes on: the next one has the next number, and the claim lists it.
func countBackup(s *instance.State) map[string]any {
	fields := countTo(s, nextBackupNumber(s))
	fields["backups"] = v1.ListBackups(s.Records)
	return fields
}

// leaveNumber to a backup in life that has come to nothing: its folder on a volume may hold a finished archive that nobody came to note,
// and that another backup, of other data, does not write over.
func leaveNumber(s *instance.State) map[string]any {
	if s.Store() != "" {
		return map[string]any{} // What was sent is discarded.
	}
	return countTo(s, unusedNumber(s)+1)
}

// endOfImageChange counts a backup that was proven, and then not needed.
func endOfImageChange(s *instance.State, _ Step) []change.Change {
	fields := map[string]any{}
	switch c := s.XR.Status.ImageChange; {
	case hasProvenBackup(s):
		fields = countBackup(s)
	case c != nil && !c.Allowed:
		fields = leaveNumber(s)
	}
	fields["imageChange"], fields["blockedBy"] = nil, nil // What kept the other image from running.
	return patchXRStatus(s, fields)
}
