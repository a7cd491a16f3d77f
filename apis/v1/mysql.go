package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An XMySQL is one MySQL server with its data volume. It is made by Crossplane
// for a MySQL claim, which has the same spec and status.
type XMySQL struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   XMySQLSpec  `json:"spec"`
	Status MySQLStatus `json:"status,omitempty"`
}

// An XMySQLSpec is a claim's spec and the reference to that claim.
type XMySQLSpec struct {
	MySQLSpec `json:",inline"`

	// ClaimRef names the claim. Crossplane adds it; an XR that was made without
	// a claim has none.
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
}

// A ClaimReference names a claim.
type ClaimReference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// A MySQLSpec says which MySQL server is wanted.
//
// +kubebuilder:validation:XValidation:rule="has(self.password) != has(self.passwordSecretRef)",message="set exactly one of password and passwordSecretRef"
// +kubebuilder:validation:XValidation:rule="has(self.storage_size) != has(self.storageSize)",message="set exactly one of storage_size and storageSize"
// +kubebuilder:validation:XValidation:rule="!((has(self.storage_size) || has(self.storageSize)) && (has(oldSelf.storage_size) || has(oldSelf.storageSize))) || !(has(self.storage_size) ? self.storage_size : self.storageSize).matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || !(has(oldSelf.storage_size) ? oldSelf.storage_size : oldSelf.storageSize).matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || quantity(has(self.storage_size) ? self.storage_size : self.storageSize).compareTo(quantity(has(oldSelf.storage_size) ? oldSelf.storage_size : oldSelf.storageSize)) >= 0",message="the storage size may grow, it cannot shrink"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot change; delete the claim (a backup is taken) and create it again with the new class"
// +kubebuilder:validation:XValidation:rule="!has(self.compositeDeletePolicy) || self.compositeDeletePolicy == 'Background'",message="compositeDeletePolicy must be Background: a foreground deletion would remove the server before its backup is taken"
type MySQLSpec struct {
	// Image of the MySQL server. It must keep the contract of the official
	// mysql image (MYSQL_ROOT_PASSWORD_FILE, MYSQL_DATABASE, data in
	// /var/lib/mysql, settings in /etc/mysql/conf.d). The default is the
	// platform's, mysql:8.4 unless it says otherwise; an instance keeps the
	// image that it got at its creation until this field changes.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image *string `json:"image,omitempty"`

	// Database that is made at the first start. Its name has at most 64 characters: letters, digits,
	// '_' and '-'. In the name of the database's folder a character that is not an ASCII letter, an ASCII digit or '_' takes
	// 5 bytes, and a file system allows 255 bytes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[^\x00-,./:-@\x5B-^\x60{-\x{9F}\p{Z}\p{C}\x{34F}\x{115F}\x{1160}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{FFFC}-\x{10FFFF}]+$`
	// +kubebuilder:validation:XValidation:rule="size(self) + 4 * size(self.findAll('[^0-9A-Za-z_]')) <= 255",message="the name of the database's folder would have more than 255 bytes; each character but ASCII letters, digits and '_' takes 5"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['mysql', 'sys', 'information_schema', 'performance_schema'])",message="database is the name of one of MySQL's own schemas; choose another"
	Database string `json:"database"`

	// Password of root, in clear text. Whoever may read the claim may read it:
	// passwordSecretRef is the better choice. Editing it changes the password in
	// the running server.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Password *string `json:"password,omitempty"`

	// PasswordSecretRef names the key of a Secret in the claim's namespace that
	// holds the password of root. A trailing newline is not part of it.
	//
	// +optional
	PasswordSecretRef *SecretKeySelector `json:"passwordSecretRef,omitempty"`

	// Size of the data volume in the original spelling, such as 1Gi. It may grow where the storage class allows it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="storage_size must be a quantity from 1Mi to 1Ei, such as 1Gi"
	StorageSizeLegacy *string `json:"storage_size,omitempty"`

	// Size of the data volume, such as 1Gi. It may grow where
	// the storage class allows it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="storageSize must be a quantity from 1Mi to 1Ei, such as 1Gi"
	StorageSize *string `json:"storageSize,omitempty"`

	// StorageClassName of the data volume. The default is the platform's, or
	// else the cluster's. It cannot change. The hostPath Composition has no use
	// for it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// Service through which clients reach the server.
	//
	// +optional
	// +kubebuilder:default={type: ClusterIP}
	Service ServiceSpec `json:"service,omitempty"`

	// NetworkPolicy says who reaches the server, where the cluster's network enforces
	// NetworkPolicies. Without it whoever reaches pods does.
	//
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`

	// Resources of the server's container. The default is the platform's.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Scheduling says which nodes the server may run on. A change restarts the server. The
	// default is the platform's.
	//
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`

	// Config holds settings of the section [mysqld] of my.cnf, such as
	// max_connections: 200. A change restarts the server. Settings that would
	// move data out of the backed up directory, or weaken what a backup
	// promises, are refused by name.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	Config map[string]Setting `json:"config,omitempty"`

	// RequireTLS makes the server refuse clients that do not encrypt
	// (require_secure_transport). The default is the platform's. A change restarts the
	// server.
	//
	// +optional
	RequireTLS *bool `json:"requireTLS,omitempty"`

	// Suspended stops the server, and keeps its data, its address and its password. It
	// starts again when this is false. A backup that is being taken ends first.
	//
	// +optional
	Suspended bool `json:"suspended,omitempty"`

	// DeletionPolicy says what happens to the data when the claim is deleted:
	// Backup (a proven backup is taken before anything goes) or Discard (the data
	// is lost at once, for good).
	//
	// +optional
	// +kubebuilder:default=Backup
	// +kubebuilder:validation:Enum=Backup;Discard
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Backup says how backups are kept.
	//
	// +optional
	// +kubebuilder:default={keep: 3}
	Backup BackupSpec `json:"backup,omitempty"`

	// Restore says what a new instance starts from. It is read once, before the
	// server's first start.
	//
	// +optional
	// +kubebuilder:default={policy: Latest}
	Restore RestoreSpec `json:"restore,omitempty"`

	// CompositeDeletePolicy of the claim. Only Background is accepted: a
	// foreground deletion would remove the server before its backup is taken.
	//
	// +optional
	// +kubebuilder:default=Background
	// +kubebuilder:validation:Enum=Background;Foreground
	CompositeDeletePolicy string `json:"compositeDeletePolicy,omitempty"`
}

// A SecretKeySelector names a key of a Secret in the claim's namespace.
type SecretKeySelector struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Key in the Secret's data.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// A ServiceType is a kind of Service.
type ServiceType string

// Service types. Headless is a ClusterIP Service without an address of its own.
const (
	ServiceClusterIP    ServiceType = "ClusterIP"
	ServiceHeadless     ServiceType = "Headless"
	ServiceNodePort     ServiceType = "NodePort"
	ServiceLoadBalancer ServiceType = "LoadBalancer"
)

// A ServiceSpec says how clients reach the server.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type == oldSelf.type || (self.type != 'Headless' && oldSelf.type != 'Headless')",message="a Service cannot become Headless or stop being so; delete the claim (a backup is taken) and create it again"
type ServiceSpec struct {
	// Type of the Service: ClusterIP, Headless, NodePort or LoadBalancer.
	//
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;Headless;NodePort;LoadBalancer
	Type ServiceType `json:"type,omitempty"`

	// Annotations of the Service, for load balancers that read them. Only those
	// whose keys the platform allows (allowedServiceAnnotations).
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A NetworkPolicySpec says who reaches the server's port.
type NetworkPolicySpec struct {
	// From these pods and addresses, as in a NetworkPolicy of Kubernetes, and from the
	// controller. An empty list is the controller alone.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each of networkPolicy.from has either ipBlock, or podSelector and namespaceSelector, or one of these"
	From []NetworkPeer `json:"from"`
}

// A NetworkPeer is who may reach the server: pods, or a range of addresses.
type NetworkPeer struct {
	// PodSelector of pods, of the claim's namespace where there is no namespaceSelector.
	//
	// +optional
	PodSelector *PeerSelector `json:"podSelector,omitempty"`

	// NamespaceSelector of the namespaces of those pods; all their pods where there is no
	// podSelector.
	//
	// +optional
	NamespaceSelector *PeerSelector `json:"namespaceSelector,omitempty"`

	// IPBlock is a range of addresses outside the cluster.
	//
	// +optional
	IPBlock *IPBlock `json:"ipBlock,omitempty"`
}

// A PeerSelector selects by labels.
type PeerSelector struct {
	// MatchLabels that all of them have; without any it selects all.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// An IPBlock is a range of addresses.
type IPBlock struct {
	// CIDR of the range, such as 192.0.2.0/24.
	//
	// +kubebuilder:validation:MaxLength=64
	CIDR string `json:"cidr"`

	// Except these ranges within it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	Except []string `json:"except,omitempty"`
}

// A DeletionPolicy says what becomes of the data of a deleted claim.
type DeletionPolicy string

// Deletion policies.
const (
	DeletionBackup  DeletionPolicy = "Backup"
	DeletionDiscard DeletionPolicy = "Discard"
)

// A BackupSpec says how backups are kept.
type BackupSpec struct {
	// Keep is the number of proven backups that are kept. Older ones go only
	// after a newer one has been proven.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Keep *int32 `json:"keep,omitempty"`

	// Store names the BackupStore that backups go to, among those that the platform
	// allows, or Volume, which is a volume of the cluster. Unset is the platform's default.
	// It may be changed at any time: what there is stays where it is, and is found there.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(Volume|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$`
	Store *string `json:"store,omitempty"`

	// RequireRestorable is true if the data volume is not released before a server
	// has started from a copy of the backup and found its tables whole. Where that
	// cannot be tried, the deletion waits for a person. Without it the same is
	// tried after the release, where there is room for it.
	//
	// +optional
	RequireRestorable *bool `json:"requireRestorable,omitempty"`

	// Request a backup of the instance as it is now, while it goes on: each text that was
	// not here before asks for one, once the server takes clients. A method has to be said.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?$`
	Request string `json:"request,omitempty"`

	// Schedule of backups of the instance while it goes on, as CronJobs have it, such as
	// 0 3 * * * or @daily. A method has to be said. One that was missed is made up for once,
	// as soon as the server takes clients.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Schedule string `json:"schedule,omitempty"`

	// TimeZone of the schedule, by its name in the IANA database, such as Europe/Berlin.
	// Unset is UTC.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`
	TimeZone string `json:"timeZone,omitempty"`

	// KeepFor is how long a backup is kept at least, whatever Keep says, in hours, days or
	// weeks, such as 48h, 30d or 4w. It goes when it is older, and is beyond those that Keep
	// keeps.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*[hdw]$`
	KeepFor string `json:"keepFor,omitempty"`

	// Method of a backup that is taken while the instance goes on: Online, for which a server
	// of the same image clones the data beside the one that runs (MySQL from 8.0.17 on, tables
	// of InnoDB only); or Cold, for which the server stops as long as the data is copied and the
	// copy read again. A cold one that fails is not tried again, and the server starts.
	//
	// +optional
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method,omitempty"`

	// BeforeImageChange says when a backup is taken before another image starts on the
	// data, for which the server is stopped: NewSeries (where its tag is not of the same
	// series, such as 8.4, or does not say) or Never. A server of a newer series changes
	// the data, and no older one starts on it again. There is none with deletionPolicy
	// Discard.
	//
	// +optional
	// +kubebuilder:default=NewSeries
	// +kubebuilder:validation:Enum=NewSeries;Never
	BeforeImageChange BeforeImageChange `json:"beforeImageChange,omitempty"`
}

// BeforeImageChange says when a backup is taken before another image starts.
type BeforeImageChange string

// When a backup is taken before another image starts.
const (
	BackUpNewSeries BeforeImageChange = "NewSeries"
	BackUpNever     BeforeImageChange = "Never"
)

// A BackupMethod is how a backup is taken while the instance goes on.
type BackupMethod string

// Methods of backups.
const (
	// MethodOnline clones the data of the server while that runs.
	MethodOnline BackupMethod = "Online"
	// MethodCold stops the server, and starts it again.
	MethodCold BackupMethod = "Cold"
)

// StoreVolume in the place of a BackupStore's name is a volume of the cluster.
const StoreVolume = "Volume"

// DefaultKeep is the number of proven backups that are kept.
const DefaultKeep = 3

// A RestorePolicy says what a new instance starts from.
type RestorePolicy string

// Restore policies.
const (
	RestoreLatest RestorePolicy = "Latest"
	RestoreNever  RestorePolicy = "Never"
)

// A RestoreSpec says what a new instance starts from.
//
// +kubebuilder:validation:XValidation:rule="!((has(self.backup) || has(self.from)) && has(self.policy) && self.policy == 'Never')",message="backup names what to restore and policy Never forbids it; set one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.backup) && has(self.from))",message="backup names what to restore, and from whose newest; set one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.import) && (has(self.backup) || has(self.from) || has(self.policy) && self.policy == 'Never'))",message="import names what to start from, and backup, from or policy Never something else; set one of them"
type RestoreSpec struct {
	// Policy is Latest (the newest proven backup of a claim of this name in this
	// namespace; an empty server where there is none) or Never (always an empty
	// server).
	//
	// +optional
	// +kubebuilder:default=Latest
	// +kubebuilder:validation:Enum=Latest;Never
	Policy RestorePolicy `json:"policy,omitempty"`

	// Backup is the name of a MySQLBackup of this namespace to restore instead
	// of the newest one (kubectl get mysqlbackups). It counts once: an instance that
	// comes after one that began with the same choice starts from that one's backup.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Backup *string `json:"backup,omitempty"`

	// From is the name of another claim of this kind in this namespace, whose newest
	// proven backup is restored. It counts once, as backup does.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	From *string `json:"from,omitempty"`

	// Import of a database that was not made here.
	//
	// +optional
	Import *Import `json:"import,omitempty"`

	// InsteadOf is the name of the newest MySQLBackup of a claim of this name, which
	// is left aside for backup, from, import or policy Never. With it a choice counts as long as
	// that is the newest one, and also where an earlier instance has used it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	InsteadOf *string `json:"insteadOf,omitempty"`
}

// ChoiceFrom and the name of another claim are the choice of what that has left, and
// ChoiceImport and an Import that of a database which was not made here.
const (
	ChoiceFrom   = "from/"
	ChoiceImport = "import/"
)

// Choice in one word: the name of a backup, Never, ChoiceFrom or ChoiceImport and what follows them, or nothing, which is the newest one.
func (r *RestoreSpec) Choice() string {
	switch {
	case r.Backup != nil:
		return *r.Backup
	case r.From != nil:
		return ChoiceFrom + *r.From
	case r.Import != nil:
		return ChoiceImport + r.Import.String()
	case r.Policy == RestoreNever:
		return string(RestoreNever)
	}
	return ""
}

// Instance is the identity of the instance that an XR stands for: the claim
// where there is one, else the XR itself. The namespace is empty for a
// cluster-scoped XR without a claim, which no instance can be made for.
func (x *XMySQL) Instance() Instance {
	if c := x.Spec.ClaimRef; c != nil {
		return Instance{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, XR: x.UID}
	}
	return Instance{Kind: x.Kind, Namespace: x.Namespace, Name: x.Name, XR: x.UID}
}

// Size of the data volume in either spelling, and the field that holds it. It
// is empty where neither is set.
func (s *MySQLSpec) Size() (size, field string) {
	if s.StorageSizeLegacy != nil {
		return *s.StorageSizeLegacy, "storage_size"
	}
	if s.StorageSize != nil {
		return *s.StorageSize, "storageSize"
	}
	return "", "storageSize"
}

// An Instance identifies one life of a database: a claim, and the XR that was
// made for it this time.
//
// +kubebuilder:object:generate=false
type Instance struct {
	// Kind, Namespace and Name of the claim, or of the XR where there is none.
	Kind, Namespace, Name string
	// XR is the UID of the XR. A claim that is deleted and created again gets
	// another one.
	XR types.UID
}
