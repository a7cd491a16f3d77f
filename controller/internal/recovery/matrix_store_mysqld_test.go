//go:build mysqld

package recovery_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// A requestFault is a way in which a request to the simulated store fails.
type requestFault int

const (
	noFault requestFault = iota
	// isReset closes the connection before the store receives the request. isLost closes the connection after the
	// store has performed the request.
	isReset
	isLost
	// isDenied and isBusy make the store respond with an error.
	isDenied
	isBusy
)

// A faultyStore is an S3 server whose requests a test can make fail.
type faultyStore struct {
	settings store.Settings

	mu sync.Mutex
	// choose returns how a request fails. If it is nil, no request fails.
	choose func(r *http.Request) requestFault
}

// fail makes all requests fail in the given way.
func (s *faultyStore) fail(f requestFault) { s.failBy(func(*http.Request) requestFault { return f }) }

func (s *faultyStore) failBy(choose func(r *http.Request) requestFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose = choose
}

func (s *faultyStore) faultOf(r *http.Request) requestFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.choose == nil {
		return noFault
	}
	return s.choose(r)
}

// A network simulates the network between the archiver and the server. A test can cut it.
type network struct {
	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

var errCut = errors.New("the network is cut")

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	isCut := n.isCut
	n.mu.Unlock()
	if isCut {
		return nil, errCut
	}
	c, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	out := &cuttable{Conn: c, network: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		n.open = map[net.Conn]bool{}
	}
	n.open[c] = true
	return out, nil
}

// A cuttable is a connection that discards received data while the network is cut.
type cuttable struct {
	net.Conn

	network *network
}

// Read discards the received data while the network is cut. It then waits until the connection is closed.
func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for err == nil && c.network.hasCut() {
		time.Sleep(10 * time.Millisecond)
		_, err = c.Conn.Read(p[:1])
	}
	return n, err
}

func (n *network) hasCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isCut
}

// cut simulates a network failure: it closes all connections and refuses new ones.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = true
	for c := range n.open {
		_ = c.Close()
	}
	n.open = nil
}

func (n *network) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = false
}

// Names of the BackupStore and of the namespace of its Secrets.
const (
	storeName = "offsite"
	ownSpace  = "system"
)

// A clusterReader is a client.Reader for a simulated cluster with one BackupStore and its Secrets.
type clusterReader struct {
	client.Reader

	store   *v1.BackupStore
	secrets map[string]*corev1.Secret
}

// Get implements client.Reader.
func (r clusterReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch o := object.(type) {
	case *v1.BackupStore:
		if key.Name == r.store.Name {
			r.store.DeepCopyInto(o)
			return nil
		}
	case *corev1.Secret:
		if s := r.secrets[key.Name]; s != nil && key.Namespace == ownSpace {
			s.DeepCopyInto(o)
			return nil
		}
	}
	return kerrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

// List implements client.Reader.
func (r clusterReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if all, ok := list.(*v1.BackupStoreList); ok {
		all.Items = []v1.BackupStore{*r.store.DeepCopy()}
	}
	return nil
}

// newCluster returns a stores.Cluster with one BackupStore, which has these settings and keys.
func newCluster(s store.Settings, key store.SigningKey, identity *age.X25519Identity) stores.Cluster {
	r := clusterReader{store: &v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: storeName},
		Spec: v1.BackupStoreSpec{Endpoint: s.Endpoint, Bucket: s.Bucket, Prefix: s.Prefix, Region: s.Region,
			PathStyle: s.PathStyle, CABundle: s.CA, CredentialsSecretRef: &v1.LocalSecret{Name: "credentials"},
			KeySecretRef: v1.LocalSecret{Name: "key"}, Recipients: []string{identity.Recipient().String()}}},
		secrets: map[string]*corev1.Secret{
			"credentials": {ObjectMeta: metav1.ObjectMeta{Name: "credentials"}, Data: map[string][]byte{
				v1.StoreAccessKey: []byte(s.AccessKey), v1.StoreSecretKey: []byte(s.SecretKey)}},
			"key": {ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{
				v1.StoreSigningKey: []byte(key.Text()), v1.StoreIdentity: []byte(identity.String())}},
		}}
	return stores.Cluster{Reader: r, Namespace: ownSpace, Clock: time.Now}
}

// A plainSource reads the archived log directly from the bucket. In a cluster, pods read it through a gateway.
type plainSource struct {
	*stores.Store

	identity *age.X25519Identity
}

// Open implements recovery.Source.
func (s plainSource) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	return s.Read(ctx, key, 0)
}

// Decrypt implements recovery.Source.
func (s plainSource) Decrypt(_ context.Context, _ string, raw io.Reader) (io.Reader, error) {
	return age.Decrypt(raw, s.identity)
}

// objects returns the objects of a timeline by the last part of their keys.
func objects(t *testing.T, s *stores.Store, prefix string) map[string][]byte {
	t.Helper()
	all, err := s.List(t.Context(), prefix, 100_000)
	must(t, err)
	out := map[string][]byte{}
	for _, o := range all {
		f, err := s.Read(t.Context(), o.Key, 0)
		must(t, err)
		raw, err := io.ReadAll(f)
		must(t, errors.Join(err, f.Close()))
		out[path.Base(o.Key)] = raw
	}
	return maps.Clone(out)
}
