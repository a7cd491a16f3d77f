package compose

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// jobPolicy: Jobs have the data and speak with nobody, but for the gateway of the store that backups go to, and for the server where it
// is cloned. What they run may be an image of a
// tenant's, which is tried on a copy.
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

// isCloned is true of a server that Jobs clone, or one has begun to.
func isCloned(r *resolved) bool {
	return r.spec.Backup.Method == v1.MethodOnline || r.XR.Status.BackupUnderWay().IsOnline()
}

// toTheServer that a Job clones while it runs.
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

// theBackups are the Jobs that back this instance up.
func theBackups(r *resolved) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		v1.LabelInstance: r.instance.Key(), v1.LabelComponent: v1.ComponentBackup,
	}}}
}

// serverPolicy lets those in that the spec names, and the controller, which logs in.
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
	for _, from := range r.spec.NetworkPolicy.From {
		p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, peer(from))
	}
	return p
}

func peer(of v1.NetworkPeer) networkingv1.NetworkPolicyPeer {
	out := networkingv1.NetworkPolicyPeer{PodSelector: selector(of.PodSelector), NamespaceSelector: selector(of.NamespaceSelector)}
	if b := of.IPBlock; b != nil {
		out.IPBlock = &networkingv1.IPBlock{CIDR: b.CIDR, Except: b.Except}
	}
	return out
}

func selector(of *v1.PeerSelector) *metav1.LabelSelector {
	if of == nil {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: of.MatchLabels}
}

func networkPolicy(r *resolved, name string, pods metav1.LabelSelector) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: r.meta(name, nil),
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: pods, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
}

// theController as it is installed (controller/deploy).
func theController() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "crossplane-mysql-system"}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelName: "crossplane-mysql"}},
	}
}

// checkNetworkPolicy refuses what the API server would refuse of the NetworkPolicy, for ever.
func checkNetworkPolicy(r *resolved, path *field.Path) field.ErrorList {
	if r.spec.NetworkPolicy == nil {
		return nil
	}
	var errs field.ErrorList
	for i, peer := range r.spec.NetworkPolicy.From {
		at := path.Child("from").Index(i)
		if (peer.IPBlock != nil) == (peer.PodSelector != nil || peer.NamespaceSelector != nil) {
			errs = append(errs, field.Forbidden(at, "has either ipBlock, or podSelector and namespaceSelector, or one of these"))
		}
		for name, s := range map[string]*v1.PeerSelector{"podSelector": peer.PodSelector, "namespaceSelector": peer.NamespaceSelector} {
			if s != nil {
				errs = append(errs, metav1validation.ValidateLabels(s.MatchLabels, at.Child(name, "matchLabels"))...)
			}
		}
		if peer.IPBlock != nil {
			errs = append(errs, checkIPBlock(at.Child("ipBlock"), peer.IPBlock)...)
		}
	}
	return errs
}

func checkIPBlock(path *field.Path, b *v1.IPBlock) field.ErrorList {
	whole, err := netip.ParsePrefix(b.CIDR)
	if err != nil || whole.Masked() != whole {
		return field.ErrorList{field.Invalid(path.Child("cidr"), clipText(b.CIDR), "is not a range of addresses, such as 10.1.0.0/16")}
	}
	var errs field.ErrorList
	for i, text := range b.Except {
		part, err := netip.ParsePrefix(text)
		if err != nil || part.Masked() != part || !whole.Contains(part.Addr()) || part.Bits() <= whole.Bits() {
			errs = append(errs, field.Invalid(path.Child("except").Index(i), clipText(text), "is not a range of addresses within "+whole.String()))
		}
	}
	return errs
}
