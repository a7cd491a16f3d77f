package v1

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An XMySQL is a MySQL server with its data volume. Crossplane creates it for a MySQL claim, which has the same spec
// and status.
type XMySQL struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies the MySQL server.
	Spec XMySQLSpec `json:"spec"`
	// Status reports the state of the instance.
	Status MySQLStatus `json:"status,omitempty"`
}

// An XMySQLSpec is the spec of a claim and the reference to that claim.
type XMySQLSpec struct {
	MySQLSpec `json:",inline"`

	// ClaimRef names the claim. Crossplane sets it. It is unset if the composite resource has no claim.
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
}

// A ClaimReference names a claim.
type ClaimReference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// A MySQLSpec specifies a MySQL server.
//
// +kubebuilder:validation:XValidation:rule="has(self.password) != has(self.passwordSecretRef)",message="set exactly one of password and passwordSecretRef"
// +kubebuilder:validation:XValidation:rule="has(self.storage_size) != has(self.storageSize)",message="set exactly one of storage_size and storageSize"
// +kubebuilder:validation:XValidation:rule="!((has(self.storage_size) || has(self.storageSize)) && (has(oldSelf.storage_size) || has(oldSelf.storageSize))) || !(has(self.storage_size) ? self.storage_size : self.storageSize).matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || !(has(oldSelf.storage_size) ? oldSelf.storage_size : oldSelf.storageSize).matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || quantity(has(self.storage_size) ? self.storage_size : self.storageSize).compareTo(quantity(has(oldSelf.storage_size) ? oldSelf.storage_size : oldSelf.storageSize)) >= 0",message="the storage size can grow, but it cannot shrink"
// +kubebuilder:validation:XValidation:rule="!has(self.storageAutogrow) || !has(self.storageAutogrow.to) || !(has(self.storage_size) || has(self.storageSize)) || !(has(self.storage_size) ? self.storage_size : self.storageSize).matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || !self.storageAutogrow.to.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') || quantity(self.storageAutogrow.to).compareTo(quantity(has(self.storage_size) ? self.storage_size : self.storageSize)) >= 0",message="storageAutogrow.to must be at least the storage size"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot change; delete the claim (a backup is taken) and create it again with the new class"
// +kubebuilder:validation:XValidation:rule="!has(self.compositeDeletePolicy) || self.compositeDeletePolicy == 'Background'",message="compositeDeletePolicy must be Background, because a foreground deletion would remove the server before its backup is taken"
type MySQLSpec struct {
	// Image of the MySQL server. It must be compatible with the official mysql image: MYSQL_ROOT_PASSWORD_FILE,
	// MYSQL_DATABASE, data in /var/lib/mysql, and settings in /etc/mysql/conf.d. If unset, the platform's default is
	// used, which is mysql:8.4 if the platform sets none. An instance keeps the image that it was created with until
	// this field changes. A change restarts the server. A change to another release series takes a backup first, see
	// backup.beforeUpgrade.
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

	// Database is the name of the database that is created at the first start. It contains letters, digits, '_' and
	// '-', at most 64 characters. The name of the database's directory has at most 255 bytes. Each character takes 5
	// bytes there, except for ASCII letters, ASCII digits and '_', which take one. If changed, the server restarts and
	// creates the new database. The old database is kept.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[^\x00-,./:-@\x5B-^\x60{-\x{9F}\p{Z}\p{C}\x{34F}\x{115F}\x{1160}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}\x{FFFC}-\x{10FFFF}]+$`
	// +kubebuilder:validation:XValidation:rule="size(self) + 4 * size(self.findAll('[^0-9A-Za-z_]')) <= 255",message="database is too long; its directory name has at most 255 bytes, and each character except ASCII letters, digits and '_' takes 5 bytes"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['mysql', 'sys', 'information_schema', 'performance_schema'])",message="database is the name of a MySQL system schema; choose another name"
	Database string `json:"database"`

	// Password of root, in clear text. Every user who can read the claim can read it, so prefer passwordSecretRef. A
	// change changes the password in the running server.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Password *string `json:"password,omitempty"`

	// PasswordSecretRef names the key of a Secret in the claim's namespace that contains the password of root. A
	// trailing newline is removed. A change of the Secret changes the password in the running server.
	//
	// +optional
	PasswordSecretRef *SecretKeySelector `json:"passwordSecretRef,omitempty"`

	// Size of the data volume, such as 1Gi, from 1Mi to 1Ei. This is the original spelling of storageSize. It can grow
	// if the storage class allows volume expansion, and cannot shrink.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="storage_size must be a quantity from 1Mi to 1Ei, such as 1Gi"
	StorageSizeLegacy *string `json:"storage_size,omitempty"`

	// Size of the data volume, such as 1Gi, from 1Mi to 1Ei. It can grow if the storage class allows volume expansion,
	// and cannot shrink.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="storageSize must be a quantity from 1Mi to 1Ei, such as 1Gi"
	StorageSize *string `json:"storageSize,omitempty"`

	// StorageAutogrow lets the controller enlarge the data volume before it is full. If unset, the volume keeps the size
	// in storageSize. The storage class must allow volume expansion, and the platform team must configure a Prometheus
	// from which the controller reads the free space. A volume that has grown keeps its size if this field is removed. A
	// change does not restart the server.
	//
	// +optional
	StorageAutogrow *StorageAutogrow `json:"storageAutogrow,omitempty"`

	// StorageClassName of the data volume. If unset, the platform's default class is used, or the cluster's default
	// class if the platform sets none. It cannot be changed. The hostPath Composition ignores it.
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

	// NetworkPolicy restricts which clients can connect to the server. If unset, ingress to the server is not
	// restricted. The cluster's network plugin must enforce NetworkPolicies.
	//
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`

	// Resources of the server's container. If unset, the platform's defaultResources are used. If the platform sets
	// none, the requests are 250m CPU and 512Mi of memory, and the memory limit is 1Gi. An empty value, {}, sets no
	// requests and no limits. The size of MySQL's buffer pool is derived from the memory limit. A change restarts the
	// server.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Scheduling specifies the nodes on which the server may run. If unset, the platform's default is used. A change
	// restarts the server.
	//
	// +optional
	Scheduling *Scheduling `json:"scheduling,omitempty"`

	// Config contains settings of the section [mysqld] of my.cnf, such as max_connections: 200. New settings are
	// validated first, and then the server restarts with them. Settings are refused if the platform sets them, if they
	// store data outside of the data directory, or if they make backups or logins unsafe.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	Config map[string]Setting `json:"config,omitempty"`

	// RequireTLS makes the server refuse unencrypted client connections (require_secure_transport). If unset, the
	// platform's default is used. A change restarts the server.
	//
	// +optional
	RequireTLS *bool `json:"requireTLS,omitempty"`

	// Metrics specifies whether Prometheus can scrape the server. If unset, it cannot.
	//
	// +optional
	Metrics *MetricsSpec `json:"metrics,omitempty"`

	// Suspend stops the server and keeps its data, its Service and its Secrets. A backup in progress is completed first.
	// The server starts again when this field is false. A new instance is not restored or started. With restore.at, it has no
	// volume, and only plans the recovery. The default is false.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DeletionPolicy specifies what happens to the data when the claim is deleted. Backup takes and verifies a backup
	// before anything is deleted. Discard deletes the data at once and permanently. The default is Backup.
	//
	// +optional
	// +kubebuilder:default=Backup
	// +kubebuilder:validation:Enum=Backup;Discard
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Backup specifies how backups are taken and kept.
	//
	// +optional
	// +kubebuilder:default={retention: {count: 3}}
	Backup BackupSpec `json:"backup,omitempty"`

	// Restore specifies the data that a new instance starts with. It is applied once, before the first start of the
	// server.
	//
	// +optional
	// +kubebuilder:default={policy: Latest}
	Restore RestoreSpec `json:"restore,omitempty"`

	// CompositeDeletePolicy of the claim. Only Background is accepted, because a foreground deletion would remove the
	// server before its backup is taken.
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

// An ImagePullSecret names a Secret with credentials of image registries.
type ImagePullSecret struct {
	// Name of the Secret, of type kubernetes.io/dockerconfigjson.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PodPullSecrets converts image pull secrets to the type in a pod spec. It returns nil if there are none.
func PodPullSecrets(secrets []ImagePullSecret) []corev1.LocalObjectReference {
	if len(secrets) == 0 {
		return nil
	}
	out := make([]corev1.LocalObjectReference, 0, len(secrets))
	for _, s := range secrets {
		out = append(out, corev1.LocalObjectReference{Name: s.Name})
	}
	return out
}

// PullSecretsAnnotation returns the value of AnnotationPullSecrets for the given image pull secrets.
func PullSecretsAnnotation(secrets []ImagePullSecret) string {
	names := make([]string, 0, len(secrets))
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	return strings.Join(names, ",")
}

// ReadPullSecrets returns the image pull secrets that an annotation names.
func ReadPullSecrets(annotation string) []ImagePullSecret {
	var out []ImagePullSecret
	for name := range strings.SplitSeq(annotation, ",") {
		if name != "" {
			out = append(out, ImagePullSecret{Name: name})
		}
	}
	return out
}

// A ServiceType is a kind of Service.
type ServiceType string

// Service types.
const (
	ServiceClusterIP    ServiceType = "ClusterIP"
	ServiceNodePort     ServiceType = "NodePort"
	ServiceLoadBalancer ServiceType = "LoadBalancer"
)

// A ServiceSpec specifies the Service of the server.
//
// +kubebuilder:validation:XValidation:rule="(has(self.headless) && self.headless) == (has(oldSelf.headless) && oldSelf.headless)",message="headless cannot change; delete the claim (a backup is taken) and create it again"
// +kubebuilder:validation:XValidation:rule="!(has(self.headless) && self.headless) || !has(self.type) || self.type == 'ClusterIP'",message="a headless Service must have the type ClusterIP; set type to ClusterIP, or remove headless"
type ServiceSpec struct {
	// Type of the Service: ClusterIP, NodePort or LoadBalancer. The default is ClusterIP.
	//
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type ServiceType `json:"type,omitempty"`

	// Headless makes a Service of type ClusterIP that has no IP address of its own. DNS returns the address of the
	// server's pod. It cannot be changed. The default is false.
	//
	// +optional
	Headless bool `json:"headless,omitempty"`

	// Annotations of the Service, for load balancers that read them. The platform policy must allow their keys
	// (allowedServiceAnnotations).
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A NetworkPolicySpec specifies which clients can connect to the server's port.
type NetworkPolicySpec struct {
	// From lists the pods and addresses that can connect to the server, as in a NetworkPolicy of Kubernetes. They can
	// also scrape its metrics, so add your Prometheus to the list if metrics are enabled. The controller can always
	// connect. If the list is empty, no other client can.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each entry of networkPolicy.from must have either ipBlock, or podSelector, namespaceSelector or both"
	// +listType=atomic
	From []networkingv1.NetworkPolicyPeer `json:"from"`
}

// A MetricsSpec specifies the metrics of the server.
type MetricsSpec struct {
	// Enabled runs mysqld_exporter in a container of the server's pod. It serves metrics on port 9104, which every
	// client that can connect to the server can read. The controller creates an account for it on the server, which
	// cannot read the data. A change restarts the server. The default is false.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// HasMetrics reports whether the spec enables metrics.
func (s *MySQLSpec) HasMetrics() bool { return s.Metrics != nil && s.Metrics.Enabled }

// A DeletionPolicy specifies what happens to the data of a deleted claim.
type DeletionPolicy string

// Deletion policies.
const (
	DeletionBackup  DeletionPolicy = "Backup"
	DeletionDiscard DeletionPolicy = "Discard"
)

// A BackupSpec specifies how backups are taken and kept.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.storeRef) && has(self.volume))",message="storeRef and volume cannot be combined; set only one of them"
type BackupSpec struct {
	// StoreRef names the BackupStore that backups are written to. The platform policy must allow it. If neither storeRef
	// nor volume is set, the platform's default is used. A change applies to the next backup. Existing backups stay
	// where they are, and can still be restored.
	//
	// +optional
	StoreRef *BackupStoreReference `json:"storeRef,omitempty"`

	// Volume writes backups to a volume of the cluster. If the platform has a default BackupStore, the platform policy
	// must allow volumes. Its value is {}.
	//
	// +optional
	Volume *BackupVolume `json:"volume,omitempty"`

	// Retention specifies how long backups are kept. A backup is deleted only if there are at least count newer verified
	// backups, and if it is older than minAge.
	//
	// +optional
	// +kubebuilder:default={count: 3}
	Retention BackupRetention `json:"retention,omitempty"`

	// Schedule of backups. If backups were missed, one backup is taken as soon as the server accepts clients. If unset,
	// there are no scheduled backups.
	//
	// +optional
	Schedule *BackupSchedule `json:"schedule,omitempty"`

	// Continuous specifies whether the binary log is archived in the BackupStore while the server runs. The instance can
	// then be recovered to any time after its first backup (spec.restore.at). If unset, the binary log is archived if
	// the instance uses a BackupStore and the server is MySQL 8.0.26 or newer with GTIDs, and deletionPolicy is not
	// Discard. Statements with passwords are in the binary log, too.
	//
	// +optional
	Continuous *ContinuousBackup `json:"continuous,omitempty"`

	// FinalBackup specifies what the final backup must pass before the data volume is released. The final backup is
	// taken when the claim is deleted.
	//
	// +optional
	FinalBackup *FinalBackup `json:"finalBackup,omitempty"`

	// BeforeUpgrade specifies whether the server is stopped for a backup before a version upgrade. NewSeries takes a
	// backup if the tag of the new image has another release series, such as 8.4, or no version. Never takes no backup.
	// After an upgrade, a server of an older release series cannot use the data. The default is NewSeries. With
	// deletionPolicy Discard no backup is taken.
	//
	// +optional
	// +kubebuilder:default=NewSeries
	// +kubebuilder:validation:Enum=NewSeries;Never
	BeforeUpgrade BeforeUpgrade `json:"beforeUpgrade,omitempty"`
}

// A BackupStoreReference names a BackupStore.
type BackupStoreReference struct {
	// Name of the BackupStore.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// A BackupVolume is a volume of the cluster for backups. It has no fields. The Composition specifies the volume.
type BackupVolume struct{}

// A Durability specifies when the server acknowledges a commit to the client.
type Durability string

// Durabilities.
const (
	DurabilityServer Durability = "Server"
	DurabilityStore  Durability = "Store"
)

// A StoreFailurePolicy specifies what happens to commits while the BackupStore cannot be written.
type StoreFailurePolicy string

// Store failure policies.
const (
	StoreFailureWait     StoreFailurePolicy = "Wait"
	StoreFailureContinue StoreFailurePolicy = "Continue"
)

// A ContinuousBackup specifies whether the binary log is archived.
//
// +kubebuilder:validation:XValidation:rule="!has(self.durability) || self.durability != 'Store' || !has(self.enabled) || self.enabled",message="durability Store requires the archive of the binary log; remove enabled, or set durability to Server"
// +kubebuilder:validation:XValidation:rule="!has(self.storeFailurePolicy) || has(self.durability) && self.durability == 'Store'",message="storeFailurePolicy requires durability Store; set durability to Store, or remove storeFailurePolicy"
type ContinuousBackup struct {
	// Enabled specifies whether the binary log is archived. If it is true, the instance requires a BackupStore. The
	// default is true.
	//
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// Durability specifies when the server acknowledges a commit to the client. Server acknowledges it when the
	// transaction is on the data volume. The binary log follows in the BackupStore within about two seconds, so the loss
	// of the volume can lose the last seconds of acknowledged writes. Store acknowledges it only after the transaction is
	// in the BackupStore, too. Each commit then takes at least one request to the store longer. Commits wait while the
	// controller does not run. Reads do not wait. Store requires a BackupStore and MySQL 8.0.26 or newer with GTIDs, and
	// is not possible with deletionPolicy Discard. If unset, the durability is Server. A change restarts the server.
	//
	// +optional
	// +kubebuilder:validation:Enum=Server;Store
	Durability Durability `json:"durability,omitempty"`

	// StoreFailurePolicy specifies what happens to commits while the BackupStore cannot be written, with durability
	// Store. With Wait, commits wait until the store can be written again. With Continue, the condition Archiving becomes
	// False, and commits then no longer wait until the store can be written again and contains all transactions. If unset,
	// commits wait. A change does not restart the server.
	//
	// +optional
	// +kubebuilder:validation:Enum=Wait;Continue
	StoreFailurePolicy StoreFailurePolicy `json:"storeFailurePolicy,omitempty"`
}

// RequiresArchive reports whether a user requires an archive of the binary log. Otherwise, the binary log is archived
// only if that is possible.
func (b *BackupSpec) RequiresArchive() bool {
	return b.Continuous != nil && (b.Continuous.Enabled == nil || *b.Continuous.Enabled)
}

// RequiresStoreDurability reports whether a commit waits until its transaction is in the BackupStore. An unknown
// durability also requires it, because the server must not acknowledge a commit earlier than the user expects.
func (b *BackupSpec) RequiresStoreDurability() bool {
	return b.RequiresArchive() && b.Continuous.Durability != "" && b.Continuous.Durability != DurabilityServer
}

// ContinuesWithoutStore reports whether commits no longer wait while the BackupStore cannot be written.
func (b *BackupSpec) ContinuesWithoutStore() bool {
	return b.RequiresStoreDurability() && b.Continuous.StoreFailurePolicy == StoreFailureContinue
}

// AllowsArchive reports whether the binary log may be archived.
func (s *MySQLSpec) AllowsArchive() bool {
	return s.DeletionPolicy != DeletionDiscard && (s.Backup.Continuous == nil || s.Backup.RequiresArchive())
}

// A BackupRetention specifies how long backups are kept.
type BackupRetention struct {
	// Count is the number of verified backups to keep, from 1 to 100. The default is 3. An older backup is deleted only
	// after a newer backup has been verified.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Count *int32 `json:"count,omitempty"`

	// MinAge is the minimum age at which a backup is deleted, in hours, days or weeks, such as 48h, 30d or 4w. If unset,
	// only count applies.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*[hdw]$`
	MinAge string `json:"minAge,omitempty"`
}

// A BackupSchedule specifies when and how scheduled backups are taken.
type BackupSchedule struct {
	// Cron is the schedule in cron format, such as 0 3 * * * or @daily.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Cron string `json:"cron"`

	// TimeZone of the schedule, as a name of the IANA time zone database, such as Europe/Berlin. The default is UTC.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`
	TimeZone string `json:"timeZone,omitempty"`

	// Method of scheduled backups. Online clones the data with a second server of the same image, while the first one
	// runs. It requires MySQL 8.0.17 or newer, and InnoDB tables only. Cold stops the server until the data is copied and
	// verified. A failed Cold backup is not retried, and the server starts again.
	//
	// +kubebuilder:validation:Enum=Online;Cold
	Method BackupMethod `json:"method"`
}

// A FinalBackup specifies what the backup of a deleted instance must pass.
type FinalBackup struct {
	// RequireRestoreTest delays the release of the data volume until a restore test of the final backup has passed. A
	// restore test starts a server from a copy of the backup and checks its tables. If the restore test cannot run, the
	// deletion waits for manual action. If false, the restore test runs after the release, if there is enough space. The
	// default is false.
	//
	// +optional
	RequireRestoreTest *bool `json:"requireRestoreTest,omitempty"`
}

// BeforeUpgrade specifies when a backup is taken before another image starts.
type BeforeUpgrade string

// Values of BeforeUpgrade.
const (
	BackUpNewSeries BeforeUpgrade = "NewSeries"
	BackUpNever     BeforeUpgrade = "Never"
)

// RequiresRestoreTest reports whether the final backup must pass a restore test.
func (b *BackupSpec) RequiresRestoreTest() bool {
	return b.FinalBackup != nil && b.FinalBackup.RequireRestoreTest != nil && *b.FinalBackup.RequireRestoreTest
}

// Cron returns the schedule in cron format, or "" if there is none.
func (b *BackupSpec) Cron() string {
	if b.Schedule == nil {
		return ""
	}
	return b.Schedule.Cron
}

// TimeZone returns the time zone of the schedule. It is empty for UTC, and if there is no schedule.
func (b *BackupSpec) TimeZone() string {
	if b.Schedule == nil {
		return ""
	}
	return b.Schedule.TimeZone
}

// ScheduledMethod returns the method of scheduled backups, or "" if there is no schedule.
func (b *BackupSpec) ScheduledMethod() BackupMethod {
	if b.Schedule == nil {
		return ""
	}
	return b.Schedule.Method
}

// A BackupMethod specifies whether the server keeps running during a scheduled or on-demand backup.
type BackupMethod string

// Methods of backups.
const (
	// MethodOnline clones the data while the server runs.
	MethodOnline BackupMethod = "Online"
	// MethodCold stops the server for the backup, and starts it again.
	MethodCold BackupMethod = "Cold"
)

// StoreVolume replaces the name of a BackupStore in the Platform and in the status if backups are written to a volume
// of the cluster.
const StoreVolume = "Volume"

// DefaultKeep is the number of verified backups to keep if the claim sets none.
const DefaultKeep = 3

// A RestorePolicy specifies the data that a new instance starts with.
type RestorePolicy string

// Restore policies.
const (
	RestoreLatest RestorePolicy = "Latest"
	RestoreNever  RestorePolicy = "Never"
)

// A RestoreSpec specifies the data that a new instance starts with.
//
// +kubebuilder:validation:XValidation:rule="!((has(self.backup) || has(self.from)) && has(self.policy) && self.policy == 'Never')",message="backup cannot be combined with policy Never, which forbids a restore; set only one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.fromKind) || has(self.from)",message="fromKind requires from; set from, or remove fromKind"
// +kubebuilder:validation:XValidation:rule="!(has(self.backup) && has(self.from))",message="backup and from cannot be combined; set only one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.at) && (has(self.backup) || has(self.import) || has(self.policy) && self.policy == 'Never'))",message="at cannot be combined with backup, import or policy Never; set only one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.import) && (has(self.backup) || has(self.from) || has(self.policy) && self.policy == 'Never'))",message="import cannot be combined with backup, from or policy Never; set only one of them"
type RestoreSpec struct {
	// Policy is Latest or Never. Latest restores the newest verified backup of a claim of this name in this namespace.
	// If there is none, the server starts empty. Never starts an empty server. The default is Latest.
	//
	// +optional
	// +kubebuilder:default=Latest
	// +kubebuilder:validation:Enum=Latest;Never
	Policy RestorePolicy `json:"policy,omitempty"`

	// Backup is the name of a backup in this namespace to restore instead of the newest one (kubectl get backups). It
	// is applied once. If the newest backup of this name is from an instance that was created with the same value, that
	// backup is restored instead.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Backup *string `json:"backup,omitempty"`

	// From is the name of another instance in this namespace. Its newest verified backup is restored. It is applied
	// once, as backup is.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	From *string `json:"from,omitempty"`

	// FromKind is the kind of the instance that from names. MySQL is an instance with a claim,
	// MySQL.crossplane-mysql.io one without a claim. If unset, it is the kind of this instance. To move an instance
	// from one API to the other, set the other kind. The instance in from can then have the same name.
	//
	// +optional
	// +kubebuilder:validation:Enum=MySQL;MySQL.crossplane-mysql.io
	FromKind string `json:"fromKind,omitempty"`

	// At is a time or a GTID. The instance is recovered to its state after all transactions that were committed up to
	// that time, or after that transaction. A time has the format 2026-11-22T18:00:00.25Z, with at most six digits after
	// the second. A GTID has the format 3e11fa47-71ca-11e1-9e33-c80aa9429562:23. With the prefix before:, as in
	// before:3e11fa47-71ca-11e1-9e33-c80aa9429562:23, the transaction itself and all later ones are left out. Latest is
	// the last archived transaction. At requires the archived binary log of the instance that is recovered. That is the
	// one that from names, or else the previous instance of this name. At is applied once, as backup is.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(Latest|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})|(before:)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(:[a-z_][a-z0-9_]{0,31})?:[1-9][0-9]{0,17})$`
	At *string `json:"at,omitempty"`

	// Import specifies an existing database to import. It is applied once, as backup is.
	//
	// +optional
	Import *Import `json:"import,omitempty"`

	// InsteadOf is the name of the newest backup of a claim of this name. It confirms that the server starts from
	// backup, from or import, or empty with policy Never, instead of from that newest backup. The restore source is
	// then applied even if a previous instance was created with it. Once there is a newer backup, that backup is
	// restored instead.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	InsteadOf *string `json:"insteadOf,omitempty"`
}

// Source returns the instance whose newest backup is restored. reader is the instance that is created with this spec.
func (r *RestoreSpec) Source(reader Instance) Instance {
	return Instance{Kind: cmp.Or(r.FromKind, reader.Kind), Namespace: reader.Namespace, Name: *r.From}
}

// FromText returns From. If FromKind is set, it returns FromKind/From.
func (r *RestoreSpec) FromText() string {
	if r.FromKind == "" {
		return *r.From
	}
	return r.FromKind + "/" + *r.From
}

var (
	timePattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$`)
	gtidPattern = regexp.MustCompile(`^(before:)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(:[a-z_][a-z0-9_]{0,31})?:[1-9]\d{0,17}$`)
)

// MomentBefore is the prefix of a GTID in RestoreSpec.At. With it, the recovery ends before that transaction.
const MomentBefore = "before:"

// MomentLatest is the value of RestoreSpec.At for the latest archived transaction.
const MomentLatest = "Latest"

// IsMoment reports whether a text is a valid value of RestoreSpec.At.
func IsMoment(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil && timePattern.MatchString(text) || gtidPattern.MatchString(text) || text == MomentLatest
}

// Prefixes of a restore source, as RestoreSpec.Choice returns it: ChoiceFrom of another claim, ChoiceImport of an
// import, and ChoiceAt of a time or a GTID.
const (
	ChoiceFrom   = "from/"
	ChoiceImport = "import/"
	ChoiceAt     = "@"
)

// Choice returns the restore source as a single string: the name of a backup, Never, or a value with the prefix
// ChoiceFrom or ChoiceImport. It is empty if the newest backup is to be restored.
func (r *RestoreSpec) Choice() string {
	switch {
	case r.Backup != nil:
		return *r.Backup
	case r.At != nil && r.From != nil:
		return ChoiceFrom + r.FromText() + ChoiceAt + *r.At
	case r.At != nil:
		return ChoiceAt + *r.At
	case r.From != nil:
		return ChoiceFrom + r.FromText()
	case r.Import != nil:
		return ChoiceImport + r.Import.String()
	case r.Policy == RestoreNever:
		return string(RestoreNever)
	}
	return ""
}

// Instance returns the identity of the instance of a composite resource: the claim if there is one, or else the
// composite resource itself. For a cluster-scoped composite resource without a claim, the namespace is empty, and the
// function refuses the composite resource.
func (x *XMySQL) Instance() Instance {
	if c := x.Spec.ClaimRef; c != nil {
		return Instance{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, XR: x.UID}
	}
	kind := x.Kind
	if a, ok := APIOf(x.GroupVersionKind().GroupKind()); ok && !a.HasClaims() {
		kind = a.InstanceKind()
	}
	return Instance{Kind: kind, Namespace: x.Namespace, Name: x.Name, XR: x.UID}
}

// Size returns the size of the data volume, and the name of the field that contains it. The size is empty if neither
// storageSize nor storage_size is set.
func (s *MySQLSpec) Size() (size, field string) {
	if s.StorageSizeLegacy != nil {
		return *s.StorageSizeLegacy, "storage_size"
	}
	if s.StorageSize != nil {
		return *s.StorageSize, "storageSize"
	}
	return "", "storageSize"
}

// An Instance identifies a claim and the composite resource that was created for it. A claim that is deleted and
// created again is another instance.
//
// +kubebuilder:object:generate=false
type Instance struct {
	// Kind, Namespace and Name of the claim, or of the composite resource if there is no claim. The kind is
	// API.InstanceKind.
	Kind, Namespace, Name string
	// XR is the UID of the composite resource. A claim that is deleted and created again gets another one.
	XR types.UID
}
