package compose

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A resolved instance: what its XR and the platform's settings ask for, checked,
// and how far it has come. Nothing changes it.
type resolved struct {
	Input

	engine   engine
	instance v1.Instance
	// platform is what it lets claims ask for; its defaults before it is known.
	platform v1.MySQLPlatformSpec
	// spec with its defaults.
	spec v1.MySQLSpec
	// wantedImage of the spec, the image of the server, and what becomes of one that is
	// another.
	wantedImage, image string
	change             imageChange
	// size of the volume that the spec asks for.
	size resource.Quantity
	// password is where the wanted one is, and statedPassword that of the spec; empty where
	// a Secret has it.
	password       v1.PasswordSource
	statedPassword string
	// config is the my.cnf.
	config string
	// store that backups go to; empty for a volume. storeRefused is why it is not what the spec asks for.
	store        string
	storeRefused *field.Error
	// unplanned is why a started instance has no planned backups although it asks for them.
	unplanned error
	// serverResources are what its container asks for, and jobResources what those of the
	// restore Job do; nil is the usual.
	serverResources corev1.ResourceRequirements
	// tooMuch of them for the platform.
	tooMuch      field.ErrorList
	jobResources *corev1.ResourceRequirements

	// database is true for an instance of the second API.
	database bool
	// ephemeral instances have no volume: their data goes with their pod. One that
	// has a volume is none, whatever its spec says.
	ephemeral bool
	// hostPath is true if the data lies in a folder of the node.
	hostPath bool
	// started is true once the function let the server start. The Deployment says so
	// too, for a status that was never written. Its replicas do not: whoever scales
	// a Deployment that waits must not start an empty server.
	started bool
}

// resolve what an Input asks for. It refuses what the schema refuses too, for
// callers without an API server, and what a schema cannot say, and reports
// everything that is wrong.
func resolve(in Input) (*resolved, error) {
	if s := in.XR.Status; s.IsStale(in.XR.Instance().XR) {
		return nil, newRefusal(v1.ReasonStaleStatus, "the status is of an earlier composite resource of this name (%s), whose data this one has not: nothing is made before the controller has taken it away", clipText(string(s.UID)))
	}
	r := &resolved{Input: in, engine: engineOf(in), instance: in.XR.Instance(), spec: withDefaults(in.XR.Spec.MySQLSpec)}
	r.database = isDatabase(in.XR)
	r.ephemeral = r.database && r.spec.StorageSize == nil && in.XR.Status.Volume == "" && in.Observed.DataPVC == nil
	r.hostPath = in.Settings.Volumes == v1.VolumesHostPath && !r.ephemeral
	platform, err := resolvePlatform(in)
	if err != nil {
		return nil, err
	}
	r.platform = platform
	if r.engine.password {
		r.password = platform.PasswordSource(r.instance, &r.spec)
	}
	r.store, r.storeRefused = resolveStore(r, field.NewPath("spec", "backup", "store"))
	r.started = in.XR.Status.Started || isMarkedStarted(in.Observed.Deployment, r.instance)

	defaults, err := platformResources("defaultResources", in.Settings.DefaultResources)
	if err != nil {
		return nil, err
	}
	if r.jobResources, err = platformResources("jobResources", in.Settings.JobResources); err != nil {
		return nil, err
	}
	if errs := checkScheduling(in.Settings.DefaultScheduling, field.NewPath("defaultScheduling")); len(errs) > 0 {
		return nil, newRefusal(v1.ReasonInvalid, "the Composition's input: %v", errs.ToAggregate())
	}
	spec := field.NewPath("spec")
	errs := slices.Concat(checkIdentity(r), checkType(r, spec), checkPasswordFields(r, spec), checkServiceSpec(r, spec.Child("service")), checkNetworkPolicy(r, spec.Child("networkPolicy")), checkScheduling(r.spec.Scheduling, spec.Child("scheduling")), checkPolicies(spec, r.spec), checkImport(r, spec.Child("restore", "import")))
	var bad [5]field.ErrorList
	wanted, badImage := resolveImage(r, spec.Child("image"))
	r.wantedImage, r.change, bad[0] = wanted, decideImage(r, wanted), badImage
	r.image = r.change.image
	r.statedPassword, bad[1] = resolveStatedPassword(r, spec.Child("password"))
	r.size, bad[2] = resolveSize(r, spec)
	r.serverResources, bad[3] = resolveResources(r.spec.Resources, defaults, spec.Child("resources"))
	if r.serverResources, r.tooMuch, err = limitResources(r.serverResources, r.platform.MaxResources, spec.Child("resources")); err != nil {
		return nil, err
	}
	r.config, bad[4] = resolveConfig(r, spec.Child("config"))
	unplanned := append(checkSchedule(spec.Child("backup"), r.spec.Backup), checkBounds(r, spec.Child("backup"))...)
	if r.started && len(unplanned) > 0 { // It goes on, without what is planned by it.
		r.unplanned, unplanned = &Refusal{Reason: v1.ReasonInvalid, Err: unplanned.ToAggregate()}, nil
	}
	if errs = slices.Concat(append(bad[:], errs, unplanned, checkRequireTLS(r, spec), checkNewSettings(r, spec.Child("config")))...); len(errs) > 0 {
		// Annotations are checked in the order of a map.
		slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, &Refusal{Reason: v1.ReasonInvalid, Err: errs.ToAggregate()}
	}
	return r, nil
}

// withDefaults has what the API server fills in, for callers without one.
func withDefaults(s v1.MySQLSpec) v1.MySQLSpec {
	if s.Service.Type == "" {
		s.Service.Type = v1.ServiceClusterIP
	}
	if s.DeletionPolicy == "" {
		s.DeletionPolicy = v1.DeletionBackup
	}
	if s.Backup.Keep == nil {
		s.Backup.Keep = new(int32(v1.DefaultKeep))
	}
	if s.Backup.BeforeImageChange == "" {
		s.Backup.BeforeImageChange = v1.BackUpNewSeries
	}
	if s.Restore.Policy == "" {
		s.Restore.Policy = v1.RestoreLatest
	}
	return s
}

// isMarkedStarted is true if the Deployment was made with replicas for this very
// instance.
func isMarkedStarted(d *appsv1.Deployment, i v1.Instance) bool {
	return d != nil && d.Annotations[v1.AnnotationStarted] == startedMark(i)
}

// startedMark is of this XR of the instance alone.
func startedMark(i v1.Instance) string { return "started-" + string(i.XR) }

// resolveImage: an instance keeps the image that it got at its creation, whatever
// becomes of the platform's default.
func resolveImage(r *resolved, path *field.Path) (string, field.ErrorList) {
	image := defaultImage(r)
	switch {
	case r.spec.Image != nil:
		image = *r.spec.Image
	case r.XR.Status.Image != "":
		image = r.XR.Status.Image
	}
	if image == "" {
		return "", field.ErrorList{field.Required(path, "is empty: name an image such as "+r.engine.example+", or remove the field for the platform's default")}
	}
	if len(image) > 512 || !imagePattern.MatchString(image) {
		return "", field.ErrorList{field.Invalid(path, clipText(image), "is not the name of an image, such as "+r.engine.example)}
	}
	return image, nil
}

// resolveConfig returns the text of my.cnf, which contains the function's own settings and the settings in spec.config.
func resolveConfig(r *resolved, path *field.Path) (string, field.ErrorList) {
	config, errs := renderConfig(path, tlsConfig(r)+identityConfig(r.instance.XR, r.spec.Config), r.spec.Config)
	return config + gtidConfig(startsWithGTIDs(r), r.spec.Config), errs
}

// resolveStatedPassword of the spec. It never puts a password into an error.
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

// resolveSize of the data volume, where there is one.
func resolveSize(r *resolved, spec *field.Path) (resource.Quantity, field.ErrorList) {
	if r.spec.StorageSize != nil && r.spec.StorageSizeLegacy != nil {
		return resource.Quantity{}, field.ErrorList{field.Forbidden(spec.Child("storageSize"), "storage_size is set too: remove one of them")}
	}
	text, name := r.spec.Size()
	path := spec.Child(name)
	if r.ephemeral || !r.engine.stored {
		return resource.Quantity{}, nil // Without a volume, or refused with one.
	}
	if text == "" {
		return resource.Quantity{}, field.ErrorList{field.Required(path, "set it to the size of the data volume, such as 1Gi")}
	}
	size, err := v1.ParseSize(text)
	if err != nil {
		return resource.Quantity{}, field.ErrorList{field.Forbidden(path, clipText(err.Error()))}
	}
	return size, nil
}
