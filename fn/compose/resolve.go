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

	// serverInput is what the builders of the server's pod get.
	*serverInput

	// spec with its defaults.
	spec v1.MySQLSpec
	// wantedImage of the spec, and what becomes of it if the server has another one.
	wantedImage string
	change      imageChange
	// size of the volume that the spec asks for.
	size resource.Quantity
	// password is where the wanted one is, and statedPassword that of the spec; empty where
	// a Secret has it.
	password       v1.PasswordSource
	statedPassword string
	// store that backups go to; empty for a volume. storeRefused is why it is not what the spec asks for.
	store        string
	storeRefused *field.Error
	// unplanned is why a started instance has no planned backups although it asks for them.
	unplanned error
	// jobResources of the containers of Jobs; nil for the usual ones.
	jobResources *corev1.ResourceRequirements

	// database is true for an instance of the second API.
	database bool
}

// resolve what an Input asks for. It refuses what the schema refuses too, for
// callers without an API server, and what a schema cannot say, and reports
// everything that is wrong.
func resolve(in Input) (*resolved, error) {
	r, errs, err := readInput(in)
	if err != nil {
		return nil, err
	}
	spec := field.NewPath("spec")
	unplanned := append(checkSchedule(spec.Child("backup"), r.spec.Backup), checkBounds(r, spec.Child("backup"))...)
	if r.started && len(unplanned) > 0 { // It goes on, without what is planned by it.
		r.unplanned, unplanned = &Refusal{Reason: v1.ReasonInvalid, Err: unplanned.ToAggregate()}, nil
	}
	errs = slices.Concat(errs, unplanned,
		checkIdentity(r),
		checkType(r, spec),
		checkPasswordFields(r, spec),
		checkServiceSpec(r, spec.Child("service")),
		checkNetworkPolicy(r, spec.Child("networkPolicy")),
		checkScheduling(r.spec.Scheduling, spec.Child("scheduling")),
		checkPolicies(spec, r.spec),
		checkImport(r, spec.Child("restore", "import")),
		checkRequireTLS(r, spec),
		checkNewSettings(r, spec.Child("config")),
	)
	if len(errs) > 0 {
		// Annotations are checked in the order of a map.
		slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, &Refusal{Reason: v1.ReasonInvalid, Err: errs.ToAggregate()}
	}
	return r, nil
}

// readInput reads what an Input asks for, and returns what of it cannot be read.
func readInput(in Input) (*resolved, field.ErrorList, error) {
	if s := in.XR.Status; s.IsStale(in.XR.Instance().XR) {
		return nil, nil, newRefusal(v1.ReasonStaleStatus, "the status is of an earlier composite resource of this name (%s), whose data this one has not: nothing is made before the controller has taken it away", clipText(string(s.UID)))
	}
	f, err := readFacts(in)
	if err != nil {
		return nil, nil, err
	}
	r, spec := &resolved{Input: in, serverInput: &serverInput{facts: f}, spec: withDefaults(in.XR.Spec.MySQLSpec), database: isDatabase(in.XR)}, field.NewPath("spec")
	if r.jobResources, err = platformResources("jobResources", in.Settings.JobResources); err != nil {
		return nil, nil, err
	}
	if r.engine.password {
		r.password = r.platform.PasswordSource(r.instance, &r.spec)
	}
	r.store, r.storeRefused = resolveStore(r, spec.Child("backup", "store"))
	var badImage, badPassword, badSize, badServer field.ErrorList
	r.wantedImage, badImage = resolveImage(r, spec.Child("image"))
	r.change = decideImage(r, r.wantedImage)
	r.statedPassword, badPassword = resolveStatedPassword(r, spec.Child("password"))
	r.size, badSize = resolveSize(r, spec)
	r.serverInput, badServer = newServerInput(wishOf(r.spec, r.change.image), f)
	return r, slices.Concat(badImage, badPassword, badSize, badServer), nil
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
func resolveConfig(s *serverInput, path *field.Path) (string, field.ErrorList) {
	config, errs := renderConfig(path, tlsConfig(s)+identityConfig(s.instance.XR, s.wish.Config), s.wish.Config)
	return config + gtidConfig(s.hasGTIDs, s.wish.Config), errs
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
