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
	// Unreadable fields of spec and status.
	Unreadable v1.UnreadableFields
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// Decode reads a claim or XR of a kind that is looked after, as far as it can be read. What cannot be read is in Unreadable, and
// has the value that keeps data.
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
		c.Unreadable = append(c.Unreadable, v1.UnreadableField{Path: []string{"spec", "resourceRef", "name"}, Why: "it must be a string"})
	}
	c.keepWhatIsInDoubt()
	return c
}

// textAt a path. It is empty, and a text, where there is none.
func textAt(u *unstructured.Unstructured, path ...string) (text string, isText bool) {
	text, _, err := unstructured.NestedString(u.Object, path...)
	return text, err == nil
}

// The values of spec.backup.keep and keepFor under which no backup is removed. Both are above what the schema allows.
const (
	keepAll     = 1000
	keepForEver = "999999w"
)

// InKubectl is what a kubectl command calls it, such as mysql db --namespace shop.
func (c *Composite) InKubectl() string {
	name := strings.ToLower(c.GetKind()) + " " + c.GetName()
	if c.GetNamespace() != "" {
		name += " --namespace " + c.GetNamespace()
	}
	return name
}

// WhyUnreadable says which fields cannot be read, and the command that repairs the first of them. It is empty if all were read.
func (c *Composite) WhyUnreadable() string {
	if c == nil || len(c.Unreadable) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: %s. Everything else goes on. To repair it: %s", c.GetKind(), c.GetName(), c.Unreadable, c.Unreadable.Repair(c.InKubectl()))
}

// isXR is true of an object of a kind of XRs. A claim has the status of its XR.
func isXR(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.XR.Kind == u.GetKind() })
}

// HasFinalizer is true if our finalizer is on it.
func (c *Composite) HasFinalizer() bool { return controllerutil.ContainsFinalizer(c, v1.Finalizer) }

// ClaimKey is the key of an XR's claim, as its spec has it; false where it has none. If the spec cannot be read, the labels that
// Crossplane writes count: an XR in doubt is an instance.
func (c *Composite) ClaimKey() (Key, bool) {
	if c.Unreadable.Has("spec.claimRef") {
		return c.labeledKey()
	}
	r := c.Spec.ClaimRef
	if r == nil {
		return Key{}, false
	}
	return Key{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, true
}

// IsBoundTo an XR is true of a claim that is there and has bound that one. One whose reference cannot be read has bound each XR that
// says that it is of this claim.
func (c *Composite) IsBoundTo(xr *Composite) bool {
	switch {
	case c == nil:
		return false
	case !c.Unreadable.Has("spec.resourceRef"):
		return c.BoundXR == xr.GetName()
	}
	k, ok := xr.ClaimKey()
	return ok && k == Key{Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName()}
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

// readField of the object, such as its spec, and note what of it cannot be read.
func (c *Composite) readField(name string, into any) {
	value := c.Object[name]
	if value == nil {
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		c.Unreadable = append(c.Unreadable, v1.UnreadableField{Path: []string{name}, Why: "it is not JSON"})
		return
	}
	unread, err := v1.ReadObject(raw, into)
	if err != nil {
		unread = v1.UnreadableFields{{Why: "it must be a map"}}
	}
	for _, f := range unread {
		f.Path = append([]string{name}, f.Path...)
		c.Unreadable = append(c.Unreadable, f)
	}
}

// keepWhatIsInDoubt sets fields that cannot be read to the value under which no data is lost: a backup is taken, none is removed,
// and a server that may have started is one that has.
func (c *Composite) keepWhatIsInDoubt() {
	for field, keep := range map[string]func(){
		"spec.deletionPolicy":           func() { c.Spec.DeletionPolicy = v1.DeletionBackup },
		"spec.backup.requireRestorable": func() { c.Spec.Backup.RequireRestorable = new(true) },
		"spec.backup.keep":              func() { c.Spec.Backup.Keep = new(int32(keepAll)) },
		"spec.backup.keepFor":           func() { c.Spec.Backup.KeepFor = keepForEver },
		"status.started":                func() { c.Status.Started = true },
		"status.initialized":            func() { c.Status.Initialized = true },
	} {
		if c.Unreadable.Has(field) {
			keep()
		}
	}
}

// saysNoClaim is true of an XR that may have a claim, and of which neither spec nor labels say which.
func (c *Composite) saysNoClaim() bool {
	_, ok := c.ClaimKey()
	return !ok && c.Unreadable.Has("spec.claimRef")
}

// labeledKey is the key of an XR's claim, as its labels have it.
func (c *Composite) labeledKey() (Key, bool) {
	for _, kind := range Kinds() {
		if keys := kind.OfXR(c); kind.XR.GroupKind() == c.GroupVersionKind().GroupKind() && len(keys) > 0 {
			return keys[0], true
		}
	}
	return Key{}, false
}

// decodeSpec of either API.
func (c *Composite) decodeSpec() {
	if c.GroupVersionKind().Group != v1.GroupDatabase {
		c.readField("spec", &c.Spec)
		return
	}
	spec := v1.XDatabaseSpec{}
	c.readField("spec", &spec)
	c.Spec, c.Type = spec.AsMySQL(), spec.Type
}
