package compose

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An imageChange describes the change from the image that last served clients to the image in the spec.
type imageChange struct {
	// image is the image to run: the image in the spec, or the previous image while the change waits for a backup.
	image string
	// served is the image of the server that last accepted clients. It is empty if no server ever did, and for an
	// instance without stored data.
	served string
	// pending is the image of the spec, if it belongs to a different release series than served and has not accepted
	// clients yet. A backup is required before it starts.
	pending string
	// waits is true if the backup before the image change does not exist yet.
	waits bool
	// stopped is true if the server must not run because of the image change.
	stopped bool
}

// decideImage decides which image the server runs.
//
//	same series ─────────────▶ the image of the spec.
//	other ──── no backup ────▶ the previous image, until the controller stops the server.
//	       ├─ in progress ───▶ no server.
//	       └─ verified ──────▶ the image of the spec, pending until it accepts clients.
//	reverted ────────────────▶ no server until the controller has finished the backup, which lacks later changes.
func decideImage(r *resolved, wanted string) imageChange {
	out := imageChange{image: wanted}
	if r.ephemeral || !r.engine.stored {
		return out
	}
	out.served = servedImage(r)
	wantsBackup := r.spec.Backup.BeforeUpgrade != v1.BackUpNever && r.spec.DeletionPolicy != v1.DeletionDiscard
	if out.served != "" && wantsBackup && isOtherSeries(out.served, wanted) {
		out.pending = wanted
	}
	c := r.XR.Status.ImageChange
	switch {
	case out.pending != "" && !c.MayStart(out.served):
		out.waits, out.image = true, r.XR.Status.Image
		out.stopped = c != nil && c.Fence
	case c != nil:
		out.stopped = c.Fence || out.pending == "" && c.From == out.served
	}
	return out
}

// servedImage returns the image of the server that accepts clients, or of the last server that accepted clients.
func servedImage(r *resolved) string {
	d, t := r.Observed.Deployment, r.Observed.Template
	if r.started && t != nil && deploymentReady(d) && d.Spec.Replicas != nil && *d.Spec.Replicas > 0 &&
		t.Images[r.engine.name] != "" {
		return t.Images[r.engine.name]
	}
	return r.XR.Status.ServedImage
}

// seriesPattern matches a version in a tag, and captures its first two numbers, the release series.
var seriesPattern = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)($|[.+_-])`)

// isOtherSeries reports whether two images may belong to different release series. It ignores registries and
// directories, because mirrors contain the same images.
func isOtherSeries(one, other string) bool {
	if one == other {
		return false
	}
	nameOne, seriesOne := seriesOf(one)
	nameOther, seriesOther := seriesOf(other)
	return seriesOne == "" || seriesOne != seriesOther || nameOne != nameOther
}

// seriesOf returns the release series in the tag of an image, such as 8.4, or "".
func seriesOf(image string) (name, series string) {
	image, _, _ = strings.Cut(image, "@")
	name, tag, _ := strings.Cut(path.Base(image), ":")
	if m := seriesPattern.FindStringSubmatch(tag); m != nil {
		series = m[1]
	}
	return name, series
}

// whyStopped explains why a server is stopped for an image change.
func (change imageChange) whyStopped(c *v1.ImageChangeStatus) string {
	if !change.waits {
		return fmt.Sprintf("Waiting for the controller to finish the previous image change. The server then starts with "+
			"image %s", change.image)
	}
	return fmt.Sprintf("The server is stopped for a backup before it starts with image %s%s. To cancel the change and "+
		"start image %s again, set spec.image to %s",
		change.pending, inSentence(c.Message), change.served, change.served)
}

// waitsFor explains in a message why an image change waits while the server runs. It returns "" if it does not wait.
func (change imageChange) waitsFor(c *v1.ImageChangeStatus) string {
	switch {
	case !change.waits || change.stopped:
		return ""
	case c != nil && c.From == "" && c.Message != "":
		return ". " + c.Message
	}
	return fmt.Sprintf(". Image %s belongs to a different release series than %s, and MySQL cannot be downgraded. The "+
		"controller stops the server for a backup first",
		change.pending, change.served)
}

// wayBack returns how to revert to the previous image before the new one has accepted clients.
func (change imageChange) wayBack(c *v1.ImageChangeStatus) string {
	if change.pending == "" || change.waits {
		return ""
	}
	return fmt.Sprintf(". Backup %s was taken before the change to image %s. To revert the change, set spec.image to "+
		"%s. If that image no longer starts on the data, delete the claim and create it again with spec.image: %s and "+
		"spec.restore.backup: %s",
		c.Backup, change.pending, change.served, change.served, c.Backup)
}
