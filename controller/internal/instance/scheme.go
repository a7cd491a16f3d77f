package instance

import (
	"errors"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// NewScheme has the types that are read and written as Go types. Claims and XRs
// are not among them.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(v1.GroupVersion, &v1.MySQLBackup{}, &v1.MySQLBackupList{}, &v1.MySQLPlatform{}, &v1.MySQLPlatformList{}, &v1.BackupStore{}, &v1.BackupStoreList{})
	metav1.AddToGroupVersion(scheme, v1.GroupVersion)
	return scheme, nil
}

// NewClient of a cluster, for a person's command, which reads what there is now.
func NewClient(config *rest.Config) (client.Client, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return pagedClient{c}, nil
}

// IsPassing is true of an error that an API server that is there again will not have, nor a network. Others than a client's are taken for one.
func IsPassing(err error) bool {
	return !errors.As(err, new(kerrors.APIStatus)) || kerrors.IsTooManyRequests(err) || kerrors.IsServerTimeout(err) || kerrors.IsTimeout(err) ||
		kerrors.IsInternalError(err) || kerrors.IsServiceUnavailable(err)
}
