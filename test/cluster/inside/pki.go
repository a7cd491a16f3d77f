package inside

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// validity is the validity period of the certificates. New ones are created at each boot.
const validity = 365 * 24 * time.Hour

// A pki contains the certificates and tokens of one boot, as files in a directory.
type pki struct {
	dir    string
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	caPEM  []byte
	tokens strings.Builder
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) write(name, kind string, der []byte) error {
	return os.WriteFile(p.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// newPKI creates the CA, the API server's certificate and the signing key for service account tokens.
func newPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := p.makeCA(); err != nil {
		return nil, fmt.Errorf("cannot make the certificate authority: %w", err)
	}
	if err := p.makeServer(); err != nil {
		return nil, fmt.Errorf("cannot make the API server's certificate: %w", err)
	}
	if err := p.makeServiceAccountKey(); err != nil {
		return nil, fmt.Errorf("cannot make the service accounts' key: %w", err)
	}
	return p, nil
}

func (p *pki) makeCA() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	p.caKey = key
	p.ca = &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "cluster"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, p.ca, p.ca, key.Public(), key)
	if err != nil {
		return err
	}
	p.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return os.WriteFile(p.file("ca.crt"), p.caPEM, 0o600)
}

// makeServer creates one certificate for both roles of the API server: as a server, and as a client of the kubelets.
func (p *pki) makeServer() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: apiServerUser},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(serviceIP), net.ParseIP(controlIP)},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, p.ca, key.Public(), p.caKey)
	if err != nil {
		return err
	}
	if err := p.write("api.crt", "CERTIFICATE", der); err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return p.write("api.key", "PRIVATE KEY", keyDER)
}

func (p *pki) makeServiceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	if err := p.write("sa.key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)); err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return p.write("sa.pub", "PUBLIC KEY", pub)
}

// apiServerUser is bound to the role that allows the API server to call kubelets.
const apiServerUser = "kube-apiserver"

// user creates a user of the API server with a token, and returns the user's kubeconfig.
func (p *pki) user(name, group, server string) ([]byte, error) {
	token := make([]byte, 16)
	_, _ = rand.Read(token) // It never fails.
	secret := hex.EncodeToString(token)
	fmt.Fprintf(&p.tokens, "%s,%s,%s,\"%s\"\n", secret, name, name, group)
	return kubeconfig(server, p.caPEM, secret)
}

func kubeconfig(server string, ca []byte, token string) ([]byte, error) {
	const name = "cluster"
	type m = map[string]any
	return json.MarshalIndent(m{ // JSON is YAML.
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"clusters": []m{{"name": name, "cluster": m{
			"server": server, "certificate-authority-data": base64.StdEncoding.EncodeToString(ca)}}},
		"users":    []m{{"name": name, "user": m{"token": token}}},
		"contexts": []m{{"name": name, "context": m{"cluster": name, "user": name}}},
	}, "", " ")
}
