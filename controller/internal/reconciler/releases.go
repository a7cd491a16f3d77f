package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
)

// releaseInterval is the interval at which the controller compares the status of the Platform with the running
// releases. Each check costs two reads of one object.
const releaseInterval = time.Minute

// functionKind is the kind of Crossplane's package. functionName is the name with which the Compositions call the
// function.
var functionKind = schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1", Kind: "Function"}

const functionName = "crossplane-mysql-function-mysql"

// A releaseCheck writes the releases of the controller and the function to the status of the Platform. It also
// reports whether they are compatible.
type releaseCheck struct {
	reader  client.Reader
	writer  writer
	release string
}

// Start runs the check when this controller becomes the leader. The manager calls it.
func (c releaseCheck) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.update(ctx); err != nil {
			log.FromContext(ctx).Info("Cannot write the status of the Platform", "error", err.Error())
		}
	}, releaseInterval)
	return nil
}

// update updates the status if there is a Platform and something has changed.
func (c releaseCheck) update(ctx context.Context) error {
	p := &v1.Platform{}
	err := c.reader.Get(ctx, client.ObjectKey{Name: v1.PlatformName}, p)
	if kerrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot get %s %s: %w", v1.KindPlatform, v1.PlatformName, err)
	}
	function, why := c.functionRelease(ctx)
	next := p.Status.DeepCopy()
	condition := next.SetReleases(c.release, function, why)
	condition.ObservedGeneration = p.Generation
	meta.SetStatusCondition(&next.Conditions, condition)
	if reflect.DeepEqual(*next, p.Status) {
		return nil
	}
	err = c.writer.Apply(ctx, []change.Change{
		change.PatchObjectStatus(p, func(p *v1.Platform) { p.Status = *next })})
	if kerrors.IsConflict(err) || kerrors.IsNotFound(err) {
		return nil // The next check reads the current object.
	}
	return err
}

// functionRelease returns the release of the installed Function, or why it is unknown.
func (c releaseCheck) functionRelease(ctx context.Context) (release, why string) {
	f := &unstructured.Unstructured{}
	f.SetGroupVersionKind(functionKind)
	err := c.reader.Get(ctx, client.ObjectKey{Name: functionName}, f)
	switch {
	case kerrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return "", fmt.Sprintf("There is no Function %s. Install the function's package under this name, because "+
			"the Compositions refer to it", functionName)
	case err != nil:
		return "", v1.PrintableText(fmt.Sprintf("Cannot get Function %s: %v", functionName, err), v1.MaxForeignText)
	}
	installed, _, _ := unstructured.NestedString(f.Object, "status", "currentIdentifier") // Empty if it is unreadable.
	wanted, _, _ := unstructured.NestedString(f.Object, "spec", "package")
	source := cmp.Or(installed, wanted)
	if release = tagOf(source); !v1.IsRelease(release) {
		return "", v1.PrintableText(fmt.Sprintf("Function %s has the package %q, whose tag is not a release such "+
			"as %s",
			functionName, source, v1.Release), v1.MaxForeignText)
	}
	return release, ""
}

// tagOf returns the tag of an image, or "".
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}
