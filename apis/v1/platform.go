package v1

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A MySQLPlatform is what the platform lets claims of this cluster ask for. There is
// one, and the function reads it for each instance: what protects others does not depend
// on the Composition, nor on the revision of it, that a claim may choose.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=mysqlplatforms,singular=mysqlplatform,categories=crossplane-mysql
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'crossplane-mysql'",message="there is one, and its name is crossplane-mysql"
// +kubebuilder:printcolumn:name="AGENT",type=string,JSONPath=`.spec.agentImage`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type MySQLPlatform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MySQLPlatformSpec `json:"spec"`

	// Unreadable fields of the stored object, which keep their zero values.
	Unreadable UnreadableFields `json:"-"`
}

// A MySQLPlatformList is a list of MySQLPlatforms.
//
// +kubebuilder:object:root=true
type MySQLPlatformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MySQLPlatform `json:"items"`
}

// PlatformName of the one MySQLPlatform.
const PlatformName = "crossplane-mysql"

// A MySQLPlatformSpec says what claims may ask for. A running instance goes on with what
// it has when that is allowed no more, and its claim says so.
type MySQLPlatformSpec struct {
	// AgentImage is the image of the programs beside the servers, and of the restore
	// Jobs: this product's.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	AgentImage string `json:"agentImage"`
	// AllowedImages of servers, as a claim writes them: whole, such as mysql:8.4, or
	// what they begin with, which ends with '/', ':' or '@': mysql: is each tag,
	// mysql@ each digest, and registry.example/databases/ each image of that folder.
	// Unset allows each image, and an empty list none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	AllowedImages *[]string `json:"allowedImages,omitempty"`
	// AllowedServiceTypes of servers. Unset allows each type.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ClusterIP;Headless;NodePort;LoadBalancer
	AllowedServiceTypes []ServiceType `json:"allowedServiceTypes,omitempty"`
	// AllowedServiceAnnotations are keys of annotations that a claim may put on its
	// Service, whole, or what they begin with, which ends with '/'. What others can
	// reach beyond a namespace, such as a DNS controller's, is for the platform to
	// know. Unset allows those that keep a load balancer inside of a network, or choose
	// its kind; an empty list none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	AllowedServiceAnnotations *[]string `json:"allowedServiceAnnotations,omitempty"`
	// MaxResources are the most that a server's container may ask for, such as memory:
	// 16Gi. One that says no limit of its own has this one. Unset names of resources have
	// none.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	MaxResources map[corev1.ResourceName]Amount `json:"maxResources,omitempty"`
	// AllowedTolerations are keys of taints that a claim may tolerate, whole, or what they begin
	// with, which ends with '/'. Those of the control plane nobody may. Default none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	AllowedTolerations []string `json:"allowedTolerations,omitempty"`
	// AllowedPriorityClasses that a claim may name for its server, which may take other pods
	// their place. Default none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedPriorityClasses []string `json:"allowedPriorityClasses,omitempty"`
	// RequirePasswordSecret refuses passwords that are written into claims, where whoever
	// may read claims reads them. Default false.
	//
	// +optional
	RequirePasswordSecret bool `json:"requirePasswordSecret,omitempty"`
	// RequirePasswordLabel refuses Secrets without the label otus.homework/password:
	// "true". Without it, who may write claims has the value of any Secret of the
	// namespace brought into a server of their choice. Default false.
	//
	// +optional
	RequirePasswordLabel bool `json:"requirePasswordLabel,omitempty"`
	// AllowPlaintext is for images of servers that can do no TLS, as allowedImages has them:
	// they get no certificate, root's password goes to them as anybody in between can read
	// or ask for it, and their claims say so. Default none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	AllowPlaintext []string `json:"allowPlaintext,omitempty"`
	// CertificateIssuer signs the certificates of servers. Unset has each server get an
	// authority of its own.
	//
	// +optional
	CertificateIssuer *IssuerReference `json:"certificateIssuer,omitempty"`
	// MinPasswordLength of root's password, in characters. Default 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MinPasswordLength int32 `json:"minPasswordLength,omitempty"`
	// LegacyPassword says what a Database of type mysql gets that names no Secret: Refuse
	// (the default: a password that the controller makes, and that the connection Secret
	// has) or Allow (my_passwd, as the original operator, which everybody knows).
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Refuse
	LegacyPassword LegacyPassword `json:"legacyPassword,omitempty"`
	// BackupStores are the BackupStores that claims may name, and Volume, if they may ask
	// for a volume of the cluster. The default one need not be among them.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	BackupStores []string `json:"backupStores,omitempty"`
	// DefaultBackupStore of claims that name none, also of those that run. Unset is a
	// volume of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DefaultBackupStore string `json:"defaultBackupStore,omitempty"`
	// ImportServers are the servers that claims may import a database from: a host as a claim
	// writes it, or *. and a domain for each name in it, and after a colon its port, if that
	// is not 3306. The Job of such a claim may reach that port of any address out of the
	// claim's namespace. Default none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ImportServers []string `json:"importServers,omitempty"`
	// CoreWatches says that Crossplane's core is 2.4 or newer, which watches what functions
	// look up. Instances to which nothing happens are then looked at every few minutes, and
	// not each minute: an earlier core would see a changed Secret that late. Default false.
	//
	// +optional
	CoreWatches bool `json:"coreWatches,omitempty"`
	// MaxBackups is how many backups the schedule of a claim and backup.keepFor may keep. Default 1000, and never more than
	// 250 on a volume, whose annotations have an entry of each.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxBackups int32 `json:"maxBackups,omitempty"`
	// MinBackupInterval is the shortest time between two backups of a schedule, in minutes. Default 15: each backup
	// is a whole copy, which is read again.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1440
	MinBackupInterval int32 `json:"minBackupInterval,omitempty"`
	// ReusableNamespaces are the names of namespaces in which an instance may restore a
	// backup that was taken in an earlier namespace of the same name, which may have had
	// another owner; the controller gives such an instance the volume of that backup.
	// '*' is each namespace. Default none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	ReusableNamespaces []string `json:"reusableNamespaces,omitempty"`
}

// An IssuerReference names an issuer of cert-manager. It has to say which CA it is of, as
// those of the types CA and Vault do, and signs for the names of Services.
type IssuerReference struct {
	// Name of the issuer.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Kind of the issuer: Issuer (the default), of the controller's namespace, ClusterIssuer,
	// or that of an external issuer.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Group of the kind. Default cert-manager.io.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// WithDefaults for what is not said.
func (r *IssuerReference) WithDefaults() IssuerReference {
	return IssuerReference{Name: r.Name, Kind: cmp.Or(r.Kind, "Issuer"), Group: cmp.Or(r.Group, "cert-manager.io")}
}

// String names it, as people read it.
func (r *IssuerReference) String() string {
	full := r.WithDefaults()
	return full.Kind + "." + full.Group + "/" + full.Name
}

// A LegacyPassword says whether Databases may have the password of the original operator.
type LegacyPassword string

// Values of LegacyPassword.
const (
	LegacyPasswordAllow  LegacyPassword = "Allow"
	LegacyPasswordRefuse LegacyPassword = "Refuse"
)

// DefaultServiceAnnotations are allowed where the platform does not say it.
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

// AllowsImage is true for an image of a server.
func (s *MySQLPlatformSpec) AllowsImage(image string) bool {
	return s.AllowedImages == nil || isListed(*s.AllowedImages, image)
}

// AllowsPlaintext to a server of an image.
func (s *MySQLPlatformSpec) AllowsPlaintext(image string) bool {
	return isListed(s.AllowPlaintext, image)
}

// isListed is true for an image of which a list has the whole name, or its beginning.
func isListed(list []string, image string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		rest, begins := strings.CutPrefix(image, entry)
		switch {
		case !begins || rest == "":
			return begins
		case strings.HasSuffix(entry, "/"):
			return true
		}
		// After mysql: there is a tag, or a port where there is a path, too: mysql:5000/other is of another registry.
		return (strings.HasSuffix(entry, ":") || strings.HasSuffix(entry, "@")) && !strings.Contains(rest, "/")
	})
}

// AllowsServiceType is true for a type that claims may ask for.
func (s *MySQLPlatformSpec) AllowsServiceType(of ServiceType) bool {
	return len(s.AllowedServiceTypes) == 0 || slices.Contains(s.AllowedServiceTypes, of)
}

// AllowsServiceAnnotation is true for a key that claims may set.
func (s *MySQLPlatformSpec) AllowsServiceAnnotation(key string) bool {
	allowed := DefaultServiceAnnotations()
	if s.AllowedServiceAnnotations != nil {
		allowed = *s.AllowedServiceAnnotations
	}
	return hasKey(allowed, key)
}

// AllowsToleration of a taint with a key.
func (s *MySQLPlatformSpec) AllowsToleration(key string) bool {
	return hasKey(s.AllowedTolerations, key)
}

// hasKey is true of a key that a list has, or its beginning.
func hasKey(list []string, key string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return entry == key || strings.HasSuffix(entry, "/") && strings.HasPrefix(key, entry)
	})
}

// BackupStore that a spec means: its own word, or the default; empty for a volume. False where the word is not
// allowed.
func (s *MySQLPlatformSpec) BackupStore(spec *BackupSpec) (store string, allowed bool) {
	if store, allowed = s.DefaultBackupStore, true; spec.Store != nil {
		store = *spec.Store
		allowed = s.OffersBackupStore(store) || store == StoreVolume && s.DefaultBackupStore == ""
	}
	if store == StoreVolume {
		store = ""
	}
	return store, allowed
}

// Bounds of backups of one claim. A PersistentVolume has at most 256 KiB of annotations, and the entry of a
// backup takes up to 870 bytes of them.
const (
	maxBackupsInStore  = 1000
	maxBackupsOnVolume = 250
)

// MostBackups returns how many backups a claim may keep by its schedule, in a store or on a volume.
func (s *MySQLPlatformSpec) MostBackups(inStore bool) int64 {
	most := int64(maxBackupsOnVolume)
	if inStore {
		most = maxBackupsInStore
	}
	if s.MaxBackups > 0 {
		return min(most, int64(s.MaxBackups))
	}
	return most
}

// minBackupInterval in minutes, unless the platform says otherwise.
const minBackupInterval = 15

// LeastBackupInterval returns the shortest time that a schedule may have between two backups.
func (s *MySQLPlatformSpec) LeastBackupInterval() time.Duration {
	return time.Duration(cmp.Or(s.MinBackupInterval, minBackupInterval)) * time.Minute
}

// OffersBackupStore of this name to claims.
func (s *MySQLPlatformSpec) OffersBackupStore(name string) bool {
	return slices.Contains(s.BackupStores, name) || name == s.DefaultBackupStore
}

// AllowsImport of the database of a server.
func (s *MySQLPlatformSpec) AllowsImport(of *ImportedServer) bool {
	host := of.Host
	return slices.ContainsFunc(s.ImportServers, func(entry string) bool {
		name, port, has := strings.Cut(entry, ":")
		if !has {
			port = strconv.Itoa(int(DefaultPort))
		}
		if port != strconv.Itoa(int(of.ServerPort())) {
			return false
		}
		domain, wild := strings.CutPrefix(name, "*.")
		if !wild {
			return strings.EqualFold(name, host)
		}
		return len(host) > len(domain)+1 && strings.EqualFold(host[len(host)-len(domain)-1:], "."+domain)
	})
}

// AllowsReuse of a namespace's name.
func (s *MySQLPlatformSpec) AllowsReuse(namespace string) bool {
	return slices.Contains(s.ReusableNamespaces, namespace) || slices.Contains(s.ReusableNamespaces, "*")
}
