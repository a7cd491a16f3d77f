package instance

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An UnreadablePlatformError reports which fields of the Platform object cannot be read.
type UnreadablePlatformError struct{ v1.UnreadableFields }

func (e *UnreadablePlatformError) Error() string {
	object := strings.ToLower(v1.KindPlatform) + " " + v1.PlatformName
	return fmt.Sprintf("%s %s: %s. To repair it: %s", v1.KindPlatform, v1.PlatformName, e.String(), e.Edit(object))
}

// ReadPlatform returns the spec of the Platform object, or nil if the object does not exist. If it returns an
// UnreadablePlatformError, the spec contains only the readable fields. In this case, callers must not treat a missing
// field as a permission.
func ReadPlatform(ctx context.Context, reader client.Reader) (*v1.PlatformSpec, error) {
	p := &v1.Platform{}
	err := reader.Get(ctx, client.ObjectKey{Name: v1.PlatformName}, p)
	switch {
	case kerrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil //nolint:nilnil // A missing object is not an error.
	case err != nil:
		return nil, fmt.Errorf("cannot get %s %s: %w", v1.KindPlatform, v1.PlatformName, err)
	}
	if len(p.Unreadable) > 0 {
		return &p.Spec, &UnreadablePlatformError{p.Unreadable}
	}
	return &p.Spec, nil
}

// ReadJobResources parses the value of --job-resources for the controller's Jobs. It returns nil if the flag is not
// set.
func ReadJobResources(text string) (*corev1.ResourceRequirements, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // An unset flag is not an error.
	}
	r := &v1.Resources{}
	if err := yaml.UnmarshalStrict([]byte(text), r); err != nil {
		return nil, fmt.Errorf(`--job-resources=%q is not valid, an example is {"limits":{"memory":"256Mi"}}: %w`, text,
			err)
	}
	out, err := agent.ReadResources(r)
	if err != nil {
		return nil, fmt.Errorf("--job-resources: %w", err)
	}
	return out, nil
}
