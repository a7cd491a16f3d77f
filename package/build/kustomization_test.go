package main

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKustomization checks that the kustomization contains the objects of all parts. Because of its annotations, Flux
// and Argo CD must keep the same objects as the chart.
func TestKustomization(t *testing.T) {
	want := readObjects(t, mustRead(t, filepath.Join(repository, "package", "install.yaml")))
	for _, part := range []string{"records", "controller", "platform"} {
		maps.Copy(want, kustomize(t, filepath.Join("controller", "deploy", part)))
	}
	got := kustomize(t, "package")
	kept := []string{}
	for key, o := range got {
		meta, _ := o["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled" &&
			annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false" {
			kept = append(kept, key)
		}
		delete(annotations, "kustomize.toolkit.fluxcd.io/prune")
		delete(annotations, "argocd.argoproj.io/sync-options")
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	for _, o := range want {
		meta, _ := o["metadata"].(map[string]any)
		if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-parts, +kustomization:\n%s", diff)
	}
	outlives := append(outliving(), "Namespace//"+systemNamespace)
	for key, o := range want {
		if o["kind"] == "CustomResourceDefinition" {
			outlives = append(outlives, key)
		}
	}
	slices.Sort(outlives)
	slices.Sort(kept)
	if diff := cmp.Diff(outlives, kept); diff != "" {
		t.Errorf("what stays: -want, +got:\n%s", diff)
	}
}

// TestKustomizationOrder checks the order of the objects, because `kubectl delete` deletes them in this order. The
// policy that prevents the deletion of the BackupRecords' CRD must come after that CRD.
func TestKustomizationOrder(t *testing.T) {
	raw := rawKustomization(t, "package")
	policy := bytes.Index(raw, []byte("kind: ValidatingAdmissionPolicy\n"))
	for _, kind := range []string{"Namespace", "CustomResourceDefinition"} {
		if last := bytes.LastIndex(raw, []byte("\nkind: "+kind+"\n")); last < 0 || last > policy {
			t.Errorf("a %s comes after the policies", kind)
		}
	}
	if !strings.Contains(string(raw), "crossplane-mysql-keep-records") {
		t.Error("the policy is missing")
	}
}
