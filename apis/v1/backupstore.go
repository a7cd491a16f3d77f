package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A BackupStore is a bucket of an S3 store, of any vendor, that backups go to. The platform
// team makes it; claims name it, or get the platform's default. It is cluster-scoped, and its
// Secrets are in the controller's namespace: no claim's namespace ever has a credential of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=backupstores,singular=backupstore,categories=crossplane-mysql
// +kubebuilder:printcolumn:name="REACHABLE",type=string,JSONPath=`.status.conditions[?(@.type=='Reachable')].status`
// +kubebuilder:printcolumn:name="BUCKET",type=string,JSONPath=`.spec.bucket`
// +kubebuilder:printcolumn:name="PREFIX",type=string,JSONPath=`.spec.prefix`
// +kubebuilder:printcolumn:name="LAST-BACKUP",type=date,JSONPath=`.status.lastBackupAt`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.conditions[?(@.type=='Reachable')].message`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name has at most 63 characters"
type BackupStore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupStoreSpec   `json:"spec"`
	Status BackupStoreStatus `json:"status,omitempty"`

	// Unreadable fields of the stored object, which keep their zero values.
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

// A BackupStoreSpec says where the bucket is, and how it is entered.
type BackupStoreSpec struct {
	// Endpoint of the store, such as https://s3.eu-central-1.amazonaws.com. There is no
	// store without TLS.
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[^/?#@\s]+/?$`
	Endpoint string `json:"endpoint"`
	// Region of the bucket. Default us-east-1, which stores without regions take.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
	// Bucket that is there already.
	//
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	Bucket string `json:"bucket"`
	// Prefix of the names of all objects, such as production/mysql. Another cluster has
	// another one, or another bucket. Who changes bucket or prefix moves the objects first.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	Prefix string `json:"prefix,omitempty"`
	// PathStyle addresses the bucket in the path, as many stores beside AWS want it.
	// Default false.
	//
	// +optional
	PathStyle bool `json:"pathStyle,omitempty"`
	// CABundle has the certificates, as PEM, of who may have signed the store's. Default
	// those of the controller's image.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`
	// CredentialsSecretRef names the Secret, in the controller's namespace, with the keys
	// accessKey and secretKey, and sessionToken if the credentials have one.
	CredentialsSecretRef LocalSecret `json:"credentialsSecretRef"`
	// KeySecretRef names the Secret, in the controller's namespace, that `kubectl mysql
	// store-key` has made: with sealKey, by which manifests are known for the
	// controller's own, and with identity, which opens what is encrypted. A platform that
	// keeps the identity elsewhere takes it out of the Secret; then backups are proven, and
	// restored only while it is there.
	KeySecretRef LocalSecret `json:"keySecretRef"`
	// Recipients, as age writes them (age1…), that archives are encrypted to. Without one
	// they are not encrypted.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=4096
	Recipients []string `json:"recipients,omitempty"`
}

// A LocalSecret is one of the controller's namespace.
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
	// StoreSessionToken is of credentials that end, such as those of AWS STS. Optional.
	StoreSessionToken = "sessionToken"
	StoreSealKey      = "sealKey"
	StoreIdentity     = "identity"
)

// A BackupStoreStatus says whether backups can go there.
type BackupStoreStatus struct {
	// Conditions of the store: Reachable.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ProbedAt is when the store was last tried: an object was written at once and in
	// parts, read, listed and deleted.
	//
	// +optional
	ProbedAt *metav1.Time `json:"probedAt,omitempty"`
	// Holder is what this cluster has written into the bucket to hold the prefix: one cluster at a time publishes and deletes backups
	// there. The controller compares it with the bucket at each probe.
	//
	// +optional
	Holder *StoreHolder `json:"holder,omitempty"`
	// LastBackupAt is when the newest backup that lies there was proven, as its record says.
	//
	// +optional
	LastBackupAt *metav1.Time `json:"lastBackupAt,omitempty"`
	// Challenge is an age file, armored, for who has the identity where the cluster has
	// none: what it says, as the annotation otus.homework/answer, shows that backups can be
	// opened. Unset where nobody is asked.
	//
	// +optional
	Challenge *StoreChallenge `json:"challenge,omitempty"`
	// Record that the annotation otus.homework/make-record asks for. It is made once; who wants it again
	// takes the annotation off first.
	//
	// +optional
	Record *StoreRecord `json:"record,omitempty"`
	// Adoption that the annotation otus.homework/adopt asks for, as the controller's command
	// adopt writes it. Gone once the annotation is.
	//
	// +optional
	Adoption *StoreAdoption `json:"adoption,omitempty"`
}

// A StoreHolder is what a cluster knows of its hold on a bucket and prefix.
type StoreHolder struct {
	// ID of the holder, which is random.
	ID string `json:"id"`
	// Nonces that this cluster has written, newest last. Another one in the bucket was written by another cluster.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Nonces []string `json:"nonces,omitempty"`
}

// An AdoptionRequest is the annotation otus.homework/adopt, as JSON: what another cluster has written becomes the backups of
// namespaces of this one.
//
// +kubebuilder:object:generate=false
type AdoptionRequest struct {
	// ID of the request: another one is done again.
	ID string `json:"id"`
	// Namespaces of this cluster, by the names of those that the backups were taken in.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	// DryRun says what would be done.
	DryRun bool `json:"dryRun,omitempty"`
}

// A StoreAdoption says what became of a request.
type StoreAdoption struct {
	// ID of the request.
	ID string `json:"id"`
	// Message says what is wrong with it, or how many backups are not shown. Empty where all is.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Backups that lie in the store, at most 500.
	//
	// +optional
	// +listType=atomic
	Backups []AdoptedBackup `json:"backups,omitempty"`
}

// An AdoptedBackup is one in a store, with what becomes of it.
type AdoptedBackup struct {
	// Name of its record, and the instance that it is of, as its note says. They are empty but for the name where
	// the note cannot be read.
	Name string `json:"name"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Instance string `json:"instance,omitempty"`
	// AnnouncedAt is when it was.
	//
	// +optional
	AnnouncedAt *metav1.Time `json:"announcedAt,omitempty"`
	// Version of its server.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// Size of the archive, a quantity.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// Verdict is Adopted, Known, Unnamed or Refused.
	//
	// +kubebuilder:validation:Enum=Adopted;Known;Unnamed;Refused
	Verdict AdoptionVerdict `json:"verdict"`
	// Why it is refused, or who has it.
	//
	// +optional
	Why string `json:"why,omitempty"`
}

// An AdoptionVerdict on a backup in a store.
type AdoptionVerdict string

// Verdicts.
const (
	// Adopted now, or would be.
	Adopted AdoptionVerdict = "Adopted"
	// AdoptedBefore has its record.
	AdoptedBefore AdoptionVerdict = "Known"
	// AdoptionUnnamed is of a namespace that the request does not name.
	AdoptionUnnamed AdoptionVerdict = "Unnamed"
	// AdoptionRefused is what cannot be adopted.
	AdoptionRefused AdoptionVerdict = "Refused"
)

// MaxAdopted backups in a status.
const MaxAdopted = 500

// A StoreRecord is one that somebody asked for, and what became of that.
type StoreRecord struct {
	// Asked is the folder of its backup.
	Asked string `json:"asked"`
	// Made is true once the record is there.
	//
	// +optional
	Made bool `json:"made,omitempty"`
	// Message says what was done, or why nothing was.
	Message string `json:"message"`
}

// A StoreChallenge is a question to who has the identity.
type StoreChallenge struct {
	// Recipients is the SHA-256 of those that it is encrypted to: others are asked anew.
	Recipients string `json:"recipients"`
	// Text to decrypt, and Answer the SHA-256 of what it says.
	Text   string `json:"text"`
	Answer string `json:"answer"`
	// Answered is true once the right answer was given.
	//
	// +optional
	Answered bool `json:"answered,omitempty"`
}

// ConditionReachable of a BackupStore is true while backups can go there and come back.
const ConditionReachable = "Reachable"

// Reasons of ConditionReachable, beside the kinds of what a store can fail with.
const (
	ReasonProbed = "Probed"
	// ReasonSettings cannot be used: what the spec or its Secrets say.
	ReasonSettings = "Settings"
	// ReasonPrefixHeld means that another cluster publishes and deletes backups below the prefix, or may do so.
	ReasonPrefixHeld = "PrefixHeld"
	// ReasonChallenge waits for an answer.
	ReasonChallenge = "Challenge"
)

// Annotations of a BackupStore that people write: AnnotationAnswer is what its challenge says, and AnnotationAdopt an
// AdoptionRequest.
const (
	AnnotationAnswer = Group + "/answer"
	AnnotationAdopt  = Group + "/adopt"
)

// IsReachable is true while backups can go there and come back.
func (s *BackupStore) IsReachable() bool {
	for _, c := range s.Status.Conditions {
		if c.Type == ConditionReachable && c.ObservedGeneration == s.Generation {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}
