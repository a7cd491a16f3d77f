package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A BackupStore is a bucket of an S3-compatible store that contains backups. The platform team creates it. A claim
// names it in spec.backup.storeRef, or uses the platform's default. A BackupStore is cluster-scoped, and its Secrets are
// in the controller's namespace. The namespace of a claim never contains credentials of a store.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=backupstores,singular=backupstore,categories=crossplane-mysql
// +kubebuilder:printcolumn:name="REACHABLE",type=string,JSONPath=`.status.conditions[?(@.type=='Reachable')].status`
// +kubebuilder:printcolumn:name="BUCKET",type=string,JSONPath=`.spec.bucket`
// +kubebuilder:printcolumn:name="PREFIX",type=string,JSONPath=`.spec.prefix`
// +kubebuilder:printcolumn:name="LAST-BACKUP",type=date,JSONPath=`.status.lastBackupTime`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.conditions[?(@.type=='Reachable')].message`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must have at most 63 characters"
type BackupStore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the bucket, its credentials and its encryption.
	Spec BackupStoreSpec `json:"spec"`
	// Status reports whether backups can be written to the bucket and read from it.
	Status BackupStoreStatus `json:"status,omitempty"`

	// Unreadable lists the fields of the stored object that could not be decoded. They keep their zero values.
	Unreadable UnreadableFields `json:"-"`
}

// A BackupStoreList is a list of BackupStores.
//
// +kubebuilder:object:root=true
type BackupStoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BackupStore `json:"items"`
}

// A BackupStoreSpec specifies a bucket, its credentials and its encryption.
//
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretRef) != has(self.workloadIdentity)",message="set exactly one of credentialsSecretRef and workloadIdentity"
type BackupStoreSpec struct {
	// Endpoint is the URL of the store, such as https://s3.eu-central-1.amazonaws.com. The store must use TLS.
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[^/?#@\s]+/?$`
	Endpoint string `json:"endpoint"`
	// Region of the bucket. If unset, the region in the host name of an AWS endpoint is used, or the region that the
	// store reports for the bucket. For a store other than AWS that reports none, it is us-east-1.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
	// Bucket is the name of the bucket. The bucket must exist.
	//
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	Bucket string `json:"bucket"`
	// Prefix of the names of all objects in the bucket, such as production/mysql. Each cluster needs its own prefix or
	// its own bucket. Before you change bucket or prefix, move the objects.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	Prefix string `json:"prefix,omitempty"`
	// PathStyle makes requests name the bucket in the path of the URL instead of in the host name. Many stores other
	// than AWS require it. The default is false.
	//
	// +optional
	PathStyle bool `json:"pathStyle,omitempty"`
	// CABundle contains the PEM-encoded CA certificates that verify the store's certificate. If unset, the CA
	// certificates in the controller's image are used.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`
	// CredentialsSecretRef names a Secret in the controller's namespace. It contains the keys accessKey and secretKey,
	// and sessionToken for temporary credentials.
	//
	// +optional
	CredentialsSecretRef *LocalSecret `json:"credentialsSecretRef,omitempty"`
	// WorkloadIdentity replaces a Secret with credentials. The controller and the gateway get temporary credentials for
	// the identity of their own pods: by IAM roles for service accounts (AWS_WEB_IDENTITY_TOKEN_FILE), or by EKS Pod
	// Identity (AWS_CONTAINER_CREDENTIALS_FULL_URI). The instance metadata service of a node is never used.
	//
	// +optional
	WorkloadIdentity *WorkloadIdentity `json:"workloadIdentity,omitempty"`
	// KeySecretRef names a Secret in the controller's namespace, as `kubectl mysql store-key` creates it. Its key
	// signingKey is the signing key by which the controller recognizes its own manifests. Its key identity decrypts
	// encrypted archives. The platform team can remove identity from the Secret and store it elsewhere. Backups are
	// then still taken and verified, but they cannot be restored until identity is in the Secret again.
	KeySecretRef LocalSecret `json:"keySecretRef"`
	// Recipients are the age public keys (age1…) that archives are encrypted to. If unset, archives are not encrypted.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=4096
	Recipients []string `json:"recipients,omitempty"`
}

// A WorkloadIdentity specifies how the pods of the controller and of the gateway get credentials.
type WorkloadIdentity struct {
	// RoleARN is the ARN of the IAM role to assume. If unset, the role in the environment variable AWS_ROLE_ARN of the
	// pod is used. EKS Pod Identity does not support it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$`
	RoleARN string `json:"roleARN,omitempty"`
	// STSEndpoint is the URL of the token service, which must support AssumeRoleWithWebIdentity. If unset, the token
	// service of the AWS region in the environment variable AWS_REGION of the pod is used, or of the bucket's region. If
	// caBundle is set, it verifies the certificate of the token service, too.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[^/?#@\s]+/?$`
	STSEndpoint string `json:"stsEndpoint,omitempty"`
}

// A LocalSecret names a Secret in the controller's namespace.
type LocalSecret struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Keys of a BackupStore's Secrets.
const (
	StoreAccessKey = "accessKey"
	StoreSecretKey = "secretKey"
	// StoreSessionToken is an optional key for temporary credentials, such as the credentials of AWS STS.
	StoreSessionToken = "sessionToken"
	StoreSigningKey   = "signingKey"
	StoreIdentity     = "identity"
)

// A BackupStoreStatus reports whether backups can be written to a bucket and read from it.
type BackupStoreStatus struct {
	// Conditions of the store. Reachable is True if the last probe succeeded.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ProbeTime is the time of the last probe. A probe writes an object at once and in parts, reads it, lists it and
	// deletes it.
	//
	// +optional
	ProbeTime *metav1.Time `json:"probeTime,omitempty"`
	// Holder is the identity that this cluster has written into the bucket to claim the prefix. Only one cluster at a
	// time may publish and delete backups there. The controller compares this field with the bucket at each probe.
	//
	// +optional
	Holder *StoreHolder `json:"holder,omitempty"`
	// LastBackupTime is the time at which the newest backup in the store was verified, according to its BackupRecord.
	//
	// +optional
	LastBackupTime *metav1.Time `json:"lastBackupTime,omitempty"`
	// Challenge asks for a proof that a user has the age identity, if the cluster itself does not have it. Decrypt its
	// text, and set the annotation crossplane-mysql.io/answer to the result. Unset if no proof is needed.
	//
	// +optional
	Challenge *StoreChallenge `json:"challenge,omitempty"`
	// Record reports the result of the annotation crossplane-mysql.io/make-record, which requests a missing
	// BackupRecord. Each request is handled once. To repeat it, remove the annotation first.
	//
	// +optional
	Record *StoreRecord `json:"record,omitempty"`
	// Adoption reports the result of the annotation crossplane-mysql.io/adopt, which requests an import of backups.
	// `kubectl mysql adopt` sets the annotation. Unset if there is no such annotation.
	//
	// +optional
	Adoption *StoreAdoption `json:"adoption,omitempty"`
}

// A StoreHolder is the identity of a cluster that holds a bucket and prefix.
type StoreHolder struct {
	// ID of the holder, a random value.
	ID string `json:"id"`
	// Nonces that this cluster has written, the newest last. If the bucket contains a different nonce, another cluster
	// has written it.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Nonces []string `json:"nonces,omitempty"`
}

// An AdoptionRequest is the value of the annotation crossplane-mysql.io/adopt, as JSON. It assigns backups that another
// cluster has written to namespaces of this cluster.
//
// +kubebuilder:object:generate=false
type AdoptionRequest struct {
	// ID of the request. A new ID makes the controller repeat the import.
	ID string `json:"id"`
	// Namespaces maps the namespace in which a backup was taken to a namespace of this cluster.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	// DryRun makes the controller report what it would do, without doing it.
	DryRun bool `json:"dryRun,omitempty"`
}

// A StoreAdoption reports the result of an import of backups.
type StoreAdoption struct {
	// ID of the import request.
	ID string `json:"id"`
	// Message describes what is wrong with the request, or how many backups are not listed. Empty if nothing is wrong
	// and all backups are listed.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Backups that the store contains, at most 500.
	//
	// +optional
	// +listType=atomic
	Backups []AdoptedBackup `json:"backups,omitempty"`
}

// An AdoptedBackup is a backup in a store, with the result of its import.
type AdoptedBackup struct {
	// Name of the BackupRecord, as in the backup metadata. If the metadata cannot be read, only name, verdict and why
	// are set.
	Name string `json:"name"`
	// Kind of the instance that was backed up.
	//
	// +optional
	Kind string `json:"kind,omitempty"`
	// Namespace in which the backup was taken.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Instance is the name of the instance that was backed up.
	//
	// +optional
	Instance string `json:"instance,omitempty"`
	// AnnouncedAt is the time at which the controller created the BackupRecord of the backup, before the backup began.
	//
	// +optional
	AnnouncedAt *metav1.Time `json:"announcedAt,omitempty"`
	// Version of the server that was backed up.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// Size of the archive, as a quantity.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// Verdict is the result for this backup. Adopted means that it is imported, or would be with a dry run. Known means
	// that it has a BackupRecord already. Unnamed means that the request does not list its namespace. Refused means
	// that it cannot be imported.
	//
	// +kubebuilder:validation:Enum=Adopted;Known;Unnamed;Refused
	Verdict AdoptionVerdict `json:"verdict"`
	// Why is the reason of a refusal, or the namespace of the existing BackupRecord.
	//
	// +optional
	Why string `json:"why,omitempty"`
}

// An AdoptionVerdict is the result of an import for one backup.
type AdoptionVerdict string

// Results of an import.
const (
	// Adopted means that the backup is imported. In a dry run, it means that the backup would be imported.
	Adopted AdoptionVerdict = "Adopted"
	// AdoptedBefore means that the backup already has a BackupRecord.
	AdoptedBefore AdoptionVerdict = "Known"
	// AdoptionUnnamed means that the request does not list the namespace of the backup.
	AdoptionUnnamed AdoptionVerdict = "Unnamed"
	// AdoptionRefused means that the backup cannot be imported.
	AdoptionRefused AdoptionVerdict = "Refused"
)

// MaxAdopted is the maximum number of imported backups in a status.
const MaxAdopted = 500

// A StoreRecord reports the result of a request to recreate a BackupRecord.
type StoreRecord struct {
	// Asked is the prefix in the store of the backup whose BackupRecord was requested.
	Asked string `json:"asked"`
	// Made is true once the BackupRecord exists.
	//
	// +optional
	Made bool `json:"made,omitempty"`
	// Message describes what was done, or why nothing was done.
	Message string `json:"message"`
}

// A StoreChallenge asks for a proof that a user has the age identity of a store.
type StoreChallenge struct {
	// Recipients is the SHA-256 sum of the recipients that the text is encrypted to. If the recipients change, a new
	// proof is required.
	Recipients string `json:"recipients"`
	// Text is an armored age file to decrypt.
	Text string `json:"text"`
	// Answer is the SHA-256 sum of the decrypted text.
	Answer string `json:"answer"`
	// Answered is true once a user has set the annotation to the decrypted text.
	//
	// +optional
	Answered bool `json:"answered,omitempty"`
}

// ConditionReachable of a BackupStore is true while backups can be written to the store and read from it.
const ConditionReachable = "Reachable"

// Reasons of ConditionReachable, in addition to the kinds of errors of a store.
const (
	ReasonProbed = "Probed"
	// ReasonSettings means that the spec or one of its Secrets is invalid or missing.
	ReasonSettings = "Settings"
	// ReasonPrefixInUse means that another cluster publishes and deletes backups below the prefix, or may do so.
	ReasonPrefixInUse = "PrefixInUse"
	// ReasonChallenge means that the controller waits for a proof that a user has the age identity.
	ReasonChallenge = "Challenge"
)

// Annotations of a BackupStore that users set. AnnotationAnswer contains the decrypted text of the challenge, and
// AnnotationAdopt contains an AdoptionRequest.
const (
	AnnotationAnswer = Group + "/answer"
	AnnotationAdopt  = Group + "/adopt"
)

// IsReachable reports whether backups can be written to the store and read from it.
func (s *BackupStore) IsReachable() bool {
	for _, c := range s.Status.Conditions {
		if c.Type == ConditionReachable && c.ObservedGeneration == s.Generation {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}
