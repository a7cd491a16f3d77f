package compose

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/fieldcheck"
)

// checkIdentity validates the names of the instance's objects.
func checkIdentity(r *resolved) field.ErrorList {
	i, meta := r.instance, field.NewPath("metadata")
	if i.Namespace == "" {
		return field.ErrorList{field.Required(field.NewPath("spec", "claimRef"),
			"the namespace of the server is unknown, because this composite resource has neither a claim nor a namespace. "+
				"Create a "+strings.TrimPrefix(r.XR.Kind, "X")+" claim in a namespace instead")}
	}
	if len(validation.IsDNS1123Label(i.Namespace)) > 0 {
		return field.ErrorList{field.Invalid(meta.Child("namespace"), i.Namespace, "is not a valid namespace name")}
	}
	if len(validation.IsDNS1035Label(i.ServiceName())) > 0 || strings.Contains(i.Name, ".") {
		return field.ErrorList{field.Invalid(meta.Child("name"), i.Name,
			"is not a valid Service name. Use lowercase letters, digits and '-'. Begin with a letter, and end with a letter "+
				"or a digit")}
	}
	if strings.HasPrefix(i.Name, backupPrefix) {
		return field.ErrorList{field.Invalid(meta.Child("name"), i.Name,
			"begins with "+backupPrefix+", which is reserved for the backup volumes of other claims. Choose another name")}
	}
	return nil
}

// backupPrefix is the prefix of the names of backup volumes. The name of a claim must not have this prefix. Otherwise
// the data volume of claim backup-a would have the name of the backup volume of claim a.
const backupPrefix = "backup-"

// imagePattern roughly matches an image reference. The container runtime reports the exact error in an invalid one.
var imagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

// databasePattern matches the allowed names of a database (MySQL manual, 11.2). It excludes characters that a shell,
// a container's environment or a quoted name would change. It also excludes invisible characters: spaces, control and
// format characters, and fillers. The server's own tables cannot store characters outside of the Basic Multilingual
// Plane (utf8mb3). U+FFFD replaces invalid Unicode.
var databasePattern = regexp.MustCompile(
	`^[^\x00-,./:-@\x5B-^\x60{-\x{9F}\p{Z}\p{C}\x{34F}\x{115F}\x{1160}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{FFFC}-\x{10FFFF}]+$`)

// maxFileName is the maximum length of a file name on Linux, in bytes. In the name of a database's directory, the
// server writes most characters as @ and four hexadecimal digits, which are encodedBytes long. ASCII letters, ASCII
// digits and '_' are not encoded, and some other letters take fewer bytes (MySQL manual, 11.2.4).
const (
	maxFileName  = 255
	encodedBytes = 5
)

// fileNameBytes returns the length of a database's directory name.
func fileNameBytes(name string) int {
	n := 0
	for _, c := range name {
		if c == '_' || c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
			n++
			continue
		}
		n += encodedBytes
	}
	return n
}

func checkDatabase(path *field.Path, name string) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "set the name of the database that the server creates when it is "+
			"initialized")}
	case utf8.RuneCountInString(name) > 64 || !databasePattern.MatchString(name):
		return field.ErrorList{field.Invalid(path, clipText(name), "must have at most 64 letters, digits, '_' and '-'")}
	}
	if n := fileNameBytes(name); n > maxFileName {
		return field.ErrorList{field.Invalid(path, name,
			fmt.Sprintf("its directory name would be %d bytes long, but the maximum is %d bytes. Each character except "+
				"ASCII letters, digits and '_' takes %d bytes. Choose a shorter name", n, maxFileName, encodedBytes))}
	}
	switch strings.ToLower(name) {
	case "mysql", "sys", "information_schema", "performance_schema":
		return field.ErrorList{field.Invalid(path, name, "is the name of a MySQL system schema. Choose another name")}
	}
	return nil
}

// checkPasswordFields checks that the spec contains exactly one password, if the server requires one.
func checkPasswordFields(r *resolved, spec *field.Path) field.ErrorList {
	password, ref := r.spec.Password, r.spec.PasswordSecretRef
	switch {
	case !r.engine.password || r.password.Generated:
		return nil
	case r.password == v1.PasswordSource{}:
		return field.ErrorList{field.Required(spec.Child("password"),
			"root must have a password. Set passwordSecretRef, which is recommended, or password")}
	case password != nil && ref != nil:
		return field.ErrorList{field.Forbidden(spec.Child("password"), "passwordSecretRef is also set. Remove one of them")}
	case ref == nil:
		return nil
	}
	path := spec.Child("passwordSecretRef")
	errs := fieldcheck.ObjectName(path.Child("name"), ref.Name, "Secret")
	if len(validation.IsConfigMapKey(ref.Key)) > 0 {
		errs = append(errs, field.Invalid(path.Child("key"), clipText(ref.Key), "is not a valid Secret key"))
	}
	return errs
}

// maxPullSecrets is the maximum number of pull secrets, as in the XRD.
const maxPullSecrets = 5

// checkPullSecrets refuses invalid names, duplicates, and more names than the schema allows.
func checkPullSecrets(path *field.Path, secrets []v1.ImagePullSecret) field.ErrorList {
	var errs field.ErrorList
	if n := len(secrets); n > maxPullSecrets {
		errs = append(errs, field.TooMany(path, n, maxPullSecrets))
	}
	seen := map[string]bool{}
	for i, s := range secrets {
		fldPath := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(fldPath, "set the name of a Secret in the claim's namespace, with "+
				"type "+string(corev1.SecretTypeDockerConfigJson)))
		case len(validation.IsDNS1123Subdomain(s.Name)) > 0:
			errs = append(errs, field.Invalid(fldPath, clipText(s.Name), "is not a valid Secret name"))
		case seen[s.Name]:
			errs = append(errs, field.Invalid(fldPath, s.Name, "is listed twice. Remove one entry"))
		}
		seen[s.Name] = true
	}
	return errs
}

// checkServiceSpec checks the type and the annotations of the Service.
func checkServiceSpec(r *resolved, path *field.Path) field.ErrorList {
	s := r.spec.Service
	errs := fieldcheck.Enum(path.Child("type"), s.Type, v1.ServiceClusterIP, v1.ServiceNodePort, v1.ServiceLoadBalancer)
	if s.Headless && s.Type != v1.ServiceClusterIP {
		errs = append(errs, field.Forbidden(path.Child("headless"), "a headless Service must have the type ClusterIP. Set "+
			"type to ClusterIP, or remove headless"))
	}
	fldPath := path.Child("annotations")
	errs = append(errs, apivalidation.ValidateAnnotations(s.Annotations, fldPath)...)
	for k, value := range s.Annotations {
		if !utf8.ValidString(value) {
			errs = append(errs, field.Forbidden(fldPath.Key(clipText(k)), "is not valid UTF-8"))
		}
	}
	return errs
}

func checkBackup(b v1.BackupSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if b.StoreRef != nil && b.Volume != nil {
		errs = append(errs, field.Forbidden(path.Child("volume"), "storeRef is also set. Remove one of them"))
	}
	retention := path.Child("retention")
	if n := *b.Retention.Count; n < 1 || n > 100 {
		errs = append(errs, field.Invalid(retention.Child("count"), n, "must be from 1 to 100"))
	}
	if age := b.Retention.MinAge; age != "" && !minAgePattern.MatchString(age) {
		errs = append(errs, field.Invalid(retention.Child("minAge"), clipText(age),
			"must be a number of hours, days or weeks, such as 48h, 30d or 4w"))
	}
	return append(errs, fieldcheck.Enum(path.Child("beforeUpgrade"), b.BeforeUpgrade, v1.BackUpNewSeries, v1.BackUpNever)...)
}

func checkSchedule(s *v1.BackupSchedule, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if err := v1.CheckSchedule(s.Cron); err != nil {
		errs = append(errs, field.Invalid(path.Child("cron"), clipText(s.Cron), err.Error()))
	}
	if err := v1.CheckTimeZone(s.TimeZone); err != nil {
		errs = append(errs, field.Invalid(path.Child("timeZone"), clipText(s.TimeZone), err.Error()))
	}
	if s.Method == "" {
		return append(errs, field.Required(path.Child("method"),
			"set it to Online or Cold. Online clones the data while the server runs. Cold stops the server for the backup"))
	}
	return append(errs, fieldcheck.Enum(path.Child("method"), s.Method, v1.MethodOnline, v1.MethodCold)...)
}

// checkBounds refuses a schedule that is more frequent, or a retention that is longer, than the platform allows. The
// catalog on a volume has a limited size, and must have room for the final backup of a deletion.
func checkBounds(r *resolved, fldPath *field.Path) field.ErrorList {
	b := r.spec.Backup
	schedule, err := v1.ParseSchedule(b.Cron(), b.TimeZone())
	if b.Schedule == nil || err != nil || !r.Required.Platform.Known {
		return nil // The error is reported elsewhere, or the policy and the store are not known yet.
	}
	if least, want := schedule.LeastInterval(), r.platform.LeastBackupInterval(); least < want {
		return field.ErrorList{field.Invalid(fldPath.Child("schedule", "cron"), b.Cron(),
			fmt.Sprintf("schedules backups %d minutes apart, but the platform requires at least %d minutes "+
				"(minBackupInterval of Platform %s). Use a longer interval",
				int64(least.Minutes()), int64(want.Minutes()), v1.PlatformName))}
	}
	kept, most := schedule.MostWithin(v1.ParseMinAge(b.Retention.MinAge)), r.platform.MostBackups(r.store != "")
	if kept <= most {
		return nil
	}
	place := "on a volume"
	if r.store != "" {
		place = "in BackupStore " + r.store
	}
	return field.ErrorList{field.Invalid(fldPath.Child("retention", "minAge"), b.Retention.MinAge,
		fmt.Sprintf("with schedule %q retains up to %d backups, but the platform allows at most %d %s (maxBackups of "+
			"Platform %s). Schedule fewer backups, or set a shorter minAge",
			b.Cron(), kept, most, place, v1.PlatformName))}
}

// minAgePattern matches backup.retention.minAge, as in the XRD.
var minAgePattern = regexp.MustCompile(`^[1-9][0-9]{0,4}[hdw]$`)

func checkPolicies(spec *field.Path, s v1.MySQLSpec) field.ErrorList {
	errs := fieldcheck.Enum(spec.Child("deletionPolicy"), s.DeletionPolicy, v1.DeletionBackup, v1.DeletionDiscard)
	errs = append(errs, checkBackup(s.Backup, spec.Child("backup"))...)
	restore := spec.Child("restore")
	errs = append(errs, fieldcheck.Enum(restore.Child("policy"), s.Restore.Policy, v1.RestoreLatest, v1.RestoreNever)...)
	if b := s.Restore.Backup; b != nil {
		if s.Restore.Policy == v1.RestoreNever {
			errs = append(errs, field.Forbidden(restore.Child("backup"), "policy Never is also set. Remove one of them"))
		}
		errs = append(errs, fieldcheck.ObjectName(restore.Child("backup"), *b, "Backup")...)
	}
	if from := s.Restore.From; from != nil {
		switch {
		case s.Restore.Policy == v1.RestoreNever:
			errs = append(errs, field.Forbidden(restore.Child("from"), "policy Never is also set. Remove one of them"))
		case s.Restore.Backup != nil:
			errs = append(errs, field.Forbidden(restore.Child("from"), "backup is also set. Remove one of them"))
		}
		errs = append(errs, fieldcheck.ObjectName(restore.Child("from"), *from, "claim")...)
	}
	if replaced := s.Restore.InsteadOf; replaced != nil {
		if s.Restore.Choice() == "" {
			errs = append(errs, field.Forbidden(restore.Child("insteadOf"),
				"requires a restore source to use instead of this backup. Set backup, from, import or policy Never, or remove "+
					"insteadOf"))
		}
		errs = append(errs, fieldcheck.ObjectName(restore.Child("insteadOf"), *replaced, "Backup")...)
	}
	if s.CompositeDeletePolicy != "" {
		errs = append(errs, fieldcheck.Enum(spec.Child("compositeDeletePolicy"), s.CompositeDeletePolicy, "Background")...)
	}
	return errs
}

// clipText shortens a value from a claim for an error message.
func clipText(s string) string { return fieldcheck.ClipText(s) }

// checkFromKind validates spec.restore.fromKind, which requires spec.restore.from and is supported only for a MySQL.
func checkFromKind(r *resolved, path *field.Path) field.ErrorList {
	kind := r.spec.Restore.FromKind
	_, known := v1.APIOfInstances(kind)
	switch {
	case kind == "":
		return nil
	case !known || kind == v1.KindDatabase || r.database:
		return field.ErrorList{field.Invalid(path, clipText(kind), "use MySQL for an instance with a claim, or "+
			v1.GroupVersion.WithKind(v1.KindMySQL).GroupKind().String()+" for an instance without a claim")}
	case r.spec.Restore.From == nil:
		return field.ErrorList{field.Forbidden(path, "restore.fromKind requires restore.from. Set restore.from, or remove restore.fromKind")}
	}
	return nil
}
