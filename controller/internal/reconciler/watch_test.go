package reconciler

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

type withKinds struct {
	ctrl.Manager

	mapper meta.RESTMapper
}

func (m withKinds) GetRESTMapper() meta.RESTMapper { return m.mapper }

func (withKinds) GetLogger() logr.Logger { return logr.Discard() }

// TestWhenInstalled checks kinds that are installed and kinds that are not. When an XRD is deleted, the kind of the
// XRs is deleted first, while a claim may still exist.
func TestWhenInstalled(t *testing.T) {
	installed := instance.Kinds()[0]
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(installed.Object, meta.RESTScopeNamespace)
	for kind, want := range map[schema.GroupVersionKind]bool{installed.Object: true, installed.XR: false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*installPollInterval)
			defer cancel()
			begun := false
			err := whenInstalled(withKinds{mapper: mapper}, kind, func() error { begun = true; return nil })(ctx)
			if err != nil || begun != want {
				t.Errorf("%s: begun: %v, %v", kind.Kind, begun, err)
			}
		})
	}
}
