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

// An UnreadablePlatformError says what of the platform's object cannot be read.
type UnreadablePlatformError struct{ v1.UnreadableFields }

func (e *UnreadablePlatformError) Error() string {
	object := strings.ToLower(v1.KindMySQLPlatform) + " " + v1.PlatformName
	return fmt.Sprintf("%s %s: %s. To repair it: %s", v1.KindMySQLPlatform, v1.PlatformName, e.String(), e.Edit(object))
}

// ReadPlatform is what the platform says of claims; nil where it has said nothing yet. With an UnreadablePlatformError it is what can be
// read, and must not be taken for a permission.
func ReadPlatform(ctx context.Context, reader client.Reader) (*v1.MySQLPlatformSpec, error) {
	p := &v1.MySQLPlatform{}
	err := reader.Get(ctx, client.ObjectKey{Name: v1.PlatformName}, p)
	switch {
	case kerrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil //nolint:nilnil // There is none; that is no error.
	case err != nil:
		return nil, fmt.Errorf("cannot get %s %s: %w", v1.KindMySQLPlatform, v1.PlatformName, err)
	}
	if len(p.Unreadable) > 0 {
		return &p.Spec, &UnreadablePlatformError{p.Unreadable}
	}
	return &p.Spec, nil
}

// ReadJobResources of --job-resources, which the controller's Jobs have; nil where it is not said.
func ReadJobResources(said string) (*corev1.ResourceRequirements, error) {
	if said == "" {
		return nil, nil //nolint:nilnil // The usual ones are no error.
	}
	r := &v1.Resources{}
	if err := yaml.UnmarshalStrict([]byte(said), r); err != nil {
		return nil, fmt.Errorf("--job-resources=%q is none: say something like {\"limits\":{\"memory\":\"256Mi\"}}: %w", said, err)
	}
	out, err := agent.ReadResources(r)
	if err != nil {
		return nil, fmt.Errorf("--job-resources: %w", err)
	}
	return out, nil
}
