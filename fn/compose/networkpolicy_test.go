package compose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func reachedBy(from ...networkingv1.NetworkPolicyPeer) func(*Input) {
	return func(in *Input) { in.XR.Spec.NetworkPolicy = &v1.NetworkPolicySpec{From: from} }
}

// TestNetworkPolicies checks that Jobs have no network access. Only the peers in the claim and the controller may
// connect to the server.
func TestNetworkPolicies(t *testing.T) {
	web := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	out := composed(t, given(server(1),
		reachedBy(web, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}},
			networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}})))
	jobs, ok := out.Resources[v1.ResourceJobPolicy].Object.(*networkingv1.NetworkPolicy)
	if !ok || len(jobs.Spec.Ingress)+len(jobs.Spec.Egress) > 0 || len(jobs.Spec.PolicyTypes) != 2 {
		t.Fatalf("the policy of the Jobs is %+v", jobs)
	}
	selector := jobs.Spec.PodSelector
	if diff := cmp.Diff(v1.JobComponents(), selector.MatchExpressions[0].Values); diff != "" ||
		selector.MatchLabels[v1.LabelInstance] == "" {
		t.Errorf("it is about %v: -want, +got:\n%s", selector, diff)
	}
	of2, ok := out.Resources[v1.ResourceServerPolicy].Object.(*networkingv1.NetworkPolicy)
	if !ok || len(of2.Spec.Ingress) != 1 || of2.Spec.Ingress[0].Ports[0].Port.IntVal != v1.Port {
		t.Fatalf("the policy of the server is %+v", of2)
	}
	want := []networkingv1.NetworkPolicyPeer{
		theController(),
		{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		{NamespaceSelector: &metav1.LabelSelector{}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}},
	}
	if diff := cmp.Diff(want, of2.Spec.Ingress[0].From); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, exists := composed(t, given(server(1))).Resources[v1.ResourceServerPolicy]; exists {
		t.Error("nobody asked for a policy of the server")
	}
}

// TestNetworkPolicyOnline checks that backup Jobs may connect only to the server that they clone.
func TestNetworkPolicyOnline(t *testing.T) {
	out := composed(t, given(server(1), reachedBy(), func(in *Input) {
		in.XR.Spec.Backup.Schedule = &v1.BackupSchedule{Cron: "@daily", Method: v1.MethodOnline}
	}))
	jobs, _ := out.Resources[v1.ResourceJobPolicy].Object.(*networkingv1.NetworkPolicy)
	policy, _ := out.Resources[v1.ResourceServerPolicy].Object.(*networkingv1.NetworkPolicy)
	if jobs == nil || policy == nil || len(jobs.Spec.Egress) != 1 || len(jobs.Spec.Egress[0].To) != 1 ||
		len(jobs.Spec.Ingress) > 0 {
		t.Fatalf("got %+v and %+v", jobs, policy)
	}
	if diff := cmp.Diff(&policy.Spec.PodSelector, jobs.Spec.Egress[0].To[0].PodSelector); diff != "" {
		t.Errorf("they reach others than the server: -want, +got:\n%s", diff)
	}
	if p := jobs.Spec.Egress[0].Ports; len(p) != 1 || p[0].Port.IntVal != v1.Port {
		t.Errorf("at %v", p)
	}
	from := policy.Spec.Ingress[0].From
	if last := from[len(from)-1].PodSelector; len(from) != 2 ||
		last.MatchLabels[v1.LabelComponent] != v1.ComponentBackup ||
		last.MatchLabels[v1.LabelInstance] != jobs.Spec.PodSelector.MatchLabels[v1.LabelInstance] {
		t.Errorf("the server lets %+v in", from)
	}
}

// TestNetworkPolicyOfStore checks that Jobs may connect to the gateway if there is a backup in a store, because its
// restore test needs the gateway. The next backup may be written to a volume.
func TestNetworkPolicyOfStore(t *testing.T) {
	inStore := func(r *v1.BackupRecord) { r.Spec.Archive = &v1.Archive{Store: "offsite", Path: "p", SHA256: testSum} }
	for name, tc := range map[string]struct {
		change func(*Input)
		want   int
	}{
		"InStore":  {change: record("b", 1, v1.BackupVerified, inStore), want: 1},
		"OnVolume": {change: record("b", 1, v1.BackupVerified)},
		"Others": {change: record("b", 1, v1.BackupVerified, inStore,
			func(r *v1.BackupRecord) { r.Spec.Instance.Name = "another" })},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, _ := composed(t, given(server(1), tc.change)).
				Resources[v1.ResourceJobPolicy].Object.(*networkingv1.NetworkPolicy)
			if jobs == nil || len(jobs.Spec.Egress) != tc.want {
				t.Errorf("want %d ways out, got %+v", tc.want, jobs)
			}
		})
	}
}

// TestNetworkPolicyIsWrong checks that the function refuses a peer that the API server would always refuse, and names
// its field.
func TestNetworkPolicyIsWrong(t *testing.T) {
	all := &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		reason string
		from   networkingv1.NetworkPolicyPeer
		says   string
	}{
		"Nobody": {reason: "An empty peer selects nothing.",
			says: "spec.networkPolicy.from[0]: Forbidden: must have either ipBlock"},
		"Both": {reason: "A peer with addresses must not also select pods.",
			from: networkingv1.NetworkPolicyPeer{PodSelector: all, IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}},
			says: "from[0]: Forbidden: must have either ipBlock"},
		"Label": {reason: "The key of the label is invalid.",
			from: networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}},
			says: "from[0].podSelector.matchLabels"},
		"Address": {reason: "The CIDR has host bits outside of its mask.",
			from: networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.1/8"}},
			says: `from[0].ipBlock.cidr: Invalid value: "10.0.0.1/8": is not a valid CIDR`},
		"Text": {reason: "The text is not a CIDR.",
			from: networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "all"}},
			says: "from[0].ipBlock.cidr"},
		"Outside": {reason: "The exception is outside of the CIDR.",
			from: networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"192.168.0.0/16"}}},
			says: "from[0].ipBlock.except[0]"},
		"Same": {reason: "The exception must be smaller than the CIDR.",
			from: networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.0.0.0/8"}}},
			says: "from[0].ipBlock.except[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(reachedBy(tc.from))
			if _, err := tryCompose(t, in); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s want %q, got %v", tc.reason, tc.says, err)
			}
		})
	}
}
