package compose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// checkIdentity: the names of what an instance is made of must be ones.
func checkIdentity(r *resolved) field.ErrorList {
	i, meta := r.instance, field.NewPath("metadata")
	if i.Namespace == "" {
		return field.ErrorList{field.Required(field.NewPath("spec", "claimRef"), "this XR has no claim and no namespace, so nothing says where the server should run: create a "+strings.TrimPrefix(r.XR.Kind, "X")+" claim in a namespace instead")}
	}
	if len(validation.IsDNS1123Label(i.Namespace)) > 0 {
		return field.ErrorList{field.Invalid(meta.Child("namespace"), i.Namespace, "is not the name of a namespace")}
	}
	if len(validation.IsDNS1035Label(i.ServiceName())) > 0 || strings.Contains(i.Name, ".") {
		return field.ErrorList{field.Invalid(meta.Child("name"), i.Name, "cannot be the name of a Service: use lower case letters, digits and '-', beginning with a letter and ending with a letter or digit")}
	}
	if strings.HasPrefix(i.Name, backupPrefix) {
		return field.ErrorList{field.Invalid(meta.Child("name"), i.Name, "begins with "+backupPrefix+" as the backup volumes of other claims do: choose another name")}
	}
	return nil
}

// backupPrefix of the names of backup volumes: the data volume of a claim
// backup-a would have the name of the backup volume of a claim a.
const backupPrefix = "backup-"

// imagePattern is what a container runtime takes for a reference, roughly; the
// runtime itself says more about a wrong one.
var imagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

// databasePattern is what an identifier may have (MySQL manual, 11.2), without
// what a shell, a container's environment or a quoted name would change, and without
// what nobody sees: spaces, control and format characters, and fillers. A character outside of the
// basic plane has no place in the server's own tables (utf8mb3). U+FFFD stands for what was not Unicode.
var databasePattern = regexp.MustCompile(`^[^\x00-,./:-@\x5B-^\x60{-\x{9F}\p{Z}\p{C}\x{34F}\x{115F}\x{1160}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{FFFC}-\x{10FFFF}]+$`)

// maxFileName in bytes is what file systems of Linux allow, and encodedBytes what a server makes of
// a character in a file's name that is not an ASCII letter, an ASCII digit or '_': @ and four hexadecimal digits (MySQL
// manual, 11.2.4 Mapping of Identifiers to File Names). Some letters take fewer.
const (
	maxFileName  = 255
	encodedBytes = 5
)

// fileNameBytes of a database's folder.
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
		return field.ErrorList{field.Required(path, "name the database that is made at the first start")}
	case utf8.RuneCountInString(name) > 64 || !databasePattern.MatchString(name):
		return field.ErrorList{field.Invalid(path, clipText(name), "use up to 64 letters, digits, '_' and '-'")}
	}
	if n := fileNameBytes(name); n > maxFileName {
		return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("the name of its folder would have %d bytes, and at most %d are possible: each character but ASCII letters, digits and '_' takes %d. Choose a shorter name", n, maxFileName, encodedBytes))}
	}
	switch strings.ToLower(name) {
	case "mysql", "sys", "information_schema", "performance_schema":
		return field.ErrorList{field.Invalid(path, name, "is one of MySQL's own schemas: choose another name")}
	}
	return nil
}

// checkPasswordFields: there is one password, or none where the server asks for none.
func checkPasswordFields(r *resolved, spec *field.Path) field.ErrorList {
	password, ref := r.spec.Password, r.spec.PasswordSecretRef
	switch {
	case !r.engine.password || r.password.Generated:
		return nil
	case r.password == v1.PasswordSource{}:
		return field.ErrorList{field.Required(spec.Child("password"), "set it, or better passwordSecretRef, to the password of root")}
	case password != nil && ref != nil:
		return field.ErrorList{field.Forbidden(spec.Child("password"), "passwordSecretRef is set too: remove one of them")}
	case ref == nil:
		return nil
	}
	path := spec.Child("passwordSecretRef")
	var errs field.ErrorList
	if len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		errs = append(errs, field.Invalid(path.Child("name"), clipText(ref.Name), "is not the name of a Secret"))
	}
	if len(validation.IsConfigMapKey(ref.Key)) > 0 {
		errs = append(errs, field.Invalid(path.Child("key"), clipText(ref.Key), "is not a key of a Secret"))
	}
	return errs
}

// checkServiceSpec: a type that we know, and annotations that are ones.
func checkServiceSpec(r *resolved, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	s := r.spec.Service
	switch s.Type {
	case v1.ServiceClusterIP, v1.ServiceHeadless, v1.ServiceNodePort, v1.ServiceLoadBalancer:
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), v1.ServiceType(clipText(string(s.Type))),
			[]v1.ServiceType{v1.ServiceClusterIP, v1.ServiceHeadless, v1.ServiceNodePort, v1.ServiceLoadBalancer}))
	}
	at := path.Child("annotations")
	errs = append(errs, apivalidation.ValidateAnnotations(s.Annotations, at)...)
	for k, value := range s.Annotations {
		if !utf8.ValidString(value) {
			errs = append(errs, field.Forbidden(at.Key(clipText(k)), "is not UTF-8"))
		}
	}
	return errs
}

// requestPattern of backup.request, as the XRD has it.
var requestPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?$`)

// backupMethods of a backup while an instance goes on.
var backupMethods = []v1.BackupMethod{v1.MethodOnline, v1.MethodCold}

func checkRequest(at *field.Path, b v1.BackupSpec) field.ErrorList {
	var errs field.ErrorList
	if r := b.Request; r != "" && (len(r) > 63 || !requestPattern.MatchString(r)) {
		errs = append(errs, field.Invalid(at.Child("request"), clipText(r), "must be of letters, digits and . _ : - between them, and have at most 63 characters"))
	}
	if k := b.KeepFor; k != "" && !keepForPattern.MatchString(k) {
		errs = append(errs, field.Invalid(at.Child("keepFor"), clipText(k), "must be hours, days or weeks, such as 48h, 30d or 4w"))
	}
	switch {
	case b.Method != "" && !slices.Contains(backupMethods, b.Method):
		errs = append(errs, field.NotSupported(at.Child("method"), v1.BackupMethod(clipText(string(b.Method))), backupMethods))
	case b.Method == "" && (b.Request != "" || b.Schedule != ""):
		errs = append(errs, field.Required(at.Child("method"), "with request or schedule: Online clones the server while it runs, and Cold stops it for the time of a copy"))
	}
	return errs
}

func checkSchedule(at *field.Path, b v1.BackupSpec) field.ErrorList {
	if b.Schedule == "" {
		if b.TimeZone == "" {
			return nil
		}
		return field.ErrorList{field.Forbidden(at.Child("timeZone"), "is of a schedule, and there is none")}
	}
	var errs field.ErrorList
	if err := v1.CheckSchedule(b.Schedule); err != nil {
		errs = append(errs, field.Invalid(at.Child("schedule"), clipText(b.Schedule), err.Error()))
	}
	if err := v1.CheckTimeZone(b.TimeZone); err != nil {
		errs = append(errs, field.Invalid(at.Child("timeZone"), clipText(b.TimeZone), err.Error()))
	}
	return errs
}

// checkBounds refuses a schedule that takes backups closer together, or keeps more of them, than the platform allows. What a volume
// records of its backups has a bound, and the backup of a deletion needs room in it.
func checkBounds(r *resolved, at *field.Path) field.ErrorList {
	b := r.spec.Backup
	of, err := v1.ParseSchedule(b.Schedule, b.TimeZone)
	if b.Schedule == "" || err != nil || !r.Required.Platform.Known {
		return nil // That is refused already, or it is not known yet what the platform allows, and where backups go.
	}
	if least, want := of.LeastInterval(), r.platform.LeastBackupInterval(); least < want {
		return field.ErrorList{field.Invalid(at.Child("schedule"), b.Schedule, fmt.Sprintf("plans backups %d minutes apart, and the platform allows %d or more (minBackupInterval of MySQLPlatform %s)",
			int64(least.Minutes()), int64(want.Minutes()), v1.PlatformName))}
	}
	kept, most := of.MostWithin(v1.ParseKeepFor(b.KeepFor)), r.platform.MostBackups(r.store != "")
	if kept <= most {
		return nil
	}
	where := "on a volume"
	if r.store != "" {
		where = "in BackupStore " + r.store
	}
	return field.ErrorList{field.Invalid(at.Child("keepFor"), b.KeepFor, fmt.Sprintf("with schedule %q keeps up to %d backups, and at most %d are kept %s (maxBackups of MySQLPlatform %s): take fewer backups, or keep each for less time",
		b.Schedule, kept, most, where, v1.PlatformName))}
}

// keepForPattern of backup.keepFor, as the XRD has it.
var keepForPattern = regexp.MustCompile(`^[1-9][0-9]{0,4}[hdw]$`)

func checkPolicies(spec *field.Path, s v1.MySQLSpec) field.ErrorList {
	var errs field.ErrorList
	if d := s.DeletionPolicy; d != v1.DeletionBackup && d != v1.DeletionDiscard {
		errs = append(errs, field.NotSupported(spec.Child("deletionPolicy"), v1.DeletionPolicy(clipText(string(d))), []v1.DeletionPolicy{v1.DeletionBackup, v1.DeletionDiscard}))
	}
	if k := *s.Backup.Keep; k < 1 || k > 100 {
		errs = append(errs, field.Invalid(spec.Child("backup", "keep"), k, "must be from 1 to 100"))
	}
	if b := s.Backup.BeforeImageChange; b != v1.BackUpNewSeries && b != v1.BackUpNever {
		errs = append(errs, field.NotSupported(spec.Child("backup", "beforeImageChange"), v1.BeforeImageChange(clipText(string(b))), []v1.BeforeImageChange{v1.BackUpNewSeries, v1.BackUpNever}))
	}
	errs = append(errs, checkRequest(spec.Child("backup"), s.Backup)...)
	restore := spec.Child("restore")
	if r := s.Restore.Policy; r != v1.RestoreLatest && r != v1.RestoreNever {
		errs = append(errs, field.NotSupported(restore.Child("policy"), v1.RestorePolicy(clipText(string(r))), []v1.RestorePolicy{v1.RestoreLatest, v1.RestoreNever}))
	}
	if b := s.Restore.Backup; b != nil {
		if s.Restore.Policy == v1.RestoreNever {
			errs = append(errs, field.Forbidden(restore.Child("backup"), "policy Never forbids a restore: remove one of them"))
		}
		if len(validation.IsDNS1123Subdomain(*b)) > 0 {
			errs = append(errs, field.Invalid(restore.Child("backup"), clipText(*b), "is not the name of a MySQLBackup"))
		}
	}
	if from := s.Restore.From; from != nil {
		switch {
		case s.Restore.Policy == v1.RestoreNever:
			errs = append(errs, field.Forbidden(restore.Child("from"), "policy Never forbids a restore: remove one of them"))
		case s.Restore.Backup != nil:
			errs = append(errs, field.Forbidden(restore.Child("from"), "backup names what to restore: remove one of them"))
		}
		if len(validation.IsDNS1123Subdomain(*from)) > 0 {
			errs = append(errs, field.Invalid(restore.Child("from"), clipText(*from), "is not the name of a claim"))
		}
	}
	if of := s.Restore.InsteadOf; of != nil {
		if s.Restore.Choice() == "" {
			errs = append(errs, field.Forbidden(restore.Child("insteadOf"), "says what is left aside, and nothing says for what: set backup, from, import or policy Never, too, or remove it"))
		}
		if len(validation.IsDNS1123Subdomain(*of)) > 0 {
			errs = append(errs, field.Invalid(restore.Child("insteadOf"), clipText(*of), "is not the name of a MySQLBackup"))
		}
	}
	if c := s.CompositeDeletePolicy; c != "" && c != "Background" {
		errs = append(errs, field.NotSupported(spec.Child("compositeDeletePolicy"), clipText(c), []string{"Background"}))
	}
	return errs
}

// clipText that a user wrote, so that an error stays readable.
func clipText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}
