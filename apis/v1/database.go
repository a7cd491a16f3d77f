package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An XDatabase is one database server behind a NodePort. It is made by
// Crossplane for a Database claim, which has the same spec and status.
type XDatabase struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   XDatabaseSpec `json:"spec"`
	Status MySQLStatus   `json:"status,omitempty"`
}

// An XDatabaseSpec is a claim's spec and the reference to that claim.
type XDatabaseSpec struct {
	DatabaseSpec `json:",inline"`

	// ClaimRef names the claim. Crossplane adds it; an XR that was made without
	// a claim has none.
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
}

// A DatabaseType is a kind of database server.
type DatabaseType string

// Types of a Database.
const (
	TypeMongo DatabaseType = "mongo"
	TypeMySQL DatabaseType = "mysql"
)

// DatabaseTypes are all of them.
func DatabaseTypes() []DatabaseType { return []DatabaseType{TypeMongo, TypeMySQL} }

// LegacyDatabasePassword is what root's was in each Database of the original operator:
// everybody knows it.
const LegacyDatabasePassword = "my_passwd"

// A DatabaseSpec says which database server is wanted.
//
// +kubebuilder:validation:XValidation:rule="has(self.type)",message="type is missing: set it to mongo or mysql"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type == oldSelf.type",message="type cannot change: mongo and mysql do not read each other's data; create another Database"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.storageSize) || !has(self.type) || self.type == 'mysql'",optionalOldSelf=true,message="storageSize is for type mysql: no backup of a real mongod was ever restored, so nobody knows that its data would come back; leave storageSize out, and the data goes with the pod"
// +kubebuilder:validation:XValidation:rule="!has(self.passwordSecretRef) || !has(self.type) || self.type == 'mysql'",message="passwordSecretRef is for type mysql: a server of type mongo asks for no password"
// +kubebuilder:validation:XValidation:rule="has(self.storageSize) == has(oldSelf.storageSize)",message="storageSize cannot come or go: without it the data is gone with the pod; create another Database"
// +kubebuilder:validation:XValidation:rule="!has(self.storageSize) || !has(oldSelf.storageSize) || !self.storageSize.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || !oldSelf.storageSize.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || quantity(self.storageSize).compareTo(quantity(oldSelf.storageSize)) >= 0",message="the storage size may grow, it cannot shrink"
// +kubebuilder:validation:XValidation:rule="has(self.storageSize) || !(has(self.deletionPolicy) || has(self.backup) || has(self.restore))",message="deletionPolicy, backup and restore are for a Database with storageSize: without it nothing is kept"
// +kubebuilder:validation:XValidation:rule="!has(self.compositeDeletePolicy) || self.compositeDeletePolicy == 'Background'",message="compositeDeletePolicy must be Background: a foreground deletion would remove the server before its backup is taken"
type DatabaseSpec struct {
	// Type of the server: mongo or mysql. It must be set, and cannot change.
	//
	// +optional
	// +kubebuilder:validation:Enum=mongo;mysql
	Type DatabaseType `json:"type,omitempty"`

	// Image of the server. It must keep the contract of the official image of
	// its type. The default is the platform's, mongo:8.0 or mysql:8.4 unless it
	// says otherwise; an instance keeps the image that it got at its creation
	// until this field changes.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`

	// PasswordSecretRef names the key of a Secret in the claim's namespace that
	// holds the password of root, for type mysql. Without it a password is made
	// that nobody knows, and the connection Secret has it.
	//
	// +optional
	PasswordSecretRef *SecretKeySelector `json:"passwordSecretRef,omitempty"`

	// Resources of the server's container. The default is the platform's.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Size of the data volume, such as 1Gi, for type mysql. It may grow where the
	// storage class allows it. Without it the data is gone with the server's pod;
	// with it a backup is proven before the data goes, and restored when a claim of
	// this name is created again.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="storageSize must be a quantity from 1Mi to 1Ei, such as 1Gi"
	StorageSize *string `json:"storageSize,omitempty"`

	// DeletionPolicy says what happens to the data when the claim is deleted:
	// Backup (the default: a proven backup is taken before anything goes) or
	// Discard (the data is lost at once, for good).
	//
	// +optional
	// +kubebuilder:validation:Enum=Backup;Discard
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Backup says how backups are kept.
	//
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`

	// Restore says what a new instance starts from. It is read once, before the
	// server's first start.
	//
	// +optional
	Restore *RestoreSpec `json:"restore,omitempty"`

	// CompositeDeletePolicy of the claim. Only Background is accepted: a
	// foreground deletion would remove the server before its backup is taken.
	//
	// +optional
	// +kubebuilder:default=Background
	// +kubebuilder:validation:Enum=Background;Foreground
	CompositeDeletePolicy string `json:"compositeDeletePolicy,omitempty"`
}

// AsMySQL is the XR as those parts of the product see it that do not care which
// server it is: with a NodePort.
func (x *XDatabase) AsMySQL() *XMySQL {
	return &XMySQL{TypeMeta: x.TypeMeta, ObjectMeta: x.ObjectMeta, Spec: x.Spec.AsMySQL(), Status: x.Status}
}

// AsMySQL is the spec in the fields of an XMySQL's.
func (s *XDatabaseSpec) AsMySQL() XMySQLSpec {
	out := XMySQLSpec{ClaimRef: s.ClaimRef, MySQLSpec: MySQLSpec{
		Image: s.Image, PasswordSecretRef: s.PasswordSecretRef, Resources: s.Resources, StorageSize: s.StorageSize,
		Service: ServiceSpec{Type: ServiceNodePort}, DeletionPolicy: s.DeletionPolicy, CompositeDeletePolicy: s.CompositeDeletePolicy,
	}}
	if s.Backup != nil {
		out.Backup = *s.Backup
	}
	if s.Restore != nil {
		out.Restore = *s.Restore
	}
	return out
}
