// Package compose decides what a database instance consists of. It is pure: the
// same Input makes the same Output, whatever the clock, the network and the
// files of the machine say.
//
//	Input ──▶ resolve ──▶ decide ──▶ build ──▶ report ──▶ Output
//	  │         │            │ what the server starts from, if it may
//	  │         └─ what is asked for, checked: a Refusal, and nothing may change
//	  └─ XR, settings, observed resources, required resources
//
// Each step takes values and returns values; Compose is where they meet.
package compose

import (
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

// An Input is all that an instance depends on.
type Input struct {
	redact.All

	// XR that is composed. An XDatabase is here as an XMySQL of that kind, with its
	// Type.
	XR   *v1.XMySQL
	Type v1.DatabaseType
	// Settings of the platform.
	Settings v1.Settings
	// Observed composed resources.
	Observed Observed
	// Required resources, as far as Crossplane has sent them.
	Required RequiredResources
	// Published connection details of the XR.
	Published map[string][]byte
	// Unsynced is the message of the XR's condition Synced while that is False: what Crossplane could not do the last time.
	Unsynced string
}

// Observed holds the composed resources that exist; nil where one does not.
// Only fields that a decision reads need be set.
type Observed struct {
	redact.All

	DataPV       *corev1.PersistentVolume
	DataPVC      *corev1.PersistentVolumeClaim
	RootPassword *corev1.Secret
	Config       *corev1.ConfigMap
	Deployment   *appsv1.Deployment
	// Template of the Deployment's pods; nil where there is none.
	Template *Template
	Service  *corev1.Service
	Restore  *batchv1.Job
	// SettingsCheck is the Job that validates new settings.
	SettingsCheck *batchv1.Job
	// JobPolicy and ServerPolicy are about the network.
	JobPolicy, ServerPolicy *networkingv1.NetworkPolicy
}

// A Template of a Deployment's pods, as it is observed.
type Template struct {
	// Digest of all that is in it, whoever put it there.
	Digest string
	// ConfigHash is the digest of the my.cnf that it was made with.
	ConfigHash string
	// Images of its containers, by their names.
	Images map[string]string
	// Certified is true if it has the server's certificate.
	Certified bool
}

// hasResource is true if the named resource is observed.
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

// Required resources of one key, as the cluster holds them. Not known is not the same as
// nothing there.
type Required[T any] struct {
	Known bool
	Items []T
}

// firstItem, or nil.
func (a Required[T]) firstItem() *T {
	if len(a.Items) == 0 {
		return nil
	}
	return &a.Items[0]
}

// RequiredResources of an instance. Only fields that a decision reads need
// be set.
type RequiredResources struct {
	redact.All

	// Platform is what the platform lets claims ask for.
	Platform Required[v1.MySQLPlatform]
	// Records of backups of all lives of this instance.
	Records Required[v1.MySQLBackup]
	// Named is the record that spec.restore.backup names, or those of the claim that spec.restore.from does.
	Named Required[v1.MySQLBackup]
	// Connection is the Secret that holds what the server accepts now.
	Connection Required[corev1.Secret]
	// Import is the Secret with the account of a server that is imported, or the PersistentVolumeClaim of a volume.
	Import Required[metav1.PartialObjectMetadata]
	// Password is the Secret that spec.passwordSecretRef names.
	Password Required[corev1.Secret]
	// Namespace of the instance.
	Namespace Required[metav1.PartialObjectMetadata]
	// Volume that holds the data.
	Volume Required[corev1.PersistentVolume]
	// Class of storage of a volume that is to grow.
	Class Required[storagev1.StorageClass]
	// Existing objects that have the name of a composed resource, by that
	// resource's name.
	Existing map[string]Required[metav1.PartialObjectMetadata]
}

// A Requirement selects objects that an instance depends on: one by name, or all by
// labels.
type Requirement struct {
	APIVersion, Kind string
	Namespace, Name  string
	Labels           map[string]string
}

// An Output is what an instance consists of, and how it is.
type Output struct {
	// Requirements by their key, which Crossplane sends next time.
	Requirements map[string]Requirement
	// Resources that are wanted, by their name.
	Resources map[string]Resource
	// Status of the XR: the function's part of it.
	Status v1.MySQLStatus
	// Conditions of XR and claim.
	Conditions []Condition
	// Connection details of the XR; nil where there are none yet.
	Connection map[string][]byte
	// Ready is true when a client can use the instance.
	Ready bool
	// Settled is true where nothing happens to the instance, and Crossplane watches all that it depends on.
	Settled bool
}

// A Resource is a wanted object and whether what is observed of it is ready.
type Resource struct {
	Object runtime.Object
	Ready  bool
	// AsObserved is the path of the part that is wanted just as it is observed, with
	// all that others have put there; nil where there is none.
	AsObserved []string
}

// A Condition of XR and claim.
type Condition struct {
	Type    string
	True    bool
	Reason  string
	Message string
}

// A Refusal says why an instance cannot be carried out, and what to do. All
// that exists stays as it is.
type Refusal struct {
	// Reason of the condition Accepted.
	Reason string
	Err    error
}

// Error names the field and what to do.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }
