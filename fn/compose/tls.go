package compose

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	// TLSVolume is the name of the volume with the server's certificate.
	TLSVolume = "tls"
	// tlsPath is where the server has it.
	tlsPath = "/etc/crossplane-mysql/tls"
)

// isCertified is true if a pod that is made today has a certificate. A server that nobody has started is not started without: its
// template is the one that it will have from the beginning, and is not written again when there is one.
func isCertified(s *serverInput) bool {
	return mayBeCertified(s) && (!s.started || s.hasCertificate)
}

// hasCertificate is true once the controller has made one, or had when the pod that runs was made: a status that is lost must not
// take it away.
func hasCertificate(in Input, started bool) bool {
	t := in.Observed.Template
	return in.XR.Status.TLS != nil || started && t != nil && t.Certified
}

// mayBeCertified is true for a server to which nobody may log in who has not seen its certificate.
func mayBeCertified(s *serverInput) bool {
	return s.engine.password && !s.platform.AllowsPlaintext(s.wish.Image)
}

// holdUntilCertified keeps a server from its first start before there is a certificate.
func holdUntilCertified(r *resolved, s start) start {
	if s.replicas == 0 || r.started || !mayBeCertified(r.serverInput) || r.hasCertificate {
		return s
	}
	why := "; is it running, and of this release?"
	if c := r.XR.Status.Credentials; c != nil && c.State == v1.CredentialsFailed {
		why = ": " + c.Message
	}
	held := holdServer(v1.ReasonWaiting, "Waiting for the controller to make the server's certificate, in Secret %s%s", qualifiedName(r.instance.Namespace, r.instance.TLSSecretName()), why)
	held.restore = s.restore
	return held
}

// requiresTLS is true for a server that refuses clients which do not encrypt.
func requiresTLS(s *serverInput) bool {
	if s.wish.RequireTLS != nil {
		return *s.wish.RequireTLS
	}
	return s.requireTLS && mayBeCertified(s)
}

// checkRequireTLS refuses what would lock everybody out, and a setting that says the opposite.
func checkRequireTLS(r *resolved, spec *field.Path) (errs field.ErrorList) {
	if !requiresTLS(r.serverInput) {
		return nil
	}
	if !mayBeCertified(r.serverInput) {
		errs = append(errs, field.Forbidden(spec.Child("requireTLS"), "a server of this image gets no certificate, as the platform allows plain text for it (allowPlaintext): remove it, or choose another image"))
	}
	for key, value := range r.spec.Config {
		if name, modified := optionName(key); name == "require_secure_transport" && (modified || only("no", "on", "1", "true")(string(value)) != "") {
			errs = append(errs, field.Forbidden(spec.Child("config").Key(clipText(key)), "says the opposite of requireTLS, which this claim or the platform sets: remove it"))
		}
	}
	return errs
}

// tlsFiles of the Secret, by the settings that name them. A server reads no certificate again that it cannot verify with
// ssl_ca (sql/ssl_init_callback.cc in MySQL); it asks no client for one because of that.
var tlsFiles = []struct{ setting, key string }{{"ssl_ca", v1.CAKey}, {"ssl_cert", corev1.TLSCertKey}, {"ssl_key", corev1.TLSPrivateKeyKey}}

// tlsConfig are the lines of my.cnf.
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

// tlsMount is the certificate with its key, which only the server's group may read. The Secret may have a key of a certificate
// that is not made yet, too.
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

// tlsWarning says what is wrong with how the server and its clients know each other; empty where nothing is.
func tlsWarning(r *resolved) string {
	if r.engine.password && !mayBeCertified(r.serverInput) {
		return "root's password goes to this server as anybody in between can read it or ask for it, which the platform allows for its image"
	}
	return r.XR.Status.TLS.Warning()
}
