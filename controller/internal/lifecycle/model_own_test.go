package lifecycle

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// This file contains what is different for an instance without a claim. Its XR is in the user's namespace, and the user
// creates and deletes it. The XR owns the composed objects, so that a user chooses with the deletion what happens to
// them.
//
// The model does not move an instance from a claim to an XR without a claim. Such a move deletes one instance, and restores
// its backup to an instance with a different name and backup volume. The model contains no restore.from.

// How a user deleted an XR without a claim, which is the value of kubectl delete --cascade.
const (
	cascadeBackground int8 = iota
	// cascadeForeground deletes the composed objects first. The XR exists until all of them are deleted.
	cascadeForeground
	// cascadeOrphan keeps the composed objects, which have no owner any more. The controller deletes them.
	cascadeOrphan
	// cascadeUnknown is cascadeOrphan for an XR without the controller's finalizer. The XR can then be deleted before the
	// controller reads it, so that the user must delete a kept Deployment and Service.
	cascadeUnknown
)

// isOwn reports whether the instances of the model have no claims.
func (m model) isOwn() bool { return m.instances[0].own }

// hasOwnXR reports whether an XR without a claim exists. It is an object of the namespace, and its name is unique.
func (m model) hasOwnXR() bool {
	return slices.ContainsFunc(m.instances[:], func(l modelInstance) bool { return l.own && l.xr != none })
}

// collects reports whether the garbage collector or the deletion of the namespace deletes the composed objects of an
// instance.
func (m model) collects(l modelInstance) bool {
	orphaned := l.cascade == cascadeOrphan || l.cascade == cascadeUnknown
	return m.namespace != alive1 || l.xr == none && !orphaned || l.xr == dying1 && l.cascade == cascadeForeground
}

// waitsForDependents reports whether the finalizer foregroundDeletion still keeps the XR of an instance. Kubernetes
// removes it after the composed objects are deleted, because Crossplane sets blockOwnerDeletion in their ownerReferences.
func (m model) waitsForDependents(n int) bool {
	l := m.instances[n]
	return l.cascade == cascadeForeground && (l.deployment != none || l.service || l.restoreJob ||
		m.pvc != none && int(m.pvcInstance) == n+1)
}

// loseFinalizers is called when a user removes all finalizers of an XR. The finalizer foregroundDeletion is one of them,
// so that the composed objects are then deleted after the XR. Without the controller's finalizer, the controller knows
// only the objects that hold data.
func (l *modelInstance) loseFinalizers() {
	l.ours, l.cross = false, false
	switch l.cascade {
	case cascadeForeground:
		l.cascade = cascadeBackground
	case cascadeOrphan:
		l.cascade = cascadeUnknown
	}
}

// ownUsers adds the events in which a user creates or deletes an XR without a claim.
func (m model) ownUsers(add adder) {
	add("an XR without a claim is created", true, m.isOwn() && m.creates > 0 && !m.hasOwnXR() && m.namespace == alive1 &&
		int(m.born) < len(m.instances), func(w *model) {
		w.creates--
		w.instances[w.born] = modelInstance{own: true, xr: alive1, born: m.current, toStore: m.store}
		w.born++
	})
	for n, l := range m.instances {
		deletes := func(cascade int8) func(*model) {
			return func(w *model) { w.instances[n].xr, w.instances[n].cascade = dying1, cascade }
		}
		add("the XR without a claim is deleted", true, l.own && m.deletes > 0 && l.xr == alive1, func(w *model) {
			w.deletes--
			deletes(cascadeBackground)(w)
		})
		// A second deletion of the same object can change the cascade.
		add("the XR is deleted in the foreground", true,
			l.own && m.foregrounds > 0 && l.xr != none && l.cascade == cascadeBackground, func(w *model) {
				w.foregrounds--
				deletes(cascadeForeground)(w)
			})
		add("the controller's finalizer is taken off, and the others stay", true,
			l.own && m.strips > 0 && l.xr == dying1 && l.ours && l.cascade == cascadeForeground, func(w *model) {
				w.strips--
				w.instances[n].ours = false
			})
		add("the XR is deleted without its objects", true, l.own && m.orphanings > 0 && l.xr == alive1, func(w *model) {
			w.orphanings--
			if deletes(cascadeUnknown)(w); l.ours {
				w.instances[n].cascade = cascadeOrphan
			}
		})
	}
}

// ownGarbage adds the events in which Kubernetes deletes an XR without a claim.
func (m model) ownGarbage(add adder) {
	for n, l := range m.instances {
		add("a user deletes the kept Deployment and Service", false, l.own && l.xr == none && l.cascade == cascadeUnknown &&
			(l.deployment != none || l.service), func(w *model) {
			w.instances[n].deployment, w.instances[n].service = none, false
		})
		add("the XR of the namespace is deleted", false, l.own && m.namespace == dying1 && l.xr == alive1,
			func(w *model) { w.instances[n].xr = dying1 })
	}
}

// newXR returns the XR of an instance without spec and status.
func (l modelInstance) newXR(n int) *unstructured.Unstructured {
	u := as[*unstructured.Unstructured](ofKind(instance.XRKind))
	u.SetName("x" + strconv.Itoa(n+1))
	u.SetUID(types.UID(uidOf(n)))
	if l.own {
		u.SetGroupVersionKind(ownKind)
		u.SetNamespace(l.key().Namespace)
		u.SetName(l.key().Name)
		return u
	}
	u.SetLabels(map[string]string{"crossplane.io/claim-namespace": "default", "crossplane.io/claim-name": "db"})
	return u
}

// ownStarts returns start states with instances that have no claims.
func ownStarts() map[string]model {
	base := model{namespace: alive1, current: 1, creates: 2, deletes: 1, writes: 1,
		instances: [2]modelInstance{{own: true}, {own: true}}}
	foreground := base.with(func(m *model) { m.deletes, m.foregrounds = 0, 1 })
	out := map[string]model{
		"delete":                 base,
		"foreground":             foreground,
		"background, foreground": base.with(func(m *model) { m.foregrounds, m.creates = 1, 1 }),
		"orphan":                 base.with(func(m *model) { m.deletes, m.orphanings = 0, 1 }),
		"namespace":              base.with(func(m *model) { m.namespaces, m.deletes, m.creates = 1, 0, 1 }),
		"namespace, foreground":  foreground.with(func(m *model) { m.namespaces, m.creates = 1, 1 }),
		"namespace again, refused": base.with(func(m *model) {
			m.namespaces, m.remakes, m.deletes = 1, 1, 0
		}),
		"namespace again, allowed": base.with(func(m *model) {
			m.namespaces, m.remakes, m.deletes, m.allow = 1, 1, 0, true
		}),
		"finalizers, foreground": foreground.with(func(m *model) { m.strips, m.creates = 1, 1 }),
		"failed backup":          foreground.with(func(m *model) { m.failures, m.creates = 1, 1 }),
		"data PVC":               foreground.with(func(m *model) { m.claims, m.creates = 1, 1 }),
		"store":                  foreground.with(func(m *model) { m.store, m.outages, m.creates = true, 1, 1 }),
	}
	if os.Getenv("ALL") != "" { // Combinations of the faults above, which take some minutes.
		out["finalizers"] = base.with(func(m *model) { m.strips = 1 })
		out["finalizers, foreground, again"] = foreground.with(func(m *model) { m.strips = 1 })
		out["finalizers, orphan"] = base.with(func(m *model) { m.strips, m.deletes, m.orphanings = 1, 0, 1 })
		out["namespace, delete"] = base.with(func(m *model) { m.namespaces, m.creates = 1, 1 })
		out["backup PVC"] = foreground.with(func(m *model) { m.backupDeletes, m.creates = 1, 1 })
		out["image"] = foreground.with(func(m *model) { m.imageChanges, m.creates = 1, 1 })
		out["record deleted"] = foreground.with(func(m *model) { m.drops, m.creates = 1, 1 })
		out["request"] = foreground.with(func(m *model) { m.requests, m.creates = 1, 1 })
	}
	return out
}

// TestModelOwn checks the invariants of TestModel for instances without claims.
func TestModelOwn(t *testing.T) {
	t.Parallel()
	for name, start := range ownStarts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, held, trace := explore(t, Next, restoretest.Next, catalog.NextOfArchives, start)
			if trace != nil {
				t.Errorf("after %d states:\n%s", states, strings.Join(trace, "\n"))
			}
			if held > 0 && !start.mayWait() {
				t.Errorf("%d states wait for a person, who has done nothing wrong", held)
			}
			t.Logf("%d states, of which %d wait for a person", states, held)
		})
	}
}

// bugsWithoutClaims returns bugs that can do harm only if instances have no claims. The start is one of ownStarts.
func bugsWithoutClaims() map[string]bug {
	return map[string]bug{
		"no claim": {reason: "The controller treats an XR without a claim as orphaned, and deletes it.", start: "delete",
			next: func(s *instance.State) steps.Step {
				s.OrphanedFromClaim = s.OrphanedFromClaim || s.XR != nil && !s.XR.IsDeleting() && s.Instance.IsNamespaced()
				return Next(s)
			}},
		"collected, not kept": {reason: "The controller releases a data PVC that a foreground deletion has deleted, and does " +
			"not retain its volume.", start: "foreground", next: func(s *instance.State) steps.Step {
			if step := Next(s); step.Action != steps.RetainDataPV || !s.IsDeleting() || !steps.IsGoing(s.DataPVC) {
				return step
			}
			return withChanges(s, backup.DeletePVCStep(s.DataPVC, steps.Step{}))
		}},
		"each waits for the other": {reason: "The controller waits for an XR that waits for the data PVC.",
			start: "foreground", next: func(s *instance.State) steps.Step {
				if s.XR != nil && s.XR.IsDeleting() && !s.XR.HasFinalizer() {
					return steps.Step{Action: steps.NoOp}
				}
				return Next(s)
			}},
		"left to Kubernetes": {reason: "The controller expects that Kubernetes deletes the objects of the XR.",
			start: "orphan", next: func(s *instance.State) steps.Step {
				s.Leftovers = nil
				return Next(s)
			}},
	}
}

// TestModelOwnFindsBugs checks that the model detects bugs that only an XR without a claim shows. With claims, the model
// must not detect them.
func TestModelOwnFindsBugs(t *testing.T) {
	t.Parallel()
	for name, bug := range bugsWithoutClaims() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, held, trace := explore(t, bug.next, restoretest.Next, catalog.NextOfArchives, ownStarts()[bug.start])
			if trace == nil && held == 0 {
				t.Errorf("%s It is not found in %d states", bug.reason, states)
			}
			t.Logf("after %d states: %s", states, strings.Join(trace, "; "))
			claims := modelStarts()["delete"].with(func(m *model) { m.creates = 1 })
			states, held, trace = explore(t, bug.next, restoretest.Next, catalog.NextOfArchives, claims)
			if trace != nil || held > 0 {
				t.Errorf("%s Instances with claims show it, too, after %d states:\n%s", bug.reason, states, strings.Join(trace, "\n"))
			}
		})
	}
}
