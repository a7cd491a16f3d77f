package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// kubeVersion is the Kubernetes version for helm, which has no default version if it is built from its module.
const kubeVersion = "1.36.0"

// An object is a Kubernetes object in a manifest.
type object = map[string]any

func keyOf(o object) string {
	meta, _ := o["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	kind, _ := o["kind"].(string)
	return kind + "/" + namespace + "/" + name
}

func readObjects(t *testing.T, raw []byte) map[string]object {
	t.Helper()
	out := map[string]object{}
	for d := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		o := object{}
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o) > 0 {
			out[keyOf(o)] = o
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// helm runs helm in the repository and returns its output.
func helm(t *testing.T, args ...string) (out []byte, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), fromEnv(t, "HELM"), args...)
	c.Dir = repository
	var complaint strings.Builder
	c.Stderr = &complaint // Helm reports each symbolic link that it follows.
	out, err = c.Output()
	if err != nil {
		err = errors.Join(err, errors.New(complaint.String()))
	}
	return out, err
}

// systemNamespace is the only namespace in which the chart can be installed.
const systemNamespace = "crossplane-mysql-system"

// render renders the chart with values of the form key=value. A value in braces or brackets is JSON.
func render(t *testing.T, values ...string) (map[string]object, error) {
	t.Helper()
	set := make([]string, 0, 2*len(values))
	for _, v := range values {
		flag := "--set"
		if _, value, _ := strings.Cut(v, "="); strings.HasPrefix(value, "[") || strings.HasPrefix(value, `{"`) {
			flag = "--set-json"
		}
		set = append(set, flag, v)
	}
	out, err := helm(t, append([]string{"template", "test", "package/chart", "--namespace", systemNamespace, "--kube-version",
		kubeVersion}, set...)...)
	if err != nil {
		return nil, err
	}
	return readObjects(t, out), nil
}

func mustRender(t *testing.T, values ...string) map[string]object {
	t.Helper()
	all, err := render(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// helmLabels returns the labels that the chart adds to all its objects, and that the manifests for kubectl do not have.
func helmLabels() []string {
	return []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/version"}
}

// withoutHelm removes the metadata that the chart adds to an object. It reports whether Helm keeps the object on
// uninstallation. Only some objects in the manifests have the label app.kubernetes.io/name.
func withoutHelm(t *testing.T, o, manifest object) (isKept bool) {
	t.Helper()
	meta, _ := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	for _, name := range helmLabels() {
		if labels[name] == nil {
			t.Errorf("%s has no label %s", keyOf(o), name)
		}
		delete(labels, name)
	}
	if at(manifest, []any{"metadata", "labels", "app.kubernetes.io/name"}) == nil {
		delete(labels, "app.kubernetes.io/name")
	}
	annotations, _ := meta["annotations"].(map[string]any)
	isKept = annotations["helm.sh/resource-policy"] == "keep"
	delete(annotations, "helm.sh/resource-policy")
	for name, all := range map[string]map[string]any{"labels": labels, "annotations": annotations} {
		if len(all) == 0 {
			delete(meta, name)
		}
	}
	return isKept
}

// manifests returns the objects that kubectl applies, except the namespace, which Helm creates for the release.
func manifests(t *testing.T) map[string]object {
	t.Helper()
	out := readObjects(t, mustRead(t, filepath.Join(repository, "package", "install.yaml")))
	for _, part := range []string{"records", "controller", "gateway", "platform", "monitoring"} {
		maps.Copy(out, kustomize(t, filepath.Join("controller", "deploy", part)))
	}
	own := "Namespace//" + systemNamespace
	if out[own] == nil {
		t.Errorf("the manifests have no %s", own)
	}
	delete(out, own)
	return out
}

func kustomize(t *testing.T, dir string) map[string]object {
	t.Helper()
	return readObjects(t, rawKustomization(t, dir))
}

func rawKustomization(t *testing.T, dir string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), fromEnv(t, "KUBE"), "kubectl", "kustomize", dir)
	c.Dir = repository
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", dir, err, complaint.String())
	}
	return out
}

// everything returns values of the chart that enable all optional parts of the manifests.
func everything() []string {
	return []string{"gateway.enabled=true", "monitoring.podMonitor.enabled=true", "monitoring.prometheusRule.enabled=true",
		"monitoring.dashboard.enabled=true"}
}

// TestChartIsManifests checks that the chart installs the same objects as kubectl, apart from Helm's labels and
// annotations.
func TestChartIsManifests(t *testing.T) {
	want := manifests(t)
	got := mustRender(t, everything()...)
	maps.DeleteFunc(got, func(_ string, o object) bool {
		return at(o, []any{"metadata", "annotations", "helm.sh/hook"}) != nil
	})
	kept := []string{}
	for key, o := range got {
		if withoutHelm(t, o, want[key]) {
			kept = append(kept, key)
		}
	}
	crds, err := helm(t, "show", "crds", "package/chart")
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(got, readObjects(t, crds))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-kubectl, +helm:\n%s", diff)
	}
	slices.Sort(kept)
	if diff := cmp.Diff(outliving(), kept); diff != "" {
		t.Errorf("what stays: -want, +got:\n%s", diff)
	}
}

// outliving returns the objects of the chart that must remain when the controller is uninstalled, apart from CRDs and
// the namespace of the release.
func outliving() []string {
	return []string{
		"Configuration//crossplane-mysql-configuration-mysql", "DeploymentRuntimeConfig//crossplane-mysql-function-mysql",
		"Function//crossplane-mysql-function-mysql", "Namespace//crossplane-mysql-recovery",
		"NetworkPolicy/crossplane-system/crossplane-mysql-function-mysql", "Platform//crossplane-mysql",
		"ValidatingAdmissionPolicy//crossplane-mysql-keep-records", "ValidatingAdmissionPolicy//crossplane-mysql-no-foreground",
		"ValidatingAdmissionPolicyBinding//crossplane-mysql-keep-records",
		"ValidatingAdmissionPolicyBinding//crossplane-mysql-no-foreground",
	}
}

const (
	controllerDeployment = "Deployment/crossplane-mysql-system/crossplane-mysql"
	gatewayDeployment    = "Deployment/crossplane-mysql-system/crossplane-mysql-gateway"
	functionRuntime      = "DeploymentRuntimeConfig//crossplane-mysql-function-mysql"
)

// A component is a Deployment of the chart: the controller, the backup gateway or the function. Values such as
// resources exist for each component.
type component struct {
	name   string // The name in the values.
	object string
	budget string
	pod    []any // The path of the pod template.
}

func components() []component {
	template := []any{"spec", "template"}
	return []component{
		{"controller", controllerDeployment, "PodDisruptionBudget/crossplane-mysql-system/crossplane-mysql", template},
		{"gateway", gatewayDeployment, "PodDisruptionBudget/crossplane-mysql-system/crossplane-mysql-gateway", template},
		{"function", functionRuntime, "PodDisruptionBudget/crossplane-system/crossplane-mysql-function-mysql",
			[]any{"spec", "deploymentTemplate", "spec", "template"}},
	}
}

// ofEach prefixes a value with the name of each component, as in controller.resources.limits.memory=1Gi.
func ofEach(value string) []string {
	out := make([]string, 0, len(components()))
	for _, c := range components() {
		out = append(out, c.name+"."+value)
	}
	return out
}

// TestChartComponents checks that the values that exist for each component affect the pods of that component.
func TestChartComponents(t *testing.T) {
	container := []any{"spec", "containers", 0}
	cases := map[string]struct {
		value string // A value of the component.
		path  []any  // The path in the pod template.
		want  any
	}{
		"Args":          {"args={--debug}", append(slices.Clone(container), "args", -1), "--debug"},
		"Env":           {`env=[{"name":"HTTPS_PROXY","value":"http://proxy:3128"}]`, append(slices.Clone(container), "env", -1, "value"), "http://proxy:3128"},
		"Resources":     {"resources.limits.memory=1Gi", append(slices.Clone(container), "resources", "limits", "memory"), "1Gi"},
		"Labels":        {"podLabels.team=db", []any{"metadata", "labels", "team"}, "db"},
		"Annotations":   {"podAnnotations.a=b", []any{"metadata", "annotations", "a"}, "b"},
		"PodSecurity":   {"podSecurityContext.runAsGroup=7", []any{"spec", "securityContext", "runAsGroup"}, 7},
		"Security":      {"securityContext.runAsUser=7", append(slices.Clone(container), "securityContext", "runAsUser"), 7},
		"NodeSelector":  {"nodeSelector.disk=ssd", []any{"spec", "nodeSelector", "disk"}, "ssd"},
		"Tolerations":   {"tolerations[0].operator=Exists", []any{"spec", "tolerations", 0, "operator"}, "Exists"},
		"Affinity":      {`affinity={"podAntiAffinity":{"a":"b"}}`, []any{"spec", "affinity", "podAntiAffinity", "a"}, "b"},
		"Spread":        {`topologySpreadConstraints=[{"topologyKey":"zone"}]`, []any{"spec", "topologySpreadConstraints", 0, "topologyKey"}, "zone"},
		"PriorityClass": {"priorityClassName=high", []any{"spec", "priorityClassName"}, "high"},
		"Volumes":       {`extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]`, []any{"spec", "volumes", -1, "configMap", "name"}, "ca"},
		"Mounts":        {`extraVolumeMounts=[{"name":"ca","mountPath":"/ca"}]`, append(slices.Clone(container), "volumeMounts", -1, "mountPath"), "/ca"},
		"NoLimit":       {"resources.limits=null", append(slices.Clone(container), "resources", "limits"), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			values := append(ofEach(tc.value), "gateway.enabled=true")
			all := mustRender(t, values...)
			for _, c := range components() {
				if all[c.object] == nil {
					t.Fatalf("there is no %s", c.object)
				}
				if diff := cmp.Diff(tc.want, at(all[c.object], append(slices.Clone(c.pod), tc.path...))); diff != "" {
					t.Errorf("%s: -want, +got:\n%s", c.name, diff)
				}
			}
		})
	}
}

// TestChartGoMemory checks that GOMEMLIMIT of each component can be set.
func TestChartGoMemory(t *testing.T) {
	all := mustRender(t, "gateway.enabled=true", "controller.goMemoryLimit=401MiB", "gateway.goMemoryLimit=402MiB",
		"function.goMemoryLimit=403MiB")
	for i, c := range components() {
		env, _ := at(all[c.object], append(slices.Clone(c.pod), "spec", "containers", 0, "env")).([]any)
		want := object{"name": "GOMEMLIMIT", "value": fmt.Sprintf("%dMiB", 401+i)}
		if !slices.ContainsFunc(env, func(e any) bool { return cmp.Equal(e, want) }) {
			t.Errorf("%s has no %v: %v", c.name, want, env)
		}
	}
}

// TestChartBudgets checks that each component can have a PodDisruptionBudget that selects its pods.
func TestChartBudgets(t *testing.T) {
	values := append(ofEach("podDisruptionBudget.enabled=true"), "gateway.enabled=true")
	least := mustRender(t, values...)
	most := mustRender(t, append(values, ofEach("podDisruptionBudget.maxUnavailable=0")...)...)
	for _, c := range components() {
		selector := map[string]any{"pkg.crossplane.io/function": "crossplane-mysql-function-mysql"} // Crossplane sets this label.
		if c.name != "function" {
			selector, _ = at(least[c.object], []any{"spec", "selector", "matchLabels"}).(map[string]any)
		}
		for field, o := range map[string]object{"minAvailable": least[c.budget], "maxUnavailable": most[c.budget]} {
			want := map[string]any{field: map[string]any{"minAvailable": 1, "maxUnavailable": 0}[field],
				"selector": map[string]any{"matchLabels": selector}}
			if diff := cmp.Diff(want, o["spec"]); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", c.budget, diff)
			}
		}
		if off := mustRender(t); off[c.budget] != nil {
			t.Errorf("%s exists without its value", c.budget)
		}
	}
}

// TestChartUserIDs checks pinUserIDs=false. In this case, no pod sets a field that OpenShift's SCC restricted-v2
// assigns. Each pod still has the fields that this SCC and the Pod Security Standard "restricted" require.
func TestChartUserIDs(t *testing.T) {
	pods := func(values ...string) map[string]object {
		out := map[string]object{}
		for key, o := range mustRender(t, append(values, "gateway.enabled=true")...) {
			for _, path := range [][]any{{"spec"}, {"spec", "template", "spec"}, {"spec", "deploymentTemplate", "spec", "template", "spec"}} {
				if pod, ok := at(o, path).(map[string]any); ok && pod["containers"] != nil {
					out[key] = pod
				}
			}
		}
		return out
	}
	free, pinned := pods("pinUserIDs=false"), pods()
	if diff := cmp.Diff([]string{controllerDeployment, gatewayDeployment, functionRuntime,
		"Pod/crossplane-mysql-system/crossplane-mysql-test"}, sortedKeys(free)); diff != "" {
		t.Errorf("pods: -want, +got:\n%s", diff)
	}
	if got := at(pinned[gatewayDeployment], []any{"securityContext", "fsGroup"}); got != 65532 {
		t.Errorf("by default the gateway has the group %v", got)
	}
	for key, pod := range free {
		security, _ := pod["securityContext"].(map[string]any)
		if diff := cmp.Diff(map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
			security); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", key, diff)
		}
		if diff := cmp.Diff(map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}}}, at(pod, []any{"containers", 0, "securityContext"})); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", key, diff)
		}
	}
}

// TestChartCommon checks that common labels and annotations are on each object. Common labels are also on each pod,
// but not in selectors.
func TestChartCommon(t *testing.T) {
	all := mustRender(t, append(everything(), "commonLabels.team=db", "commonAnnotations.owner=me",
		`commonLabels.app\.kubernetes\.io/name=other`, "controller.podDisruptionBudget.enabled=true")...)
	for key, o := range all {
		if got := at(o, []any{"metadata", "labels", "team"}); got != "db" {
			t.Errorf("%s has the label %v", key, got)
		}
		if got := at(o, []any{"metadata", "labels", "app.kubernetes.io/name"}); got == "other" {
			t.Errorf("a common label replaces one of %s", key)
		}
		if got := at(o, []any{"metadata", "annotations", "owner"}); got != "me" {
			t.Errorf("%s has the annotation %v", key, got)
		}
		if strings.Contains(fmt.Sprint(at(o, []any{"spec", "selector"})), "team") {
			t.Errorf("%s selects by a common label", key)
		}
	}
	for _, c := range components() {
		if got := at(all[c.object], append(slices.Clone(c.pod), "metadata", "labels", "team")); got != "db" {
			t.Errorf("the pods of the %s have the label %v", c.name, got)
		}
	}
}

// TestChartNetworkPolicies checks that a value removes all NetworkPolicies.
func TestChartNetworkPolicies(t *testing.T) {
	count := func(values ...string) (n int) {
		for _, o := range mustRender(t, append(values, everything()...)...) {
			if o["kind"] == "NetworkPolicy" {
				n++
			}
		}
		return n
	}
	if with, without := count(), count("networkPolicies.enabled=false"); with != 5 || without != 0 {
		t.Errorf("there are %d NetworkPolicies, and %d if they are off", with, without)
	}
}

// TestChartCrossplaneNamespace checks that no object contains Crossplane's default namespace if a different one is
// set.
func TestChartCrossplaneNamespace(t *testing.T) {
	moved := 0
	for key, o := range mustRender(t, append(everything(), "crossplane.namespace=upbound-system",
		"function.podDisruptionBudget.enabled=true")...) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte("crossplane-system")) {
			t.Errorf("%s names crossplane-system", key)
		}
		if strings.Contains(key, "/upbound-system/") {
			moved++
		}
	}
	if moved != 4 {
		t.Errorf("%d objects are in Crossplane's namespace", moved)
	}
}

// TestChartValues checks that each value that does not belong to a component affects an object.
func TestChartValues(t *testing.T) {
	image := []any{"spec", "template", "spec", "containers", 0, "image"}
	digest := "sha256:" + strings.Repeat("0a", 32)
	cases := map[string]struct {
		values []string
		object string
		path   []any
		want   any
	}{
		"Image": {[]string{"image.repository=mirror/c", "image.tag=v9"}, controllerDeployment, image, "mirror/c:v9"},
		"Repository": {[]string{"image.repository=mirror:5000/c"}, controllerDeployment, image,
			"mirror:5000/c:" + thisVersion},
		"Digest": {[]string{"image.digest=" + digest}, controllerDeployment, image,
			"ghcr.io/crossplane-mysql/crossplane-mysql:" + thisVersion + "@" + digest},
		"PullPolicy": {[]string{"image.pullPolicy=Always"}, controllerDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "imagePullPolicy"}, "Always"},
		"GatewayPullPolicy": {[]string{"image.pullPolicy=Always", "gateway.enabled=true"}, gatewayDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "imagePullPolicy"}, "Always"},
		"JobsImage": {[]string{"image.repository=mirror/c", "image.tag=v9"}, controllerDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "env", 0, "value"}, "mirror/c:v9"},
		"GatewayImage": {[]string{"image.repository=mirror/c", "gateway.enabled=true"}, gatewayDeployment, image,
			"mirror/c:" + thisVersion},
		"TestImage": {[]string{"image.tag=v9"}, "Pod/crossplane-mysql-system/crossplane-mysql-test",
			[]any{"spec", "containers", 0, "image"}, "ghcr.io/crossplane-mysql/crossplane-mysql:v9"},
		"AgentImage": {[]string{"image.repository=mirror/c", "image.tag=v9"}, "Platform//crossplane-mysql",
			[]any{"spec", "agentImage"}, "mirror/c:v9"},
		"OtherAgentImage": {[]string{"image.tag=v9", "platform.spec.agentImage=agent:1"}, "Platform//crossplane-mysql",
			[]any{"spec", "agentImage"}, "agent:1"},
		"PullSecrets": {[]string{"imagePullSecrets[0].name=a", "imagePullSecrets[1].name=b"}, controllerDeployment,
			[]any{"spec", "template", "spec", "imagePullSecrets", 1, "name"}, "b"},
		"GatewayPullSecrets": {[]string{"imagePullSecrets[0].name=a", "gateway.enabled=true"}, gatewayDeployment,
			[]any{"spec", "template", "spec", "imagePullSecrets", 0, "name"}, "a"},
		"PackagePullSecrets": {[]string{"packages.pullSecrets[0].name=a"}, "Function//crossplane-mysql-function-mysql",
			[]any{"spec", "packagePullSecrets", 0, "name"}, "a"},
		"ConfigurationPullSecrets": {[]string{"packages.pullSecrets[0].name=a"},
			"Configuration//crossplane-mysql-configuration-mysql", []any{"spec", "packagePullSecrets", 0, "name"}, "a"},
		"Replicas": {[]string{"controller.replicas=2"}, controllerDeployment, []any{"spec", "replicas"}, 2},
		"Gateways": {[]string{"gateway.enabled=true", "gateway.replicas=3"}, gatewayDeployment, []any{"spec", "replicas"}, 3},
		"Functions": {[]string{"function.replicas=2"}, functionRuntime,
			[]any{"spec", "deploymentTemplate", "spec", "replicas"}, 2},
		"Identity": {[]string{"controller.serviceAccount.annotations.role=a"}, "ServiceAccount/crossplane-mysql-system/crossplane-mysql",
			[]any{"metadata", "annotations", "role"}, "a"},
		"GatewayIdentity": {[]string{"gateway.enabled=true", "gateway.serviceAccount.annotations.role=a"},
			"ServiceAccount/crossplane-mysql-system/crossplane-mysql-gateway", []any{"metadata", "annotations", "role"}, "a"},
		"FunctionIdentity": {[]string{"function.serviceAccount.annotations.role=a"}, functionRuntime,
			[]any{"spec", "serviceAccountTemplate", "metadata", "annotations", "role"}, "a"},
		"Nothing": {[]string{"platform.spec=null", "controller.args=null", "controller.podLabels=null", "commonLabels=null"},
			controllerDeployment, []any{"spec", "template", "spec", "containers", 0, "env", 2, "value"}, "90MiB"},
		"Jobs": {[]string{"controller.jobResources.limits.cpu=500m"}, controllerDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "env", -1},
			map[string]any{"name": "JOB_RESOURCES", "value": `{"limits":{"cpu":"500m"}}`}},
		"VolumeStats": {[]string{"controller.volumeStats.prometheusURL=http://p:9090", "controller.args={--debug}"}, controllerDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "args", 4}, "--volume-stats-url=http://p:9090"},
		"VolumeStatsFiles": {[]string{"controller.volumeStats.prometheusURL=https://p", `controller.volumeStats.selector=a="b"`,
			"controller.volumeStats.tokenFile=/t", "controller.volumeStats.caFile=/c"}, controllerDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "args"}, []any{"start", "--leader-election", "--metrics-address=:8443",
				"--health-address=:8081", "--volume-stats-url=https://p", `--volume-stats-selector=a="b"`,
				"--volume-stats-token-file=/t", "--volume-stats-ca-file=/c"}},
		"NoVolumeStats": {[]string{"controller.volumeStats=null"}, controllerDeployment,
			[]any{"spec", "template", "spec", "containers", 0, "args", -1}, "--health-address=:8081"},
		"Platform": {[]string{"platform.spec.requirePasswordSecret=true"}, "Platform//crossplane-mysql",
			[]any{"spec", "requirePasswordSecret"}, true},
		"OurLabel": {[]string{`controller.podLabels.app\.kubernetes\.io/name=x`}, controllerDeployment,
			[]any{"spec", "template", "metadata", "labels", "app.kubernetes.io/name"}, "crossplane-mysql"},
		"MonitorLabels": {[]string{"monitoring.podMonitor.enabled=true", "monitoring.labels.release=p"},
			"PodMonitor/crossplane-mysql-system/crossplane-mysql", []any{"metadata", "labels", "release"}, "p"},
		"RuleLabels": {[]string{"monitoring.prometheusRule.enabled=true", "monitoring.labels.release=p"},
			"PrometheusRule/crossplane-mysql-system/crossplane-mysql", []any{"metadata", "labels", "release"}, "p"},
		"Interval": {[]string{"monitoring.podMonitor.enabled=true", "monitoring.podMonitor.interval=15s"},
			"PodMonitor/crossplane-system/crossplane-mysql-function-mysql", []any{"spec", "podMetricsEndpoints", 0, "interval"},
			"15s"},
		"DashboardLabels": {[]string{"monitoring.dashboard.enabled=true", "monitoring.dashboard.labels.folder=x"},
			"ConfigMap/crossplane-mysql-system/crossplane-mysql-dashboard", []any{"metadata", "labels", "folder"}, "x"},
		"DashboardAnnotations": {[]string{"monitoring.dashboard.enabled=true", "monitoring.dashboard.annotations.folder=x"},
			"ConfigMap/crossplane-mysql-system/crossplane-mysql-dashboard", []any{"metadata", "annotations", "folder"}, "x"},
		"Hostpath": {[]string{"packages.hostpath=true"}, "Configuration//crossplane-mysql-configuration-mysql-hostpath",
			[]any{"spec", "package"}, "ghcr.io/crossplane-mysql/configuration-mysql-hostpath:" + thisVersion},
		"Namespaced": {[]string{"packages.namespaced=true"}, "Configuration//crossplane-mysql-configuration-mysql-namespaced",
			[]any{"spec", "package"}, "ghcr.io/crossplane-mysql/configuration-mysql-namespaced:" + thisVersion},
		"Database": {[]string{"packages.database=true"}, "Configuration//crossplane-mysql-configuration-database",
			[]any{"spec", "package"}, "ghcr.io/crossplane-mysql/configuration-database:" + thisVersion},
		"NoGateway":       {nil, gatewayDeployment, nil, nil},
		"NoGatewayBudget": {[]string{"gateway.podDisruptionBudget.enabled=true"}, components()[1].budget, nil, nil},
		"NoMonitors":      {nil, "PodMonitor/crossplane-mysql-system/crossplane-mysql", nil, nil},
		"NoRules":         {nil, "PrometheusRule/crossplane-mysql-system/crossplane-mysql", nil, nil},
		"NoDashboard":     {nil, "ConfigMap/crossplane-mysql-system/crossplane-mysql-dashboard", nil, nil},
		"NoPackages":      {[]string{"packages.install=false"}, "Function//crossplane-mysql-function-mysql", nil, nil},
		"NoRuntime":       {[]string{"packages.install=false"}, functionRuntime, nil, nil},
		"NoPlatform":      {[]string{"platform.create=false"}, "Platform//crossplane-mysql", nil, nil},
		"TestOfNoPlatform": {[]string{"platform.create=false"}, "Pod/crossplane-mysql-system/crossplane-mysql-test",
			[]any{"spec", "containers", 0, "args", -1}, "--no-platform"},
		"TestOfNoFunction": {[]string{"packages.install=false"}, "Pod/crossplane-mysql-system/crossplane-mysql-test",
			[]any{"spec", "containers", 0, "args", -1}, "--no-function"},
		"OptedIn": {[]string{"controller.allNamespaces=false"}, "ClusterRoleBinding//crossplane-mysql-contents", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, tc.values...)
			if _, exists := all[tc.object]; exists != (tc.path != nil) {
				t.Fatalf("%s is there: %v", tc.object, exists)
			}
			if diff := cmp.Diff(tc.want, at(all[tc.object], tc.path)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// TestChartRefuses checks that the chart refuses an invalid value with an error that names it.
func TestChartRefuses(t *testing.T) {
	for value, says := range map[string]string{
		"imgae=x": "imgae", "image=x": "image", "image.repository=a b": "repository", "image.repository=a@b": "repository",
		"image.digest=sha256:1": "digest", "image.pullPolicy=Sometimes": "pullPolicy", "imagePullSecrets={a}": "imagePullSecrets",
		"controller.replicas=-1": "replicas", "controller.args={x}": "args", "gateway.args={x}": "args",
		"platform.spce.x=1": "spce", "platform.spec.requirePasswordSecert=true": "requirePasswordSecert",
		"platform.spec.requirePasswordSecret=maybe": "requirePasswordSecret", "platform.spec.maxBackups=many": "maxBackups",
		"controller.resources.limit.memory=1Gi": "limit", "controller.goMemoryLimit=400M": "goMemoryLimit",
		"controller.jobResources.claims={a}": "claims", "controller.env[0].name=GOMEMLIMIT": "env",
		"controller.affinity.antiAffinity.x=y": "antiAffinity", "controller.podDisruptionBudget.minAvailable=half": "minAvailable",
		"monitoring.podMonitor.interval=soon": "interval", "crossplane.namespace=": "namespace",
		"controller.volumeStats.prometheusURL=p:9090": "prometheusURL", "controller.volumeStats.selector=a": "prometheusURL",
		"controller.volumeStats.prometheusURL=http://p,controller.volumeStats.tokenFile=/t": "https",
		"packages.install=false,packages.database=true":                                     "packages.install",
		"packages.install=false,packages.namespaced=true":                                   "packages.install",
	} {
		if _, err := render(t, value); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want an error with %q, got %v", value, says, err)
		}
	}
	_, err := helm(t, "template", "test", "package/chart", "--namespace", "crossplane-system", "--kube-version", kubeVersion)
	if err == nil || !strings.Contains(err.Error(), "--namespace crossplane-mysql-system --create-namespace") {
		t.Errorf("in another namespace: %v", err)
	}
}

// TestChartLint checks that helm lint reports no problem in the chart with all its parts.
func TestChartLint(t *testing.T) {
	out, err := helm(t, append([]string{"lint", "package/chart", "--strict", "--namespace", systemNamespace, "--kube-version",
		kubeVersion, "--set"}, strings.Join(everything(), ","))...)
	if err != nil || bytes.Contains(out, []byte("[WARNING]")) || bytes.Contains(out, []byte("[INFO]")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChartVersion checks that the chart has the version of the packages. The annotations for Artifact Hub must list
// the images and CRDs of this version.
func TestChartVersion(t *testing.T) {
	var chart struct {
		Version     string            `yaml:"version"`
		AppVersion  string            `yaml:"appVersion"`
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := yaml.Unmarshal(mustRead(t, filepath.Join(repository, "package", "chart", "Chart.yaml")),
		&chart); err != nil {
		t.Fatal(err)
	}
	if chart.AppVersion != thisVersion || "v"+chart.Version != thisVersion {
		t.Errorf("the packages are %s, and the chart is %+v", thisVersion, chart)
	}
	var images []struct{ Name, Image string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/images"]), &images); err != nil || len(images) != 2 {
		t.Errorf("Artifact Hub is told %d images: %v", len(images), err)
	}
	for _, i := range images {
		if want := "ghcr.io/crossplane-mysql/" + i.Name + ":" + thisVersion; i.Image != want {
			t.Errorf("want the image %s, got %s", want, i.Image)
		}
	}
	var crds []struct{ Kind, Version, Name string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crds"]), &crds); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range crds {
		got[c.Name] = c.Kind + " " + c.Version
	}
	want := map[string]string{}
	out, err := helm(t, "show", "crds", "package/chart")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range readObjects(t, out) {
		name, _ := at(o, []any{"metadata", "name"}).(string)
		want[name] = fmt.Sprint(at(o, []any{"spec", "names", "kind"}), " ", at(o, []any{"spec", "versions", 0, "name"}))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the CRDs that Artifact Hub is told: -want, +got:\n%s", diff)
	}
}

// at returns the value at a path of keys and indices. The index -1 is the last item.
func at(in any, path []any) any {
	for _, step := range path {
		switch node := in.(type) {
		case map[string]any:
			in = node[step.(string)]
		case []any:
			i := step.(int)
			if i < 0 {
				i += len(node)
			}
			in = node[i]
		default:
			return nil
		}
	}
	if len(path) == 0 {
		return nil
	}
	return in
}
