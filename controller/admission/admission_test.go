package admission

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Resources that are attacked.
var (
	jobs        = batchv1.SchemeGroupVersion.WithResource("jobs")
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	volumes     = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	pvcs        = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	services    = corev1.SchemeGroupVersion.WithResource("services")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	claims      = schema.GroupVersionResource{Group: v1.Group, Version: "v1", Resource: "mysqls"}
)

// made is a manifest that a package of the controller makes, by its golden file.
func made[T runtime.Object](t *testing.T, file string, into T, kind schema.GroupVersionKind) T {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatal(err)
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	return into
}

func job(t *testing.T, file string) *batchv1.Job {
	t.Helper()
	return made(t, file, &batchv1.Job{}, batchv1.SchemeGroupVersion.WithKind("Job"))
}

func volume(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	return made(t, "../lifecycle/testdata/backup-volume-hostpath.yaml", &corev1.PersistentVolume{}, corev1.SchemeGroupVersion.WithKind("PersistentVolume"))
}

func pvc(t *testing.T) *corev1.PersistentVolumeClaim {
	t.Helper()
	return made(t, "../lifecycle/testdata/backup-claim.yaml", &corev1.PersistentVolumeClaim{}, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
}

// ours are the labels of an instance.
func ours() map[string]string {
	return v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: "x"}.Labels()
}

func secret(name string, of corev1.SecretType, labels map[string]string) *corev1.Secret {
	s := &corev1.Secret{Type: of}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	s.Namespace, s.Name, s.Labels = "default", name, labels
	return s
}

func changed[T interface {
	runtime.Object
	DeepCopy() T
}](o T, how func(T)) T {
	o = o.DeepCopy()
	how(o)
	return o
}

func inForce(t *testing.T) *Policies {
	t.Helper()
	p, err := Read(t.Context(), "../deploy/controller/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWhatIsMadeIsAllowed: each Job and volume that the controller makes, by its golden file.
func TestWhatIsMadeIsAllowed(t *testing.T) {
	p := inForce(t)
	files, err := filepath.Glob("../*/testdata/*-job*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("want the golden files of all Jobs, got %v, %v", files, err)
	}
	for _, file := range files {
		j := job(t, file)
		for name, w := range map[string]Write{"made": {Resource: jobs, New: j}, "deleted": {Resource: jobs, Old: j}} {
			if err := p.Refusal(t.Context(), w); err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
			}
		}
	}
	v, c, s := volume(t), pvc(t), secret("db-connection", corev1.SecretTypeOpaque, ours())
	kept := secret("default-db-1", corev1.SecretTypeOpaque, ours())
	kept.Namespace = "crossplane-mysql-system"
	bound := func(namespace, name string) *corev1.PersistentVolume {
		v := volume(t)
		v.Name, v.Labels, v.Annotations, v.Spec.ClaimRef = "pvc-1", nil, nil, &corev1.ObjectReference{Namespace: namespace, Name: name}
		return v
	}
	keep := func(v *corev1.PersistentVolume) *corev1.PersistentVolume {
		return changed(v, func(v *corev1.PersistentVolume) { v.Labels, v.Annotations = ours(), volume(t).Annotations })
	}
	moved := changed(volume(t), func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name = "crossplane-mysql-rescue", "backups-default-db-5452210fc2"
	})
	for name, w := range map[string]Write{
		"volume kept":            {Resource: volumes, Old: bound("default", "db-pvc"), New: keep(bound("default", "db-pvc"))},
		"rescue's volume kept":   {Resource: volumes, Old: bound("crossplane-mysql-rescue", "backups-x"), New: keep(bound("crossplane-mysql-rescue", "backups-x"))},
		"volume to the rescue":   {Resource: volumes, Old: volume(t), New: moved},
		"volume back from there": {Resource: volumes, Old: moved, New: volume(t)},
		"volume":                 {Resource: volumes, New: v},
		"PVC":                    {Resource: pvcs, New: c},
		"PVC deleted":            {Resource: pvcs, Old: c},
		"Secret":                 {Resource: secrets, New: s},
		"kept password":          {Resource: secrets, New: kept},
		"Secret written":         {Resource: secrets, New: s, Old: s},
		"Secret deleted":         {Resource: secrets, Old: s},
		"scaled":                 {Resource: deployments, Subresource: "scale", New: scaled(0), Old: scaled(1)},
	} {
		if err := p.Refusal(t.Context(), w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func scaled(replicas int32) *autoscalingv1.Scale {
	s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	s.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	s.Namespace, s.Name = "default", "db"
	return s
}

// TestOthersAreFree: the policies are about the controller.
func TestOthersAreFree(t *testing.T) {
	p := inForce(t)
	s := secret("theirs", corev1.SecretTypeServiceAccountToken, nil)
	if err := p.Refusal(t.Context(), Write{Resource: secrets, New: s, By: "somebody"}); err != nil {
		t.Error(err)
	}
	if err := p.Refusal(t.Context(), Write{Resource: secrets, New: s}); err == nil {
		t.Error("the same of the controller is allowed")
	}
}

// TestStolenToken: with the controller's token nothing is had that the controller does not need.
func TestStolenToken(t *testing.T) {
	p := inForce(t)
	for name, a := range attacks(t) {
		t.Run(name, func(t *testing.T) {
			err := p.Refusal(t.Context(), a.write)
			if err == nil || !strings.Contains(err.Error(), a.message) {
				t.Errorf("%s Want a refusal with %q, got %v", a.reason, a.message, err)
			}
		})
	}
}

type attack struct {
	reason, message string
	write           Write
}

func attacks(t *testing.T) map[string]attack {
	t.Helper()
	out := map[string]attack{}
	for name, a := range attacksByJob() {
		out["Job"+name] = attack{a.reason, a.message, Write{Resource: jobs, New: changed(job(t, "../lifecycle/testdata/backup-job.yaml"), a.how)}}
	}
	for name, a := range attacksOnVolumes() {
		old := volume(t)
		out["Volume"+name] = attack{a.reason, a.message, Write{Resource: volumes, Old: old, New: changed(old, a.how)}}
	}
	for name, a := range attacksByVolume() {
		out["Volume"+name] = attack{a.reason, a.message, Write{Resource: volumes, New: changed(volume(t), a.how)}}
	}
	theirJob := changed(job(t, "../lifecycle/testdata/backup-job.yaml"), func(j *batchv1.Job) { j.Labels = nil })
	theirs := changed(pvc(t), func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })
	copied := changed(pvc(t), func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "theirs"}
	})
	foreign := volume(t)
	foreign.Labels, foreign.Annotations, foreign.Spec.ClaimRef.Name = nil, nil, "theirs"
	d := &appsv1.Deployment{}
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	pod := &corev1.Pod{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	service := &corev1.Service{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	for _, o := range []interface {
		SetNamespace(ns string)
		SetName(name string)
	}{d, pod, service} {
		o.SetNamespace("theirs")
		o.SetName("theirs")
	}
	maps.Copy(out, map[string]attack{
		"JobDeleted":        {"A Job of somebody.", "labels of an instance", Write{Resource: jobs, Old: theirJob}},
		"JobChanged":        {"One that runs.", "changes no Job", Write{Resource: jobs, Old: job(t, "../lifecycle/testdata/backup-job.yaml"), New: job(t, "../lifecycle/testdata/backup-job.yaml")}},
		"SecretToken":       {"Kubernetes fills it with a token of any ServiceAccount.", "type Opaque", Write{Resource: secrets, New: secret("db-connection", corev1.SecretTypeServiceAccountToken, ours())}},
		"SecretNamed":       {"A pod of theirs mounts it.", "connection Secrets", Write{Resource: secrets, New: secret("tls", corev1.SecretTypeOpaque, ours())}},
		"SecretChanged":     {"It is theirs.", "labels of an instance", Write{Resource: secrets, Old: secret("db-connection", corev1.SecretTypeOpaque, nil), New: secret("db-connection", corev1.SecretTypeOpaque, ours())}},
		"SecretDeleted":     {"It is theirs.", "labels of an instance", Write{Resource: secrets, Old: secret("tls", corev1.SecretTypeOpaque, nil)}},
		"PVCDeleted":        {"It is theirs.", "labels of an instance", Write{Resource: pvcs, Old: theirs}},
		"PVCTaken":          {"A label does not make it ours.", "labels of an instance", Write{Resource: pvcs, Old: theirs, New: pvc(t)}},
		"PVCCopied":         {"It has their data in it.", "copy of another's", Write{Resource: pvcs, New: copied}},
		"VolumeTaken":       {"A label does not make it ours.", "volumes of instances", Write{Resource: volumes, Old: foreign, New: changed(volume(t), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = foreign.Spec.ClaimRef })}},
		"DeploymentDeleted": {"It is theirs.", "labels of an instance", Write{Resource: deployments, Old: d}},
		"PodDeleted":        {"It is theirs.", "labels of an instance", Write{Resource: pods, Old: pod}},
		"ServiceDeleted":    {"It is theirs.", "labels of an instance", Write{Resource: services, Old: service}},
		"DeploymentStarted": {"As many as the cluster has room for.", "starts none", Write{Resource: deployments, Subresource: "scale", Old: scaled(1), New: scaled(100)}},
		"ClaimImage":        {"A server of any image, with the data.", "what they ask for", Write{Resource: claims, Old: claim("mysql:8.4"), New: claim("evil:1")}},
		"ClaimLabels":       {"Whose it is.", "what they ask for", Write{Resource: claims, Old: claim("mysql:8.4"), New: changed(claim("mysql:8.4"), func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) })}},
	})
	return out
}

func claim(image string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": image}}}
	u.SetAPIVersion(v1.Group + "/v1")
	u.SetKind(v1.KindMySQL)
	u.SetNamespace("default")
	u.SetName("db")
	return u
}
