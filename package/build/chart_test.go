package main

import (
	"bytes"
	"errors"
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

// kubeVersion that helm is told, which knows none of its own where it is built from its module.
const kubeVersion = "1.36.0"

// An object of a manifest.
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

// helm is told something about the chart.
func helm(t *testing.T, args ...string) (out []byte, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), fromEnv(t, "HELM"), args...)
	c.Dir = repository
	var complaint strings.Builder
	c.Stderr = &complaint // It says of each link that it follows it.
	out, err = c.Output()
	if err != nil {
		err = errors.Join(err, errors.New(complaint.String()))
	}
	return out, err
}

// render the chart with values, as key=value.
func render(t *testing.T, values ...string) (map[string]object, error) {
	t.Helper()
	set := make([]string, 0, 2*len(values))
	for _, v := range values {
		set = append(set, "--set", v)
	}
	out, err := helm(t, append([]string{"template", "test", "package/chart", "--namespace", "crossplane-system", "--kube-version", kubeVersion}, set...)...)
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

// TestChartIsManifests: what the chart installs is what kubectl does, but for the word by which it stays.
func TestChartIsManifests(t *testing.T) {
	want := readObjects(t, mustRead(t, filepath.Join(repository, "package", "install.yaml")))
	for _, part := range []string{"records", "controller", "gateway", "platform"} {
		c := exec.CommandContext(t.Context(), fromEnv(t, "KUBE"), "kubectl", "kustomize", filepath.Join("controller", "deploy", part))
		c.Dir = repository
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(want, readObjects(t, out))
	}
	got := mustRender(t, "gateway.enabled=true")
	crds, err := helm(t, "show", "crds", "package/chart")
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(got, readObjects(t, crds))
	kept := []string{}
	for key, o := range got {
		meta, _ := o["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			continue
		}
		kept = append(kept, key)
		if delete(annotations, "helm.sh/resource-policy"); len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-kubectl, +helm:\n%s", diff)
	}
	slices.Sort(kept)
	if diff := cmp.Diff([]string{
		"Configuration//crossplane-mysql-configuration-mysql", "DeploymentRuntimeConfig//crossplane-mysql-function-mysql", "Function//crossplane-mysql-function-mysql",
		"MySQLPlatform//crossplane-mysql", "Namespace//crossplane-mysql-rescue", "Namespace//crossplane-mysql-system",
		"NetworkPolicy/crossplane-system/crossplane-mysql-function-mysql",
	}, slices.DeleteFunc(kept, func(key string) bool { return strings.HasPrefix(key, "ValidatingAdmissionPolicy") })); diff != "" {
		t.Errorf("what stays: -want, +got:\n%s", diff)
	}
}

// TestChartValues: each value comes to what it is for, and what is none is refused with its name.
func TestChartValues(t *testing.T) {
	const controller, gateway = "Deployment/crossplane-mysql-system/crossplane-mysql", "Deployment/crossplane-mysql-system/crossplane-mysql-gateway"
	cases := map[string]struct {
		values []string
		of     string
		path   []any
		want   any
	}{
		"Image":        {[]string{"image=mirror/c:v9"}, controller, []any{"spec", "template", "spec", "containers", 0, "image"}, "mirror/c:v9"},
		"JobsImage":    {[]string{"image=mirror/c:v9"}, controller, []any{"spec", "template", "spec", "containers", 0, "env", 0, "value"}, "mirror/c:v9"},
		"GatewayImage": {[]string{"image=mirror/c:v9", "gateway.enabled=true"}, gateway, []any{"spec", "template", "spec", "containers", 0, "image"}, "mirror/c:v9"},
		"AgentImage":   {[]string{"image=mirror/c:v9"}, "MySQLPlatform//crossplane-mysql", []any{"spec", "agentImage"}, "mirror/c:v9"},
		"PullSecrets":  {[]string{"imagePullSecrets={a,b}"}, controller, []any{"spec", "template", "spec", "imagePullSecrets", 1, "name"}, "b"},
		"Replicas":     {[]string{"controller.replicas=2"}, controller, []any{"spec", "replicas"}, 2},
		"Gateways":     {[]string{"gateway.enabled=true", "gateway.replicas=3"}, gateway, []any{"spec", "replicas"}, 3},
		"Resources":    {[]string{"controller.resources.limits.memory=1Gi"}, controller, []any{"spec", "template", "spec", "containers", 0, "resources"}, map[string]any{"limits": map[string]any{"memory": "1Gi"}}},
		"GoMemory":     {[]string{"controller.goMemoryLimit=400MiB"}, controller, []any{"spec", "template", "spec", "containers", 0, "env", 2, "value"}, "400MiB"},
		"Nothing":      {[]string{"platform.spec=null", "controller.args=null", "controller.podLabels=null"}, controller, []any{"spec", "template", "spec", "containers", 0, "env", 2, "value"}, "90MiB"},
		"Args":         {[]string{"controller.args={--debug}"}, controller, []any{"spec", "template", "spec", "containers", 0, "args", -1}, "--debug"},
		"GatewayArgs":  {[]string{"gateway.enabled=true", "gateway.args={--debug}"}, gateway, []any{"spec", "template", "spec", "containers", 0, "args", -1}, "--debug"},
		"Jobs":         {[]string{"controller.jobResources.limits.cpu=500m"}, controller, []any{"spec", "template", "spec", "containers", 0, "env", -1}, map[string]any{"name": "JOB_RESOURCES", "value": `{"limits":{"cpu":"500m"}}`}},
		"Platform":     {[]string{"platform.spec.requirePasswordSecret=true"}, "MySQLPlatform//crossplane-mysql", []any{"spec", "requirePasswordSecret"}, true},
		"Node":         {[]string{"controller.nodeSelector.disk=ssd"}, controller, []any{"spec", "template", "spec", "nodeSelector", "disk"}, "ssd"},
		"Toleration":   {[]string{"controller.tolerations[0].operator=Exists"}, controller, []any{"spec", "template", "spec", "tolerations", 0, "operator"}, "Exists"},
		"Priority":     {[]string{"controller.priorityClassName=high"}, controller, []any{"spec", "template", "spec", "priorityClassName"}, "high"},
		"Label":        {[]string{"controller.podLabels.team=db"}, controller, []any{"spec", "template", "metadata", "labels", "team"}, "db"},
		"OurLabel":     {[]string{`controller.podLabels.app\.kubernetes\.io/name=x`}, controller, []any{"spec", "template", "metadata", "labels", "app.kubernetes.io/name"}, "crossplane-mysql"},
		"Annotation":   {[]string{"controller.podAnnotations.a=b"}, controller, []any{"spec", "template", "metadata", "annotations", "a"}, "b"},
		"Hostpath":     {[]string{"packages.hostpath=true"}, "Configuration//crossplane-mysql-configuration-mysql-hostpath", []any{"spec", "package"}, "ghcr.io/crossplane-mysql/configuration-mysql-hostpath:" + thisVersion},
		"Database":     {[]string{"packages.database=true"}, "Configuration//crossplane-mysql-configuration-database", []any{"spec", "package"}, "ghcr.io/crossplane-mysql/configuration-database:" + thisVersion},
		"NoGateway":    {nil, gateway, nil, nil},
		"NoPackages":   {[]string{"packages.install=false"}, "Function//crossplane-mysql-function-mysql", nil, nil},
		"NoPlatform":   {[]string{"platform.create=false"}, "MySQLPlatform//crossplane-mysql", nil, nil},
		"OptedIn":      {[]string{"controller.allNamespaces=false"}, "ClusterRoleBinding//crossplane-mysql-contents", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, tc.values...)
			if _, there := all[tc.of]; there != (tc.path != nil) {
				t.Fatalf("%s is there: %v", tc.of, there)
			}
			if diff := cmp.Diff(tc.want, at(all[tc.of], tc.path)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
	for value, says := range map[string]string{
		"imgae=x": "imgae", "image=a b": "image", "controller.replicas=-1": "replicas", "controller.args={x}": "args", "gateway.args={x}": "args", "platform.spce.x=1": "spce",
		"platform.spec.requirePasswordSecert=true": "requirePasswordSecert", "controller.resources.limit.memory=1Gi": "limit", "controller.goMemoryLimit=400M": "goMemoryLimit", "controller.jobResources.claims={a}": "claims",
		"packages.install=false,packages.database=true": "packages.install",
	} {
		if _, err := render(t, value); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want an error with %q, got %v", value, says, err)
		}
	}
	if _, err := helm(t, "template", "test", "package/chart", "--namespace", "crossplane-mysql-system", "--kube-version", kubeVersion); err == nil || !strings.Contains(err.Error(), "install the release in another one") {
		t.Errorf("in its own namespace: %v", err)
	}
}

// TestChartVersion: it is that of the packages.
func TestChartVersion(t *testing.T) {
	var chart struct {
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(mustRead(t, filepath.Join(repository, "package", "chart", "Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	if chart.AppVersion != thisVersion || "v"+chart.Version != thisVersion {
		t.Errorf("the packages are %s, and the chart is %+v", thisVersion, chart)
	}
}

// at a path of keys and indices, the last of which is -1.
func at(in any, path []any) any {
	for _, step := range path {
		switch of := in.(type) {
		case map[string]any:
			in = of[step.(string)]
		case []any:
			i := step.(int)
			if i < 0 {
				i += len(of)
			}
			in = of[i]
		default:
			return nil
		}
	}
	if len(path) == 0 {
		return nil
	}
	return in
}
