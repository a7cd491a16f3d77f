package compose

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/placement"
)

// A templateInput is the part of a claim's spec that determines my.cnf and the server's pod. A change of it restarts
// the server and applies the current platform policy. Its digest must be the same in every release, because a
// different digest restarts every server. Each new field therefore needs omitempty.
type templateInput struct {
	// Image is the image that the server runs. It differs from the spec while an image change waits for a backup.
	Image      string                `json:"image"`
	Database   string                `json:"database,omitempty"`
	Config     map[string]v1.Setting `json:"config,omitempty"`
	Resources  *v1.Resources         `json:"resources,omitempty"`
	RequireTLS *bool                 `json:"requireTLS,omitempty"`
	Scheduling *v1.Scheduling        `json:"scheduling,omitempty"`

	ImagePullSecrets []v1.ImagePullSecret `json:"imagePullSecrets,omitempty"`
	// Metrics is false if the spec disables metrics, or does not mention them.
	Metrics bool `json:"metrics,omitempty"`
	// Durability is empty if the server acknowledges commits without waiting for the BackupStore.
	Durability v1.Durability `json:"durability,omitempty"`
}

// templateInputOf returns the templateInput of a spec with the image that the server runs.
func templateInputOf(s v1.MySQLSpec, image string) templateInput {
	out := templateInput{
		Image: image, Database: s.Database, Config: s.Config, Resources: s.Resources, RequireTLS: s.RequireTLS,
		Scheduling:       s.Scheduling,
		ImagePullSecrets: s.ImagePullSecrets,
		Metrics:          s.HasMetrics(),
	}
	if s.Backup.RequiresStoreDurability() {
		out.Durability = s.Backup.Continuous.Durability
	}
	return out
}

// facts are the inputs of the server's pod and of my.cnf that are not in the templateInput. They are the identity of the
// instance, the platform's settings, and the state of the instance.
type facts struct {
	engine   engine
	instance v1.Instance
	// platform is the policy for claims. It is empty until it is known.
	platform v1.PlatformSpec
	// defaultResources, defaultScheduling and requireTLS are the platform's values for fields that the claim omits.
	defaultResources  corev1.ResourceRequirements
	defaultScheduling *v1.Scheduling
	requireTLS        bool
	// maxResources are the maximum resources that the platform allows.
	maxResources corev1.ResourceList

	// ephemeral is true for an instance without a volume, whose data is lost with its pod. An instance that has a
	// volume is not ephemeral, even if its spec has no size.
	ephemeral bool
	// hostPath is true if the data is in a directory of the node.
	hostPath bool
	// started is true once the function has set the replicas to 1, according to the status or an annotation of the
	// Deployment. The number of replicas does not prove this, because a user may scale up a Deployment that must wait.
	// Then no empty server may start.
	started bool
	// hasCertificate is true if the controller has created the server's certificate.
	hasCertificate bool
	// hasGTIDs is true if the server has GTIDs by default.
	hasGTIDs bool
	// backupNodes are the nodes that can use the backup volume, or nil for all nodes.
	backupNodes *corev1.NodeSelector
}

// readFacts returns the facts of an Input. The only part of the spec that it reads is whether a Database has a
// volume, which is immutable.
func readFacts(in Input) (facts, error) {
	f := facts{engine: engineOf(in), instance: in.XR.Instance(), backupNodes: in.XR.Status.BackupNodes}
	var err error
	if f.platform, err = resolvePlatform(in); err != nil {
		return f, err
	}
	f.requireTLS, f.defaultScheduling = in.Settings.RequireTLS, in.Settings.DefaultScheduling
	if errs := placement.Check(f.defaultScheduling, field.NewPath("defaultScheduling")); len(errs) > 0 {
		return f, newRefusal(v1.ReasonInvalid, "the Composition's input: %v", errs.ToAggregate())
	}
	if f.maxResources, err = maxResources(f.platform.MaxResources); err != nil {
		return f, err
	}
	if f.defaultResources, err = defaultResources(in.Settings.DefaultResources, f.platform.DefaultResources,
		f.maxResources); err != nil {
		return f, err
	}
	f.ephemeral = isDatabase(in.XR) && in.XR.Spec.StorageSize == nil && in.XR.Status.Volume == "" &&
		in.Observed.DataPVC == nil
	f.hostPath = in.Settings.Volumes == v1.VolumesHostPath && !f.ephemeral
	f.started = in.XR.Status.Started || isMarkedStarted(in.Observed.Deployment, f.instance)
	f.hasCertificate = hasCertificate(in, f.started)
	f.hasGTIDs = startsWithGTIDs(in, f.started)
	return f, nil
}

// A serverInput contains the templateInput and the facts, which determine the server's pod. It does not contain the
// spec, so a field of the spec can affect the pod only through the templateInput.
type serverInput struct {
	facts

	templateInput templateInput
	// config is the content of my.cnf.
	config string
	// resources are the resources of the server's container. tooMuch are errors about values above the platform's
	// maximum.
	resources corev1.ResourceRequirements
	tooMuch   field.ErrorList
}

// newServerInput resolves the resources and the my.cnf of a templateInput. It also returns the validation errors.
func newServerInput(w templateInput, f facts) (*serverInput, field.ErrorList) {
	s, spec := &serverInput{facts: f, templateInput: w}, field.NewPath("spec")
	asked, badResources := resolveResources(w.Resources, f.defaultResources, spec.Child("resources"))
	s.resources, s.tooMuch = limitResources(asked, f.maxResources, spec.Child("resources"))
	config, badConfig := resolveConfig(s, spec.Child("config"))
	s.config = config
	return s, append(badResources, badConfig...)
}
