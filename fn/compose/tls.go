package compose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/mycnf"
)

const (
	// TLSVolume is the name of the volume with the server's certificate.
	TLSVolume = "tls"
	// tlsPath is the mount path of TLSVolume.
	tlsPath = "/etc/crossplane-mysql/tls"
)

// isCertified reports whether a new pod mounts a certificate. A server that has never started always mounts it, so
// that its template does not change later. Its first start waits for the certificate.
func isCertified(s *serverInput) bool {
	return mayBeCertified(s) && (!s.started || s.hasCertificate)
}

// hasCertificate reports whether the controller has created a certificate, or the running pod was created with one.
// The pod keeps its certificate even if the status is lost.
func hasCertificate(in Input, started bool) bool {
	t := in.Observed.Template
	return in.XR.Status.Authorities != "" || started && t != nil && t.Certified
}

// mayBeCertified reports whether the server needs a certificate, so that clients can verify it before they log in.
func mayBeCertified(s *serverInput) bool {
	return s.engine.password && !s.platform.AllowsPlaintext(s.templateInput.Image)
}

// blockUntilCertified delays the first start of a server until there is a certificate.
func blockUntilCertified(r *resolved, s start) start {
	if s.replicas == 0 || r.started || !mayBeCertified(r.serverInput) || r.hasCertificate {
		return s
	}
	reason := ". Check that the controller is running, and that the controller and the function have the same release"
	if c := r.XR.Status.Credentials; c != nil && c.State == v1.CredentialsFailed {
		reason = ": " + c.Message
	}
	held := blockServer(v1.ReasonWaiting, "Waiting for the controller to create the server's certificate in Secret %s%s",
		qualifiedName(r.instance.Namespace, r.instance.TLSSecretName()), reason)
	held.restore = s.restore
	return held
}

// requiresTLS reports whether a server refuses unencrypted connections.
func requiresTLS(s *serverInput) bool {
	if s.templateInput.RequireTLS != nil {
		return *s.templateInput.RequireTLS
	}
	return s.requireTLS && mayBeCertified(s)
}

// checkRequireTLS refuses requireTLS if it would lock out all clients, and settings that contradict it.
func checkRequireTLS(r *resolved, spec *field.Path) (errs field.ErrorList) {
	if !requiresTLS(r.serverInput) {
		return nil
	}
	if !mayBeCertified(r.serverInput) {
		errs = append(errs, field.Forbidden(spec.Child("requireTLS"),
			"a server with this image has no certificate, because the platform allows plaintext connections for the image "+
				"(allowedPlaintextImages). Remove requireTLS, or choose another image"))
	}
	for key, value := range r.spec.Config {
		if name, modified := mycnf.OptionName(key); name == "require_secure_transport" &&
			(modified || !slices.Contains([]string{"on", "1", "true"}, strings.ToLower(string(value)))) {
			errs = append(errs, field.Forbidden(spec.Child("config").Key(clipText(key)),
				"contradicts requireTLS, which this claim or the platform sets. Remove it"))
		}
	}
	return errs
}

// tlsFiles maps each setting to the key of the Secret with its file. A server does not reload a certificate that it
// cannot verify with ssl_ca (sql/ssl_init_callback.cc in MySQL). Setting ssl_ca does not make it require client
// certificates.
var tlsFiles = []struct{ setting, key string }{{"ssl_ca", v1.CAKey}, {"ssl_cert", corev1.TLSCertKey},
	{"ssl_key", corev1.TLSPrivateKeyKey}}

// tlsConfig returns the lines of my.cnf for TLS.
func tlsConfig(s *serverInput) string {
	if !isCertified(s) {
		return ""
	}
	out := make([]string, 0, len(tlsFiles)+1)
	for _, f := range tlsFiles {
		out = append(out, f.setting+" = "+tlsPath+"/"+f.key+"\n")
	}
	if requiresTLS(s) {
		out = append(out, "require_secure_transport = ON\n")
	}
	return strings.Join(out, "")
}

// tlsMount mounts the certificate and its key, which only the server's group can read. It mounts no other key of the
// Secret, which may also contain the key of a requested certificate.
func tlsMount(s *serverInput) mounted {
	items := make([]corev1.KeyToPath, 0, len(tlsFiles))
	for _, f := range tlsFiles {
		items = append(items, corev1.KeyToPath{Key: f.key, Path: f.key})
	}
	return mounted{
		corev1.Volume{Name: TLSVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: s.instance.TLSSecretName(), DefaultMode: new(int32(0o440)), Items: items,
		}}},
		[]corev1.VolumeMount{{Name: TLSVolume, MountPath: tlsPath, ReadOnly: true}},
	}
}

// tlsWarning returns the problem with the server's certificate, or "".
func tlsWarning(r *resolved) string {
	if r.engine.password && !mayBeCertified(r.serverInput) {
		return "root's password is sent to this server without encryption and without verifying the server. An attacker " +
			"in the network could read the password. The platform allows this for the image (allowedPlaintextImages)"
	}
	return r.XR.Status.TLS.Warning()
}
