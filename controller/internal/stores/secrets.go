package stores

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
)

// These objects of the gateway are in the controller's namespace.
const (
	// GatewayName is the name of the gateway's Deployment and Service.
	GatewayName = "crossplane-mysql-gateway"
	// GatewaySecret contains the settings of the gateway. SignerSecret contains the keys that sign grants and
	// certificates. Only the controller has these keys.
	GatewaySecret = "crossplane-mysql-gateway"
	SignerSecret  = "crossplane-mysql-gateway-signer"
)

// These are keys of the gateway's Secrets, in addition to the TLS keys.
const (
	StoresFile = "stores.json"
	signerKey  = "signer"
	caCertKey  = "ca.crt"
	caKeyKey   = "ca.key"
)

// A GatewayState contains the existing objects of the gateway. A Secret that does not exist is nil.
type GatewayState struct {
	redact.All

	// Namespace is the controller's own namespace.
	Namespace string
	// Address is the address of the Service, or nil.
	Address         net.IP
	Signer, Gateway *corev1.Secret
	Now             time.Time
}

// NextSigner returns the Secret to create with the keys that sign grants and certificates, or nil if the Secret
// exists.
func NextSigner(s *GatewayState) (*corev1.Secret, error) {
	if s.Signer != nil {
		if _, _, err := readSigner(s.Signer); err != nil {
			return nil, fmt.Errorf("the Secret %s cannot be used: %w. Delete it: a new one is created, and running "+
				"Jobs are retried", s.Signer.Name, err)
		}
		return nil, nil //nolint:nilnil // The Secret already exists.
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	ca, err := certificate.NewAuthority(s.Now, "crossplane-mysql gateway authority")
	if err != nil {
		return nil, err
	}
	out := newSecret(s.Namespace, SignerSecret)
	out.Data = map[string][]byte{signerKey: private.Seed(), caCertKey: ca.Certificate, caKeyKey: ca.Key}
	return out, nil
}

func newSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{v1.LabelManagedBy: v1.ManagedBy}},
		Type: corev1.SecretTypeOpaque,
	}
}

func readSigner(s *corev1.Secret) (gateway.Signer, certificate.Pair, error) {
	seed := s.Data[signerKey]
	ca := certificate.Pair{Certificate: s.Data[caCertKey], Key: s.Data[caKeyKey]}
	if len(seed) != ed25519.SeedSize {
		return nil, ca, fmt.Errorf("its %s is not %d bytes", signerKey, ed25519.SeedSize)
	}
	return gateway.Signer(ed25519.NewKeyFromSeed(seed)), ca, ca.Check()
}

// NextGateway returns the gateway's Secret to write, or nil if it is up to date.
func NextGateway(s *GatewayState, open []*Store) (*corev1.Secret, error) {
	signer, ca, err := readSigner(s.Signer)
	if err != nil {
		return nil, err
	}
	raw, err := fileOf(signer, open)
	if err != nil {
		return nil, err
	}
	out := newSecret(s.Namespace, GatewaySecret)
	current := certificate.Pair{}
	if s.Gateway != nil {
		out = s.Gateway.DeepCopy()
		current = certificate.Pair{Certificate: out.Data[corev1.TLSCertKey], Key: out.Data[corev1.TLSPrivateKeyKey]}
	}
	same := bytes.Equal(out.Data[StoresFile], raw)
	if names := gatewayNames(s); ca.WhyRenew(current, s.Now, names) != "" {
		same = false
		if current, err = ca.Sign(s.Now, names); err != nil {
			return nil, err
		}
	}
	if same {
		return nil, nil //nolint:nilnil // The Secret is up to date.
	}
	out.Data = map[string][]byte{StoresFile: raw, corev1.TLSCertKey: current.Certificate,
		corev1.TLSPrivateKeyKey: current.Key}
	return out, nil
}

// gatewayNames returns the gateway's name in the cluster and its address, if it has one.
func gatewayNames(s *GatewayState) certificate.Names {
	out := certificate.Names{DNS: []string{GatewayName + "." + s.Namespace + ".svc"}}
	if s.Address != nil {
		out.IPs = []net.IP{s.Address}
	}
	return out
}

// fileOf returns the settings file of the gateway for the open stores.
func fileOf(signer gateway.Signer, open []*Store) ([]byte, error) {
	public, ok := ed25519.PrivateKey(signer).Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("the signer has no public key")
	}
	f := gateway.File{Signers: []ed25519.PublicKey{public}, Stores: map[string]gateway.StoreFile{}}
	for _, s := range open {
		f.Stores[s.Name] = s.file
	}
	return json.Marshal(f)
}
