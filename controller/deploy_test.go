package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kindsOf returns the kinds of the objects in a kustomization, which is a directory of controller/deploy.
func kindsOf(t *testing.T, dir string) []string {
	t.Helper()
	k := struct {
		Resources []string `json:"resources"`
	}{}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "kustomization.yaml"))), &k); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range k.Resources {
		path := filepath.Join(dir, r)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			out = append(out, kindsOf(t, path)...)
			continue
		}
		for document := range strings.SplitSeq(read(t, path), "\n---\n") {
			m := metav1.TypeMeta{}
			if err := yaml.Unmarshal([]byte(document), &m); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if !slices.Contains(out, m.Kind) {
				out = append(out, m.Kind)
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestBasesByDigest checks that base images are pinned by digest, so that a tag cannot change the build.
func TestBasesByDigest(t *testing.T) {
	bases := regexp.MustCompile(`(?m)^FROM .*`).FindAllString(read(t, "../Dockerfile"), -1)
	for _, from := range bases {
		if !regexp.MustCompile(`@sha256:[0-9a-f]{64}( AS \w+)?$`).MatchString(from) {
			t.Errorf("%q names no digest", from)
		}
	}
	if len(bases) != 2 {
		t.Errorf("%d bases were read", len(bases))
	}
}

// TestDeploy checks which objects each of the four parts of the installation contains. Removing the controller must
// not remove BackupRecords or policies, and no single command must remove both.
func TestDeploy(t *testing.T) {
	got := map[string][]string{"records": kindsOf(t, "deploy/records"), "controller": kindsOf(t, "deploy/controller"),
		"platform": kindsOf(t, "deploy/platform"), "gateway": kindsOf(t, "deploy/gateway")}
	want := map[string][]string{
		"records": {"CustomResourceDefinition", "Namespace", "ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding"},
		"controller": {"ClusterRole", "ClusterRoleBinding", "Deployment", "NetworkPolicy", "Role", "RoleBinding",
			"ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
		"platform": {"Platform"},
		"gateway":  {"Deployment", "NetworkPolicy", "Service", "ServiceAccount"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, err := os.Stat("deploy/kustomization.yaml"); !os.IsNotExist(err) {
		t.Errorf("want no kustomization of all parts: kubectl delete -k would take the records of all backups along (%v)",
			err)
	}
}
