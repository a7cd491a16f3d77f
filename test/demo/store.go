package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Settings of the S3 server that the demo runs in the cluster. In production, the store would be outside of the
// cluster, because the data of this server is deleted with its pod.
const (
	storeAccess = "access"
	storeSecret = "secret-of-the-demo"
	storeBucket = "backups"
	storeImage  = "versitygw:v1.8.0"
	// storeHelper is an image with a shell, which creates the directory of the bucket.
	storeHelper = "mysql:9.7"
	gatewayDir  = "controller/deploy/gateway"
)

// storeName returns the name of the BackupStore, which is also the name of its Secrets and of its server's namespace.
func (d *demo) storeName() string { return "demo-store-" + d.namespace }

// store is the part of the demo with an object store: it backs up the instance to the store and restores the rows from
// it.
func (d *demo) store(ctx context.Context) error {
	for _, run := range []func(context.Context) error{d.startStore, d.addStore, d.chooseStore, d.removeToStore} {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return d.again(ctx)
}

// everywhere returns a kubectl whose commands do not apply to the demo's namespace, for the store and cluster-scoped
// objects.
func (d *demo) everywhere() *kubectl {
	k := *d.kube
	k.namespace = ""
	return &k
}

// startStore starts an S3 server with a bucket, in its own namespace.
func (d *demo) startStore(ctx context.Context) error {
	k := d.everywhere()
	if err := k.enter(ctx, "apply", "--server-side", "-k", gatewayDir); err != nil {
		return err
	}
	objects, err := d.storeServer()
	if err != nil {
		return err
	}
	d.stays("kubectl delete namespace " + d.storeName())
	d.screen.sayf("A store for the demo, an S3 server in a pod. A real one is elsewhere.")
	if err := k.enterCommand(ctx, command{args: []string{"apply", "-f", "-"}, stdin: objects}); err != nil {
		return err
	}
	return k.enter(ctx, "wait", "--namespace="+d.storeName(), "--for=condition=Ready", "pod/s3",
		"--timeout="+d.timeout.String())
}

// addStore creates the BackupStore and its keys.
func (d *demo) addStore(ctx context.Context) error {
	k, name := d.everywhere(), d.storeName()
	file := filepath.Join(d.cache, "store-key.yaml")
	d.screen.show("$ kubectl mysql store-key " + name + " --to store-key.yaml   # keep it where the cluster is not\n")
	if err := goRun(ctx, d.screen, nil, "./controller/kubectl-mysql", "store-key", name, "--to", file); err != nil {
		return err
	}
	recipient, err := recipientOf(file)
	if err != nil {
		return err
	}
	d.stays("kubectl delete backupstore " + name + " && kubectl delete secret --namespace " + controllerNamespace + " " +
		name + " " + name + "-credentials")
	for _, c := range []command{
		{args: []string{"apply", "-f", file}, text: "kubectl apply -f store-key.yaml"},
		{args: []string{"create", "secret", "generic", "--namespace=" + controllerNamespace, name + "-credentials",
			"--from-literal=accessKey=" + storeAccess, "--from-literal=secretKey=" + storeSecret}},
		{args: []string{"apply", "-f", "-"}, stdin: d.backupStore(recipient)},
		{args: []string{"wait", "--for=condition=Reachable", "backupstore/" + name, "--timeout=" + d.timeout.String()}},
		{args: []string{"get", "backupstore", name}},
	} {
		if err := k.enterCommand(ctx, c); err != nil {
			return err
		}
	}
	return d.allowStore(ctx)
}

// allowStore adds the demo's BackupStore to allowedBackupStores of the Platform, unless it is already in this list.
func (d *demo) allowStore(ctx context.Context) error {
	k := d.everywhere()
	out, err := k.ask(ctx, "get", platformName, "--output=jsonpath={.spec.allowedBackupStores[*]}")
	if err != nil {
		return err
	}
	allowed := strings.Fields(out)
	if slices.Contains(allowed, d.storeName()) {
		return nil
	}
	patch := fmt.Sprintf(`{"spec":{"allowedBackupStores":["%s"]}}`, strings.Join(append(allowed, d.storeName()), `","`))
	return k.enter(ctx, "patch", platformName, "--type=merge", "--patch", patch)
}

// chooseStore sets the store in the manifest, and waits until the status names it as the target of the next backup.
func (d *demo) chooseStore(ctx context.Context) error {
	if err := d.kube.enter(ctx, "patch", d.api.resource, d.name, "--type=merge", "--patch",
		fmt.Sprintf(`{"spec":{"backup":{"storeRef":{"name":%q}}}}`, d.storeName())); err != nil {
		return err
	}
	return d.kube.enter(ctx, "wait", "--for=jsonpath={.status.backups.store}="+d.storeName(), d.api.resource+"/"+d.name,
		"--timeout="+d.timeout.String())
}

// removeToStore deletes the object, and checks that its final backup is in the store.
func (d *demo) removeToStore(ctx context.Context) error {
	if err := d.delete(ctx); err != nil {
		return err
	}
	records, err := d.showBackups(ctx, "--output=wide")
	if err != nil {
		return err
	}
	newest := v1.LatestBackup(records, (*v1.BackupRecord).IsVerified)
	if newest == nil || !newest.InStore() || newest.Spec.Archive.Store != d.storeName() {
		return errors.New("the newest backup is not in the store")
	}
	d.password = d.originalPassword // The manifest is then applied again.
	return nil
}

// recipientOf returns the age recipient (public key) from the comments of a key file.
func recipientOf(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		if r := strings.TrimSpace(strings.TrimPrefix(line, "#")); strings.HasPrefix(r, "age1") {
			return r, nil
		}
	}
	return "", fmt.Errorf("%s says no recipient", file)
}

// backupStore returns the BackupStore as YAML, with the certificate of the demo's server.
func (d *demo) backupStore(recipient string) string {
	name := d.storeName()
	s := v1.BackupStore{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.KindBackupStore},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.BackupStoreSpec{
			Endpoint: "https://" + d.storeHost(), Bucket: storeBucket, Prefix: "demo", PathStyle: true, CABundle: d.certificate,
			CredentialsSecretRef: &v1.LocalSecret{Name: name + "-credentials"}, KeySecretRef: v1.LocalSecret{Name: name},
			Recipients: []string{recipient},
		},
	}
	raw, _ := yaml.Marshal(s) // All of its types can be marshaled.
	return string(raw)
}

func (d *demo) storeHost() string { return "s3." + d.storeName() + ".svc" }

// storeServer returns the objects of an S3 server with a certificate and a bucket, as YAML.
func (d *demo) storeServer() (string, error) {
	name := d.storeName()
	certificate, key, err := selfSigned(d.storeHost())
	if err != nil {
		return "", err
	}
	d.certificate = certificate
	labels := map[string]string{"app": "s3"}
	mounts := []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "tls", MountPath: "/tls", ReadOnly: true}}
	security := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	meta := metav1.ObjectMeta{Namespace: name, Name: "s3", Labels: labels}
	objects := []any{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, Type: corev1.SecretTypeTLS,
			StringData: map[string]string{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
		},
		&corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta,
			Spec: corev1.ServiceSpec{Selector: labels,
				Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(7070)}}},
		},
		&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(0)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65534)), FSGroup: new(int64(65534)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{{
				Name: "bucket", Image: storeHelper, Command: []string{"mkdir", "-p", "/data/objects/" + storeBucket, "/data/meta"},
				VolumeMounts: mounts, SecurityContext: security,
			}},
			Containers: []corev1.Container{{
				Name: "s3", Image: storeImage, Command: []string{"versitygw"}, VolumeMounts: mounts, SecurityContext: security,
				Args: []string{
					"--access", storeAccess, "--secret", storeSecret, "--port", ":7070", "--cert", "/tls/tls.crt", "--key",
					"/tls/tls.key",
					"posix", "--sidecar", "/data/meta", "/data/objects",
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s3"}}},
			},
		}},
	}
	var out strings.Builder
	for _, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "---\n%s", raw)
	}
	return out.String(), nil
}

// selfSigned returns a self-signed certificate for a host, and its key, as PEM.
func selfSigned(host string) (certificate, private string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})), nil
}
