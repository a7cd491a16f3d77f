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
)

// chooseImport of a database that was not made here.
func chooseImport(r *resolved) (start, error) {
	from := r.spec.Restore.Import
	if err := mayImport(r, from); err != nil {
		return start{}, err
	}
	if (from.Server != nil || from.Volume != nil) && !r.Required.Import.Known {
		return holdServer(v1.ReasonWaiting, "Looking for what is to be imported (%s)", from), nil
	}
	if err := cmp.Or(mayUseAccount(r, from.Server), mayMount(r, from.Volume)); err != nil {
		return start{}, err
	}
	if from.Dump != nil && mayBeCertified(r.serverInput) && !r.hasCertificate { // The server that loads it has the my.cnf, which names the certificate.
		return holdUntilCertified(r, start{replicas: 1}), nil
	}
	return startAfter(r, &v1.RestoreStatus{Import: from.DeepCopy(), Phase: v1.RestoreRunning}), nil
}

// mayImport is nil if it reaches no further than whoever writes the claim may.
func mayImport(r *resolved, from *v1.Import) error {
	at := field.NewPath("spec", "restore", "import")
	switch {
	case from.Server != nil && !r.platform.AllowsImport(from.Server):
		return refusalOf(field.ErrorList{notAllowed(at.Child("server"), from.Server.Address(), r.platform.ImportServers)})
	case from.Dump != nil && !r.platform.OffersBackupStore(from.Dump.Store):
		return refusalOf(field.ErrorList{notAllowed(at.Child("dump", "store"), from.Dump.Store, r.platform.BackupStores)})
	}
	return nil
}

// mayUseAccount of a server is nil if whoever writes the claim may bring what is in its Secret into a container of an image of
// their choice: it is as with a password.
func mayUseAccount(r *resolved, of *v1.ImportedServer) error {
	if of == nil {
		return nil
	}
	s := r.Required.Import.firstItem()
	where := qualifiedName(r.instance.Namespace, of.SecretName)
	if err := checkOwnSecret(r, "spec.restore.import.server.secretName", of.SecretName); err != nil {
		return err
	}
	switch {
	case s == nil || s.Namespace != r.instance.Namespace || s.Name != of.SecretName:
		return newRefusal(v1.ReasonInvalid, "spec.restore.import.server.secretName: Secret %s does not exist: create it with username, password and ca.crt", where)
	case r.platform.RequirePasswordLabel && s.Labels[v1.LabelPassword] != "true":
		return newRefusal(v1.ReasonNotAllowed, "spec.restore.import.server.secretName: Secret %s has no label %s: \"true\", which the platform wants of each Secret that a claim names", where, v1.LabelPassword)
	}
	return nil
}

// mayMount a volume to copy it: one that is there, and none of another instance, which would have its pods counted as users of its
// volume, and whose rows come by restore.from.
func mayMount(r *resolved, of *v1.ImportedVolume) error {
	if of == nil {
		return nil
	}
	c := r.Required.Import.firstItem()
	where := qualifiedName(r.instance.Namespace, of.PVCName)
	switch {
	case c == nil || c.Namespace != r.instance.Namespace || c.Name != of.PVCName:
		return newRefusal(v1.ReasonInvalid, "spec.restore.import.volume.pvcName: PersistentVolumeClaim %s does not exist: name one with the data directory of a server that has stopped", where)
	case c.Labels[v1.LabelInstance] != "":
		return newRefusal(v1.ReasonInvalid, "spec.restore.import.volume.pvcName: PersistentVolumeClaim %s is the volume of another claim: its rows come with spec.restore.from", where)
	}
	return nil
}

// importUnderWay is what the instance is made from, or will be; nil where there is nothing to import any more, or where it may not be.
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

// toTheSource of an import: the server, wherever it is, and whoever knows its address. The Job has the account of that
// server only, and the platform has allowed its host.
func toTheSource(of *v1.ImportedServer) []networkingv1.NetworkPolicyEgressRule {
	port, dns, udp := intstr.FromInt32(of.ServerPort()), intstr.FromInt32(53), corev1.ProtocolUDP
	return []networkingv1.NetworkPolicyEgressRule{
		{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}},
		{Ports: []networkingv1.NetworkPolicyPort{{Port: &dns}, {Port: &dns, Protocol: &udp}}},
	}
}

// Places in the Job of an import, and volumes of it.
const (
	importSourceVolume  = "source"
	importAccountVolume = "account"
	importAccountPath   = "/" + importAccountVolume
)

// importPod makes the data of what is imported, and puts it where the server looks. What it runs of the server's image
// comes before the product's own container, which looks at what was made.
func importPod(r *resolved, from *v1.Import) corev1.PodSpec {
	of := agent.Importing{Volume: dataPath, XR: r.instance.XR, Name: from.String()}
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	tools := agent.ToolsMount()
	tools.ReadOnly = true
	pod := corev1.PodSpec{
		SecurityContext: agent.PodSecurity(r.hostPath),
		InitContainers:  []corev1.Container{agent.ToolsContainer(r.platform.AgentImage), agent.VersionContainer(r.wish.Image)},
		Volumes:         []corev1.Volume{agent.ToolsVolume(), agent.PVCVolume("data", r.instance.DataPVCName())},
	}
	mounts, command := []corev1.VolumeMount{tools, data}, of.Import()
	switch {
	case from.Volume != nil:
		source := agent.PVCVolume(importSourceVolume, from.Volume.PVCName)
		source.PersistentVolumeClaim.ReadOnly = true
		pod.Volumes = append(pod.Volumes, source)
		mounts = append(mounts, corev1.VolumeMount{Name: importSourceVolume, MountPath: agent.ImportSource, ReadOnly: true})
		command = of.Copy(from.Volume.Directory)
	case from.Server != nil:
		importServer(r, from.Server, of, &pod)
	default:
		importDump(r, from.Dump, of, &pod)
	}
	pod.Containers = []corev1.Container{agent.Container(v1.ComponentRestore, r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath), mounts, command...)}
	schedule(r.serverInput, &pod)
	return pod
}

// importServer clones it, with a server of the same image.
func importServer(r *resolved, from *v1.ImportedServer, of agent.Importing, pod *corev1.PodSpec) {
	tools := agent.ToolsMount()
	tools.ReadOnly = true
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	clone := agent.Container("import-server", r.wish.Image, agent.ServerMemory, agent.ServerSecurity(), []corev1.VolumeMount{
		tools, data, {Name: importAccountVolume, MountPath: importAccountPath, ReadOnly: true},
	}, of.Server(from.Host, from.ServerPort(), importAccountPath)...)
	pod.InitContainers = append(pod.InitContainers, append(ownData(r, data), clone)...)
	pod.Volumes = append(pod.Volumes, agent.AccountVolume(importAccountVolume, from.SecretName))
}

// importDump fetches it, and loads it with the server's own image, settings and resources.
func importDump(r *resolved, from *v1.ImportedDump, of agent.Importing, pod *corev1.PodSpec) {
	object := from.Object(r.instance.Namespace)
	data := corev1.VolumeMount{Name: "data", MountPath: dataPath}
	fetch := agent.Container("fetch-dump", r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath), []corev1.VolumeMount{
		data, {Name: agent.AccessVolumeName, MountPath: agent.AccessFolder, ReadOnly: true},
	}, of.Fetch(object, from.SHA256)...)
	load := agent.Container("import-dump", r.wish.Image, agent.ServerMemory, agent.ServerSecurity(), []corev1.VolumeMount{agent.ToolsMount(), data}, // Its socket is beside the tools.
		of.Dump(object, r.spec.Database, socketsPath, from.SHA256 != "")...)
	lay(&load.Resources, r.resources)
	if r.spec.Database != "" {
		load.Env = []corev1.EnvVar{{Name: "MYSQL_DATABASE", Value: r.spec.Database}}
	}
	pod.Volumes = append(pod.Volumes, agent.AccessVolume(r.instance.Accesses().Restore()))
	for _, of := range serverVolumes(r.serverInput)[1:] { // All but the data, which it makes.
		load.VolumeMounts = append(load.VolumeMounts, of.mounts...)
		pod.Volumes = append(pod.Volumes, of.Volume)
	}
	pod.InitContainers = append(append(append(pod.InitContainers, fetch), ownData(r, data)...), load)
}

// lay what the server's container asks for over what is reserved for one that runs a server for a while: it has the same my.cnf.
func lay(over *corev1.ResourceRequirements, of corev1.ResourceRequirements) {
	own := of.DeepCopy()
	usual := over.Limits[corev1.ResourceMemory]
	over.Limits, over.Claims = own.Limits, own.Claims
	for name, amount := range own.Requests {
		if name != corev1.ResourceMemory || amount.Cmp(over.Requests[name]) > 0 {
			over.Requests[name] = amount
		}
	}
	limitMemory(over, usual)
}

// limitMemory of a container that runs a server, where nothing else limits it: the default of a LimitRange may be below what it requests.
func limitMemory(of *corev1.ResourceRequirements, usual resource.Quantity) {
	request := of.Requests[corev1.ResourceMemory]
	switch limit, isLimited := of.Limits[corev1.ResourceMemory]; {
	case isLimited && limit.Cmp(request) < 0:
		of.Requests[corev1.ResourceMemory] = limit
		return
	case isLimited:
		return
	case request.Cmp(usual) > 0:
		usual = request
	}
	limits := corev1.ResourceList{corev1.ResourceMemory: usual}
	maps.Copy(limits, of.Limits)
	of.Limits = limits
}

// ownData hands a folder of the node over to the server's user, for containers of the server's image.
func ownData(r *resolved, data corev1.VolumeMount) []corev1.Container {
	if !r.hostPath {
		return nil
	}
	return []corev1.Container{agent.OwnContainer(r.platform.AgentImage, data)}
}

// importFailure says what a failed Job means, and what to do.
func importFailure(code int, what, why, job, again string) string {
	switch code {
	case agent.ExitVersion:
		return fmt.Sprintf("What is to be imported (%s) was written by a server that spec.image cannot take over from, or nobody can tell by which; nothing was written. Set spec.image to that server's version, %s", what, again)
	case agent.ExitUnclean:
		return fmt.Sprintf("The server that wrote what is to be imported (%s) did not stop cleanly, or nobody can see that it did (before MySQL 8.0.30), and MySQL upgrades only what did; nothing was written. Set spec.image to its very version, or start that server on it once more and stop it, %s", what, again)
	case agent.ExitDamaged:
		return fmt.Sprintf("What is to be imported (%s) is cut off, is not what its sum says, or has a statement that fails: see the log of Job %s. Nothing was imported. Bring another one, %s", what, job, again)
	case agent.ExitMissing:
		return fmt.Sprintf("What is to be imported (%s) is not there: see the log of Job %s. Bring it, %s; or create the claim again with another spec.restore", what, job, again)
	case agent.ExitOccupied:
		return fmt.Sprintf("The data volume already holds a database, and nothing was imported over it (%s). Look at the volume, %s", what, again)
	case agent.ExitNoSpace:
		return fmt.Sprintf("What is to be imported (%s) does not fit on the data volume. Let the volume grow, %s", what, again)
	}
	return fmt.Sprintf("The import (%s) has failed (%s); the server does not start. Look at the log of Job %s, mend the cause, %s; or create the claim again with another spec.restore", what, orUnknown(why), job, again)
}

// Patterns of an import, as the XRD has them.
var (
	importFolderPattern = regexp.MustCompile(`^[^/.][^/]*(/[^/.][^/]*)*$`)
	importHostPattern   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	importDumpPattern   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.sql(\.gz|\.zst)?$`)
)

// checkImport refuses what names no database, or several.
func checkImport(r *resolved, at *field.Path) field.ErrorList {
	from := r.spec.Restore.Import
	if from == nil {
		return nil
	}
	errs := checkImportOf(r, from, at)
	if r.database {
		errs = append(errs, field.Forbidden(at, "is for a MySQL, and not for a Database: remove it"))
	}
	if r.spec.Restore.Backup != nil || r.spec.Restore.From != nil || r.spec.Restore.Policy == v1.RestoreNever {
		errs = append(errs, field.Forbidden(at, "backup, from or policy Never says something else: remove one of them"))
	}
	return errs
}

// checkImportOf what a claim, or a Job, names.
func checkImportOf(r *resolved, from *v1.Import, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := countTrue(from.Volume != nil, from.Server != nil, from.Dump != nil); n != 1 {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf("has %d of volume, server and dump: set exactly one", n)))
	}
	if v := from.Volume; v != nil {
		errs = append(errs, checkImportedVolume(r, v, at.Child("volume"))...)
	}
	if s := from.Server; s != nil {
		errs = append(errs, checkImportedServer(s, at.Child("server"))...)
	}
	if d := from.Dump; d != nil {
		errs = append(errs, checkImportedDump(d, at.Child("dump"))...)
	}
	return errs
}

func countTrue(all ...bool) int {
	n := 0
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

func checkImportedVolume(r *resolved, v *v1.ImportedVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case len(validation.IsDNS1123Subdomain(v.PVCName)) > 0:
		errs = append(errs, field.Invalid(at.Child("pvcName"), clipText(v.PVCName), "is not the name of a PersistentVolumeClaim"))
	case v.PVCName == r.instance.DataPVCName() || v.PVCName == r.instance.BackupPVCName():
		errs = append(errs, field.Invalid(at.Child("pvcName"), v.PVCName, "is this claim's own volume: name that of another server"))
	}
	if d := v.Directory; d != "" && (!importFolderPattern.MatchString(d) || path.Clean(d) != d || len(d) > 253 || strings.ContainsFunc(d, func(c rune) bool { return c < ' ' })) {
		errs = append(errs, field.Invalid(at.Child("directory"), clipText(d), "is not a folder below the root of the volume, such as data or lib/mysql"))
	}
	return errs
}

func checkImportedServer(s *v1.ImportedServer, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Host) > 253 || !importHostPattern.MatchString(s.Host) {
		errs = append(errs, field.Invalid(at.Child("host"), clipText(s.Host), "is neither a name nor an IPv4 address (the port is a field of its own)"))
	}
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, field.Invalid(at.Child("port"), s.Port, "must be from 1 to 65535"))
	}
	if len(validation.IsDNS1123Subdomain(s.SecretName)) > 0 {
		errs = append(errs, field.Invalid(at.Child("secretName"), clipText(s.SecretName), "is not the name of a Secret"))
	}
	return errs
}

func checkImportedDump(d *v1.ImportedDump, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(validation.IsDNS1123Subdomain(d.Store)) > 0 {
		errs = append(errs, field.Invalid(at.Child("store"), clipText(d.Store), "is not the name of a BackupStore"))
	}
	if len(d.Name) > 253 || !importDumpPattern.MatchString(d.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), clipText(d.Name), "must end in .sql, .sql.gz or .sql.zst, and have letters, digits and . _ - only"))
	}
	if d.SHA256 != "" && !sha256Pattern.MatchString(d.SHA256) {
		errs = append(errs, field.Invalid(at.Child("sha256"), clipText(d.SHA256), "is not a SHA-256 sum in hexadecimal"))
	}
	return errs
}
