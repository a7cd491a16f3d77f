package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/event"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A rotator sets the requested passwords in running servers.
type rotator interface {
	Reconcile(ctx context.Context, in rotate.Input) (rotate.Result, error)
	ForgetInstance(instance v1.Instance, living []types.UID)
}

// A generator creates the password of an instance whose claim sets none. It returns false if it cannot create it yet.
type generator interface {
	GeneratePassword(ctx context.Context, in rotate.Input) (bool, error)
}

// A certifier maintains the certificates of servers.
type certifier interface {
	Keep(ctx context.Context, i v1.Instance, owner metav1.OwnerReference, host string,
		issuer *v1.IssuerReference) (*servercert.Plan, error)
}

// An xrGatherer reads the XRs of an instance, and the data volume of one of them. It does not read other objects,
// because few events require a connection to the server. Each time Crossplane writes an XR, it causes an event.
type xrGatherer interface {
	GatherXRs(ctx context.Context, k instance.Key) ([]*instance.State, error)
	ReadData(ctx context.Context, s *instance.State) error
}

// Delays between reconciles without an event.
const (
	// reread is the interval at which the controller reads the Secret of a claim. The controller does not watch
	// Secrets, because this would require permanent permission to read all Secrets of the cluster. If Crossplane
	// watches the Secret, the controller notices changes in the status instead.
	reread = 10 * time.Second
	// whileIssued is the interval at which the controller checks whether an issuer has issued a new certificate.
	whileIssued = 2 * time.Second
	// whileNotLetIn is the interval at which the controller checks whether a namespace has opted in.
	whileNotLetIn = 30 * time.Second
	// recheck is the interval at which the controller checks whether another client has changed a password in the
	// server.
	recheck = 10 * time.Minute
	// recheckOutside is the interval at which the controller checks whether data outside of the data directory was
	// moved.
	recheckOutside = time.Minute
)

// A passwordReconciler maintains the password of each running server and the connection Secret.
type passwordReconciler struct {
	gather    xrGatherer
	reader    client.Reader
	writer    writer
	rotator   rotator
	generator generator
	certifier certifier
	events    events.EventRecorder
	clock     func() time.Time
	meter     *meter

	turns   *turns
	strains *strains
	retries retries

	mu    sync.Mutex
	asked map[instance.Key]asking
}

// An asking describes the last check of a server: its time, an identifier of the server's start at that time, and the
// version that is stored on the volume.
type asking struct {
	askedAt time.Time
	start   string
	version string
}

// Reconcile reconciles the credentials of an instance.
func (c *passwordReconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	if !c.turns.takeTurn(k.Namespace) {
		logNoTurn(ctx)
		return reconcile.Result{RequeueAfter: nextTurn}, nil
	}
	defer c.turns.giveTurn(k.Namespace)
	result, err := c.reconcileInstances(ctx, k)
	if err == nil {
		c.retries.endRetries(k)
	}
	return result, err
}

func (c *passwordReconciler) reconcileInstances(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	instances, err := logReads(ctx, func(ctx context.Context) ([]*instance.State, error) { return c.gather.GatherXRs(ctx, k) })
	if err != nil {
		return reconcile.Result{}, err
	}
	c.forgetInstances(k, instances)
	instances = slices.DeleteFunc(instances, func(s *instance.State) bool {
		return s.XR == nil || s.XR.Stale || s.XR.IsDeleting() || s.XR.Type != v1.TypeMySQL
	})
	if len(instances) == 0 {
		return reconcile.Result{}, nil
	}
	platform, err := instance.ReadPlatform(ctx, c.reader)
	if errors.As(err, new(*instance.UnreadablePlatformError)) {
		return c.leaveAlone(ctx, instances, err.Error())
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{}
	for _, s := range instances {
		shown, err := c.keepCertificate(ctx, s, platform)
		if err != nil {
			if result, err = c.orNotLetIn(ctx, s, result, err); err != nil {
				return reconcile.Result{}, err
			}
			continue
		}
		if shown == nil {
			result.RequeueAfter = reread // A write by keepCertificate also causes an event.
			continue
		}
		// An unreadable field must not change a password or delete an account.
		if s.XR.Unreadable.HasAny("spec.password", "spec.passwordSecretRef", "spec.metrics") {
			return c.leaveAlone(ctx, []*instance.State{s}, s.XR.WhyUnreadable())
		}
		start, serving := servedSince(s.XR)
		if !serving {
			result, err = c.generatePassword(ctx, s, platform)
			if result, err = c.orNotLetIn(ctx, s, result, err); err != nil {
				return reconcile.Result{}, err
			}
			continue
		}
		held, err := c.isHeld(ctx, s)
		if err != nil {
			return reconcile.Result{}, err
		}
		if held {
			result, err := c.reconcileInstance(ctx, k, s, platform, shown, start)
			return c.orNotLetIn(ctx, s, result, err)
		}
	}
	return result, nil
}

// leaveAlone does not change passwords or certificates, and reports the reason in the status.
func (c *passwordReconciler) leaveAlone(ctx context.Context, instances []*instance.State, reason string) (reconcile.Result,
	error) {
	out := make([]change.Change, 0, len(instances))
	for _, s := range instances {
		out = append(out, showCredentials(s, v1.CredentialsStatus{State: v1.CredentialsFailed, Message: reason})...)
	}
	return reconcile.Result{RequeueAfter: whileNotLetIn}, c.writer.Apply(ctx, out)
}

// isHeld reports whether the XR has the controller's finalizer, or needs none because its data is ephemeral.
func (c *passwordReconciler) isHeld(ctx context.Context, s *instance.State) (bool, error) {
	if s.XR.HasFinalizer() {
		return true, nil
	}
	err := c.gather.ReadData(ctx, s)
	return s.Ephemeral(), err
}

// orNotLetIn reports some errors of a reconcile in the status, and returns no error for them. They mean that the namespace
// has not opted in, that a Secret belongs to a different owner, or that there is no certificate yet.
func (c *passwordReconciler) orNotLetIn(ctx context.Context, s *instance.State, result reconcile.Result,
	err error) (reconcile.Result, error) {
	_, notLetIn := errors.AsType[*secrets.NotLetInError](err)
	_, foreign := errors.AsType[*secrets.ForeignError](err)
	unissued, waits := errors.AsType[*servercert.UnissuedError](err)
	if !notLetIn && !foreign && !waits {
		return result, err
	}
	after := whileNotLetIn
	if waits && unissued.Soon {
		after = whileIssued
	}
	return reconcile.Result{RequeueAfter: after}, c.writer.Apply(ctx,
		showCredentials(s, v1.CredentialsStatus{State: v1.CredentialsFailed, Message: err.Error()}))
}

// generatePassword creates the password of a server whose claim sets none. The function waits for it, and Crossplane
// calls the function again when the status changes.
func (c *passwordReconciler) generatePassword(ctx context.Context, s *instance.State,
	platform *v1.PlatformSpec) (reconcile.Result, error) {
	if platform == nil || !platform.PasswordSource(s.Instance, &s.XR.Spec.MySQLSpec).Generated {
		return reconcile.Result{}, nil
	}
	made, err := c.generator.GeneratePassword(ctx, newInput(s))
	if err != nil || !made {
		return reconcile.Result{RequeueAfter: reread}, err
	}
	if previous := s.XR.Status.Credentials; previous != nil && previous.State != v1.CredentialsFailed {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.writer.Apply(ctx, showCredentials(s, v1.CredentialsStatus{
		State: v1.CredentialsChanging,
		Message: fmt.Sprintf("The password of this instance is in Secret %s/%s; clients read the connection Secret",
			s.Instance.Namespace, s.Instance.GeneratedSecretName()),
	}))
}

// servedSince reports whether the XR's server is up, and since when. A server is up if it accepts clients or waits
// for the controller's first login.
func servedSince(xr *instance.Composite) (since string, ok bool) {
	if xr == nil {
		return "", false
	}
	timestamp, ok := xr.MayServe()
	return timestamp.UTC().Format(time.RFC3339), ok
}

// startOfServer returns an identifier that changes with each start of the server. It is constant before the
// controller's first login, because until then each change of the condition's message also changes the condition's
// time.
func startOfServer(xr *instance.Composite, start string) string {
	if meta.IsStatusConditionTrue(xr.Conditions, v1.ConditionServing) {
		return start
	}
	return "first"
}

func (c *passwordReconciler) reconcileInstance(ctx context.Context, k instance.Key, s *instance.State,
	platform *v1.PlatformSpec, shown *serverTrust, start string) (reconcile.Result, error) {
	start = string(s.Instance.XR) + " " + start
	c.mu.Lock()
	last := c.asked[k]
	c.mu.Unlock()
	now := c.clock()
	leftAlone, left := c.strains.pauseOf(k, start, now)
	if left > 0 {
		log.FromContext(ctx).V(1).Info("The server is not contacted yet", "after", left)
		return reconcile.Result{RequeueAfter: left}, nil
	}
	in, err := c.rotationInput(ctx, s, platform)
	if err != nil {
		return reconcile.Result{}, err
	}
	in.LeftAlone, in.ServerStart = leftAlone, startOfServer(s.XR, start)
	shown.describe(&in, s)
	if last.start != start {
		last = asking{start: start}
	}
	in.VerifyPassword = now.Sub(last.askedAt) >= recheckOf(s)
	result, err := c.rotator.Reconcile(ctx, in)
	log.FromContext(ctx).V(1).Info("Reconciled the password of the server", "state", result.Credentials.State, "steps",
		result.Done, "version", result.Version, "took", c.clock().Sub(now), "error", err)
	c.meter.countRotation(result)
	pause := c.strains.recordStrain(k, start, c.clock(), result)
	if serr := c.showResult(ctx, s, result, &last); err == nil {
		err = serr
	}
	switch {
	case kerrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if pause > 0 {
		log.FromContext(ctx).Info("The server is contacted less often", "after", pause, "state", result.Credentials.State,
			"message", result.Credentials.Message)
	}
	if result.Strained {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	if in.VerifyPassword && result.Credentials.State == v1.CredentialsInSync {
		c.mu.Lock()
		c.asked[k] = asking{askedAt: now, start: start, version: last.version}
		c.mu.Unlock()
	}
	return reconcile.Result{RequeueAfter: max(pause, requeueAfter(s, result))}, nil
}

// forgetInstances removes what is stored about a deleted instance. An instance whose server is down still exists and
// keeps its delay.
func (c *passwordReconciler) forgetInstances(k instance.Key, instances []*instance.State) {
	living := make([]types.UID, 0, len(instances))
	for _, s := range instances {
		living = append(living, s.Instance.XR)
	}
	if c.rotator != nil {
		c.rotator.ForgetInstance(k.Instance(""), living)
	}
	if len(instances) > 0 {
		return
	}
	c.strains.forgetStrain(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, k)
}

// isPasswordWatched reports whether Crossplane watches the Secret with the password. The function then reports a
// changed Secret in the status, which causes an event. The function does not report it if the function refuses the
// claim or is not called.
func isPasswordWatched(s *instance.State) bool {
	return s.XR.Status.PasswordVersion != "" &&
		meta.IsStatusConditionTrue(s.XR.Conditions, v1.ConditionAccepted) &&
		meta.IsStatusConditionTrue(s.XR.Conditions, "Synced")
}

func recheckOf(s *instance.State) time.Duration {
	if s.XR.Status.OutsideData != "" {
		return recheckOutside
	}
	return recheck
}

func requeueAfter(s *instance.State, result rotate.Result) time.Duration {
	after := recheckOf(s)
	if s.XR.Spec.PasswordSecretRef != nil && !isPasswordWatched(s) {
		after = reread
	}
	if result.RequeueAfter > 0 {
		after = min(after, result.RequeueAfter)
	}
	return after
}

// newInput returns an Input for the Rotator from the XR.
func newInput(s *instance.State) rotate.Input {
	return rotate.Input{
		Instance: s.Instance,
		Owner: metav1.OwnerReference{APIVersion: s.XR.GetAPIVersion(), Kind: s.XR.GetKind(), Name: s.XR.GetName(),
			UID: s.XR.GetUID()},
		Database: s.XR.Spec.Database,
		Metrics:  s.XR.Spec.HasMetrics(),
		Host:     s.Instance.Host(),
		Port:     v1.Port,
	}
}

// rotationInput returns the complete Input for the Rotator. If the requested password cannot be used, the password in
// the Input is empty, and the Rotator reports the problem to users.
func (c *passwordReconciler) rotationInput(ctx context.Context, s *instance.State,
	platform *v1.PlatformSpec) (rotate.Input, error) {
	in := newInput(s)
	var err error
	if in.PublishedIn, in.Published, err = c.publishedPassword(ctx, s); err != nil {
		return in, err
	}
	if platform == nil {
		in.NotAllowed = fmt.Sprintf("there is no %s %s, which defines what claims may request", v1.KindPlatform,
			v1.PlatformName)
		platform = &v1.PlatformSpec{}
	}
	source := platform.PasswordSource(s.Instance, &s.XR.Spec.MySQLSpec)
	if source.Generated && in.NotAllowed == "" {
		// A user may have deleted the Secret. Earlier releases did not create one.
		if _, err := c.generator.GeneratePassword(ctx, in); err != nil {
			return in, err
		}
	}
	wanted, labels, err := c.wantedPassword(ctx, s, source)
	if p, perr := v1.Password(wanted); perr == nil {
		in.Wanted = sql.Password(p)
	}
	if nerr := platform.CheckPassword(source, string(in.Wanted), labels); nerr != nil {
		in.NotAllowed = nerr.Error()
	}
	return in, err
}

// publishedPassword returns the password in the Secret that Crossplane writes for the claim.
func (c *passwordReconciler) publishedPassword(ctx context.Context, s *instance.State) (in string, p sql.Password,
	err error) {
	if s.Claim == nil {
		return "", "", nil
	}
	if in, _, _ = unstructured.NestedString(s.Claim.Object, "spec", "writeConnectionSecretToRef", "name"); in == "" {
		return "", "", nil
	}
	text, err := c.readSecretKey(ctx, s.Instance.Namespace, in, v1.PasswordKey)
	return in, sql.Password(text), err
}

// wantedPassword returns the requested password and the labels of its Secret.
func (c *passwordReconciler) wantedPassword(ctx context.Context, s *instance.State, from v1.PasswordSource) (string,
	map[string]string, error) {
	switch {
	case from.Stated != nil:
		return *from.Stated, nil, nil
	case from.Secret == nil:
		return "", nil, nil
	}
	secret, err := c.readSecret(ctx, s.Instance.Namespace, from.Secret.Name)
	if from.Generated && secret.Labels[v1.LabelXR] != string(s.Instance.XR) {
		return "", nil, err // The Secret belongs to a different owner, which the claim reports.
	}
	return string(secret.Data[from.Secret.Key]), secret.Labels, err
}

// readSecretKey returns the value of a key, or "" if it does not exist.
func (c *passwordReconciler) readSecretKey(ctx context.Context, namespace, name, key string) (string, error) {
	s, err := c.readSecret(ctx, namespace, name)
	return string(s.Data[key]), err
}

// readSecret returns a Secret, or an empty Secret if it does not exist.
func (c *passwordReconciler) readSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s, err := secrets.Read(ctx, c.reader, namespace, name)
	if s == nil {
		s = &corev1.Secret{}
	}
	return s, err
}

// showResult reports the state of the password in events and in the status. It stores the server's version if it has
// changed.
func (c *passwordReconciler) showResult(ctx context.Context, s *instance.State, r rotate.Result, last *asking) error {
	for _, e := range r.Events {
		if s.Claim != nil {
			sendEvent(c.events, s.Claim.Unstructured,
				announcement{reason: v1.EventReason(e.Reason), warning: e.Type == event.TypeWarning}, "RotatePassword", e.Message)
		}
	}
	if err := c.writer.Apply(ctx, slices.Concat(showCredentials(s, r.Credentials), showServed(s, r),
		showOutside(s, r))); err != nil {
		return err
	}
	if r.Version == "" || r.Version == last.version {
		return nil
	}
	noted, err := c.recordVersion(ctx, s, r.Version)
	if noted {
		last.version = r.Version
	}
	return err
}

// showCredentials writes the credentials fields of the XR's status.
func showCredentials(s *instance.State, now v1.CredentialsStatus) []change.Change {
	now.Message = v1.PrintableText(now.Message, maxEntry) // The message may contain text from a webhook.
	if previous := s.XR.Status.Credentials; now.State == "" || previous != nil &&
		equality.Semantic.DeepEqual(*previous, now) {
		return nil
	}
	fields := map[string]any{"state": now.State, "message": now.Message}
	if now.ChangedAt != nil {
		fields["changedAt"] = now.ChangedAt
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured,
		steps.Internal(map[string]any{"credentials": fields}))}
}

// showOutside reports in the status which data is stored outside of the data directory.
func showOutside(s *instance.State, r rotate.Result) []change.Change {
	text := v1.PrintableText(r.Outside, maxEntry)
	if !r.CheckedOutside || text == s.XR.Status.OutsideData {
		return nil
	}
	fields := map[string]any{"outsideData": nil}
	if text != "" {
		fields["outsideData"] = text
	}
	return steps.PatchXRInternal(s, fields)
}

// recordVersion stores the version on the data PVC, because a stopped server cannot report its version to a backup. It
// returns false if the version could not be stored yet.
func (c *passwordReconciler) recordVersion(ctx context.Context, s *instance.State, version string) (bool, error) {
	if err := c.gather.ReadData(ctx, s); err != nil {
		return false, err
	}
	pvc := s.DataPVC
	if pvc == nil || !controllerutil.ContainsFinalizer(pvc, v1.Finalizer) {
		return s.Ephemeral(), nil
	}
	if pvc.Annotations[v1.AnnotationVersion] == version {
		return true, nil
	}
	err := c.writer.Apply(ctx, []change.Change{change.PatchObject(pvc, func(pvc *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, v1.AnnotationVersion, version)
	})})
	return err == nil, err
}
