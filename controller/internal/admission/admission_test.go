package admission

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// made returns the object in a golden file of the controller.
func made[T client.Object](t *testing.T, file string, target T) T {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, target); err != nil {
		t.Fatal(err)
	}
	return target
}

// backupJob is the golden file with the Job that the attack tests modify.
const backupJob = "../lifecycle/testdata/backup-job.yaml"

func job(t *testing.T, file string) *batchv1.Job {
	t.Helper()
	return made(t, file, &batchv1.Job{})
}

func volume(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	return made(t, "../lifecycle/testdata/backup-volume-hostpath.yaml", &corev1.PersistentVolume{})
}

func pvc(t *testing.T) *corev1.PersistentVolumeClaim {
	t.Helper()
	return made(t, "../lifecycle/testdata/backup-claim.yaml", &corev1.PersistentVolumeClaim{})
}

// ours returns the labels that the controller sets on the objects of the test instance default/db.
func ours() map[string]string {
	return v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: "x"}.Labels()
}

func secret(name string, secretType corev1.SecretType, labels map[string]string) *corev1.Secret {
	s := &corev1.Secret{Type: secretType}
	s.Namespace, s.Name, s.Labels = "default", name, labels
	return s
}

// inSystem moves a Secret to the controller's own namespace.
func inSystem(s *corev1.Secret) *corev1.Secret {
	s.Namespace = "crossplane-mysql-system"
	return s
}

func changed[T interface {
	DeepCopy() T
}](o T, change func(T)) T {
	o = o.DeepCopy()
	change(o)
	return o
}

func inForce(t *testing.T) *Policies {
	t.Helper()
	p, err := Read(t.Context(), "../../deploy/controller/admission.yaml", granted(t)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWhatIsMadeIsAllowed checks that the policies allow each Job and volume that the controller creates. It reads
// them from golden files.
func TestWhatIsMadeIsAllowed(t *testing.T) {
	p := inForce(t)
	files, err := filepath.Glob("../*/testdata/*-job*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("want the golden files of all Jobs, got %v, %v", files, err)
	}
	for _, file := range files {
		j := job(t, file)
		for name, w := range map[string]Write{"made": {New: j}, "deleted": {Old: j}} {
			if err := p.Refusal(t.Context(), w); err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
			}
		}
	}
	v, c, s := volume(t), pvc(t), secret("db-connection", corev1.SecretTypeOpaque, ours())
	bound := func(namespace, name string) *corev1.PersistentVolume {
		v := volume(t)
		v.Name, v.Labels, v.Annotations, v.Spec.ClaimRef = "pvc-1", nil, nil, &corev1.ObjectReference{Namespace: namespace,
			Name: name}
		return v
	}
	keep := func(v *corev1.PersistentVolume) *corev1.PersistentVolume {
		return changed(v, func(v *corev1.PersistentVolume) { v.Labels, v.Annotations = ours(), volume(t).Annotations })
	}
	moved := changed(volume(t), func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name = "crossplane-mysql-recovery", "backups-default-db-5452210fc2"
	})
	ways, err := filepath.Glob("../*/testdata/*-access*.yaml")
	if err != nil || len(ways) < 4 {
		t.Fatalf("want the golden files of all ways to stores, got %v, %v", ways, err)
	}
	for _, file := range ways {
		if err := p.Refusal(t.Context(), Write{New: made(t, file, &corev1.Secret{})}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	gateway := inSystem(secret("crossplane-mysql-gateway", corev1.SecretTypeOpaque,
		map[string]string{v1.LabelManagedBy: v1.ManagedBy}))
	for name, w := range map[string]Write{
		"volume kept": {Old: bound("default", "db-pvc"), New: keep(bound("default", "db-pvc"))},
		"rescue's volume kept": {Old: bound("crossplane-mysql-recovery", "backups-x"),
			New: keep(bound("crossplane-mysql-recovery", "backups-x"))},
		"volume to the rescue":   {Old: volume(t), New: moved},
		"volume back from there": {Old: moved, New: volume(t)},
		"volume":                 {New: v},
		"PVC":                    {New: c},
		"PVC deleted":            {Old: c},
		"Secret":                 {New: s},
		"Secret written":         {New: s, Old: s},
		"Secret deleted":         {Old: s},
		"certificate":            {New: secret("db-tls", corev1.SecretTypeOpaque, ours())},
		"account for metrics":    {New: secret("db-metrics", corev1.SecretTypeOpaque, ours())},
		"authority":              {New: inSystem(secret("authority-default-db-1", corev1.SecretTypeOpaque, ours()))},
		"signer of grants": {New: inSystem(secret("crossplane-mysql-gateway-signer", corev1.SecretTypeOpaque,
			map[string]string{v1.LabelManagedBy: v1.ManagedBy}))},
		"gateway told":       {New: gateway},
		"gateway told again": {New: gateway, Old: gateway},
		"scaled":             {New: scaled(0), Old: scaled(1)},
	} {
		if err := p.Refusal(t.Context(), w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func scaled(replicas int32) *autoscalingv1.Scale {
	s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	s.Namespace, s.Name = "default", "db"
	return s
}

// TestOthersAreFree checks that the policies apply only to the controller.
func TestOthersAreFree(t *testing.T) {
	p := inForce(t)
	s := secret("theirs", corev1.SecretTypeServiceAccountToken, nil)
	if err := p.Refusal(t.Context(), Write{New: s, By: "somebody"}); err != nil {
		t.Error(err)
	}
	if err := p.Refusal(t.Context(), Write{New: s}); err == nil {
		t.Error("the same of the controller is allowed")
	}
}

// TestStolenToken checks that a stolen controller token does not allow more than the controller needs.
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
		out["Job"+name] = attack{a.reason, a.message, Write{New: changed(job(t, backupJob), a.change)}}
	}
	for name, a := range attacksOnVolumes() {
		old := volume(t)
		out["Volume"+name] = attack{a.reason, a.message, Write{Old: old, New: changed(old, a.change)}}
	}
	for name, a := range attacksByVolume() {
		out["Volume"+name] = attack{a.reason, a.message, Write{New: changed(volume(t), a.change)}}
	}
	theirJob := changed(job(t, backupJob), func(j *batchv1.Job) { j.Labels = nil })
	theirs := changed(pvc(t), func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })
	copied := changed(pvc(t), func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "theirs"}
	})
	foreign := volume(t)
	foreign.Labels, foreign.Annotations, foreign.Spec.ClaimRef.Name = nil, nil, "theirs"
	meta := metav1.ObjectMeta{Namespace: "theirs", Name: "theirs"}
	maps.Copy(out, map[string]attack{
		"JobDeleted": {"A Job of somebody.", "labels of an instance", Write{Old: theirJob}},
		"JobChanged": {"One that runs.", "may not change a Job", Write{Old: job(t, backupJob), New: job(t, backupJob)}},
		"SecretToken": {"Kubernetes fills it with a token of any ServiceAccount.", "type Opaque",
			Write{New: secret("db-connection", corev1.SecretTypeServiceAccountToken, ours())}},
		"AuthorityOutside": {"Its key is in the controller's namespace only.", "connection Secrets",
			Write{New: secret("authority-default-db-1", corev1.SecretTypeOpaque, ours())}},
		"SecretNamed": {"A pod of theirs mounts it.", "connection Secrets",
			Write{New: secret("tls", corev1.SecretTypeOpaque, ours())}},
		"SecretOfRescue": {"It is no rescue's.", "connection Secrets",
			Write{New: secret("access-theirs", corev1.SecretTypeOpaque, ours())}},
		"SecretOfItsOwn": {"A token of its own namespace could be asked for by that name.", "connection Secrets",
			Write{New: inSystem(secret("default-db-1", corev1.SecretTypeOpaque, ours()))}},
		"SecretOfGateway": {"A Secret of a namespace that is named as the gateway's.", "labels of an instance",
			Write{New: secret("crossplane-mysql-gateway", corev1.SecretTypeOpaque,
				map[string]string{v1.LabelManagedBy: v1.ManagedBy})}},
		"GatewayOfOthers": {"One that the gateway had before somebody else did.", "labels of an instance",
			Write{Old: inSystem(secret("crossplane-mysql-gateway", corev1.SecretTypeOpaque, nil)),
				New: inSystem(secret("crossplane-mysql-gateway", corev1.SecretTypeOpaque,
					map[string]string{v1.LabelManagedBy: v1.ManagedBy}))}},
		"GatewayDeleted": {"All Jobs wait then.", "labels of an instance",
			Write{Old: inSystem(secret("crossplane-mysql-gateway", corev1.SecretTypeOpaque,
				map[string]string{v1.LabelManagedBy: v1.ManagedBy}))}},
		"CredentialsGone": {"Those of a store.", "labels of an instance",
			Write{Old: inSystem(secret("offsite", corev1.SecretTypeOpaque, nil))}},
		"PolicyDeleted": {"It is theirs.", "labels of an instance",
			Write{Old: &networkingv1.NetworkPolicy{ObjectMeta: meta}}},
		"SecretChanged": {"It is theirs.", "labels of an instance",
			Write{Old: secret("db-connection", corev1.SecretTypeOpaque, nil),
				New: secret("db-connection", corev1.SecretTypeOpaque, ours())}},
		"SecretDeleted": {"It is theirs.", "labels of an instance",
			Write{Old: secret("tls", corev1.SecretTypeOpaque, nil)}},
		"PVCDeleted": {"It is theirs.", "labels of an instance", Write{Old: theirs}},
		"PVCTaken":   {"A label does not make it ours.", "labels of an instance", Write{Old: theirs, New: pvc(t)}},
		"PVCCopied":  {"It has their data in it.", "none with a data source", Write{New: copied}},
		"VolumeTaken": {"A label does not make it ours.", "volumes of instances",
			Write{Old: foreign, New: changed(volume(t), func(v *corev1.PersistentVolume) {
				v.Spec.ClaimRef = foreign.Spec.ClaimRef
			})}},
		"DeploymentDeleted": {"It is theirs.", "labels of an instance", Write{Old: &appsv1.Deployment{ObjectMeta: meta}}},
		"PodDeleted":        {"It is theirs.", "labels of an instance", Write{Old: &corev1.Pod{ObjectMeta: meta}}},
		"ServiceDeleted":    {"It is theirs.", "labels of an instance", Write{Old: &corev1.Service{ObjectMeta: meta}}},
		"DeploymentStarted": {"As many as the cluster has room for.", "may not start them", Write{Old: scaled(1), New: scaled(100)}},
		"ClaimImage": {"A server of any image, with the data.",
			"may change only the finalizers and annotations of claims", Write{Old: claim("mysql:8.4"), New: claim("evil:1")}},
		"ClaimSettings": {"Its server would restart.", "may change only the finalizers and annotations of claims",
			Write{Old: withSettings(claim("mysql:8.4")), New: claim("mysql:8.4")}},
		"DyingClaimImage": {"A Job of any image, with the data.",
			"may change only the finalizers and annotations of claims",
			Write{Old: withSettings(dying(claim("mysql:8.4"))), New: dying(claim("evil:1"))}},
		"DyingClaimMore": {"It decides what is backed up.", "may change only the finalizers and annotations of claims",
			Write{Old: dying(claim("mysql:8.4")), New: dying(discarded(claim("mysql:8.4")))}},
		"DyingClaimLess": {"It decides what is backed up.", "may change only the finalizers and annotations of claims",
			Write{Old: dying(discarded(claim("mysql:8.4"))), New: dying(claim("mysql:8.4"))}},
		"ClaimFinalizer": {"It is Crossplane's.", "may only remove the finalizer crossplane-mysql.io/protect-data from claims",
			Write{Old: withFinalizers(dying(claim("mysql:8.4")), "finalizer.apiextensions.crossplane.io", v1.Finalizer),
				New: withFinalizers(dying(claim("mysql:8.4")), v1.Finalizer)}},
		"NamespacedImage": {"A server of any image, with the data.",
			"may change only the finalizers and annotations of claims",
			Write{Old: withoutClaim("mysql:8.4"), New: withoutClaim("evil:1")}},
		"NamespacedFinalizer": {"It is Crossplane's.", "may only remove the finalizer crossplane-mysql.io/protect-data from claims",
			Write{Old: withFinalizers(withoutClaim("mysql:8.4"), crossplanes, v1.Finalizer),
				New: withFinalizers(withoutClaim("mysql:8.4"), v1.Finalizer)}},
		"ClaimLabels": {"Whose it is.", "may change only the finalizers and annotations of claims",
			Write{Old: claim("mysql:8.4"),
				New: changed(claim("mysql:8.4"), func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) })}},
	})
	return out
}

func claim(image string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": image}}}
	u.SetAPIVersion(v1.GroupVersionClaims.String())
	u.SetKind(v1.KindMySQL)
	u.SetNamespace("default")
	u.SetName("db")
	return u
}

func dying(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	return u
}

func withFinalizers(u *unstructured.Unstructured, finalizers ...string) *unstructured.Unstructured {
	u.SetFinalizers(finalizers)
	return u
}

func withSettings(u *unstructured.Unstructured) *unstructured.Unstructured {
	// The object has a spec, so this cannot fail.
	_ = unstructured.SetNestedMap(u.Object, map[string]any{"mysqld": map[string]any{"port": int64(1)}}, "spec", "config")
	return u
}

func discarded(u *unstructured.Unstructured) *unstructured.Unstructured {
	_ = unstructured.SetNestedField(u.Object, "Discard", "spec", "deletionPolicy") // The object has a spec.
	return u
}

// TestSettingsOfDyingMayGo checks that the controller may remove spec.config from a claim that is being deleted. If a
// setting is invalid, the API server rejects every other update of the claim, including the removal of a finalizer.
func TestSettingsOfDyingMayGo(t *testing.T) {
	w := Write{Old: withSettings(dying(claim("mysql:8.4"))), New: dying(claim("mysql:8.4"))}
	if err := inForce(t).Refusal(t.Context(), w); err != nil {
		t.Error(err)
	}
}
