package instance

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Kinds that are read and patched without a type of their own: writing an XR
// back through ours would erase Crossplane's fields.
var (
	ClaimKind = v1.GroupVersion.WithKind(v1.KindMySQL)
	XRKind    = v1.GroupVersion.WithKind(v1.KindXMySQL)
)

// FinalizerCrossplane is on an XR for as long as Crossplane may still apply what
// the function composed.
const FinalizerCrossplane = "composite.apiextensions.crossplane.io"

// A Composite is a claim or an XR: as it is, and the part of it that we know.
type Composite struct {
	*unstructured.Unstructured

	Spec   v1.XMySQLSpec
	Status v1.MySQLStatus
	// Conditions of the status.
	Conditions []metav1.Condition
	// Composite is the name of the XR that a claim has bound.
	Composite string
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

func decode(u *unstructured.Unstructured) (*Composite, error) {
	raw, err := json.Marshal(map[string]any{"spec": u.Object["spec"], "status": u.Object["status"]})
	if err != nil {
		return nil, err
	}
	known := struct {
		Spec   v1.XMySQLSpec `json:"spec"`
		Status struct {
			v1.MySQLStatus `json:",inline"`

			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}{}
	if err := json.Unmarshal(raw, &known); err != nil {
		return nil, fmt.Errorf("cannot read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	c := &Composite{Unstructured: u, Spec: known.Spec, Status: known.Status.MySQLStatus, Conditions: known.Status.Conditions}
	c.Composite, _, _ = unstructured.NestedString(u.Object, "spec", "resourceRef", "name")
	return c, nil
}

// Protected is true if our finalizer is on it.
func (c *Composite) Protected() bool { return controllerutil.ContainsFinalizer(c, v1.Finalizer) }

// Composing is true while Crossplane may still apply something for an XR.
func (c *Composite) Composing() bool {
	return controllerutil.ContainsFinalizer(c, FinalizerCrossplane)
}

// Dying is true once it is being deleted.
func (c *Composite) Dying() bool { return c.GetDeletionTimestamp() != nil }

// Serving is true while the server takes clients, as the function says.
func (c *Composite) Serving() bool {
	return slices.ContainsFunc(c.Conditions, func(x metav1.Condition) bool {
		return x.Type == v1.ConditionServing && x.Status == metav1.ConditionTrue
	})
}

// Beginning is true while pods of a living instance are to run and its server
// takes no clients.
func (c *Composite) Beginning() bool {
	r := c.Status.Restore
	return !c.Dying() && !c.Serving() && (c.Status.Started || r != nil && r.Phase == v1.RestoreRunning)
}
