package instance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Kind is a kind of object that users create, together with the kind of its XR. The controller reads and patches
// both as unstructured objects, because a typed write of an XR would delete Crossplane's fields.
type Kind struct{ v1.API }

// Kinds returns the kinds that the controller manages.
func Kinds() []Kind {
	all := v1.APIs()
	out := make([]Kind, 0, len(all))
	for _, a := range all {
		out = append(out, Kind{a})
	}
	return out
}

// ClaimKind and XRKind are the kinds of a claim for a MySQL server, and of its XR.
var (
	ClaimKind = v1.GroupVersionClaims.WithKind(v1.KindMySQL)
	XRKind    = v1.GroupVersionClaims.WithKind(v1.KindXMySQL)
)

// crdKind is the GroupVersionKind of CustomResourceDefinitions.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// kindOf returns the Kind of an instance from its v1.Instance.Kind, or false if the controller does not manage it.
func kindOf(instances string) (Kind, bool) {
	a, ok := v1.APIOfInstances(instances)
	return Kind{a}, ok
}

// A Composite is a claim or an XR, as an unstructured object and with its decoded fields.
type Composite struct {
	*unstructured.Unstructured

	// Spec contains the fields of a MySQL. A Database has the same fields and a Type.
	Spec v1.XMySQLSpec
	// Type is the type of a Database, such as mysql. It is empty for a MySQL.
	Type   v1.DatabaseType
	Status v1.MySQLStatus
	// Stale is true if an XR has the status of a previous XR with the same name. Status and Conditions are empty in this
	// case.
	Stale bool
	// Conditions are the conditions in the status.
	Conditions []metav1.Condition
	// BoundXR is the name of the XR that a claim is bound to.
	BoundXR string
	// Unreadable lists the fields of spec and status that cannot be decoded.
	Unreadable v1.UnreadableFields
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// Decode decodes a claim or XR as far as it is readable. It lists the other fields in Unreadable, and gives them the
// value that protects the data.
func Decode(u *unstructured.Unstructured) *Composite {
	c := &Composite{Unstructured: u, Type: v1.TypeMySQL}
	status := struct {
		v1.MySQLStatus `json:",inline"`

		Conditions []metav1.Condition `json:"conditions"`
	}{}
	c.decodeSpec()
	c.readField("status", &status)
	if c.Stale = isXR(u) && status.IsStale(u.GetUID()); c.Stale {
		c.Unreadable = slices.DeleteFunc(c.Unreadable, func(f v1.UnreadableField) bool { return f.Path[0] == "status" })
	} else {
		c.Status, c.Conditions = status.MySQLStatus, status.Conditions
	}
	var isText bool
	if c.BoundXR, isText = textAt(u, "spec", "resourceRef", "name"); !isText {
		c.Unreadable = append(c.Unreadable,
			v1.UnreadableField{Path: []string{"spec", "resourceRef", "name"}, Why: "it must be a string"})
	}
	c.keepWhatIsInDoubt()
	return c
}

// textAt returns the string at a path. isText is false if the field contains another type. A missing field results in
// an empty string.
func textAt(u *unstructured.Unstructured, path ...string) (text string, isText bool) {
	text, _, err := unstructured.NestedString(u.Object, path...)
	return text, err == nil
}

// Values of spec.backup.retention with which no backup is deleted. The schema allows only lower values.
const (
	keepAll     = 1000
	keepForEver = "999999w"
)

// InKubectl returns the kubectl arguments for the object, such as mysql db --namespace shop.
func (c *Composite) InKubectl() string {
	resource := strings.ToLower(c.GetKind())
	if c.isOwnObject() { // A claim may have the same kind, in another API group.
		resource = v1.ResourceOf(c.GroupVersionKind()).GroupResource().String()
	}
	name := resource + " " + c.GetName()
	if c.GetNamespace() != "" {
		name += " --namespace " + c.GetNamespace()
	}
	return name
}

// WhyUnreadable returns which fields are unreadable, and the command that repairs the first of them. It returns "" if
// all fields are readable.
func (c *Composite) WhyUnreadable() string {
	if c == nil || len(c.Unreadable) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: %s. The other fields are still used. To repair it: %s", c.GetKind(), c.GetName(), c.Unreadable,
		c.Unreadable.Repair(c.InKubectl()))
}

// isXR reports whether an object is an XR. A claim has a copy of the status of its XR.
func isXR(u *unstructured.Unstructured) bool {
	_, ok := v1.APIOf(u.GroupVersionKind().GroupKind())
	return ok
}

// HasFinalizer reports whether the object has the product's finalizer.
func (c *Composite) HasFinalizer() bool { return controllerutil.ContainsFinalizer(c, v1.Finalizer) }

// Key returns the key of the XR's instance. This is the claim in the XR's spec, or the XR itself in an API without
// claims. It returns false if the XR should have a claim but has none. If the spec is unreadable, Key uses
// Crossplane's labels, because such an XR must still be treated as an instance.
func (c *Composite) Key() (Key, bool) {
	if a, ok := v1.APIOf(c.GroupVersionKind().GroupKind()); ok && !a.HasClaims() {
		return Key{Kind: a.InstanceKind(), Namespace: c.GetNamespace(), Name: c.GetName()}, true
	}
	if c.Unreadable.Has("spec.claimRef") {
		return c.labeledKey()
	}
	r := c.Spec.ClaimRef
	if r == nil {
		return Key{}, false
	}
	return Key{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, true
}

// IsBoundTo reports whether a claim exists and is bound to an XR. A claim with an unreadable reference is treated as
// bound to each XR that names this claim.
func (c *Composite) IsBoundTo(xr *Composite) bool {
	switch {
	case c == nil:
		return false
	case !c.Unreadable.Has("spec.resourceRef"):
		return c.BoundXR == xr.GetName()
	}
	k, ok := xr.Key()
	return ok && k == Key{Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName()}
}

// IsComposing reports whether Crossplane may still apply objects for an XR.
func (c *Composite) IsComposing() bool {
	return controllerutil.ContainsFinalizer(c, FinalizerCrossplane)
}

// IsDeleting reports whether the object is being deleted.
func (c *Composite) IsDeleting() bool { return c.GetDeletionTimestamp() != nil }

// IsServing reports whether the function has reported that the server accepts clients.
func (c *Composite) IsServing() bool {
	return meta.IsStatusConditionTrue(c.Conditions, v1.ConditionServing)
}

// isUnsynced reports whether the last reconcile of an XR by Crossplane failed.
func isUnsynced(c *Composite) bool { return meta.IsStatusConditionFalse(c.Conditions, "Synced") }

// MayServe reports whether the server accepts clients or waits for the controller's first login, and since when.
// While Crossplane cannot compose, it sets the function's conditions to Unknown, but a running server continues to
// run. In this case MayServe also returns true if the server has accepted clients earlier.
func (c *Composite) MayServe() (since time.Time, ok bool) {
	x := meta.FindStatusCondition(c.Conditions, v1.ConditionServing)
	if x == nil {
		return time.Time{}, false
	}
	unknown := x.Status == metav1.ConditionUnknown && isUnsynced(c) && c.Status.Binding != nil
	return x.LastTransitionTime.Time, x.Status == metav1.ConditionTrue || x.Reason == v1.ReasonLoginPending || unknown
}

// NotServingSince returns when the function last reported that the server accepts no clients. It returns zero if the
// server accepts clients or the time is unknown.
func (c *Composite) NotServingSince() time.Time {
	if x := meta.FindStatusCondition(c.Conditions, v1.ConditionServing); x != nil && x.Status != metav1.ConditionTrue {
		return x.LastTransitionTime.Time
	}
	return time.Time{}
}

// IsSuspended reports whether the function has stopped the server because the claim is suspended. The condition alone
// does not show this, because the function keeps it while it refuses the spec.
func (c *Composite) IsSuspended() bool {
	x := meta.FindStatusCondition(c.Conditions, v1.ConditionServing)
	return c.Spec.Suspend && x != nil && x.Reason == v1.ReasonSuspended
}

// IsBeginning reports whether an existing instance should have pods but its server does not accept clients.
func (c *Composite) IsBeginning() bool {
	r := c.Status.Restore
	return !c.IsDeleting() && !c.IsServing() && (c.Status.Started && !c.IsSuspended() || r.IsRunning())
}

// HasFailedRestore reports whether the restore that the server waits for has failed permanently.
func (c *Composite) HasFailedRestore() bool {
	r := c.Status.Restore
	return !c.IsDeleting() && !c.Status.Started && r != nil && r.Phase == v1.RestoreFailed
}

// isOwnObject reports whether a user created the XR, in an API without claims.
func (c *Composite) isOwnObject() bool {
	a, ok := v1.APIOf(c.GroupVersionKind().GroupKind())
	return ok && !a.HasClaims()
}

// readField decodes a top-level field such as spec, and records which parts are unreadable.
func (c *Composite) readField(name string, target any) {
	value := c.Object[name]
	if value == nil {
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		c.Unreadable = append(c.Unreadable, v1.UnreadableField{Path: []string{name}, Why: "it is not JSON"})
		return
	}
	unread, err := v1.ReadObject(raw, target)
	if err != nil {
		unread = v1.UnreadableFields{{Why: "it must be a map"}}
	}
	for _, f := range unread {
		f.Path = append([]string{name}, f.Path...)
		c.Unreadable = append(c.Unreadable, f)
	}
}

// keepWhatIsInDoubt sets unreadable fields to the value that protects the data. With these values, a backup is
// required, no backup is deleted, and the server is treated as started.
func (c *Composite) keepWhatIsInDoubt() {
	for field, keep := range map[string]func(){
		"spec.deletionPolicy": func() { c.Spec.DeletionPolicy = v1.DeletionBackup },
		"spec.backup.finalBackup.requireRestoreTest": func() {
			c.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
		},
		"spec.backup.retention.count":  func() { c.Spec.Backup.Retention.Count = new(int32(keepAll)) },
		"spec.backup.retention.minAge": func() { c.Spec.Backup.Retention.MinAge = keepForEver },
		"status.internal.started":      func() { c.Status.Started = true },
		"status.internal.initialized":  func() { c.Status.Initialized = true },
	} {
		if c.Unreadable.Has(field) {
			keep()
		}
	}
}

// isClaimGone reports whether the claim of an XR is unknown, because spec.claimRef is unreadable and the labels name
// no claim.
func (c *Composite) isClaimGone() bool {
	_, ok := c.Key()
	return !ok && c.Unreadable.Has("spec.claimRef")
}

// labeledKey returns the key of an XR's claim from the labels.
func (c *Composite) labeledKey() (Key, bool) {
	for _, kind := range Kinds() {
		if keys := kind.OfXR(c); kind.XR.GroupKind() == c.GroupVersionKind().GroupKind() && len(keys) > 0 {
			return keys[0], true
		}
	}
	return Key{}, false
}

// decodeSpec decodes the spec of a MySQL or a Database.
func (c *Composite) decodeSpec() {
	if c.GroupVersionKind().Group != v1.GroupDatabase {
		c.readField("spec", &c.Spec)
		return
	}
	spec := v1.XDatabaseSpec{}
	c.readField("spec", &spec)
	c.Spec, c.Type = spec.AsMySQL(), spec.Type
}
