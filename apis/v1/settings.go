package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings are the platform's part of a Composition: the input of the
// function's pipeline step. They are decoded strictly; an unknown field is an
// error. A claim may choose an earlier revision of its Composition: what protects others
// is in the MySQLPlatform instead.
//
// +kubebuilder:object:root=true
type Settings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Volumes says where data lies: StorageClass or HostPath. Default
	// StorageClass.
	//
	// +kubebuilder:validation:MaxLength=32
	Volumes VolumeMode `json:"volumes,omitempty"`
	// HostPathRoot is the folder of the node below which every instance gets one
	// of its own. Only for HostPath. Default /var/lib/crossplane-mysql.
	//
	// +kubebuilder:validation:MaxLength=1024
	HostPathRoot string `json:"hostPathRoot,omitempty"`
	// HostPathNode is the name of the node that holds the folders (its label
	// kubernetes.io/hostname). Only for HostPath. Unset means that each instance
	// stays on the node that its first pod was put on.
	//
	// +kubebuilder:validation:MaxLength=63
	HostPathNode string `json:"hostPathNode,omitempty"`
	// DefaultImage of a MySQL server. Default mysql:8.4.
	//
	// +kubebuilder:validation:MaxLength=512
	DefaultImage string `json:"defaultImage,omitempty"`
	// DefaultMongoImage of a Database of type mongo. Default mongo:8.0.
	//
	// +kubebuilder:validation:MaxLength=512
	DefaultMongoImage string `json:"defaultMongoImage,omitempty"`
	// DefaultStorageClassName of data volumes. Unset means the cluster's default
	// class. Only for StorageClass.
	//
	// +kubebuilder:validation:MaxLength=253
	DefaultStorageClassName *string `json:"defaultStorageClassName,omitempty"`
	// DefaultResources of the server's container.
	DefaultResources *Resources `json:"defaultResources,omitempty"`
	// DefaultScheduling of servers whose claim has none. The lists of the MySQLPlatform are for
	// claims, and not for this.
	DefaultScheduling *Scheduling `json:"defaultScheduling,omitempty"`
	// JobResources of the restore Job's containers. The controller's Jobs have those of its
	// flag --job-resources.
	JobResources *Resources `json:"jobResources,omitempty"`
	// RequireTLS of servers whose claim says nothing of it: they refuse clients that do not
	// encrypt. Default false.
	RequireTLS bool `json:"requireTLS,omitempty"`
	// Maintenance says when a running server gets a pod that a newer release, or newer
	// settings, make in another way: Wait, for its next restart or a change of its
	// spec, or Now, which restarts it. Default Wait.
	//
	// +kubebuilder:validation:MaxLength=32
	Maintenance Maintenance `json:"maintenance,omitempty"`
}

// A VolumeMode says where data lies.
type VolumeMode string

// Volume modes.
const (
	VolumesStorageClass VolumeMode = "StorageClass"
	VolumesHostPath     VolumeMode = "HostPath"
)

// A Maintenance says when running servers are restarted for a newer release.
type Maintenance string

// Times for a restart that no spec asks for.
const (
	MaintenanceWait Maintenance = "Wait"
	MaintenanceNow  Maintenance = "Now"
)

// Defaults of Settings.
const (
	DefaultImage        = "mysql:8.4"
	DefaultMongoImage   = "mongo:8.0"
	DefaultHostPathRoot = "/var/lib/crossplane-mysql"
)
