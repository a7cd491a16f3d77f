package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestServerIsKnown checks that clients can verify a server with the CA in its connection Secret, and that this CA
// does not verify any other server. If the claim requires TLS, the server must refuse connections without TLS.
// Clients must be able to log in continuously while the running server loads a renewed certificate.
func TestServerIsKnown(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["requireTLS"] = true
	s.Spec["writeConnectionSecretToRef"] = map[string]any{"name": "for-clients"}
	s.Create(t)
	other := s.Neighbour(t, "other")
	delete(other.Spec, "requireTLS")
	delete(other.Spec, "writeConnectionSecretToRef")
	other.Create(t)
	s.Client().SeesVersion(t)
	other.Client().SeesVersion(t)

	published := publishedAuthorities(t, s.Namespace, "for-clients")
	connection, err := s.Client().FindSecret(t.Context())
	if err != nil || string(connection.Data["ca.crt"]) != published {
		t.Errorf("want the authorities of the connection Secret published, got %q and %q, %v", connection.Data["ca.crt"],
			published, err)
	}
	verify := []string{"--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=/tmp/ca.crt"}
	if _, err := framework.Exec(t.Context(), s.Namespace, "client", published, "sh", "-c",
		"cat >/tmp/ca.crt"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason  string
		server  *framework.Server
		options []string
		refused string
	}{
		{"The certificate must contain the short name of the server.", s, verify, ""},
		{"The certificate must contain the full name of the server.", s,
			append(verify, "--host="+s.Name+"."+s.Namespace+".svc.cluster.local"), ""},
		{"The certificate of another server must be refused.", other, verify, "ERROR 2026"},
		{"The claim requires TLS.", s, []string{"--ssl-mode=DISABLED", "--get-server-public-key"}, "ERROR 3159"},
		{"The other claim does not require TLS.", other, []string{"--ssl-mode=DISABLED", "--get-server-public-key"}, ""},
	} {
		err := logInWith(t.Context(), tc.server, tc.options...)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s want %q, got %v", tc.reason, tc.refused, err)
		}
	}
	keyIsTheServers(t, s)
	certificateIsRenewed(t, s, published)
}

// logInWith logs in to the server with additional options of the mysql client.
func logInWith(ctx context.Context, s *framework.Server, options ...string) error {
	command, err := s.Client().LogIn(ctx, options...)
	if err == nil {
		_, err = framework.Exec(ctx, s.Namespace, "client", "SELECT 1", command...)
	}
	return err
}

// publishedAuthorities waits until the Secret that Crossplane publishes for clients contains the CA.
func publishedAuthorities(t *testing.T, namespace, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	framework.Eventually(t, "Secret "+name, func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
			return err
		}
		if len(secret.Data["ca.crt"]) == 0 {
			return fmt.Errorf("it has no ca.crt, but %d other keys", len(secret.Data))
		}
		return nil
	})
	return string(secret.Data["ca.crt"])
}

// keyIsTheServers checks that the private key is not in the data directory, which is backed up, and that other
// containers cannot read it.
func keyIsTheServers(t *testing.T, s *framework.Server) {
	t.Helper()
	pod := s.Pods().MustFindServer(t)
	out, err := framework.Exec(t.Context(), s.Namespace, pod.Name, "", "sh", "-c",
		"stat -L -c '%a %u %g' /etc/crossplane-mysql/tls/tls.key; id -u; id -G; ls /var/lib/mysql")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if lines[0] != "440 0 999" || lines[1] != "999" || !strings.Contains(lines[2], "999") {
		t.Errorf("want the key readable by the server's group alone, got %v", lines[:3])
	}
	for _, name := range lines[3:] {
		if strings.HasSuffix(name, "-key.pem") || strings.HasSuffix(name, "-cert.pem") {
			t.Errorf("%s is in the data directory", name)
		}
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		for _, m := range c.VolumeMounts {
			if m.Name == "tls" && c.Image != pod.Spec.Containers[0].Image {
				t.Errorf("container %s has the certificate", c.Name)
			}
		}
	}
}

// A verifier is a client that logs in 20 times a second and verifies the server's certificate each time.
type verifier struct {
	address, password string
	config            *tls.Config

	mu     sync.Mutex
	shown  map[string]int
	failed []error
}

func (v *verifier) once(ctx context.Context) {
	serial := ""
	own := v.config.Clone()
	own.VerifyConnection = func(s tls.ConnectionState) error {
		serial = s.PeerCertificates[0].SerialNumber.String()
		return nil
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.TLS, c.Logger = "root", v.password, "tcp", v.address, own, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err == nil {
		var in interface{ Close() error }
		if in, err = connector.Connect(ctx); err == nil {
			err = in.Close()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var untrusted *tls.CertificateVerificationError
	switch refusal := (*mysql.MySQLError)(nil); {
	case err == nil:
		v.shown[serial]++
	case errors.As(err, &untrusted), errors.As(err, &refusal):
		v.failed = append(v.failed, err)
	}
	// Ignore all other errors, because they come from the port forwarding.
}

// certificateIsRenewed deletes the certificate and waits for a new one while a client with the original CA logs in.
func certificateIsRenewed(t *testing.T, s *framework.Server, authorities string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authorities))
	v := &verifier{
		address: s.Client().Forward(t), password: s.Password, shown: map[string]int{},
		config: &tls.Config{RootCAs: pool, ServerName: s.Name + "." + s.Namespace + ".svc", MinVersion: tls.VersionTLS12},
	}
	end := visit(t, v.once)
	kinds := func(n int) func(context.Context) error {
		return func(context.Context) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			if len(v.shown) < n {
				return fmt.Errorf("logins by certificate: %v, failed: %v", v.shown, v.failed)
			}
			return nil
		}
	}
	framework.Eventually(t, "a login", kinds(1))
	began := s.Pods().MustFindServer(t).UID
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-tls"}}
	if err := framework.Suite.Kube.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.Annotate(t, "e2e.example.org/look", "again") // Otherwise the controller would notice it only minutes later.
	s.Eventually(t, "another certificate", kinds(2))
	framework.Eventually(t, "the word on it", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedStringMap(xr.Object, "status", "tls")
		if status["expirationTime"] == "" || status["expirationTime"] != status["presentedExpirationTime"] || status["message"] != "" {
			return fmt.Errorf("it says %v", status)
		}
		return nil
	})
	end()
	if len(v.failed) > 0 {
		t.Errorf("want each login let in, got %v", v.failed)
	}
	if s.Pods().MustFindServer(t).UID != began {
		t.Error("the server was restarted")
	}
	t.Logf("logins by certificate: %v", v.shown)
}

// TestManInTheMiddle checks a pod that receives the connections to the Service in place of the server. The pod
// presents its own certificate, uses no TLS, or offers its own key for the encryption of the password. It must not
// learn the password, and the claim must report the problem. A client without verification proves that each trick
// works.
func TestManInTheMiddle(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestServerIsKnown has clients that are led elsewhere")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().Connects(t, s.Password)
	for n, trick := range []string{"echo", "clear", "key"} {
		man := newManInTheMiddle(t, s, trick)
		man.learnsOfTheCredulous(t)
		for tries := 0; ; tries++ {
			if tries == 10 {
				t.Fatalf("nobody asked %s in %d changes: %v", trick, tries, man.log(t.Context()))
			}
			before := man.clients(t.Context())
			s.Set(t, map[string]any{"password": fmt.Sprintf("secret-%d-%d", n, tries)})
			if man.isAsked(t, before) {
				break
			}
		}
		framework.Eventually(t, "the word on who answers", func(ctx context.Context) error {
			xr, err := s.XR(ctx)
			if err != nil {
				return err
			}
			message, _, _ := unstructured.NestedString(xr.Object, "status", "internal", "credentials", "message")
			if !strings.Contains(message, "the server behind the Service of this instance did not present the certificate "+
				"of this instance, so the controller did not send the password") {
				return fmt.Errorf("it says %q", message)
			}
			return nil
		})
		man.leave(t)
		password, _, _ := unstructured.NestedString(s.Claim.Object, "spec", "password")
		s.Client().Connects(t, password)
	}
}

// A manInTheMiddle is a malicious pod that a server's Service selects, so that it receives the server's connections.
type manInTheMiddle struct {
	server *framework.Server
	trick  string
	pod    *corev1.Pod
}

func newManInTheMiddle(t *testing.T, s *framework.Server, trick string) *manInTheMiddle {
	t.Helper()
	service := &corev1.Service{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name},
		service); err != nil {
		t.Fatal(err)
	}
	p := framework.ToolboxPod(s.Namespace, "between-"+trick, "")
	p.Labels = service.Spec.Selector
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{Name: service.Spec.Ports[0].TargetPort.StrVal, ContainerPort: 3306}}
	framework.StartPod(t, p)
	playTricks(t, s.Namespace, p.Name, trick)
	return &manInTheMiddle{server: s, trick: trick, pod: p}
}

func (m *manInTheMiddle) log(ctx context.Context) []string {
	return logOfTricks(ctx, m.pod.Namespace, m.pod.Name)
}

// clients returns the number of connections that the malicious pod has received so far.
func (m *manInTheMiddle) clients(ctx context.Context) int {
	n := 0
	for _, line := range m.log(ctx) {
		if strings.HasPrefix(line, "client ") {
			n++
		}
	}
	return n
}

// learnsOfTheCredulous checks that the malicious pod's attack works: it must learn the password of a client that does
// not verify the server.
func (m *manInTheMiddle) learnsOfTheCredulous(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "what the man in the middle learns", func(ctx context.Context) error {
		options := "--get-server-public-key --enable-cleartext-plugin --user=root --password=credulous " +
			"--execute=SELECT --host=" + m.pod.Status.PodIP
		output, err := framework.Exec(ctx, m.pod.Namespace, "client", "", "sh", "-c", "mysql "+options+" 2>&1; true")
		if err != nil {
			return err
		}
		if slices.Contains(m.log(ctx), "learned "+m.trick+" credulous") {
			return nil
		}
		return fmt.Errorf("nothing; the client says %q", output)
	})
}

// isAsked reports whether the controller connects to the pod within 10 seconds. The test fails if the pod learns a
// password.
func (m *manInTheMiddle) isAsked(t *testing.T, before int) bool {
	t.Helper()
	for range 10 {
		for _, line := range m.log(t.Context()) {
			if strings.HasPrefix(line, "learned ") && line != "learned "+m.trick+" credulous" {
				t.Fatalf("it %s", line)
			}
		}
		if m.clients(t.Context()) > before {
			return true
		}
		time.Sleep(time.Second)
	}
	return false
}

// leave checks that the malicious pod has learned no password of the controller, and deletes the pod.
func (m *manInTheMiddle) leave(t *testing.T) {
	t.Helper()
	m.isAsked(t, m.clients(t.Context()))
	if err := framework.Suite.Kube.Delete(t.Context(), m.pod); err != nil {
		t.Fatal(err)
	}
}
