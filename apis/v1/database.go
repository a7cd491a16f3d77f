package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An XDatabase is a database server with a NodePort Service. Crossplane creates it for a Database claim, which has the
// same spec and status.
type XDatabase struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the database server.
	Spec XDatabaseSpec `json:"spec"`
	// Status reports the state of the instance.
	Status MySQLStatus `json:"status,omitempty"`
}

// An XDatabaseSpec is the spec of a claim and the reference to that claim.
type XDatabaseSpec struct {
	DatabaseSpec `json:",inline"`

	// ClaimRef names the claim. Crossplane sets it. It is unset if the composite resource has no claim.
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
}

// A DatabaseType is a kind of database server.
type DatabaseType string

// Types of a Database.
const (
	TypeMongo DatabaseType = "mongo"
	TypeMySQL DatabaseType = "mysql"
)

// DatabaseTypes returns all types of a Database.
func DatabaseTypes() []DatabaseType { return []DatabaseType{TypeMongo, TypeMySQL} }

// LegacyDatabasePassword was the password of root in every Database of the original operator. It is publicly known.
const LegacyDatabasePassword = "my_passwd"

// A DatabaseSpec specifies a database server.
//
// +kubebuilder:validation:XValidation:rule="has(self.type)",message="type is required; set it to mongo or mysql"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type == oldSelf.type",message="type cannot change, because mongo and mysql cannot read each other's data; create another Database"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.storageSize) || !has(self.type) || self.type == 'mysql'",optionalOldSelf=true,message="storageSize is supported only for type mysql, because restoring a mongod backup is untested; remove storageSize (the data is then lost when the pod is deleted)"
// +kubebuilder:validation:XValidation:rule="!has(self.passwordSecretRef) || !has(self.type) || self.type == 'mysql'",message="passwordSecretRef is supported only for type mysql, because a server of type mongo has no password"
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || !has(self.metrics.enabled) || !self.metrics.enabled || !has(self.type) || self.type == 'mysql'",message="metrics are supported only for type mysql; remove metrics"
// +kubebuilder:validation:XValidation:rule="has(self.storageSize) == has(oldSelf.storageSize)",message="storageSize cannot be added or removed later; create another Database"
// +kubebuilder:validation:XValidation:rule="!has(self.storageSize) || !has(oldSelf.storageSize) || !self.storageSize.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || !oldSelf.storageSize.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || quantity(self.storageSize).compareTo(quantity(oldSelf.storageSize)) >= 0",message="the storage size can grow, but it cannot shrink"
// +kubebuilder:validation:XValidation:rule="has(self.storageSize) || !(has(self.deletionPolicy) || has(self.backup) || has(self.restore))",message="deletionPolicy, backup and restore require storageSize, because without it the data is lost when the pod is deleted"
// +kubebuilder:validation:XValidation:rule="!has(self.compositeDeletePolicy) || self.compositeDeletePolicy == 'Background'",message="compositeDeletePolicy must be Background, because a foreground deletion would remove the server before its backup is taken"
type DatabaseSpec struct {
	// Type of the server: mongo or mysql. It is required and cannot be changed.
	//
	// +optional
	// +kubebuilder:validation:Enum=mongo;mysql
	Type DatabaseType `json:"type,omitempty"`

	// Image of the server. It must be compatible with the official image of the type. If unset, the platform's default
	// is used: mongo:8.0 or mysql:8.4 if the platform sets none. An instance keeps the image that it was created with
	// until this field changes. A change restarts the server.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`

	// ImagePullSecrets name Secrets in the claim's namespace with credentials of image registries. The pods of the
	// server and of the instance's Jobs in that namespace use them, also for the platform's agentImage and
	// exporterImage. They replace the image pull secrets of the ServiceAccount default. If unset, the Secrets of that
	// ServiceAccount are used. A change restarts the server.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []ImagePullSecret `json:"imagePullSecrets,omitempty"`

	// PasswordSecretRef names the key of a Secret in the claim's namespace that contains the password of root. It
	// applies to type mysql only. If unset, the controller generates a password and publishes it in the connection
	// Secret.
	//
	// +optional
	PasswordSecretRef *SecretKeySelector `json:"passwordSecretRef,omitempty"`

	// Resources of the server's container. If unset, the platform's defaultResources are used. If the platform sets
	// none, the requests are 250m CPU and 512Mi of memory, and the memory limit is 1Gi. An empty value, {}, sets no
	// requests and no limits. A change restarts the server.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Metrics specifies whether Prometheus can scrape the server. It applies to type mysql only. If unset, it cannot.
	//
	// +optional
	Metrics *MetricsSpec `json:"metrics,omitempty"`

	// Size of the data volume, such as 1Gi, from 1Mi to 1Ei. It applies to type mysql only. It can grow if the storage
	// class allows volume expansion, and cannot shrink. The field cannot be added or removed later. If set, the data is
	// backed up when the claim is deleted (see deletionPolicy), and restored when a claim of this name is created
	// again. If unset, the data is deleted with the server's pod.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="storageSize must be a quantity from 1Mi to 1Ei, such as 1Gi"
	StorageSize *string `json:"storageSize,omitempty"`

	// DeletionPolicy specifies what happens to the data when the claim is deleted. Backup takes and verifies a backup
	// before anything is deleted. Discard deletes the data at once and permanently. The default is Backup.
	//
	// +optional
	// +kubebuilder:validation:Enum=Backup;Discard
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Backup specifies how backups are taken and kept.
	//
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`

	// Restore specifies the data that a new instance starts with. It is applied once, before the first start of the
	// server.
	//
	// +optional
	Restore *RestoreSpec `json:"restore,omitempty"`

	// CompositeDeletePolicy of the claim. Only Background is accepted, because a foreground deletion would remove the
	// server before its backup is taken.
	//
	// +optional
	// +kubebuilder:default=Background
	// +kubebuilder:validation:Enum=Background;Foreground
	CompositeDeletePolicy string `json:"compositeDeletePolicy,omitempty"`
}

// AsMySQL converts the composite resource to an XMySQL with a NodePort Service, so that the same code can process
// both types of servers.
func (x *XDatabase) AsMySQL() *XMySQL {
	return &XMySQL{TypeMeta: x.TypeMeta, ObjectMeta: x.ObjectMeta, Spec: x.Spec.AsMySQL(), Status: x.Status}
}

// AsMySQL converts the spec to the spec of an XMySQL.
func (s *XDatabaseSpec) AsMySQL() XMySQLSpec {
	out := XMySQLSpec{ClaimRef: s.ClaimRef, MySQLSpec: MySQLSpec{
		Image: s.Image, ImagePullSecrets: s.ImagePullSecrets, PasswordSecretRef: s.PasswordSecretRef, Resources: s.Resources,
		StorageSize: s.StorageSize, Metrics: s.Metrics,
		Service: ServiceSpec{Type: ServiceNodePort}, DeletionPolicy: s.DeletionPolicy,
		CompositeDeletePolicy: s.CompositeDeletePolicy,
	}}
	if s.Backup != nil {
		out.Backup = *s.Backup
	}
	if s.Restore != nil {
		out.Restore = *s.Restore
	}
	return out
}
