package compose

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// served returns an instance with a ready server, a successful login, and a Service of the observed type.
func served(want v1.ServiceType, observed corev1.ServiceType, extra ...func(*Input)) Input {
	in := given(server(1))
	in.XR.Spec.Service.Type = want
	in.Observed.Deployment.Status = appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 1}
	in.Observed.Config, in.Observed.RootPassword = &corev1.ConfigMap{}, &corev1.Secret{
		Data: map[string][]byte{v1.PasswordKey: []byte("secret")}}
	in.Observed.DataPVC = &corev1.PersistentVolumeClaim{
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	in.Observed.Service = &corev1.Service{
		Spec: corev1.ServiceSpec{Type: observed, ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 3306}}}}
	s := corev1.Secret{Data: map[string][]byte{"password": []byte("secret")}}
	s.Labels = map[string]string{v1.LabelXR: string(testInstance)}
	in.Required.Connection.Items = []corev1.Secret{s}
	for _, change := range extra {
		change(&in)
	}
	return in
}

func balanced(ingress ...corev1.LoadBalancerIngress) func(*Input) {
	return func(in *Input) { in.Observed.Service.Status.LoadBalancer.Ingress = ingress }
}

func unsynced(message string) func(*Input) { return func(in *Input) { in.Unsynced = message } }

func conditionServing(t *testing.T, out *Output) Condition {
	t.Helper()
	n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionServing })
	if n < 0 {
		t.Fatal("no condition Serving")
	}
	return out.Conditions[n]
}

// TestOutsideDoesNotStopServing checks that problems outside of the server are in the message, and that the instance
// stays Serving and Ready.
func TestOutsideDoesNotStopServing(t *testing.T) {
	const quota = `cannot compose resources: cannot apply composed resource "service": services "db" is forbidden: exceeded quota: q`
	waits := "Running. Service default/db has no address yet"
	cases := map[string]struct {
		reason   string
		in       Input
		says     string
		host     string
		wantType corev1.ServiceType
	}{
		"NoAddress": {reason: "No load balancer has assigned an address.",
			in:   served(v1.ServiceLoadBalancer, corev1.ServiceTypeLoadBalancer),
			says: waits, host: "db.default.svc", wantType: corev1.ServiceTypeLoadBalancer},
		"EmptyAddress": {reason: "An entry without host name and IP address is not an address.",
			in:   served(v1.ServiceLoadBalancer, corev1.ServiceTypeLoadBalancer, balanced(corev1.LoadBalancerIngress{})),
			says: waits, host: "db.default.svc", wantType: corev1.ServiceTypeLoadBalancer},
		"Address": {reason: "The endpoint must be the address of the load balancer.",
			in: served(v1.ServiceLoadBalancer, corev1.ServiceTypeLoadBalancer,
				balanced(corev1.LoadBalancerIngress{},
					corev1.LoadBalancerIngress{
						IP: "192.0.2.1"})), says: "Running", host: "192.0.2.1", wantType: corev1.ServiceTypeLoadBalancer},
		"Refused": {reason: "A quota refuses the change, so the Service must stay as it is.",
			in: served(v1.ServiceLoadBalancer, corev1.ServiceTypeClusterIP, unsynced(quota)),
			says: `Running. Service default/db does not match spec.service, because the API server refused the change: services "db" is ` +
				"forbidden: exceeded quota: q. Clients reach the server at",
			host: "db.default.svc", wantType: corev1.ServiceTypeClusterIP},
		"RefusedBack": {reason: "A quota refuses the change back to NodePort.",
			in: served(v1.ServiceNodePort, corev1.ServiceTypeLoadBalancer, balanced(corev1.LoadBalancerIngress{IP: "192.0.2.1"}),
				unsynced(
					quota)), says: "does not match spec.service", host: "db.default.svc", wantType: corev1.ServiceTypeLoadBalancer},
		"Invalid": {reason: "All node ports are in use.",
			in:   served(v1.ServiceNodePort, corev1.ServiceTypeClusterIP, unsynced("Unsynced resources: config, and service")),
			says: "the Service is invalid", host: "db.default.svc", wantType: corev1.ServiceTypeClusterIP},
		"OtherUnsynced": {reason: "The resource that Crossplane cannot apply is not the Service.",
			in:   served(v1.ServiceNodePort, corev1.ServiceTypeClusterIP, unsynced("Unsynced resources: service-account")),
			says: "Running", host: "db.default.svc", wantType: corev1.ServiceTypeNodePort},
		"Crossplane": {reason: "The message must contain the controller's warning about Crossplane.",
			in: served(v1.ServiceClusterIP, corev1.ServiceTypeClusterIP, func(in *Input) {
				in.XR.Status.CrossplaneWarning = "Crossplane cannot propagate"
			}), says: "Running. Crossplane cannot propagate", host: "db.default.svc", wantType: corev1.ServiceTypeClusterIP},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			if c := conditionServing(t, out); !c.True || !out.Ready {
				t.Errorf("%s want Serving and Ready, got %+v, ready: %t", tc.reason, c, out.Ready)
			}
			if !strings.Contains(out.Status.Message, tc.says) || tc.says == "Running" && out.Status.Message != tc.says {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, out.Status.Message)
			}
			if e := out.Status.Endpoint; e == nil || e.Host != tc.host {
				t.Errorf("%s want endpoint %q, got %+v", tc.reason, tc.host, e)
			}
			if s := out.Resources[v1.ResourceService].Object.(*corev1.Service); s.Spec.Type != tc.wantType {
				t.Errorf("%s want a Service of type %s, got %s", tc.reason, tc.wantType, s.Spec.Type)
			}
			if settled := tc.says == "Running"; out.Settled && !settled {
				t.Errorf("%s Crossplane must ask again", tc.reason)
			}
		})
	}
}

// TestRefusedServiceIsRemembered checks that the server starts with a plain Service if the API server refuses the
// requested one. That is retried only after the spec changes or the controller removes the status field.
func TestRefusedServiceIsRemembered(t *testing.T) {
	const quota = `cannot compose resources: cannot apply composed resource "service": no`
	request := func(in *Input) {
		in.Required.Platform.Items[0].Spec.AllowedServiceAnnotations = &[]string{"cloud/internal"}
		in.XR.Spec.Service = v1.ServiceSpec{Type: v1.ServiceLoadBalancer,
			Annotations: map[string]string{"cloud/internal": "true"}}
	}
	service := func(out *Output) *corev1.Service { return out.Resources[v1.ResourceService].Object.(*corev1.Service) }
	first := composed(t, given(request, unsynced(quota)))
	if s := service(first); s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Annotations) > 0 ||
		first.Status.RefusedService == nil {
		t.Fatalf("want a plain Service, got %+v, %+v", s, first.Status.RefusedService)
	}
	known := func(in *Input) { in.XR.Status.RefusedService = first.Status.RefusedService }
	if out := composed(t, given(request, known)); service(out).Spec.Type != corev1.ServiceTypeClusterIP ||
		out.Status.RefusedService == nil {
		t.Error("Crossplane is synced with the plain Service, and must not try the refused one at each call.")
	}
	if out := composed(t, given(request, known, func(in *Input) { in.XR.Spec.Service.Annotations = nil })); service(out).
		Spec.Type != corev1.ServiceTypeLoadBalancer || out.Status.RefusedService != nil {
		t.Error("Another spec.service is tried at once.")
	}
	if out := composed(t, given(request)); service(out).Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Error("Without the status field it is tried again.")
	}
	if out := composed(t, given(unsynced(quota))); out.Status.RefusedService != nil {
		t.Error("A plain Service has nothing to leave out.")
	}
	observed := func(in *Input) {
		in.Observed.Service = &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}
		in.Observed.Service.Annotations = map[string]string{"cloud/internal": "false", "other": "kept by others"}
	}
	if s := service(composed(t, given(request, known, observed))); s.Spec.Type != corev1.ServiceTypeNodePort ||
		len(s.Annotations) != 1 || s.Annotations["cloud/internal"] != "false" {
		t.Errorf("want the Service as it is, got %s %v", s.Spec.Type, s.Annotations)
	}
}

// TestWaitingSaysCrossplane checks that the message of a waiting server contains the warning about Crossplane.
func TestWaitingSaysCrossplane(t *testing.T) {
	out := composed(t, given(previous(""),
		func(in *Input) { in.XR.Status.CrossplaneWarning = "Crossplane cannot do its part" }))
	if got := out.Status.Message; !strings.HasSuffix(got, ". Crossplane cannot do its part") {
		t.Errorf("got %q", got)
	}
}

// TestOwnSecretIsRefused checks that a spec cannot name a Secret that the instance itself creates.
func TestOwnSecretIsRefused(t *testing.T) {
	i := given().XR.Instance()
	own := []string{i.ConnectionSecretName(), i.PendingSecretName(), i.RootSecretName(), i.TLSSecretName(),
		i.Accesses().Backup(), i.Accesses().Restore(), i.Accesses().Clone(), i.Accesses().RestoreTest()}
	for _, name := range own {
		ref := func(in *Input) {
			in.XR.Spec.Password, in.XR.Spec.PasswordSecretRef = nil, &v1.SecretKeySelector{Name: name, Key: "password"}
			in.Required.Password.Known = true
		}
		if _, err := tryCompose(t, given(ref)); err == nil ||
			!strings.Contains(err.Error(), "is created by this instance itself") {
			t.Errorf("%s: want a refusal, got %v", name, err)
		}
		if out, err := tryCompose(t, served(v1.ServiceClusterIP, corev1.ServiceTypeClusterIP, ref)); err != nil ||
			!strings.Contains(out.Status.Message, "Running, but spec.passwordSecretRef.name") {
			t.Errorf("%s: a server that runs goes on and says so, got %v", name, err)
		}
		account := func(in *Input) {
			in.Required.Platform.Items[0].Spec.AllowedImportServers = []string{"h:3306"}
			in.XR.Spec.Restore.Import = &v1.Import{Server: &v1.ImportedServer{Host: "h", SecretRef: v1.LocalReference{Name: name}}}
			in.Required.Import.Known = true
		}
		if _, err := tryCompose(t, given(account)); err == nil ||
			!strings.Contains(err.Error(), "is created by this instance itself") {
			t.Errorf("%s: want a refusal of the import, got %v", name, err)
		}
	}
}
