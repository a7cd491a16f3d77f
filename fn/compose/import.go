package compose

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/fieldcheck"
)

// chooseImport starts an instance from an imported database.
func chooseImport(r *resolved) (start, error) {
	from := r.spec.Restore.Import
	if err := mayImport(r, from); err != nil {
		return start{}, err
	}
	if (from.Server != nil || from.Volume != nil) && !r.Required.Import.Known {
		return blockServer(v1.ReasonWaiting, "Waiting for Crossplane to read the import source (%s)", from), nil
	}
	if err := cmp.Or(mayUseAccount(r, from.Server), mayMount(r, from.Volume)); err != nil {
		return start{}, err
	}
	// The server that loads the dump reads the my.cnf, which contains the path of the certificate.
	if from.Dump != nil && mayBeCertified(r.serverInput) && !r.hasCertificate {
		return blockUntilCertified(r, start{replicas: 1}), nil
	}
	return startAfter(r, &v1.RestoreStatus{Import: from.DeepCopy(), Phase: v1.RestoreRunning}), nil
}

// mayImport returns an error if the import would access more than the author of the claim is allowed to.
func mayImport(r *resolved, from *v1.Import) error {
	fldPath := field.NewPath("spec", "restore", "import")
	switch {
	case from.Server != nil && !r.platform.AllowsImport(from.Server):
		return refusalOf(field.ErrorList{
			notAllowed(fldPath.Child("server"), from.Server.Address(), r.platform.AllowedImportServers)})
	case from.Dump != nil && !r.platform.OffersBackupStore(from.Dump.StoreRef.Name):
		return refusalOf(field.ErrorList{
			notAllowed(fldPath.Child("dump", "storeRef", "name"), from.Dump.StoreRef.Name, r.platform.AllowedBackupStores)})
	}
	return nil
}

// mayUseAccount returns an error if the author of the claim may not use the Secret with the account. The author also
// chooses the image that gets the account, so the platform's rules for password Secrets apply.
func mayUseAccount(r *resolved, server *v1.ImportedServer) error {
	if server == nil {
		return nil
	}
	s := r.Required.Import.firstItem()
	place := qualifiedName(r.instance.Namespace, server.SecretRef.Name)
	if err := checkOwnSecret(r, "spec.restore.import.server.secretRef", server.SecretRef.Name); err != nil {
		return err
	}
	switch {
	case s == nil || s.Namespace != r.instance.Namespace || s.Name != server.SecretRef.Name:
		return newRefusal(v1.ReasonInvalid,
			"spec.restore.import.server.secretRef: Secret %s does not exist. Create it with the keys username, password and "+
				"ca.crt",
			place)
	case r.platform.RequirePasswordLabel && s.Labels[v1.LabelPassword] != "true":
		return newRefusal(v1.ReasonNotAllowed,
			"spec.restore.import.server.secretRef: Secret %s has no label %s: \"true\", which the platform requires on each "+
				"Secret of a claim. Add the label", place, v1.LabelPassword)
	}
	return nil
}

// mayMount returns an error if the volume to import does not exist or belongs to another instance. The import's pod
// would delay a backup of that instance. spec.restore.from copies the data of an instance instead.
func mayMount(r *resolved, volume *v1.ImportedVolume) error {
	if volume == nil {
		return nil
	}
	c := r.Required.Import.firstItem()
	place := qualifiedName(r.instance.Namespace, volume.PVCRef.Name)
	switch {
	case c == nil || c.Namespace != r.instance.Namespace || c.Name != volume.PVCRef.Name:
		return newRefusal(v1.ReasonInvalid,
			"spec.restore.import.volume.pvcRef: PersistentVolumeClaim %s does not exist. Set the name of a "+
				"PersistentVolumeClaim with the data directory of a stopped server", place)
	case c.Labels[v1.LabelInstance] != "":
		return newRefusal(v1.ReasonInvalid,
			"spec.restore.import.volume.pvcRef: PersistentVolumeClaim %s is the volume of another claim. To copy the data of "+
				"that claim, set spec.restore.from instead", place)
	}
	return nil
}

// importUnderWay returns the import that an instance starts from, or nil if it has finished or is not allowed.
func importUnderWay(r *resolved) *v1.Import {
	switch from := r.XR.Status.Restore; {
	case r.started:
		return nil
	case from != nil:
		return from.Import
	case r.spec.Restore.Import == nil || mayImport(r, r.spec.Restore.Import) != nil:
		return nil
	}
	return r.spec.Restore.Import
}

// toTheSource allows connections to the port of the imported server at any address. The platform allows the server's
// host, and the Job has only the account for that server.
func toTheSource(server *v1.ImportedServer) []networkingv1.NetworkPolicyEgressRule {
	port, dns, udp := intstr.FromInt32(server.ServerPort()), intstr.FromInt32(53), corev1.ProtocolUDP
	return []networkingv1.NetworkPolicyEgressRule{
		{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}},
		{Ports: []networkingv1.NetworkPolicyPort{{Port: &dns}, {Port: &dns, Protocol: &udp}}},
	}
}

// Paths and volumes in an import Job.
const (
	importSourceVolume  = "source"
	importAccountVolume = "account"
	importAccountPath   = "/" + importAccountVolume
)

// importPod returns the pod that imports the data into the data directory. Containers with the server's image run
// before the product's own container, which verifies the result.
func importPod(r *resolved, from *v1.Import) corev1.PodSpec {
	importing := agent.Importing{Volume: dataPath, XR: r.instance.XR, Name: from.String()}
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	tools := agent.ToolsMount()
	tools.ReadOnly = true
	pod := corev1.PodSpec{
		SecurityContext: agent.PodSecurity(r.hostPath),
		InitContainers: []corev1.Container{agent.ToolsContainer(r.platform.AgentImage),
			agent.VersionContainer(r.templateInput.Image)},
		Volumes: []corev1.Volume{agent.ToolsVolume(), agent.PVCVolume("data", r.instance.DataPVCName())},
	}
	mounts, command := []corev1.VolumeMount{tools, data}, importing.Import()
	switch {
	case from.Volume != nil:
		source := agent.PVCVolume(importSourceVolume, from.Volume.PVCRef.Name)
		source.PersistentVolumeClaim.ReadOnly = true
		pod.SecurityContext.SupplementalGroups = agent.ImportGroups(r.hostPath)
		pod.Volumes = append(pod.Volumes, source)
		mounts = append(mounts, corev1.VolumeMount{Name: importSourceVolume, MountPath: agent.ImportSource, ReadOnly: true})
		command = importing.Copy(from.Volume.Directory)
	case from.Server != nil:
		importServer(r, from.Server, importing, &pod)
	default:
		importDump(r, from.Dump, importing, &pod)
	}
	pod.Containers = []corev1.Container{
		agent.Container(v1.ComponentRestore, r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath), mounts,
			command...)}
	schedule(r.serverInput, &pod)
	return pod
}

// importServer adds a container that clones the server, with the same image.
func importServer(r *resolved, from *v1.ImportedServer, importing agent.Importing, pod *corev1.PodSpec) {
	tools := agent.ToolsMount()
	tools.ReadOnly = true
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	clone := agent.Container("import-server", r.templateInput.Image, agent.ServerMemory, agent.ServerSecurity(),
		[]corev1.VolumeMount{
			tools, data, {Name: importAccountVolume, MountPath: importAccountPath, ReadOnly: true},
		}, importing.Server(from.Host, from.ServerPort(), importAccountPath)...)
	pod.InitContainers = append(pod.InitContainers, append(ownData(r, data), clone)...)
	pod.Volumes = append(pod.Volumes, agent.AccountVolume(importAccountVolume, from.SecretRef.Name))
}

// importDump adds containers that download the dump and load it with the server's image, settings and resources.
func importDump(r *resolved, from *v1.ImportedDump, importing agent.Importing, pod *corev1.PodSpec) {
	object := from.Object(r.instance.Namespace)
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	fetch := agent.Container("fetch-dump", r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath),
		[]corev1.VolumeMount{
			data, {Name: agent.AccessVolumeName, MountPath: agent.AccessDir, ReadOnly: true},
		}, importing.Fetch(object, from.SHA256)...)
	// The server creates its socket in the directory with the agent's program, so this mount is writable.
	load := agent.Container("import-dump", r.templateInput.Image, agent.ServerMemory, agent.ServerSecurity(),
		[]corev1.VolumeMount{agent.ToolsMount(), data},
		importing.Dump(object, r.spec.Database, socketsPath, from.SHA256 != "")...)
	lay(&load.Resources, r.resources)
	if r.spec.Database != "" {
		load.Env = []corev1.EnvVar{{Name: "MYSQL_DATABASE", Value: r.spec.Database}}
	}
	pod.Volumes = append(pod.Volumes, agent.AccessVolume(r.instance.Accesses().Restore()))
	for _, volume := range serverVolumes(r.serverInput)[1:] { // All except the data volume.
		load.VolumeMounts = append(load.VolumeMounts, volume.mounts...)
		pod.Volumes = append(pod.Volumes, volume.Volume)
	}
	pod.InitContainers = append(append(append(pod.InitContainers, fetch), ownData(r, data)...), load)
}

// lay applies the resources of the server's container to a container that temporarily runs a server.
func lay(over *corev1.ResourceRequirements, defaults corev1.ResourceRequirements) {
	own := defaults.DeepCopy()
	usual := over.Limits[corev1.ResourceMemory]
	over.Limits, over.Claims = own.Limits, own.Claims
	for name, amount := range own.Requests {
		if name != corev1.ResourceMemory || amount.Cmp(over.Requests[name]) > 0 {
			over.Requests[name] = amount
		}
	}
	limitMemory(over, usual)
}

// limitMemory sets the memory limit of a container that runs a server, if it has none. Otherwise the container could
// get the default limit of a LimitRange, which may be lower than its request.
func limitMemory(resources *corev1.ResourceRequirements, usual resource.Quantity) {
	request := resources.Requests[corev1.ResourceMemory]
	switch limit, isLimited := resources.Limits[corev1.ResourceMemory]; {
	case isLimited && limit.Cmp(request) < 0:
		resources.Requests[corev1.ResourceMemory] = limit
		return
	case isLimited:
		return
	case request.Cmp(usual) > 0:
		usual = request
	}
	limits := corev1.ResourceList{corev1.ResourceMemory: usual}
	maps.Copy(limits, resources.Limits)
	resources.Limits = limits
}

// ownData makes the server's user the owner of a hostPath directory, for containers with the server's image.
func ownData(r *resolved, data corev1.VolumeMount) []corev1.Container {
	if !r.hostPath {
		return nil
	}
	return []corev1.Container{agent.OwnContainer(r.platform.AgentImage, data)}
}

// importFailure explains why an import Job failed, and how to fix the cause.
func importFailure(code int, subject, reason, job, retry string) string {
	switch code {
	case agent.ExitVersion:
		return fmt.Sprintf("The import source (%s) is from a server version that spec.image cannot read or upgrade, or "+
			"from an unknown version. Nothing was written. Set spec.image to the version of that server. %s", subject, retry)
	case agent.ExitUnclean:
		return fmt.Sprintf("The server that wrote the import source (%s) did not shut down cleanly, or is older than "+
			"MySQL 8.0.30 and does not record whether it did. MySQL upgrades data only after a clean shutdown. Nothing was "+
			"written. Set spec.image to the exact version of that server. Or start that server on the data again, and stop "+
			"it cleanly. %s",
			subject, retry)
	case agent.ExitDamaged:
		return fmt.Sprintf("The import source (%s) is truncated, does not match its checksum, or contains a statement "+
			"that fails. Nothing was imported. See the log of Job %s, and replace the source. %s", subject, job, retry)
	case agent.ExitMissing:
		return fmt.Sprintf("The import source (%s) does not exist. See the log of Job %s, and provide the source. %s. Or "+
			"create the claim again with another spec.restore", subject, job, retry)
	case agent.ExitSource:
		return fmt.Sprintf("The volume (%s) contains no data directory that can be imported. Nothing was imported. See the "+
			"log of Job %s for the reason. %s. Or create the claim again with another spec.restore", subject, job, retry)
	case agent.ExitOccupied:
		return fmt.Sprintf("The data volume already contains a database, so nothing was imported (%s). Check the content "+
			"of the volume. %s", subject, retry)
	case agent.ExitNoSpace:
		return fmt.Sprintf("The import source (%s) does not fit on the data volume. Increase the storage size in the "+
			"spec. %s", subject, retry)
	}
	return fmt.Sprintf("The import (%s) has failed (%s), and the server does not start. See the log of Job %s, and fix "+
		"the cause. %s. Or create the claim again with another spec.restore", subject, orUnknown(reason), job, retry)
}

// Patterns of the fields of an import, as in the XRD.
var (
	importDirPattern  = regexp.MustCompile(`^[^/.][^/]*(/[^/.][^/]*)*$`)
	importHostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	importDumpPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.sql(\.gz|\.zst)?$`)
)

// checkImport refuses an import with no source or with several.
func checkImport(r *resolved, fldPath *field.Path) field.ErrorList {
	from := r.spec.Restore.Import
	if from == nil {
		return nil
	}
	errs := checkImportOf(r, from, fldPath)
	if r.database {
		errs = append(errs, field.Forbidden(fldPath, "is supported only for a MySQL, and not for a Database. Remove it"))
	}
	if r.spec.Restore.Backup != nil || r.spec.Restore.From != nil || r.spec.Restore.Policy == v1.RestoreNever {
		errs = append(errs, field.Forbidden(fldPath, "backup, from or policy Never is also set. Remove one of them"))
	}
	return errs
}

// checkImportOf validates an import source, from the spec of a claim or from the annotation of a restore Job.
func checkImportOf(r *resolved, from *v1.Import, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := countTrue(from.Volume != nil, from.Server != nil, from.Dump != nil); n != 1 {
		errs = append(errs, field.Forbidden(fldPath, fmt.Sprintf("must have exactly one of volume, server and dump, but "+
			"has %d", n)))
	}
	if v := from.Volume; v != nil {
		errs = append(errs, checkImportedVolume(r, v, fldPath.Child("volume"))...)
	}
	if s := from.Server; s != nil {
		errs = append(errs, checkImportedServer(s, fldPath.Child("server"))...)
	}
	if d := from.Dump; d != nil {
		errs = append(errs, checkImportedDump(d, fldPath.Child("dump"))...)
	}
	return errs
}

func countTrue(all ...bool) int {
	n := 0
	for _, value := range all {
		if value {
			n++
		}
	}
	return n
}

func checkImportedVolume(r *resolved, v *v1.ImportedVolume, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case len(validation.IsDNS1123Subdomain(v.PVCRef.Name)) > 0:
		errs = append(errs, field.Invalid(fldPath.Child("pvcRef", "name"), clipText(v.PVCRef.Name),
			"is not a valid PersistentVolumeClaim name"))
	case v.PVCRef.Name == r.instance.DataPVCName() || v.PVCRef.Name == r.instance.BackupPVCName():
		errs = append(errs, field.Invalid(fldPath.Child("pvcRef", "name"), v.PVCRef.Name,
			"is the volume of this claim itself. Set the name of another server's volume"))
	}
	if d := v.Directory; d != "" &&
		(!importDirPattern.MatchString(d) || path.Clean(d) != d || len(d) > 253 ||
			strings.ContainsFunc(d, func(c rune) bool { return c < ' ' })) {
		errs = append(errs, field.Invalid(fldPath.Child("directory"), clipText(d),
			"must be a path below the root of the volume, such as data or lib/mysql, without names that begin with a dot"))
	}
	return errs
}

func checkImportedServer(s *v1.ImportedServer, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Host) > 253 || !importHostPattern.MatchString(s.Host) {
		errs = append(errs, field.Invalid(fldPath.Child("host"), clipText(s.Host),
			"must be a DNS name or an IPv4 address. Set the port in the field port"))
	}
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, field.Invalid(fldPath.Child("port"), s.Port, "must be from 1 to 65535"))
	}
	return append(errs, fieldcheck.ObjectName(fldPath.Child("secretRef", "name"), s.SecretRef.Name, "Secret")...)
}

func checkImportedDump(d *v1.ImportedDump, fldPath *field.Path) field.ErrorList {
	errs := fieldcheck.ObjectName(fldPath.Child("store"), d.StoreRef.Name, "BackupStore")
	if len(d.Name) > 253 || !importDumpPattern.MatchString(d.Name) {
		errs = append(errs, field.Invalid(fldPath.Child("name"), clipText(d.Name),
			"must end in .sql, .sql.gz or .sql.zst, and contain only letters, digits, '.', '_' and '-'"))
	}
	if d.SHA256 != "" && !sha256Pattern.MatchString(d.SHA256) {
		errs = append(errs, field.Invalid(fldPath.Child("sha256"), clipText(d.SHA256), "must be a SHA-256 checksum of 64 "+
			"digits in lowercase hexadecimal"))
	}
	return errs
}
