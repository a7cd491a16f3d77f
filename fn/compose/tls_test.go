package compose

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// uncertified sets the status of an instance without a certificate.
func uncertified(in *Input) { in.XR.Status.Authorities = "" }

// plaintext makes the Platform allow unencrypted connections for the image of the tests.
func plaintext(in *Input) {
	platform(func(s *v1.PlatformSpec) { s.AllowedPlaintextImages = []string{"mysql:"} })(in)
}

// TestCertificate checks that a new server mounts a certificate, and that its first start waits for the certificate.
func TestCertificate(t *testing.T) {
	requires := func(required bool) func(*Input) { return func(in *Input) { in.XR.Spec.RequireTLS = new(required) } }
	usually := func(in *Input) { in.Settings.RequireTLS = true }
	ran := func(in *Input) {
		inUse(in)
		in.XR.Status.Started = true
	}
	cases := map[string]struct {
		reason                       string
		in                           Input
		runs, hasCertificate, claims bool
		demands                      bool
	}{
		"New": {reason: "The pod must mount the certificate, and my.cnf must contain its path.",
			in: given(), runs: true, hasCertificate: true,
			claims: true},
		"Waits": {reason: "The server must not start without a certificate, and its template must not depend on the status.",
			in: given(uncertified), hasCertificate: true,
			claims: true},
		"Demanded": {reason: "The claim requires TLS.", in: given(requires(true)), runs: true, hasCertificate: true,
			claims: true, demands: true},
		"Usual": {reason: "The platform requires TLS, and the claim does not set requireTLS.", in: given(usually), runs: true,
			hasCertificate: true, claims: true, demands: true},
		"NotDemanded": {reason: "The requireTLS of the claim must take precedence.",
			in: given(usually, requires(false)), runs: true,
			hasCertificate: true, claims: true},
		"Plaintext": {reason: "The platform allows plaintext connections for this image.", in: given(plaintext), runs: true},
		"PlaintextAlone": {reason: "An instance without TLS must not wait for a certificate.",
			in:   given(plaintext, uncertified, usually),
			runs: true},
		"Earlier": {reason: "A server that an earlier release started without a certificate must not be stopped.",
			in: given(ran, uncertified), runs: true},
		"Lost": {reason: "The status was lost, but the server's pod mounts the certificate.",
			runs: true, hasCertificate: true, claims: true,
			in: given(ran, uncertified, func(in *Input) {
				in.Observed.Template.Certified = true
			})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			d := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment)
			if runs := *d.Spec.Replicas == 1; runs != tc.runs {
				t.Errorf("%s want it to run: %t, got %t: %s", tc.reason, tc.runs, runs, out.Status.Message)
			}
			if !tc.runs && !strings.Contains(out.Status.Message, "db-tls") {
				t.Errorf("want the name of the Secret that is waited for, got %q", out.Status.Message)
			}
			pod := d.Spec.Template.Spec
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == TLSVolume })
				if want := tc.hasCertificate && c.Image == v1.DefaultImage; mounts != want {
					t.Errorf("%s want it in container %s: %t, got %t", tc.reason, c.Name, want, mounts)
				}
			}
			config := out.Resources[v1.ResourceConfig].Object.(*corev1.ConfigMap).Data[v1.ConfigKey]
			if configured := strings.Contains(config,
				"\nssl_ca = /etc/crossplane-mysql/tls/ca.crt\nssl_cert = /etc/crossplane-mysql/tls/tls.crt\nssl_key = "+
					"/etc/crossplane-mysql/tls/tls.key\n"); configured != tc.hasCertificate {
				t.Errorf("%s want it in my.cnf: %t, got %s", tc.reason, tc.hasCertificate, config)
			}
			if demands := strings.Contains(config, "\nrequire_secure_transport = ON\n"); demands != tc.demands {
				t.Errorf("%s want it demanded: %t, got %s", tc.reason, tc.demands, config)
			}
			if out.Status.Certified != tc.claims {
				t.Errorf("%s want the status to say that the pod has it: %t", tc.reason, tc.claims)
			}
		})
	}
}

// TestCertificateWaits checks that the chosen backup is kept while the instance waits for a certificate.
func TestCertificateWaits(t *testing.T) {
	out := composed(t, given(uncertified, chosenBefore(v1.RestoreSucceeded), hasPVC))
	if out.Status.Started || out.Status.Restore == nil || out.Status.Restore.Backup != "chosen" {
		t.Errorf("want the backup kept, and no start, got %+v", out.Status)
	}
}

// TestCertificateIsRefused checks that the message says why the controller cannot create a certificate.
func TestCertificateIsRefused(t *testing.T) {
	out := composed(t, given(uncertified, func(in *Input) {
		in.XR.Status.Credentials = &v1.CredentialsStatus{State: v1.CredentialsFailed, Message: "it is not let in"}
	}))
	if !strings.HasSuffix(out.Status.Message, "db-tls: it is not let in") {
		t.Errorf("it says %q", out.Status.Message)
	}
}

// TestCertificateLater checks that a server of an earlier release gets a certificate at its next restart. Until then,
// the status reports that it has none.
func TestCertificateLater(t *testing.T) {
	out := composed(t, given(madeEarlier(t)))
	if d := out.Resources[v1.ResourceDeployment]; d.AsObserved == nil || out.Status.Certified {
		t.Errorf("want the pod as it is, without certificate, got %v, %t", d.AsObserved, out.Status.Certified)
	}
}

// TestRequireTLSIsRefused checks that requireTLS is refused if no client could log in, or if a setting contradicts
// it.
func TestRequireTLSIsRefused(t *testing.T) {
	demanded := func(in *Input) { in.XR.Spec.RequireTLS = new(true) }
	set := func(key, value string) func(*Input) {
		return func(in *Input) { in.XR.Spec.Config = map[string]v1.Setting{key: v1.Setting(value)} }
	}
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"Plaintext": {reason: "An instance without a certificate cannot require TLS.",
			in: given(plaintext, demanded), want: "spec.requireTLS"},
		"Off": {reason: "The setting would override requireTLS, because mysqld uses the last value.",
			in:   given(demanded, set("require_secure_transport", "OFF")),
			want: "require_secure_transport"},
		"Skip": {reason: "The prefix skip would turn require_secure_transport off.",
			in:   given(demanded, set("skip-require-secure-transport", "ON")),
			want: "skip-require-secure-transport"},
		"On": {reason: "The setting is the same as requireTLS.",
			in: given(demanded, set("require_secure_transport", "ON"))},
		"Free": {reason: "The claim does not require TLS.", in: given(set("require_secure_transport", "OFF"))},
		"Key": {reason: "The function sets the key of the certificate.",
			in: given(set("ssl_key", "server-key.pem")), want: "ssl_key"},
		"Skipped": {reason: "The server would have no TLS at all.", in: given(set("skip_ssl", "")), want: "skip_ssl"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tryCompose(t, tc.in)
			refusal := (*Refusal)(nil)
			if errors.As(err, &refusal) != (tc.want != "") || tc.want != "" && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s want a refusal that names %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

// TestTLSWarning checks the warnings about a server that clients cannot verify, and about its certificate.
func TestTLSWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		in   Input
		want string
	}{
		"Fine": {given(serving), "Running"},
		"Plaintext": {given(serving, plaintext),
			"Running. root's password is sent to this server without encryption and without verifying the server. An " +
				"attacker in the network could read the password. The platform allows this for the image " +
				"(allowedPlaintextImages)"},
		"Message": {given(serving, func(in *Input) { in.XR.Status.TLS = &v1.TLSStatus{Message: "restart it"} }), "Running. restart it"},
		"Issuer": {given(serving, func(in *Input) { in.XR.Status.TLS = &v1.TLSStatus{IssuerMessage: "ask for approval"} }),
			"Running. ask for approval"},
	} {
		if got := composed(t, tc.in).Status.Message; got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

// serving changes an Input so that the server accepts clients and the connection Secret exists.
func serving(in *Input) {
	inUse(in)
	in.XR.Status.Started = true
	in.Observed.Deployment.Status = appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 1}
	in.Observed.Service = &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}
	in.Required.Connection.Items = []corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelXR: string(testInstance)}},
			Data: map[string][]byte{"username": []byte("root")}}}
}
