package compose

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/placement"
)

// A resolved is a validated Input with the values that are derived from it. It is immutable.
type resolved struct {
	Input

	// serverInput is the input of the functions that build the server's pod.
	*serverInput

	// spec contains the spec with its defaults.
	spec v1.MySQLSpec
	// wantedImage is the image in the spec. change describes how the server changes to it.
	wantedImage string
	change      imageChange
	// size is the size of the volume in the spec.
	size resource.Quantity
	// password is the source of the requested password. statedPassword is the password in the spec, or "" if it is in a
	// Secret.
	password       v1.PasswordSource
	statedPassword string
	// store is the BackupStore in use, or "" for a volume. storeRefused is set if the store in the spec is not allowed.
	store        string
	storeRefused *field.Error
	// unplanned is the error in the schedule or the retention of a started instance, which continues to run.
	unplanned error
	// jobResources are the resources of the containers of Jobs, or nil for the default.
	jobResources *corev1.ResourceRequirements

	// database is true for an instance of the Database API.
	database bool
}

// resolve validates an Input and reports all errors. It checks the rules of the schema again, because crossplane
// render has no API server, and also rules that a schema cannot express.
func resolve(in Input) (*resolved, error) {
	r, errs, err := readInput(in)
	if err != nil {
		return nil, err
	}
	spec := field.NewPath("spec")
	unplanned := append(checkSchedule(r.spec.Backup.Schedule, spec.Child("backup", "schedule")),
		checkBounds(r, spec.Child("backup"))...)
	if r.started && len(unplanned) > 0 { // The instance continues to run.
		r.unplanned, unplanned = &Refusal{Reason: v1.ReasonInvalid, Err: unplanned.ToAggregate()}, nil
	}
	errs = slices.Concat(errs, unplanned,
		checkIdentity(r),
		checkType(r, spec),
		checkPasswordFields(r, spec),
		checkPullSecrets(spec.Child("imagePullSecrets"), r.spec.ImagePullSecrets),
		checkServiceSpec(r, spec.Child("service")),
		checkNetworkPolicy(r, spec.Child("networkPolicy")),
		placement.Check(r.spec.Scheduling, spec.Child("scheduling")),
		checkPolicies(spec, r.spec),
		checkFromKind(r, spec.Child("restore", "fromKind")),
		checkImport(r, spec.Child("restore", "import")),
		checkAt(r, spec.Child("restore", "at")),
		checkContinuous(r, spec.Child("backup", "continuous")),
		checkRequireTLS(r, spec),
		checkAutogrow(r, spec),
		checkNewSettings(r, spec.Child("config")),
	)
	if len(errs) > 0 {
		// Errors about annotations are in the random order of a map, but the message must not change.
		slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, &Refusal{Reason: v1.ReasonInvalid, Err: errs.ToAggregate()}
	}
	return r, nil
}

// readInput decodes an Input, and returns the errors of fields that cannot be decoded.
func readInput(in Input) (*resolved, field.ErrorList, error) {
	if s := in.XR.Status; s.IsStale(in.XR.Instance().XR) {
		return nil, nil, newRefusal(v1.ReasonStaleStatus,
			"the status belongs to a previous composite resource with this name (UID %s), and does not describe the data of "+
				"this one. Nothing is created until the controller has removed that status", clipText(string(s.UID)))
	}
	f, err := readFacts(in)
	if err != nil {
		return nil, nil, err
	}
	r, spec := &resolved{Input: in, serverInput: &serverInput{facts: f}, spec: withDefaults(in.XR.Spec.MySQLSpec),
		database: isDatabase(in.XR)}, field.NewPath("spec")
	if r.jobResources, err = platformResources("the Composition's input", "jobResources", in.Settings.JobResources); err != nil {
		return nil, nil, err
	}
	if r.engine.password {
		r.password = r.platform.PasswordSource(r.instance, &r.spec)
	}
	r.store, r.storeRefused = resolveStore(r, spec.Child("backup"))
	var badImage, badPassword, badSize, badServer field.ErrorList
	r.wantedImage, badImage = resolveImage(r, spec.Child("image"))
	r.change = decideImage(r, r.wantedImage)
	r.statedPassword, badPassword = resolveStatedPassword(r, spec.Child("password"))
	r.size, badSize = resolveSize(r, spec)
	r.size = volumeSize(r, r.size)
	r.serverInput, badServer = newServerInput(templateInputOf(r.spec, r.change.image), f)
	return r, slices.Concat(badImage, badPassword, badSize, badServer), nil
}

// withDefaults sets the defaults of the schema, because crossplane render has no API server.
func withDefaults(s v1.MySQLSpec) v1.MySQLSpec {
	if s.Service.Type == "" {
		s.Service.Type = v1.ServiceClusterIP
	}
	if s.DeletionPolicy == "" {
		s.DeletionPolicy = v1.DeletionBackup
	}
	if s.Backup.Retention.Count == nil {
		s.Backup.Retention.Count = new(int32(v1.DefaultKeep))
	}
	if s.Backup.BeforeUpgrade == "" {
		s.Backup.BeforeUpgrade = v1.BackUpNewSeries
	}
	if g := s.StorageAutogrow; g != nil {
		s.StorageAutogrow = new(g.WithDefaults())
	}
	if s.Restore.Policy == "" {
		s.Restore.Policy = v1.RestoreLatest
	}
	return s
}

// isMarkedStarted reports whether the Deployment records that the function has started a server for this XR.
func isMarkedStarted(d *appsv1.Deployment, i v1.Instance) bool {
	return d != nil && d.Annotations[v1.AnnotationStarted] == startedMark(i)
}

// startedMark returns the value of AnnotationStarted for this XR.
func startedMark(i v1.Instance) string { return "started-" + string(i.XR) }

// resolveImage returns the image of an instance. If the spec has no image, the instance keeps the image that it was
// created with, even if the platform's default changes.
func resolveImage(r *resolved, path *field.Path) (string, field.ErrorList) {
	image := defaultImage(r)
	switch {
	case r.spec.Image != nil:
		image = *r.spec.Image
	case r.XR.Status.Image != "":
		image = r.XR.Status.Image
	}
	if image == "" {
		return "", field.ErrorList{field.Required(path, "is empty. Set it to an image such as "+r.engine.example+
			", or remove the field to use the platform's default")}
	}
	if len(image) > 512 || !imagePattern.MatchString(image) {
		return "", field.ErrorList{field.Invalid(path, clipText(image),
			"is not a valid image name. Use a name such as "+r.engine.example)}
	}
	return image, nil
}

// resolveConfig returns the my.cnf with the function's own settings and the settings in spec.config.
func resolveConfig(s *serverInput, path *field.Path) (string, field.ErrorList) {
	config, errs := renderConfig(path, platformConfig(s)+identityConfig(s.instance.XR, s.templateInput.Config), s.templateInput.Config)
	return config + gtidConfig(s.hasGTIDs, s.templateInput.Config), errs
}

// resolveStatedPassword returns the password in the spec. An error never contains a password.
func resolveStatedPassword(r *resolved, path *field.Path) (string, field.ErrorList) {
	if r.password.Stated == nil {
		return "", nil
	}
	clean, err := v1.Password(*r.password.Stated)
	if err != nil {
		return "", field.ErrorList{field.Forbidden(path, err.Error())}
	}
	return clean, nil
}

// resolveSize returns the size of the data volume, or zero for an instance without a volume.
func resolveSize(r *resolved, spec *field.Path) (resource.Quantity, field.ErrorList) {
	if r.spec.StorageSize != nil && r.spec.StorageSizeLegacy != nil {
		return resource.Quantity{}, field.ErrorList{
			field.Forbidden(spec.Child("storageSize"), "storage_size is also set. Remove one of them")}
	}
	text, name := r.spec.Size()
	path := spec.Child(name)
	if r.ephemeral || !r.engine.stored {
		return resource.Quantity{}, nil // Either there is no volume, or another check refuses it.
	}
	if text == "" {
		return resource.Quantity{}, field.ErrorList{
			field.Required(path, "set it to the size of the data volume, such as 1Gi")}
	}
	size, err := v1.ParseSize(text)
	if err != nil {
		return resource.Quantity{}, field.ErrorList{field.Forbidden(path, clipText(err.Error()))}
	}
	return size, nil
}
