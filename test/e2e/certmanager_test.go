//go:build certmanager

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

const systemNamespace = "crossplane-mysql-system"

// TestCertManager checks a server whose certificate cert-manager signs with an intermediate CA. The server starts
// once the Issuer exists, and clients verify it with the CA. The certificate is renewed while clients log in. After
// the test, no objects are left.
func TestCertManager(t *testing.T) {
	framework.SetPlatform(t, "certificateIssuer", map[string]any{"name": "between"})
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["writeConnectionSecretToRef"] = map[string]any{"name": "for-clients"}
	s.Create(t)
	s.Says(t, "cert-manager (certificateIssuer), which is not installed")
	startCertManager(t)
	s.Says(t, "Issuer.cert-manager.io/between")
	if pod, err := s.Pods().FindServer(t.Context()); err == nil {
		t.Errorf("server %s runs without a certificate", pod.Name)
	}
	root := newIssuer(t, "between")
	s.Client().SeesVersion(t)

	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if issuer, _, _ := unstructured.NestedString(xr.Object, "status", "tls",
		"issuer"); issuer != "Issuer.cert-manager.io/between" {
		t.Errorf("the certificate is of %q", issuer)
	}
	if _, err := framework.Exec(t.Context(), s.Namespace, "client", string(root), "sh", "-c",
		"cat >/tmp/root.crt"); err != nil {
		t.Fatal(err)
	}
	if err := logInWith(t.Context(), s, "--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=/tmp/root.crt"); err != nil {
		t.Errorf("a client that knows the CA alone: %v", err)
	}
	authorities := &corev1.SecretList{}
	if err := framework.Suite.Kube.List(t.Context(), authorities, client.InNamespace(systemNamespace),
		client.MatchingLabels{"crossplane-mysql.io/xr": string(xr.GetUID())}); err != nil || len(authorities.Items) > 0 {
		t.Errorf("want no authority of its own, got %d, %v", len(authorities.Items), err)
	}
	certificateIsRenewed(t, s, publishedAuthorities(t, s.Namespace, "for-clients"))
	s.Set(t, map[string]any{"password": "another"})
	s.Client().Connects(t, "another")
	s.Delete(t)
	framework.Eventually(t, "the end of what the issuer was asked", func(ctx context.Context) error {
		requests := &unstructured.UnstructuredList{}
		requests.SetAPIVersion("cert-manager.io/v1")
		requests.SetKind("CertificateRequestList")
		if err := framework.Suite.Kube.List(ctx, requests, client.InNamespace(systemNamespace)); err != nil {
			return err
		}
		if n := len(requests.Items); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// startCertManager starts cert-manager and stops it when the test ends.
func startCertManager(t *testing.T) {
	t.Helper()
	program := builds(t, "certmanager", "github.com/cert-manager/cert-manager", "deploy/crds")
	c := exec.CommandContext(t.Context(), program, framework.Suite.Kubeconfig)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	log := &strings.Builder{}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Wait()
		if t.Failed() {
			t.Logf("cert-manager:\n%s", log)
		}
	})
}

// newIssuer creates an Issuer with an intermediate CA, and returns the certificate of the root CA.
func newIssuer(t *testing.T, name string) []byte {
	t.Helper()
	authority := func(name string) *x509.Certificate {
		return &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(1, 0, 0),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
	}
	sign := func(c, parent *x509.Certificate, signer, key *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		made, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return made, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	root, rootPEM := sign(authority("root"), authority("root"), keys[0], keys[0])
	_, between := sign(authority(name), root, keys[0], keys[1])
	raw, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "ca-" + name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       append(between, rootPEM...),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), "ca.crt": rootPEM,
		},
	}
	issuer := framework.NewObject("cert-manager.io/v1", "Issuer", systemNamespace, name)
	issuer.Object["spec"] = map[string]any{"ca": map[string]any{"secretName": secret.Name}}
	framework.Make(t, secret)
	framework.Make(t, issuer)
	return rootPEM
}
