package compose

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An imageChange is what becomes of a spec that names another image than the one whose server last
// took clients.
type imageChange struct {
	// image of the server now: that of the spec, or the one there is while the other waits.
	image string
	// served is the image whose server last took clients; empty before the first did, and where
	// nothing is stored.
	served string
	// pending is the image of the spec while it is of another series than that, and has not taken
	// clients: before it starts on the data there is a backup.
	pending string
	// waits: that backup is not there yet.
	waits bool
	// stopped: the server must not run.
	stopped bool
}

// decideImage of the server, where the spec asks for one.
//
//	same series ─────────────▶ the image of the spec
//	another ── no backup ────▶ the image there is, until the controller stops the server
//	        ├─ being taken ──▶ no server
//	        └─ proven ───────▶ the image of the spec: it is pending until it takes clients
//	back again ──────────────▶ no server before the controller has put the backup aside:
//	                           what is written from then on is not in it
func decideImage(r *resolved, wanted string) imageChange {
	out := imageChange{image: wanted}
	if r.ephemeral || !r.engine.stored {
		return out
	}
	out.served = servedImage(r)
	wantsBackup := r.spec.Backup.BeforeImageChange != v1.BackUpNever && r.spec.DeletionPolicy != v1.DeletionDiscard
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

// servedImage is that of the server that takes clients now, or that last did.
func servedImage(r *resolved) string {
	d, t := r.Observed.Deployment, r.Observed.Template
	if r.started && t != nil && deploymentReady(d) && d.Spec.Replicas != nil && *d.Spec.Replicas > 0 && t.Images[r.engine.name] != "" {
		return t.Images[r.engine.name]
	}
	return r.XR.Status.ServedImage
}

// seriesPattern of a tag that says a version: the manual's series are its first two numbers.
var seriesPattern = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)($|[.+_-])`)

// isOtherSeries is true of an image that is not known to be of the same series as another.
// Registries and folders do not count: mirrors have the same images.
func isOtherSeries(one, other string) bool {
	if one == other {
		return false
	}
	nameOne, seriesOne := seriesOf(one)
	nameOther, seriesOther := seriesOf(other)
	return seriesOne == "" || seriesOne != seriesOther || nameOne != nameOther
}

// seriesOf an image by its tag, such as 8.4; empty where that does not say.
func seriesOf(image string) (name, series string) {
	image, _, _ = strings.Cut(image, "@")
	name, tag, _ := strings.Cut(path.Base(image), ":")
	if m := seriesPattern.FindStringSubmatch(tag); m != nil {
		series = m[1]
	}
	return name, series
}

// whyStopped says what a server waits for that was stopped for another image.
func (of imageChange) whyStopped(c *v1.ImageChangeStatus) string {
	if !of.waits {
		return fmt.Sprintf("The server starts with image %s as soon as the controller has put aside what it made for another one", of.image)
	}
	return fmt.Sprintf("The server is stopped for a backup, before image %s starts on its data%s. To start it with image %s again, without that change: set spec.image to %s",
		of.pending, inSentence(c.Message), of.served, of.served)
}

// waitsFor says in a sentence what an image waits for while the server runs; empty where none does.
func (of imageChange) waitsFor() string {
	if !of.waits || of.stopped {
		return ""
	}
	return fmt.Sprintf(". Image %s is of another series than %s: the controller stops the server for a backup first", of.pending, of.served)
}

// wayBack says how to go back from an image that has not taken clients yet.
func (of imageChange) wayBack(c *v1.ImageChangeStatus) string {
	if of.pending == "" || of.waits {
		return ""
	}
	return fmt.Sprintf(". Backup %s was taken before image %s was to start. To go back: set spec.image to %s; where that no longer starts on the data, delete the claim and create it again with spec.image: %s and spec.restore.backup: %s",
		c.Backup, of.pending, of.served, of.served, c.Backup)
}
