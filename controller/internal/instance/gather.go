package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

// A Gatherer reads the state of instances.
type Gatherer struct {
	// Reader of the API server itself: a cache may not know yet what is there,
	// and doubt is not absence.
	Reader client.Reader
	// Logs of Jobs.
	Logs Logs
	// Stores of backups; nil where there are none.
	Stores Stores
	// Settings that each State is read under.
	Settings Settings
	// Clock, which tests stop.
	Clock func() time.Time
	// Skew of the controller's clock from the API server's; nil where the two cannot differ.
	Skew func() clock.Skew
}

// Gather all lives of an instance, those that end before the one that goes on.
// Where there is no XR, it is one State without.
func (g *Gatherer) Gather(ctx context.Context, k Key) ([]*State, error) {
	found, err := g.findComposites(ctx, k)
	if err != nil {
		return nil, err
	}
	orphans, err := g.findOrphans(ctx, k, found)
	if err != nil {
		return nil, err
	}
	if len(orphans)+len(found.xrs) == 0 {
		return g.statesWithoutXR(ctx, k, found.namespace, found.claim)
	}
	out := make([]*State, 0, len(orphans)+len(found.xrs))
	for _, o := range orphans {
		s := g.newState(k.Life(o.uid), found.namespace)
		s.Orphan, s.PredecessorTerminating = new(g.identityOfHolders(found.kind, o)), len(out) > 0
		out = append(out, s)
	}
	for _, s := range g.statesOf(k, found) {
		s.PredecessorTerminating = len(out) > 0 && (out[0].IsDeleting() || out[0].OrphanedFromClaim)
		s.PredecessorCopy = copyAmong(out)
		out = append(out, s)
	}
	for _, s := range out {
		life := &gathering{g, s}
		if err := life.readLife(ctx); err != nil {
			return nil, err
		}
		if err := life.readRules(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// copyAmong the orphans of an instance that waits for a person, or nil.
func copyAmong(lives []*State) client.Object {
	for _, s := range lives {
		if s.Orphan != nil && s.Orphan.Copy != nil {
			return s.Orphan.Copy
		}
	}
	return nil
}

// GatherXRs of an instance, each a State with its claim and nothing of what it has.
func (g *Gatherer) GatherXRs(ctx context.Context, k Key) ([]*State, error) {
	found, err := g.findComposites(ctx, k)
	if err != nil {
		return nil, err
	}
	return g.statesOf(k, found), nil
}

// ReadData reads the data PVC and its volume into a State of GatherXRs.
func (g *Gatherer) ReadData(ctx context.Context, s *State) error {
	return (&gathering{g, s}).readDataVolumes(ctx)
}

// newState of a life, of which nothing is read yet.
func (g *Gatherer) newState(life v1.Instance, ns *corev1.Namespace) *State {
	out := &State{Settings: g.Settings, Life: life, Now: g.Clock(), ReadAt: time.Now(), Namespace: ns}
	if g.Skew != nil {
		out.Skew = g.Skew()
	}
	return out
}

// statesOf the XRs that were found.
func (g *Gatherer) statesOf(k Key, found *foundComposites) []*State {
	out := make([]*State, 0, len(found.xrs))
	for _, xr := range found.xrs {
		s := g.newState(k.Life(xr.GetUID()), found.namespace)
		s.XR, s.OrphanedFromClaim = xr, isOrphanedFromClaim(xr, found.claim, found.namespace)
		if found.claim.IsBoundTo(xr) {
			s.Claim = found.claim
		}
		out = append(out, s)
	}
	return out
}

// statesWithoutXR, where nobody lives under the name: there may be volumes all the same.
func (g *Gatherer) statesWithoutXR(ctx context.Context, k Key, ns *corev1.Namespace, claim *Composite) ([]*State, error) {
	s := g.newState(k.Life(""), ns)
	s.Claim = claim
	life := &gathering{g, s}
	return []*State{s}, errors.Join(life.readDataVolumes(ctx), life.readBackupPVs(ctx), life.readXRD(ctx))
}

// A gathering reads one life into its State.
type gathering struct {
	*Gatherer
	*State
}

// readLife reads what a decision about this life can depend on.
func (g *gathering) readLife(ctx context.Context) error {
	if g.needsRecords() { // First: the record knows the namespace when the volume is gone.
		if err := errors.Join(g.readRecords(ctx), g.readNotes(ctx)); err != nil {
			return err
		}
	}
	if err := errors.Join(g.readXRD(ctx), g.readDataVolumes(ctx)); err != nil {
		return err
	}
	if err := g.readWhetherOffered(ctx); err != nil {
		return err
	}
	if err := g.readBackupPVs(ctx); err != nil {
		return err
	}
	g.readBoundNotes()
	storeGathering{g}.readStores(ctx)
	if g.XR != nil && !g.IsDeleting() && isUnsynced(g.XR) {
		g.Uncomposed = g.looker().whyUncomposed(ctx, g.XR)
	}
	if err := errors.Join(g.readSettings(ctx), g.readSource(ctx)); err != nil {
		return err
	}
	switch {
	case g.IsDeleting():
		return g.readForDeletion(ctx)
	case g.IsBackedUpInLife():
		return errors.Join(g.readDeployment(ctx), jobGathering{g}.readJobs(ctx), jobGathering{g}.readPods(ctx), g.readCloneAccess(ctx))
	}
	going := func(c *corev1.PersistentVolumeClaim) bool { return c != nil && c.DeletionTimestamp != nil }
	if going(g.DataPVC) || going(g.BackupPVC) { // A restore that has ended holds both.
		var err error
		if g.Restore, err = g.readJob(ctx, g.Life.Namespace, g.Life.Jobs().Restore()); err != nil {
			return err
		}
	}
	if going(g.DataPVC) {
		return jobGathering{g}.readPods(ctx)
	}
	return g.readPodFailure(ctx)
}

// needsRecords is true while a decision depends on the backups of all lives.
func (g *gathering) needsRecords() bool {
	return g.IsDeleting() || g.XR != nil && (!g.XR.Status.Started || g.XR.Spec.Backup.Request != "" || g.XR.Spec.Backup.Schedule != "") || g.IsBackedUpInLife()
}

// foundComposites of an instance: its claim, nil where there is none, and its XRs, those that end
// before the one that goes on, with the namespace that they are of.
type foundComposites struct {
	kind      Kind
	namespace *corev1.Namespace
	claim     *Composite
	xrs       []*Composite
	// withoutXRs is true if the XRs' kind is not there, and so no XR of any instance.
	withoutXRs bool
}

// findComposites of an instance. Labels are where to look; whose an XR is
// stands in its spec. The claim is read after the list, so that one made in between
// disowns no XR. Where the XRs' kind is not installed a claim that is being deleted has no XR: Crossplane takes the kind away when no XR is
// left, while that of the claims waits for the last claim. A claim that is to live waits until the kind is there again, and so does what has
// no claim: where somebody took CRDs away by force, the servers run.
func (g *Gatherer) findComposites(ctx context.Context, k Key) (*foundComposites, error) {
	kind, ok := kindOf(k.Kind)
	if !ok {
		return nil, fmt.Errorf("%s is of a kind that is not looked after", k)
	}
	ns, err := getObject(ctx, g.Reader, &corev1.Namespace{}, "", k.Namespace)
	if err != nil {
		return nil, err
	}
	out, err := g.listXRs(ctx, XRsOf(k), kind)
	away := IsNotInstalled(err)
	if err != nil && !away {
		return nil, err
	}
	claim, cerr := g.readComposite(ctx, kind.Claim, k.Namespace, k.Name)
	switch {
	case cerr != nil:
		return nil, cerr
	case away && (claim == nil || !claim.IsDeleting()): // It waits until the kind is there again.
		return nil, err
	}
	if claim != nil && claim.Unreadable.Has("spec.resourceRef") && !away { // Labels may be lost, too: that there is no XR must be certain.
		if out, err = g.listXRs(ctx, nil, kind); err != nil {
			return nil, err
		}
	}
	if claim != nil && claim.BoundXR != "" && !away && !slices.ContainsFunc(out, func(x *Composite) bool { return x.GetName() == claim.BoundXR }) {
		xr, err := g.readComposite(ctx, kind.XR, "", claim.BoundXR)
		if err != nil {
			return nil, err
		}
		if xr != nil && xr.saysNoClaim() {
			return nil, fmt.Errorf("claim %s has bound %s, which does not say whose it is. %s", k, xr.GetName(), xr.WhyUnreadable())
		}
		if xr != nil {
			out = append(out, xr)
		}
	}
	out = slices.DeleteFunc(out, func(x *Composite) bool {
		of, ok := x.ClaimKey()
		return !ok || of != k
	})
	slices.SortStableFunc(out, func(a, b *Composite) int { return trueFirst(isEnding(a, claim, ns), isEnding(b, claim, ns)) })
	return &foundComposites{kind: kind, namespace: ns, claim: claim, xrs: out, withoutXRs: away}, nil
}

// listXRs that labels lead to. The error IsNotInstalled where that is certain.
func (g *Gatherer) listXRs(ctx context.Context, labels client.MatchingLabels, kind Kind) ([]*Composite, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.XR)
	if err := g.Reader.List(ctx, l, labels); err != nil {
		return nil, g.explainUnlisted(ctx, kind, err)
	}
	out := make([]*Composite, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, Decode(&l.Items[i]))
	}
	return out, nil
}

// isEnding is true if an XR is being deleted, or is to be.
func isEnding(xr, claim *Composite, ns *corev1.Namespace) bool {
	return xr.IsDeleting() || isOrphanedFromClaim(xr, claim, ns)
}

// isOrphanedFromClaim is true if the claim that an XR is of has bound another one, which
// is for good, or was taken from it and cannot come back because its namespace
// goes. Crossplane leaves such an XR as it is.
func isOrphanedFromClaim(xr, claim *Composite, ns *corev1.Namespace) bool {
	switch {
	case xr.IsDeleting():
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

func (g *Gatherer) readComposite(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*Composite, error) {
	u, err := getObject(ctx, g.Reader, newObject(kind), namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return Decode(u), nil
}

// recordsOf selects all records of an instance, also those that the function does not ask for.
func recordsOf(of v1.Instance) client.MatchingLabelsSelector {
	either, err := labels.NewRequirement(v1.LabelInstance, selection.In, []string{of.Key(), of.OlderKey()})
	if err != nil { // It is of constants and a digest.
		return client.MatchingLabelsSelector{Selector: labels.Nothing()}
	}
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*either)}
}

// Records of an instance. Labels are where to look; whose a record is stands in
// its spec.
func Records(ctx context.Context, from client.Reader, of v1.Instance) ([]v1.MySQLBackup, error) {
	l := &v1.MySQLBackupList{}
	if err := from.List(ctx, l, recordsOf(of)); err != nil {
		return nil, fmt.Errorf("cannot list MySQLBackups: %w", err)
	}
	return slices.DeleteFunc(l.Items, func(r v1.MySQLBackup) bool {
		i := r.Spec.Instance
		if r.Unreadable.Has("spec.instance") {
			return !isRecordOf(of, r.Name) // It is not known whose it is, but for its label and its name.
		}
		return i.Kind != of.Kind || i.Namespace != of.Namespace || i.Name != of.Name
	}), nil
}

// readRecords of the instance, newest first, in the function's order.
func (g *gathering) readRecords(ctx context.Context) error {
	var err error
	if g.Records, err = Records(ctx, g.Reader, g.Life); err != nil {
		return err
	}
	newestFirst(g.Records)
	return nil
}

// readForDeletion reads what a deletion has to deal with.
func (g *gathering) readForDeletion(ctx context.Context) error {
	for _, read := range []func(context.Context) error{g.readDeployment, jobGathering{g}.readJobs, jobGathering{g}.readPods, g.readLeftovers, g.readRestoring} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readRestoring once older backups may go.
func (g *gathering) readRestoring(ctx context.Context) (err error) {
	if g.XR != nil && isProven(g.State) && len(g.Records) > 1 {
		g.Restoring, err = g.restoring(ctx, g.Life.Namespace, g.Records)
	}
	return err
}

// readDeployment of the server.
func (g *gathering) readDeployment(ctx context.Context) error {
	d, err := getObject(ctx, g.Reader, &appsv1.Deployment{}, g.Life.Namespace, g.Life.DeploymentName())
	if d != nil && g.OwnsObject(d) {
		g.Deployment = d
	}
	return err
}

// OwnsObject is true if an object was made for this life.
func (s *State) OwnsObject(o client.Object) bool {
	if s.Life.XR == "" {
		return o.GetLabels()[v1.LabelInstance] == s.Life.Key()
	}
	c := metav1.GetControllerOf(o)
	return o.GetLabels()[v1.LabelXR] == string(s.Life.XR) || c != nil && c.UID == s.Life.XR
}

// getObject is an object, or nil where there is none.
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
