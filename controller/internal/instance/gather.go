package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
)

// A Gatherer reads the state of instances from the API server, from stores, and from the logs of pods.
type Gatherer struct {
	// Reader reads from the API server directly, because a cache may be outdated. A missing object in a cache does
	// not prove that the object is absent.
	Reader client.Reader
	// Logs reads the logs of Jobs.
	Logs Logs
	// Cache is the cache of Backup objects. If it is nil, they are read from Reader.
	Cache client.Reader
	// Stores reads the backup stores. It is nil if there are none.
	Stores Stores
	// Settings are the settings that each State contains.
	Settings Settings
	// Clock returns the current time. Tests replace it.
	Clock func() time.Time
	// Skew returns the difference between the clocks of the controller and the API server. It is nil if they use the
	// same clock.
	Skew func() clock.Skew
}

// Gather returns the State of each instance with this name. Instances that are being deleted come first. If there is
// no XR, it returns one State without an XR.
func (g *Gatherer) Gather(ctx context.Context, k Key) ([]*State, error) {
	found, err := findComposites(ctx, g.Reader, k)
	if err != nil {
		return nil, err
	}
	orphans, err := findOrphans(ctx, g.Reader, k, found)
	if err != nil {
		return nil, err
	}
	if len(orphans)+len(found.xrs) == 0 {
		return g.statesWithoutXR(ctx, k, found.namespace, found.claim)
	}
	instances := make([]*Subject, 0, len(orphans)+len(found.xrs))
	for _, o := range orphans {
		s := g.newSubject(k.Instance(o.uid), found.namespace)
		s.Orphan, s.PredecessorTerminating = new(IdentityOfHolders(s.Instance, o.holders, s.Now)), len(instances) > 0
		instances = append(instances, s)
	}
	for _, s := range g.subjectsOf(k, found) {
		s.PredecessorTerminating = len(instances) > 0 && (instances[0].IsDeleting() || instances[0].OrphanedFromClaim)
		s.PredecessorCopy = copyAmong(instances)
		instances = append(instances, s)
	}
	out := make([]*State, 0, len(instances))
	for _, s := range instances {
		state, err := g.readInstance(ctx, s)
		if err != nil {
			return nil, err
		}
		out = append(out, state)
	}
	return out, nil
}

// copyAmong returns the copied object that prevents the deletion of an orphaned instance until a user decides. It
// returns nil if there is none.
func copyAmong(instances []*Subject) client.Object {
	for _, s := range instances {
		if s.Orphan != nil && s.Orphan.Copy != nil {
			return s.Orphan.Copy
		}
	}
	return nil
}

// GatherXRs returns a State for each XR, with its claim and without other objects.
func (g *Gatherer) GatherXRs(ctx context.Context, k Key) ([]*State, error) {
	found, err := findComposites(ctx, g.Reader, k)
	if err != nil {
		return nil, err
	}
	out := make([]*State, 0, len(found.xrs))
	for _, s := range g.subjectsOf(k, found) {
		out = append(out, NewState(*s))
	}
	return out, nil
}

// ReadData reads the data PVC and its volume into a State from GatherXRs.
func (g *Gatherer) ReadData(ctx context.Context, s *State) error {
	basis := &s.Basis
	var err error
	basis.DataVolumes, err = readDataVolumes(ctx, g.Reader, &basis.Subject, basis.Records)
	return err
}

// newSubject returns the Subject of an instance before any of its objects are read.
func (g *Gatherer) newSubject(instanceID v1.Instance, ns *corev1.Namespace) *Subject {
	out := &Subject{Settings: g.Settings, Instance: instanceID, Now: g.Clock(), ReadAt: time.Now(), Namespace: ns}
	if g.Skew != nil {
		out.Skew = g.Skew()
	}
	return out
}

// subjectsOf returns a Subject for each XR.
func (g *Gatherer) subjectsOf(k Key, found *foundComposites) []*Subject {
	out := make([]*Subject, 0, len(found.xrs))
	for _, xr := range found.xrs {
		s := g.newSubject(k.Instance(xr.GetUID()), found.namespace)
		s.XR, s.OrphanedFromClaim = xr, isOrphanedFromClaim(xr, found.claim, found.namespace)
		if found.claim.IsBoundTo(xr) {
			s.Claim = found.claim
		}
		out = append(out, s)
	}
	return out
}

// statesWithoutXR returns the State of a name that has no XR. Volumes with this name may still exist.
func (g *Gatherer) statesWithoutXR(ctx context.Context, k Key, ns *corev1.Namespace,
	claim *Composite) ([]*State, error) {
	s := g.newSubject(k.Instance(""), ns)
	s.Claim = claim
	data, derr := readDataVolumes(ctx, g.Reader, s, nil)
	basis := Basis{Subject: *s, DataVolumes: data}
	volumes, verr := readBackupVolumes(ctx, g.Reader, &basis, nil)
	undefined, xerr := readXRD(ctx, g.Reader, s)
	return []*State{{Basis: basis, BackupVolumes: volumes, Undefined: undefined}}, errors.Join(derr, verr, xerr)
}

// readInstance reads everything that a decision about an instance can depend on, and returns its State. The arguments of
// each reader are the parts that it needs, which determines the order of the calls.
func (g *Gatherer) readInstance(ctx context.Context, subject *Subject) (*State, error) {
	var err error
	if subject.Requested, err = g.readRequested(ctx, subject); err != nil {
		return nil, err
	}
	basis, noted, err := readBasis(ctx, g.Reader, subject)
	if err != nil {
		return nil, err
	}
	l := podReader{Reader: g.Reader, now: subject.Now, logs: g.Logs}
	s := &State{Basis: *basis}
	if s.Undefined, err = readXRD(ctx, l, subject); err != nil {
		return nil, err
	}
	if s.BackupVolumes, err = readBackupVolumes(ctx, l, basis, noted.Entries); err != nil {
		return nil, err
	}
	if needsRecords(subject) {
		noted = noted.withBoundVolume(s.BackupPV, subject.Instance)
	}
	var answers StoreAnswers
	s.Noted, answers = readStores(ctx, l, g.Stores, basis, noted)
	if subject.XR != nil && !subject.IsDeleting() && isUnsynced(subject.XR) {
		s.Uncomposed = l.whyUncomposed(ctx, subject.XR)
	}
	if s.SettingsVerdict, err = readSettings(ctx, l, basis, s.BackupPVC); err != nil {
		return nil, err
	}
	if s.Source, answers.StoreFailure, err = readSource(ctx, l, g.Stores, basis, answers.StoreFailure); err != nil {
		return nil, err
	}
	if needsRecovery(subject) {
		s.Recovery, answers.StoreFailure = readRecovery(ctx, g.Stores, basis, s.Source, answers.StoreFailure)
	}
	s.StoreAnswers = answers
	if s.Work, err = readWork(ctx, l, basis, &s.BackupVolumes, whyBlocked(s)); err != nil {
		return nil, err
	}
	s.Rules, err = readRules(ctx, l, basis)
	return s, err
}

// readBasis reads the Basis of an instance and the catalog entries of its backups. It reads the BackupRecords first,
// because they contain the namespace UID if the volume is deleted. BackupRecords and catalog are read only if a
// decision depends on them.
func readBasis(ctx context.Context, r client.Reader, subject *Subject) (*Basis, Noted, error) {
	out := &Basis{Subject: *subject}
	var noted Noted
	var err error
	if needsRecords(subject) {
		if out.Records, err = readRecords(ctx, r, subject.Instance); err != nil {
			return nil, noted, err
		}
		if noted, err = readNoted(ctx, r, subject.Instance); err != nil {
			return nil, noted, err
		}
	}
	if out.DataVolumes, err = readDataVolumes(ctx, r, subject, out.Records); err != nil {
		return nil, noted, err
	}
	out.StoreForbidden, err = isStoreForbidden(ctx, r, out)
	return out, noted, err
}

// needsRecords reports whether the next step of the instance depends on the backups of all instances with this name.
func needsRecords(s *Subject) bool {
	return s.IsDeleting() || s.XR != nil &&
		(!s.XR.Status.Started || s.Requested.Name != "" || s.XR.Spec.Backup.Schedule != nil) || s.IsBackedUpInstance()
}

// foundComposites contains the claim of an instance or nil, its XRs and its namespace. XRs that are being deleted
// come first.
type foundComposites struct {
	kind      Kind
	namespace *corev1.Namespace
	claim     *Composite
	xrs       []*Composite
	// withoutXRs is true if the kind of the XRs is not installed, so that no XR can exist.
	withoutXRs bool
}

// findComposites reads the claim and the XRs of an instance. Labels only select candidates, and the spec of an XR
// determines its instance. The claim is read after the list, so that a claim that is created in between keeps its XR.
//
// If the kind of the XRs is not installed, a claim that is being deleted has no XR. Crossplane deletes the kind of
// the XRs after the last XR, and the kind of the claims after the last claim. A claim that is not being deleted waits
// until the kind is installed again, and so does a name without a claim. Its server may still run, because a user may
// have deleted the CRDs by force.
func findComposites(ctx context.Context, r client.Reader, k Key) (*foundComposites, error) {
	kind, ok := kindOf(k.Kind)
	if !ok {
		return nil, fmt.Errorf("the controller does not handle the kind of %s", k)
	}
	ns, err := getObject(ctx, r, &corev1.Namespace{}, "", k.Namespace)
	if err != nil {
		return nil, err
	}
	if !kind.HasClaims() {
		return findOwnObject(ctx, r, k, kind, ns)
	}
	out, err := listXRs(ctx, r, kind, kind.XRsOf(k)...)
	uninstalled := IsNotInstalled(err)
	if err != nil && !uninstalled {
		return nil, err
	}
	claim, cerr := readComposite(ctx, r, kind.Object, k.Namespace, k.Name)
	switch {
	case cerr != nil:
		return nil, cerr
	case uninstalled && (claim == nil || !claim.IsDeleting()): // The claim waits until the kind is installed again.
		return nil, err
	}
	// The labels may be lost, too. The controller must be certain that there is no XR.
	if claim != nil && claim.Unreadable.Has("spec.resourceRef") && !uninstalled {
		if out, err = listXRs(ctx, r, kind); err != nil {
			return nil, err
		}
	}
	if claim != nil && claim.BoundXR != "" && !uninstalled &&
		!slices.ContainsFunc(out, func(x *Composite) bool { return x.GetName() == claim.BoundXR }) {
		xr, err := readComposite(ctx, r, kind.XR, "", claim.BoundXR)
		if err != nil {
			return nil, err
		}
		if xr != nil && xr.isClaimGone() {
			return nil, fmt.Errorf("claim %s is bound to %s, which does not refer to the claim. %s", k, xr.GetName(),
				xr.WhyUnreadable())
		}
		if xr != nil {
			out = append(out, xr)
		}
	}
	out = slices.DeleteFunc(out, func(x *Composite) bool {
		claimKey, ok := x.Key()
		return !ok || claimKey != k
	})
	slices.SortStableFunc(out, func(a, b *Composite) int {
		return trueFirst(isEnding(a, claim, ns), isEnding(b, claim, ns))
	})
	return &foundComposites{kind: kind, namespace: ns, claim: claim, xrs: out, withoutXRs: uninstalled}, nil
}

// findOwnObject finds an XR that a user has created, in an API without claims. The API server answers a get with 404
// if the XR does not exist, but also if the kind is temporarily not served. A list distinguishes the two cases. If
// the kind is not installed, the servers may still run, as in findComposites.
func findOwnObject(ctx context.Context, r client.Reader, k Key, kind Kind, ns *corev1.Namespace) (*foundComposites,
	error) {
	xr, err := readComposite(ctx, r, kind.XR, k.Namespace, k.Name)
	if err != nil {
		return nil, explainUnlisted(ctx, r, kind, err)
	}
	out := &foundComposites{kind: kind, namespace: ns}
	if xr != nil {
		out.xrs = []*Composite{xr}
		return out, nil
	}
	all, err := listXRs(ctx, r, kind, kind.XRsOf(k)...)
	if err != nil {
		return nil, err
	}
	out.xrs = slices.DeleteFunc(all, func(x *Composite) bool { return x.GetName() != k.Name })
	return out, nil
}

// listXRs lists the XRs of a kind. IsNotInstalled returns true for its error only if the kind is certainly not
// installed.
func listXRs(ctx context.Context, r client.Reader, kind Kind, which ...client.ListOption) ([]*Composite, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.XR)
	if err := r.List(ctx, l, which...); err != nil {
		return nil, explainUnlisted(ctx, r, kind, err)
	}
	out := make([]*Composite, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, Decode(&l.Items[i]))
	}
	return out, nil
}

// isEnding reports whether an XR is being deleted, or must be deleted.
func isEnding(xr, claim *Composite, ns *corev1.Namespace) bool {
	return xr.IsDeleting() || isOrphanedFromClaim(xr, claim, ns)
}

// isOrphanedFromClaim reports whether an XR has permanently lost its claim. Either the claim is bound to another XR,
// or the claim was deleted and its namespace is being deleted. Crossplane does not delete such an XR.
func isOrphanedFromClaim(xr, claim *Composite, ns *corev1.Namespace) bool {
	switch {
	case xr.IsDeleting(), xr.isOwnObject():
		return false
	case claim == nil:
		return ns == nil || ns.DeletionTimestamp != nil
	}
	return claim.BoundXR != "" && claim.BoundXR != xr.GetName()
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func readComposite(ctx context.Context, r client.Reader, kind schema.GroupVersionKind, namespace,
	name string) (*Composite, error) {
	u, err := getObject(ctx, r, newObject(kind), namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return Decode(u), nil
}

// recordsOf selects all BackupRecords of an instance, including BackupRecords that the function does not read.
func recordsOf(instance v1.Instance) client.MatchingLabelsSelector {
	either, err := labels.NewRequirement(v1.LabelInstance, selection.In, []string{instance.Key(), instance.OlderKey()})
	if err != nil { // This cannot happen, because the values are constants and a digest.
		return client.MatchingLabelsSelector{Selector: labels.Nothing()}
	}
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*either)}
}

// Records returns the BackupRecords of an instance. Labels only select candidates, and the spec of a BackupRecord
// determines its instance.
func Records(ctx context.Context, from client.Reader, instance v1.Instance) ([]v1.BackupRecord, error) {
	l := &v1.BackupRecordList{}
	if err := from.List(ctx, l, recordsOf(instance)); err != nil {
		return nil, fmt.Errorf("cannot list BackupRecords: %w", err)
	}
	return slices.DeleteFunc(l.Items, func(r v1.BackupRecord) bool {
		i := r.Spec.Instance
		if r.Unreadable.Has("spec.instance") {
			return !isRecordOf(instance, r.Name) // Only the label and the name show its instance.
		}
		return i.Kind != instance.Kind || i.Namespace != instance.Namespace || i.Name != instance.Name
	}), nil
}

// readRecords reads the BackupRecords of an instance, newest first, in the same order as the function.
func readRecords(ctx context.Context, r client.Reader, instanceID v1.Instance) ([]v1.BackupRecord, error) {
	records, err := Records(ctx, r, instanceID)
	newestFirst(records)
	return records, err
}

// Owns reports whether an object was created for this instance.
func Owns(instanceID v1.Instance, o client.Object) bool {
	if instanceID.XR == "" {
		return o.GetLabels()[v1.LabelInstance] == instanceID.Key()
	}
	c := metav1.GetControllerOf(o)
	return o.GetLabels()[v1.LabelXR] == string(instanceID.XR) || c != nil && c.UID == instanceID.XR
}

// getObject returns an object, or nil if it does not exist.
func getObject[T client.Object](ctx context.Context, r client.Reader, o T, namespace, name string) (T, error) {
	var none T
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	switch {
	case kerrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("cannot get %T %s/%s: %w", o, namespace, name, err)
	}
	return o, nil
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	return m
}
