// Package compose decides what a database instance consists of. It is pure: the same Input gives the same Output,
// regardless of the clock, the network and the file system.
//
//	Input ──▶ resolve ──▶ decide ──▶ build ──▶ report ──▶ Output.
//	  │         │            │ whether the server may run, and what it starts from.
//	  │         └─ the validated settings, or a Refusal that stops all changes.
//	  └─ XR, settings, observed resources, required resources.
//
// Each step takes values and returns values. Compose connects the steps.
package compose

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An Input contains all data from which an instance is composed.
type Input struct {
	redact.All

	// XR is the composite resource. An XDatabase is converted to an XMySQL, which keeps the kind, and Type is its type.
	XR   *v1.XMySQL
	Type v1.DatabaseType
	// Settings are the input of the function in the Composition.
	Settings v1.Settings
	// Observed are the observed composed resources.
	Observed Observed
	// Required are the required resources that Crossplane has sent.
	Required RequiredResources
	// Published are the connection details of the XR.
	Published map[string][]byte
	// Release is the release of this function, such as v0.1.0.
	Release string
	// Watched is true if Crossplane watches the required resources and calls the function again when they change.
	Watched bool
	// Unsynced is the message of the XR's condition Synced if its status is False. It describes what failed in
	// Crossplane's last reconcile.
	Unsynced string
}

// Observed contains the existing composed resources. A resource that does not exist is nil. Only the fields that
// decisions depend on must be set.
type Observed struct {
	redact.All

	DataPV       *corev1.PersistentVolume
	DataPVC      *corev1.PersistentVolumeClaim
	RootPassword *corev1.Secret
	Config       *corev1.ConfigMap
	Deployment   *appsv1.Deployment
	// Template is the pod template of the Deployment, or nil.
	Template *Template
	Service  *corev1.Service
	Restore  *batchv1.Job
	// SettingsCheck is the Job that validates new settings.
	SettingsCheck *batchv1.Job
	// JobPolicy and ServerPolicy are the NetworkPolicies of the instance's Jobs and of its server.
	JobPolicy, ServerPolicy *networkingv1.NetworkPolicy
}

// A Template is the observed pod template of a Deployment.
type Template struct {
	// Digest is the digest of the whole template, including changes by other clients.
	Digest string
	// ConfigHash is the digest of the my.cnf that the template was created with.
	ConfigHash string
	// Images are the images of the template's containers by the name of the container.
	Images map[string]string
	// Certified is true if the template mounts the server's certificate.
	Certified bool
}

// hasResource reports whether the named resource is observed.
func (o Observed) hasResource(name string) bool {
	switch name {
	case v1.ResourceDataPV:
		return o.DataPV != nil
	case v1.ResourceDataPVC:
		return o.DataPVC != nil
	case v1.ResourceRootPassword:
		return o.RootPassword != nil
	case v1.ResourceConfig:
		return o.Config != nil
	case v1.ResourceDeployment:
		return o.Deployment != nil
	case v1.ResourceService:
		return o.Service != nil
	case v1.ResourceRestore:
		return o.Restore != nil
	case v1.ResourceSettingsCheck:
		return o.SettingsCheck != nil
	case v1.ResourceJobPolicy:
		return o.JobPolicy != nil
	case v1.ResourceServerPolicy:
		return o.ServerPolicy != nil
	}
	return false
}

// Required contains the required resources for one key of the requirements. If Known is false, Crossplane has not
// read them yet, and they may exist.
type Required[T any] struct {
	Known bool
	Items []T
}

// firstItem returns the first of the required resources that Crossplane has sent, or nil.
func (a Required[T]) firstItem() *T {
	if len(a.Items) == 0 {
		return nil
	}
	return &a.Items[0]
}

// RequiredResources are the required resources of an instance. Only the fields that decisions depend on must be set.
type RequiredResources struct {
	redact.All

	// Platform is the Platform object, which contains the limits and defaults for claims.
	Platform Required[v1.Platform]
	// Records are the BackupRecords of all instances with the same claim name.
	Records Required[v1.BackupRecord]
	// Named are the BackupRecords that match spec.restore.backup or spec.restore.from.
	Named Required[v1.BackupRecord]
	// Connection is the Secret with the password that the server accepts now.
	Connection Required[corev1.Secret]
	// Import is the Secret with the account of an imported server, or the PersistentVolumeClaim of an imported volume.
	Import Required[metav1.PartialObjectMetadata]
	// Password is the Secret that spec.passwordSecretRef names.
	Password Required[corev1.Secret]
	// Namespace is the namespace of the instance.
	Namespace Required[metav1.PartialObjectMetadata]
	// Policy and its Binding prevent users of a namespace from writing the status of a MySQL without a claim.
	Policy  Required[metav1.PartialObjectMetadata]
	Binding Required[admissionv1.ValidatingAdmissionPolicyBinding]
	// Volume is the volume with the data.
	Volume Required[corev1.PersistentVolume]
	// Class is the StorageClass of a volume that is to be expanded.
	Class Required[storagev1.StorageClass]
	// Existing contains, for each composed resource, an object that already has the name of the resource.
	Existing map[string]Required[metav1.PartialObjectMetadata]
}

// A Requirement selects objects that an instance depends on, either by name or by labels.
type Requirement struct {
	APIVersion, Kind string
	Namespace, Name  string
	Labels           map[string]string
}

// An Output contains the resources of an instance and its status.
type Output struct {
	// Requirements are the required resources by key. Crossplane sends them in the next call.
	Requirements map[string]Requirement
	// Resources are the desired resources by name.
	Resources map[string]Resource
	// Status contains the function's fields of the XR's status.
	Status v1.MySQLStatus
	// Conditions are the conditions of the XR and the claim.
	Conditions []Condition
	// Connection are the connection details of the XR, or nil if there are none yet.
	Connection map[string][]byte
	// Ready is true when a client can use the instance.
	Ready bool
	// Settled is true if no change is in progress, and Crossplane watches all objects that the instance depends on.
	Settled bool
}

// A Resource is a desired composed resource. Ready is true if the observed resource is ready.
type Resource struct {
	Object runtime.Object
	Ready  bool
	// AsObserved is the path of a field that must keep its observed value, including changes by other clients, or nil.
	AsObserved []string
}

// A Condition is a condition of the XR and the claim. It is False if it is neither True nor Unknown.
type Condition struct {
	Type          string
	True, Unknown bool
	Reason        string
	Message       string
}

func (c Condition) isFalse() bool { return !c.True && !c.Unknown }

// A Refusal explains why an instance cannot be composed, and how to fix it. Existing objects are not changed.
type Refusal struct {
	// Reason is the reason of the condition Accepted.
	Reason string
	Err    error
}

// Error returns a message with the field and the next step.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }
