package nsrules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

type amounts map[corev1.ResourceName]string

func list(values amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range values {
		out[name] = resource.MustParse(text)
	}
	return out
}

func ranged(item corev1.LimitRangeItem) Rules {
	return Rules{Ranges: []corev1.LimitRange{
		{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}}}
}

func quota(hard, used amounts, scopes ...corev1.ResourceQuotaScope) Rules {
	return Rules{Quotas: []corev1.ResourceQuota{
		{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard), Scopes: scopes},
			Status: corev1.ResourceQuotaStatus{Used: list(used)}}}}
}

// backupPod returns the pod of a Job that also runs a server.
func backupPod() *corev1.PodSpec {
	j := agent.NewJob(v1.Instance{}, "default", "job", v1.ComponentBackup, nil, nil, corev1.PodSpec{
		SecurityContext: agent.PodSecurity(false),
		InitContainers: []corev1.Container{
			agent.Container("clone", "image", agent.ServerMemory, agent.ServerSecurity(), nil)},
		Containers: []corev1.Container{agent.Container("backup", "image", agent.Memory, agent.Security(), nil)},
		Volumes:    []corev1.Volume{agent.ScratchVolume("data", "fast", resource.MustParse("2Gi"), nil)},
	})
	return &j.Spec.Template.Spec
}

// TestFit checks that resources are adapted to the LimitRanges, so that the defaults of a LimitRange do not cause a
// refusal. If that is impossible, the message must contain a fix.
func TestFit(t *testing.T) {
	const container = corev1.LimitTypeContainer
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{enforceLabel: "restricted"}}}
	hostPath := backupPod()
	hostPath.SecurityContext = agent.PodSecurity(true)
	server := &corev1.PodSpec{Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: list(amounts{"memory": "1Gi", "cpu": "1"})}}}}
	stops := func(r Rules) Rules { r.Server = server; return r }
	for name, tc := range map[string]struct {
		reason string
		rules  Rules
		pod    *corev1.PodSpec
		says   string
	}{
		"None": {reason: "Without rules, the pod must be accepted."},
		"DefaultMemory": {reason: "The default limit is below the request, so the pod must set its own limit.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Default: list(amounts{"memory": "64Mi"})})},
		"DefaultCPU": {reason: "The default CPU limit is below the request, so the pod must set its own limit.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Default: list(amounts{"cpu": "20m"}),
				DefaultRequest: list(amounts{"cpu": "5m"})})},
		"Larger": {reason: "The default limits are high enough for the pod.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Default: list(amounts{"memory": "8Gi", "cpu": "4"})})},
		"Min": {reason: "The requests must be raised to the minimum.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Min: list(amounts{"cpu": "100m", "memory": "256Mi"})})},
		"MinOfLimit": {reason: "The limit must be raised to the minimum as well.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Min: list(amounts{"memory": "2Gi"})})},
		"Max": {reason: "The limits must be lowered to the maximum.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Max: list(amounts{"cpu": "1", "memory": "512Mi"})})},
		"MaxTooSmall": {reason: "The maximum is below the request of the server's container, so the pod is refused.",
			rules: ranged(corev1.LimitRangeItem{Type: container, Max: list(amounts{"memory": "256Mi"})}),
			says:  "LimitRange small allows at most 256Mi of memory, but container clone needs"},
		"Ratio": {reason: "The request must be raised to meet the maximum ratio of limit to request.",
			rules: ranged(corev1.LimitRangeItem{Type: container, MaxLimitRequestRatio: list(amounts{"memory": "1", "cpu": "4"}),
				Default: list(amounts{"cpu": "2"})})},
		"RatioNoLimit": {reason: "A maximum ratio requires a limit, so the pod must set one.",
			rules: ranged(corev1.LimitRangeItem{Type: container, MaxLimitRequestRatio: list(amounts{"cpu": "2"})})},
		"Pod": {reason: "A LimitRange for pods has no defaults, so the pod cannot be adapted to it.",
			rules: ranged(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list(amounts{"memory": "256Mi"})}),
			says:  "LimitRange small allows at most 256Mi of memory, but the pod needs 1Gi"},
		"PVC": {reason: "The ephemeral volume of the pod exceeds the maximum size.",
			rules: ranged(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim,
				Max: list(amounts{"storage": "1Gi"})}), says: "allows at most 1Gi of storage, but a PersistentVolumeClaim " +
				"needs 2Gi: raise its max"},
		"PVCMin": {reason: "The ephemeral volume of the pod is smaller than the minimum size.",
			rules: ranged(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim,
				Min: list(amounts{"storage": "10Gi"})}), says: "requires at least 10Gi of storage"},

		"Pods": {reason: "The server is stopped first, so its pod must not count.",
			rules: stops(quota(amounts{"pods": "1"}, amounts{"pods": "1"}))},
		"PodsTaken": {reason: "Other pods use the whole quota, even if the server is stopped.",
			rules: stops(quota(amounts{"pods": "2"}, amounts{"pods": "3"})),
			says:  "ResourceQuota team allows 2 of pods, of which 2 is used, but 1 more is needed: raise it"},
		"NoPods": {reason: "The quota allows no pods.", rules: stops(quota(amounts{"pods": "0"}, nil)),
			says: "ResourceQuota team"},
		"Jobs": {reason: "The Job also counts, and stopping the server frees no Job.",
			rules: stops(quota(amounts{"count/jobs.batch": "5"}, amounts{"count/jobs.batch": "5"})), says: "count/jobs.batch"},
		"Requests": {reason: "The server is stopped first, so its requests must not count.",
			rules: stops(quota(amounts{"requests.memory": "1Gi", "requests.cpu": "1"},
				amounts{"requests.memory": "1Gi", "requests.cpu": "1"}))},
		"RequestsMem": {reason: "The remaining memory is less than the pod requests.",
			rules: quota(amounts{"requests.memory": "1Gi"}, amounts{"requests.memory": "900Mi"}),
			says:  "allows 1Gi of requests.memory, of which 900Mi is used, but 512Mi more is needed"},
		"Memory": {reason: "The name memory in a quota has the same meaning as requests.memory.",
			rules: quota(amounts{"memory": "1Gi"}, amounts{"memory": "900Mi"}),
			says:  "of memory"},
		"LimitsMem": {reason: "The memory limit of the pod is within the quota.", rules: quota(amounts{"limits.memory": "1Gi"}, nil)},
		"LimitsFull": {reason: "The memory limit of the pod exceeds the rest of the quota.",
			rules: quota(amounts{"limits.memory": "1Gi"}, amounts{"limits.memory": "512Mi"}), says: "of limits.memory"},
		"LimitsCPU": {reason: "A quota for limits.cpu requires a CPU limit in each container, but the pod has none.",
			rules: quota(amounts{"limits.cpu": "8"}, nil),
			says:  "limits limits.cpu, but container clone does not set it: set jobResources"},
		"PVCs": {reason: "The ephemeral volume counts as a PersistentVolumeClaim.",
			rules: quota(amounts{"persistentvolumeclaims": "2"}, amounts{"persistentvolumeclaims": "2"}),
			says:  "persistentvolumeclaims"},
		"Storage": {reason: "The size of the ephemeral volume counts.",
			rules: quota(amounts{"requests.storage": "3Gi"}, amounts{"requests.storage": "2Gi"}), says: "requests.storage"},
		"BestEffort": {reason: "The quota applies only to pods without requests and limits.",
			rules: quota(amounts{"pods": "0"}, nil, corev1.ResourceQuotaScopeBestEffort)},
		"NotEnding": {reason: "The quota applies to pods without a deadline, so it includes the pods of Jobs.",
			rules: quota(amounts{"pods": "0"}, nil, corev1.ResourceQuotaScopeNotTerminating), says: "pods"},
		"Others": {reason: "The quota counts only objects that the Job does not use.",
			rules: quota(amounts{"count/configmaps": "0", "services": "0"}, nil)},

		"Restricted": {reason: "The pods of Jobs meet the Pod Security level restricted.", rules: Rules{Namespace: restricted}},
		"RestrictedRoot": {reason: "A pod that accesses a directory on a node runs as root, which restricted does not allow.",
			rules: Rules{Namespace: restricted}, pod: hostPath,
			says: "set it to baseline"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod
			if pod == nil {
				pod = backupPod()
			}
			pod = pod.DeepCopy()
			tc.rules.Fit(pod)
			got := tc.rules.WhyRefused(pod, true)
			if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
			for _, c := range containers(pod) {
				if want := resource.MustParse("128Mi"); c.Resources.Requests.Memory().Cmp(want) < 0 ||
					c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) < 0 {
					t.Errorf("%s container %s has %v", tc.reason, c.Name, c.Resources)
				}
			}
		})
	}
}

// TestDefaultsAreExplicit checks that each container of a Job has a memory limit, so that the default limit of a
// LimitRange cannot be below its request. The function does not read LimitRanges.
func TestDefaultsAreExplicit(t *testing.T) {
	rules := ranged(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: list(amounts{"memory": "64Mi"})})
	if reason := rules.WhyRefused(backupPod(), true); reason != "" {
		t.Error(reason)
	}
}
