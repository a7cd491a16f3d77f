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

// NewScheme returns a scheme with the types that are read and written as Go types. It does not contain claims and
// XRs.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(v1.GroupVersion, &v1.BackupRecord{}, &v1.BackupRecordList{}, &v1.Platform{},
		&v1.PlatformList{}, &v1.BackupStore{}, &v1.BackupStoreList{}, &v1.Backup{}, &v1.BackupList{})
	metav1.AddToGroupVersion(scheme, v1.GroupVersion)
	return scheme, nil
}

// NewClient returns a client for commands that users run. It reads the current state without a cache.
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

// IsPassing reports whether an error is temporary, because the API server or the network is not available. Every
// error that the client did not cause is treated as temporary.
func IsPassing(err error) bool {
	return !errors.As(err, new(kerrors.APIStatus)) || kerrors.IsTooManyRequests(err) || kerrors.IsServerTimeout(err) ||
		kerrors.IsTimeout(err) ||
		kerrors.IsInternalError(err) || kerrors.IsServiceUnavailable(err)
}
