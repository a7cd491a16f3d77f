package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Kind of claim that is looked after, and of the XR that stands for it. Both
// are read and patched without a type of their own: writing an XR back through
// ours would erase Crossplane's fields.
type Kind struct{ Claim, XR schema.GroupVersionKind }

// Kinds that are looked after.
func Kinds() []Kind {
	return []Kind{
		{Claim: ClaimKind, XR: XRKind},
		{Claim: v1.GroupVersionDatabase.WithKind(v1.KindDatabase), XR: v1.GroupVersionDatabase.WithKind(v1.KindXDatabase)},
	}
}

// Kinds of the first API.
var (
	ClaimKind = v1.GroupVersion.WithKind(v1.KindMySQL)
	XRKind    = v1.GroupVersion.WithKind(v1.KindXMySQL)
)

// crdKind is of what tells the API server of a kind.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// kindOf claims of this name; false for one that is not looked after.
func kindOf(claim string) (Kind, bool) {
	all := Kinds()
	n := slices.IndexFunc(all, func(k Kind) bool { return k.Claim.Kind == claim })
	if n < 0 {
		return Kind{}, false
	}
	return all[n], true
}

// A Composite is a claim or an XR: as it is, and the part of it that we know.
type Composite struct {
	*unstructured.Unstructured

	// Spec of a Database is as that of a MySQL, but for its Type.
	Spec v1.XMySQLSpec
	// Type of server.
	Type   v1.DatabaseType
	Status v1.MySQLStatus
	// Stale is true if an XR has the status of an earlier one of its name. Then Status and
	// Conditions are empty.
	Stale bool
	// Conditions of the status.
	Conditions []metav1.Condition
	// BoundXR is the name of the XR that a claim has bound.
	BoundXR string
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// Decode a claim or XR of a kind that is looked after.
func Decode(u *unstructured.Unstructured) (*Composite, error) {
	c := &Composite{Unstructured: u, Type: v1.TypeMySQL}
	status := struct {
		v1.MySQLStatus `json:",inline"`

		Conditions []metav1.Condition `json:"conditions"`
	}{}
	if err := errors.Join(c.decodeSpec(), convertJSON(u.Object["status"], &status)); err != nil {
		return nil, fmt.Errorf("cannot read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	if c.Stale = isXR(u) && status.IsStale(u.GetUID()); !c.Stale {
		c.Status, c.Conditions = status.MySQLStatus, status.Conditions
	}
	c.BoundXR, _, _ = unstructured.NestedString(u.Object, "spec", "resourceRef", "name")
	return c, nil
}

// isXR is true of an object of a kind of XRs. A claim has the status of its XR.
func isXR(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.XR.Kind == u.GetKind() })
}

func convertJSON(from, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// HasFinalizer is true if our finalizer is on it.
func (c *Composite) HasFinalizer() bool { return controllerutil.ContainsFinalizer(c, v1.Finalizer) }

// ClaimKey is the key of an XR's claim, as its spec has it; false where it has none.
func (c *Composite) ClaimKey() (Key, bool) {
	r := c.Spec.ClaimRef
	if r == nil {
		return Key{}, false
	}
	return Key{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, true
}

// IsBoundTo an XR is true of a claim that is there and has bound that one.
func (c *Composite) IsBoundTo(xr *Composite) bool {
	return c != nil && c.BoundXR == xr.GetName()
}

// IsComposing is true while Crossplane may still apply something for an XR.
func (c *Composite) IsComposing() bool {
	return controllerutil.ContainsFinalizer(c, FinalizerCrossplane)
}

// IsDeleting is true once it is being deleted.
func (c *Composite) IsDeleting() bool { return c.GetDeletionTimestamp() != nil }

// IsServing is true while the server takes clients, as the function says.
func (c *Composite) IsServing() bool {
	return meta.IsStatusConditionTrue(c.Conditions, v1.ConditionServing)
}

// isUnsynced reports whether Crossplane could not do all that it should for an XR the last time.
func isUnsynced(c *Composite) bool { return meta.IsStatusConditionFalse(c.Conditions, "Synced") }

// MayServe reports whether the server takes clients, or waits for the first login, which is the controller's. Crossplane turns the
// function's conditions to Unknown while it cannot compose. The server goes on then, so one that a client has once been able to log in to
// may still serve.
func (c *Composite) MayServe() (since time.Time, ok bool) {
	x := meta.FindStatusCondition(c.Conditions, v1.ConditionServing)
	if x == nil {
		return time.Time{}, false
	}
	unknown := x.Status == metav1.ConditionUnknown && isUnsynced(c) && c.Status.Binding != nil
	return x.LastTransitionTime.Time, x.Status == metav1.ConditionTrue || x.Reason == v1.ReasonLoginPending || unknown
}

// NotServingSince is when the function said last why the server takes no clients; zero where it does, or that is not known.
func (c *Composite) NotServingSince() time.Time {
	if x := meta.FindStatusCondition(c.Conditions, v1.ConditionServing); x != nil && x.Status != metav1.ConditionTrue {
		return x.LastTransitionTime.Time
	}
	return time.Time{}
}

// IsSuspended is true once the server is off because the claim wants it so, as the function says. A refusal leaves what it said last.
func (c *Composite) IsSuspended() bool {
	x := meta.FindStatusCondition(c.Conditions, v1.ConditionServing)
	return c.Spec.Suspended && x != nil && x.Reason == v1.ReasonSuspended
}

// IsBeginning is true while pods of a living instance are to run and its server
// takes no clients.
func (c *Composite) IsBeginning() bool {
	r := c.Status.Restore
	return !c.IsDeleting() && !c.IsServing() && (c.Status.Started && !c.IsSuspended() || r.IsRunning())
}

// HasFailedRestore reports whether the restore that the server waits for has failed for good.
func (c *Composite) HasFailedRestore() bool {
	r := c.Status.Restore
	return !c.IsDeleting() && !c.Status.Started && r != nil && r.Phase == v1.RestoreFailed
}

// decodeSpec of either API.
func (c *Composite) decodeSpec() error {
	if c.GroupVersionKind().Group != v1.GroupDatabase {
		return convertJSON(c.Object["spec"], &c.Spec)
	}
	spec := v1.XDatabaseSpec{}
	err := convertJSON(c.Object["spec"], &spec)
	c.Spec, c.Type = spec.AsMySQL(), spec.Type
	return err
}
