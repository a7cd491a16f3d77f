package compose

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/fieldcheck"
)

// jobPolicy returns the NetworkPolicy of Jobs, which have access to the data. Jobs may connect only to the backup
// gateway, and to a server that they clone. For a restore test, they may run an image that a tenant has chosen.
func jobPolicy(r *resolved) *networkingv1.NetworkPolicy {
	p := networkPolicy(r, r.instance.JobPolicyName(), metav1.LabelSelector{
		MatchLabels: map[string]string{v1.LabelInstance: r.instance.Key()},
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: v1.LabelComponent, Operator: metav1.LabelSelectorOpIn, Values: v1.JobComponents(),
		}},
	})
	p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	if usesStore(r) {
		p.Spec.Egress = toTheGateway()
	}
	if isCloned(r) {
		p.Spec.Egress = append(p.Spec.Egress, toTheServer(r))
	}
	if from := importUnderWay(r); from != nil && from.Server != nil {
		p.Spec.Egress = append(p.Spec.Egress, toTheSource(from.Server)...)
	}
	return p
}

// isCloned reports whether scheduled Jobs clone the server, or a Job is cloning it now.
func isCloned(r *resolved) bool {
	return r.spec.Backup.ScheduledMethod() == v1.MethodOnline || r.XR.Status.BackupUnderWay().IsOnline()
}

// toTheServer allows a Job to connect to the server that it clones.
func toTheServer(r *resolved) networkingv1.NetworkPolicyEgressRule {
	port := intstr.FromInt32(r.engine.port)
	return networkingv1.NetworkPolicyEgressRule{
		Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
		To:    []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: serverPods(r)}}},
	}
}

func serverPods(r *resolved) map[string]string {
	pods := r.instance.ServerSelector()
	pods[v1.LabelInstance] = r.instance.Key()
	return pods
}

// theBackups selects the pods of the backup Jobs of this instance, which may connect to the server to clone it.
func theBackups(r *resolved) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		v1.LabelInstance: r.instance.Key(), v1.LabelComponent: v1.ComponentBackup,
	}}}
}

// serverPolicy allows connections from the peers in the spec and from the controller. The peers may also scrape the
// metrics, because the policy cannot know which of them is Prometheus.
func serverPolicy(r *resolved) *networkingv1.NetworkPolicy {
	p := networkPolicy(r, r.instance.ServerPolicyName(), metav1.LabelSelector{MatchLabels: serverPods(r)})
	port := intstr.FromInt32(r.engine.port)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
		From:  []networkingv1.NetworkPolicyPeer{theController()},
	}}
	if isCloned(r) {
		p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, theBackups(r))
	}
	peers := r.spec.NetworkPolicy.From
	p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, peers...)
	if r.hasExporter() && len(peers) > 0 { // A rule without peers would allow every client.
		metrics := intstr.FromInt32(v1.MetricsPort)
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{{Port: &metrics}}, From: peers})
	}
	return p
}

func networkPolicy(r *resolved, name string, pods metav1.LabelSelector) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: r.meta(name, nil),
		Spec: networkingv1.NetworkPolicySpec{PodSelector: pods,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
}

// theController selects the controller as it is installed (controller/deploy).
func theController() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: "crossplane-mysql-system"}},
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelName: "crossplane-mysql"}},
	}
}

// checkNetworkPolicy refuses peers that the API server would always refuse in the NetworkPolicy.
func checkNetworkPolicy(r *resolved, path *field.Path) field.ErrorList {
	if r.spec.NetworkPolicy == nil {
		return nil
	}
	var errs field.ErrorList
	for i, peer := range r.spec.NetworkPolicy.From {
		fldPath := path.Child("from").Index(i)
		if (peer.IPBlock != nil) == (peer.PodSelector != nil || peer.NamespaceSelector != nil) {
			errs = append(errs, field.Forbidden(fldPath,
				"must have either ipBlock, or podSelector, namespaceSelector or both"))
		}
		errs = append(errs, fieldcheck.Selector(peer.PodSelector, fldPath.Child("podSelector"))...)
		errs = append(errs, fieldcheck.Selector(peer.NamespaceSelector, fldPath.Child("namespaceSelector"))...)
		if peer.IPBlock != nil {
			errs = append(errs, checkIPBlock(fldPath.Child("ipBlock"), peer.IPBlock)...)
		}
	}
	return fieldcheck.ClipErrors(errs)
}

func checkIPBlock(path *field.Path, b *networkingv1.IPBlock) field.ErrorList {
	whole, err := netip.ParsePrefix(b.CIDR)
	if err != nil || whole.Masked() != whole {
		return field.ErrorList{field.Invalid(path.Child("cidr"), clipText(b.CIDR),
			"is not a valid CIDR, such as 10.1.0.0/16")}
	}
	var errs field.ErrorList
	for i, text := range b.Except {
		part, err := netip.ParsePrefix(text)
		if err != nil || part.Masked() != part || !whole.Contains(part.Addr()) || part.Bits() <= whole.Bits() {
			errs = append(errs, field.Invalid(path.Child("except").Index(i), clipText(text),
				"is not a valid CIDR within "+whole.String()))
		}
	}
	return errs
}
