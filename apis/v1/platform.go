package v1

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Platform is the platform policy: it limits what claims of this cluster may set, and specifies their defaults. There
// is one, and the function reads it for each instance. The limits apply to every Composition and to every revision of
// it that a claim can select.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=platforms,singular=platform,categories=crossplane-mysql
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'crossplane-mysql'",message="the only Platform of a cluster must have the name crossplane-mysql"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="CONTROLLER",type=string,JSONPath=`.status.controllerRelease`
// +kubebuilder:printcolumn:name="FUNCTION",type=string,JSONPath=`.status.functionRelease`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Platform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec specifies limits and defaults for claims.
	//
	// +optional
	Spec PlatformSpec `json:"spec,omitempty"`
	// Status reports the installed releases of the function and the controller.
	Status PlatformStatus `json:"status,omitempty"`

	// Unreadable lists the fields of the stored object that could not be decoded. They keep their zero values.
	Unreadable UnreadableFields `json:"-"`
}

// A PlatformList is a list of Platforms.
//
// +kubebuilder:object:root=true
type PlatformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Platform `json:"items"`
}

// PlatformName is the name of the only Platform.
const PlatformName = "crossplane-mysql"

// A PlatformSpec specifies limits and defaults for claims. If a running instance has a value that is no longer allowed,
// the instance keeps it, and the condition Accepted of its claim is false.
type PlatformSpec struct {
	// AgentImage is the image of this product. It contains the programs that run in Jobs and in init containers of
	// servers. If unset, the image of the function's release at ghcr.io is used. Set it if the image is in your own
	// registry.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	AgentImage string `json:"agentImage,omitempty"`

	// ExporterImage is the image of mysqld_exporter, which serves the metrics of servers whose claims enable them. If
	// unset, docker.io/prom/mysqld-exporter:v0.19.0 is used. Set it if the image is in your own registry. All nodes of
	// servers must be able to pull it. A change does not restart running servers.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ExporterImage string `json:"exporterImage,omitempty"`

	// DefaultImage of a MySQL server whose claim sets no image. The defaultImage of a Composition takes precedence. An
	// instance keeps the image that it was created with. The default is mysql:8.4.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	DefaultImage string `json:"defaultImage,omitempty"`
	// DefaultResources of a server whose claim sets no resources. The defaultResources of a Composition take
	// precedence. If unset, the requests are 250m CPU and 512Mi of memory, and the memory limit is 1Gi. An empty value,
	// {}, sets no requests and no limits. A change does not restart running servers.
	//
	// +optional
	DefaultResources *Resources `json:"defaultResources,omitempty"`
	// DefaultBackupStore is the BackupStore of claims that set no store. A change also applies to the next backup of
	// existing instances. If unset, backups are written to a volume of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DefaultBackupStore string `json:"defaultBackupStore,omitempty"`

	// AllowedImages lists the images of servers that claims may set. An entry is a complete image, such as mysql:8.4,
	// or a prefix that ends in '/', ':' or '@'. For example, mysql: allows every tag, mysql@ every digest, and
	// registry.example/databases/ every image in that path. If unset, every image is allowed. An empty list allows
	// none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	AllowedImages *[]string `json:"allowedImages,omitempty"`
	// AllowedServiceTypes lists the types of Services that claims may set: ClusterIP, NodePort and
	// LoadBalancer. A headless Service has the type ClusterIP. If unset, every type is allowed.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=ClusterIP;NodePort;LoadBalancer
	AllowedServiceTypes []ServiceType `json:"allowedServiceTypes,omitempty"`
	// AllowedServiceAnnotations lists the annotation keys that claims may set on their Service. An entry is a complete
	// key, or a prefix that ends in '/'. Some annotations make a server reachable from outside of the cluster, such as
	// those of a DNS controller. If unset, the annotations are allowed that keep a load balancer internal or select its
	// kind. An empty list allows none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	AllowedServiceAnnotations *[]string `json:"allowedServiceAnnotations,omitempty"`
	// AllowedTolerations lists the keys of taints that claims may tolerate. An entry is a complete key, or a prefix
	// that ends in '/'. Taints of the control plane are never allowed. If unset, none is allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	AllowedTolerations []string `json:"allowedTolerations,omitempty"`
	// AllowedPriorityClasses lists the priority classes that claims may set for their server. A server with a high
	// priority can evict other pods. If unset, none is allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedPriorityClasses []string `json:"allowedPriorityClasses,omitempty"`
	// AllowedPlaintextImages lists images of servers that do not support TLS, with the syntax of allowedImages. Such a
	// server gets no certificate. Attackers on the network can read root's password, or pretend to be the server. The
	// status of the claim contains a warning. If unset, none is allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	AllowedPlaintextImages []string `json:"allowedPlaintextImages,omitempty"`
	// AllowedBackupStores lists the BackupStores that claims may set. The entry Volume allows a volume of the cluster.
	// The default BackupStore is always allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	AllowedBackupStores []string `json:"allowedBackupStores,omitempty"`
	// AllowedImportServers lists the servers that claims may import a database from. An entry is a host as in a claim,
	// or *. and a domain for every host name in that domain. Add a colon and the port if the port is not 3306. During
	// the import, the Job of the claim can connect to that port on any address outside of the namespace. If unset, none
	// is allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedImportServers []string `json:"allowedImportServers,omitempty"`

	// RequirePasswordSecret refuses passwords in the spec of claims, because all users who can read a claim can read
	// its password. The default is false.
	//
	// +optional
	RequirePasswordSecret bool `json:"requirePasswordSecret,omitempty"`
	// RequirePasswordLabel refuses password Secrets without the label crossplane-mysql.io/password: "true". Without
	// this rule, a user who can create claims can read any Secret of the namespace, because its value becomes a
	// server's password. The default is false.
	//
	// +optional
	RequirePasswordLabel bool `json:"requirePasswordLabel,omitempty"`
	// CertificateIssuer is the issuer of cert-manager that signs the certificates of servers. If unset, each server has
	// its own certificate authority.
	//
	// +optional
	CertificateIssuer *IssuerReference `json:"certificateIssuer,omitempty"`
	// MinPasswordLength is the minimum length of root's password in characters, from 1 to 64. The default is 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MinPasswordLength int32 `json:"minPasswordLength,omitempty"`
	// LegacyPassword specifies the password of a Database of type mysql without passwordSecretRef. With Refuse, the
	// controller generates a password and publishes it in the connection Secret. With Allow, it is my_passwd, the
	// publicly known password of the original operator. A change also changes the passwords of running Databases. The
	// default is Refuse.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Refuse
	LegacyPassword LegacyPassword `json:"legacyPassword,omitempty"`
	// MaxResources are the maximum resources of a server's container, such as memory: 16Gi. If a claim sets no limit
	// for a resource, this value is its limit. A resource that is not listed has no maximum.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	MaxResources map[corev1.ResourceName]Amount `json:"maxResources,omitempty"`
	// MaxStorageSize is the maximum size of a data volume, such as 1Ti, from 1Mi to 1Ei. It limits storageSize and the
	// growth by storageAutogrow. If unset, there is no maximum.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$') && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ei')) <= 0",message="maxStorageSize must be a quantity from 1Mi to 1Ei, such as 1Ti"
	MaxStorageSize string `json:"maxStorageSize,omitempty"`
	// MaxBackups is the maximum number of backups that a claim may keep by its schedule and backup.retention.minAge. The default
	// is 1000. On a volume it is at most 250, because the volume's annotations contain an entry for each backup.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxBackups int32 `json:"maxBackups,omitempty"`
	// MinBackupInterval is the minimum time between two scheduled backups, in minutes, from 1 to 1440. The default is
	// 15. Each backup copies all data and reads the copy again.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1440
	MinBackupInterval int32 `json:"minBackupInterval,omitempty"`
	// ReusableNamespaces lists namespaces in which an instance may restore a backup from an earlier namespace of the
	// same name. The earlier namespace may have had another owner. The controller gives the instance the volume of that
	// backup. The entry '*' allows every namespace. If unset, none is allowed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	ReusableNamespaces []string `json:"reusableNamespaces,omitempty"`
}

// An IssuerReference names an issuer of cert-manager. The issuer must return its CA certificate, as issuers of the
// types CA and Vault do, and must sign for the names of Services.
type IssuerReference struct {
	// Name of the issuer.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Kind of the issuer: Issuer (in the controller's namespace), ClusterIssuer, or the kind of an external issuer. The
	// default is Issuer.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Group of the issuer's kind. The default is cert-manager.io.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// WithDefaults returns the reference with defaults for unset fields.
func (r *IssuerReference) WithDefaults() IssuerReference {
	return IssuerReference{Name: r.Name, Kind: cmp.Or(r.Kind, "Issuer"), Group: cmp.Or(r.Group, "cert-manager.io")}
}

// String returns the issuer as KIND.GROUP/NAME, for messages.
func (r *IssuerReference) String() string {
	full := r.WithDefaults()
	return full.Kind + "." + full.Group + "/" + full.Name
}

// A LegacyPassword specifies whether Databases may have the password of the original operator.
type LegacyPassword string

// Values of LegacyPassword.
const (
	LegacyPasswordAllow  LegacyPassword = "Allow"
	LegacyPasswordRefuse LegacyPassword = "Refuse"
)

// DefaultServiceAnnotations returns the keys that are allowed if the Platform sets none.
func DefaultServiceAnnotations() []string {
	return []string{
		"cloud.google.com/load-balancer-type",
		"networking.gke.io/load-balancer-type",
		"service.beta.kubernetes.io/aws-load-balancer-internal",
		"service.beta.kubernetes.io/aws-load-balancer-scheme",
		"service.beta.kubernetes.io/aws-load-balancer-type",
		"service.beta.kubernetes.io/azure-load-balancer-internal",
		"service.beta.kubernetes.io/oci-load-balancer-internal",
	}
}

// AllowsImage reports whether claims may set the given image.
func (s *PlatformSpec) AllowsImage(image string) bool {
	return s.AllowedImages == nil || isListed(*s.AllowedImages, image)
}

// AllowsPlaintext reports whether a server with the given image may run without TLS.
func (s *PlatformSpec) AllowsPlaintext(image string) bool {
	return isListed(s.AllowedPlaintextImages, image)
}

// isListed reports whether a list contains an image or a prefix of the image.
func isListed(list []string, image string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		rest, begins := strings.CutPrefix(image, entry)
		switch {
		case !begins || rest == "":
			return begins
		case strings.HasSuffix(entry, "/"):
			return true
		}
		// An entry such as mysql: matches only if a tag follows. With a slash in the rest, mysql would be the host of
		// another registry, as in mysql:5000/other.
		return (strings.HasSuffix(entry, ":") || strings.HasSuffix(entry, "@")) && !strings.Contains(rest, "/")
	})
}

// AllowsServiceType reports whether claims may set the given type of Service.
func (s *PlatformSpec) AllowsServiceType(serviceType ServiceType) bool {
	return len(s.AllowedServiceTypes) == 0 || slices.Contains(s.AllowedServiceTypes, serviceType)
}

// AllowsServiceAnnotation reports whether claims may set an annotation with the given key on their Service.
func (s *PlatformSpec) AllowsServiceAnnotation(key string) bool {
	allowed := DefaultServiceAnnotations()
	if s.AllowedServiceAnnotations != nil {
		allowed = *s.AllowedServiceAnnotations
	}
	return hasKey(allowed, key)
}

// LimitStorage returns the maximum size of a data volume. It returns false if there is none.
func (s *PlatformSpec) LimitStorage() (resource.Quantity, bool, error) {
	if s.MaxStorageSize == "" {
		return resource.Quantity{}, false, nil
	}
	q, err := ParseSize(s.MaxStorageSize)
	if err != nil {
		return resource.Quantity{}, true, fmt.Errorf("spec.maxStorageSize of %s %s: %w", KindPlatform, PlatformName, err)
	}
	return q, true, nil
}

// AllowsToleration reports whether claims may tolerate a taint with the given key.
func (s *PlatformSpec) AllowsToleration(key string) bool {
	return hasKey(s.AllowedTolerations, key)
}

// hasKey reports whether a list contains a key or a prefix of the key.
func hasKey(list []string, key string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return entry == key || strings.HasSuffix(entry, "/") && strings.HasPrefix(key, entry)
	})
}

// BackupStore returns the store that a spec sets, or the default. It is empty for a volume. It returns false if the
// platform does not allow the store in the spec.
func (s *PlatformSpec) BackupStore(spec *BackupSpec) (store string, allowed bool) {
	switch {
	case spec.StoreRef != nil:
		return spec.StoreRef.Name, s.OffersBackupStore(spec.StoreRef.Name)
	case spec.Volume != nil:
		return "", s.OffersBackupStore(StoreVolume) || s.DefaultBackupStore == ""
	}
	return s.DefaultBackupStore, true
}

// Limits for the number of a claim's backups. A PersistentVolume can have 256 KiB of annotations, and the entry of a
// backup takes up to 870 bytes.
const (
	maxBackupsInStore  = 1000
	maxBackupsOnVolume = 250
)

// MostBackups returns the maximum number of scheduled backups that a claim may retain, in a store or on a volume.
func (s *PlatformSpec) MostBackups(inStore bool) int64 {
	most := int64(maxBackupsOnVolume)
	if inStore {
		most = maxBackupsInStore
	}
	if s.MaxBackups > 0 {
		return min(most, int64(s.MaxBackups))
	}
	return most
}

// minBackupInterval is the default of MinBackupInterval, in minutes.
const minBackupInterval = 15

// LeastBackupInterval returns the minimum time between two scheduled backups.
func (s *PlatformSpec) LeastBackupInterval() time.Duration {
	return time.Duration(cmp.Or(s.MinBackupInterval, minBackupInterval)) * time.Minute
}

// OffersBackupStore reports whether claims may set the given BackupStore.
func (s *PlatformSpec) OffersBackupStore(name string) bool {
	return slices.Contains(s.AllowedBackupStores, name) || name == s.DefaultBackupStore
}

// AllowsImport reports whether claims may import a database from the given server.
func (s *PlatformSpec) AllowsImport(server *ImportedServer) bool {
	host := server.Host
	return slices.ContainsFunc(s.AllowedImportServers, func(entry string) bool {
		name, port, hasPort := strings.Cut(entry, ":")
		if !hasPort {
			port = strconv.Itoa(int(DefaultPort))
		}
		if port != strconv.Itoa(int(server.ServerPort())) {
			return false
		}
		domain, wild := strings.CutPrefix(name, "*.")
		if !wild {
			return strings.EqualFold(name, host)
		}
		return len(host) > len(domain)+1 && strings.EqualFold(host[len(host)-len(domain)-1:], "."+domain)
	})
}

// AllowsReuse reports whether an instance may restore a backup from an earlier namespace of the same name.
func (s *PlatformSpec) AllowsReuse(namespace string) bool {
	return slices.Contains(s.ReusableNamespaces, namespace) || slices.Contains(s.ReusableNamespaces, "*")
}
