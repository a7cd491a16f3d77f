package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings are the input of the function's pipeline step in a Composition. The function decodes them strictly: an
// unknown field is an error. A claim can select an earlier revision of its Composition, so limits that protect other
// tenants are in the Platform instead.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=settings,singular=settings,categories=crossplane
type Settings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Volumes selects where data is stored: StorageClass (PersistentVolumeClaims) or HostPath (a directory of a node).
	// The default is StorageClass.
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Enum=StorageClass;HostPath
	Volumes VolumeMode `json:"volumes,omitempty"`
	// HostPathRoot is the directory of the node that contains the directories of all instances. It applies to HostPath
	// only. The default is /var/lib/crossplane-mysql.
	//
	// +kubebuilder:validation:MaxLength=1024
	HostPathRoot string `json:"hostPathRoot,omitempty"`
	// HostPathNode is the node that contains the directories, by its label kubernetes.io/hostname. It applies to
	// HostPath only. If unset, each instance stays on the node on which its first pod was scheduled.
	//
	// +kubebuilder:validation:MaxLength=63
	HostPathNode string `json:"hostPathNode,omitempty"`
	// DefaultImage of a MySQL server whose claim sets no image. It takes precedence over defaultImage of the Platform.
	// If both are unset, it is mysql:8.4.
	//
	// +kubebuilder:validation:MaxLength=512
	DefaultImage string `json:"defaultImage,omitempty"`
	// DefaultMongoImage of a Database of type mongo whose claim sets no image. The default is mongo:8.0.
	//
	// +kubebuilder:validation:MaxLength=512
	DefaultMongoImage string `json:"defaultMongoImage,omitempty"`
	// DefaultStorageClassName of data volumes whose claim sets no class. It applies to StorageClass only. If unset, the
	// cluster's default class is used.
	//
	// +kubebuilder:validation:MaxLength=253
	DefaultStorageClassName *string `json:"defaultStorageClassName,omitempty"`
	// DefaultResources of the server's container if the claim sets no resources. They take precedence over
	// defaultResources of the Platform.
	DefaultResources *Resources `json:"defaultResources,omitempty"`
	// DefaultScheduling of servers whose claim sets no scheduling. The allow-lists of the Platform do not apply to it.
	DefaultScheduling *Scheduling `json:"defaultScheduling,omitempty"`
	// JobResources of the containers of the restore Job. The Jobs of the controller use the resources of its flag
	// --job-resources instead.
	JobResources *Resources `json:"jobResources,omitempty"`
	// RequireTLS makes servers refuse unencrypted client connections if the claim does not set requireTLS. The default
	// is false.
	RequireTLS bool `json:"requireTLS,omitempty"`
	// Maintenance specifies when a running server gets a pod template that only a newer release, or newer settings,
	// have changed. Wait applies it at the next restart or change of the spec. Now applies it at once, which restarts
	// the server. The default is Wait.
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Enum=Wait;Now
	Maintenance Maintenance `json:"maintenance,omitempty"`
}

// A VolumeMode specifies where data is stored.
type VolumeMode string

// Volume modes.
const (
	VolumesStorageClass VolumeMode = "StorageClass"
	VolumesHostPath     VolumeMode = "HostPath"
)

// A Maintenance specifies when running servers are restarted because of a newer release.
type Maintenance string

// MaintenanceWait applies a newer release at the next restart of the server. MaintenanceNow restarts the server for
// it.
const (
	MaintenanceWait Maintenance = "Wait"
	MaintenanceNow  Maintenance = "Now"
)

// Defaults of Settings.
const (
	DefaultImage      = "mysql:8.4"
	DefaultMongoImage = "mongo:8.0"
	// DefaultExporterImage is the default of ExporterImage of the Platform.
	DefaultExporterImage = "docker.io/prom/mysqld-exporter:v0.19.0"
	DefaultHostPathRoot  = "/var/lib/crossplane-mysql"
)
