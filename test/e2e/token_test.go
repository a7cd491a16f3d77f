package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestStolenToken checks that an attacker with the controller's token can only do what the controller does itself.
//
// As a control, each attack is repeated with a token that has more permissions, as the controller had before the
// admission policies were added. Then the attack must succeed. All requests are dry runs, which the API server
// authorizes and admits like other requests.
func TestStolenToken(t *testing.T) { //nolint:tparallel // All attacks use one victim, which is deleted with the test.
	t.Parallel()
	v := newVictim(t)
	stolen := v.clientOf(t, framework.SystemNamespace, "crossplane-mysql")
	before := v.clientOf(t, v.namespace, rightsBefore(t, v.namespace))
	if err := stolen.Create(t.Context(), v.job(t, nil)); err != nil {
		t.Fatalf("the controller cannot make its own Job: %v", err)
	}
	findsPolicies(t)
	for name, attack := range v.attacks(t) {
		t.Run(name, func(t *testing.T) {
			if err := attack(t.Context(), before); err != nil {
				t.Errorf("the rights of before should have let it through, and a test of those of today shows nothing: %v", err)
			}
			err := attack(t.Context(), stolen)
			if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Fatalf("want a refusal, got %v", err)
			}
			if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'crossplane-mysql-controller-") &&
				!strings.Contains(err.Error(), "cannot patch resource") {
				t.Errorf("want a refusal by the controller's rights or policies, got %v", err)
			}
		})
	}
}

// findsPolicies checks that the controller has found its admission policies. If they are missing, the controller logs
// that when it becomes the leader.
func findsPolicies(t *testing.T) {
	t.Helper()
	logs := logOfController(t, "-1")
	if !strings.Contains(logs, "leader") {
		t.Errorf("that is no log of a controller that leads:\n%s", logs)
	}
	if strings.Contains(logs, "The admission policies for the controller's token are not in force") {
		t.Errorf("the controller does not find its policies:\n%s", logs)
	}
}

// rightsBefore creates a ServiceAccount with the permissions that the controller had before the admission policies
// were added. It returns the name of the ServiceAccount.
func rightsBefore(t *testing.T, namespace string) string {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	readManifest(t, "test/e2e/testdata/rights-before.yaml", role)
	role.Name = namespace + "-before"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "before"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}},
	}
	for _, o := range []client.Object{account, role, binding} {
		framework.Make(t, o)
	}
	return account.Name
}

// TestOptedIn checks an installation with namespace opt-in, in which the controller's token can only read Secrets in
// namespaces that have opted in.
func TestOptedIn(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestDocumentedRights has the rules of both ways to install")
	v := newVictim(t)
	open := framework.NewNamespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "opted-in"}}
	framework.Make(t, account)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}}
	contents := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "crossplane-mysql-contents"}
	framework.Make(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: open, Name: "crossplane-mysql"},
		RoleRef: contents, Subjects: subjects})
	for _, b := range clusterBindings(t, "controller/deploy/opted-in") {
		b.Name, b.Subjects = v.namespace+"-"+b.Name, subjects
		framework.Make(t, &b)
	}
	framework.Make(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: open, Name: "theirs"}})
	user := v.clientOf(t, account.Namespace, account.Name)
	read := func(namespace string) error {
		return user.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "theirs"}, &corev1.Secret{})
	}
	if err := read(open); err != nil {
		t.Errorf("a namespace that let it in: %v", err)
	}
	if err := read(v.namespace); !apierrors.IsForbidden(err) {
		t.Errorf("want a refusal by a namespace that did not, got %v", err)
	}
	if err := user.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(v.namespace)); !apierrors.IsForbidden(
		err) {
		t.Errorf("want a refusal to list ConfigMaps, got %v", err)
	}
	if err := user.List(t.Context(), &corev1.PersistentVolumeClaimList{}); err != nil {
		t.Errorf("it has not the controller's other rights, and this test shows nothing: %v", err)
	}
}

// TestClosedNamespace checks an instance in a namespace that has not opted in. The claim must report that, and
// continue after the opt-in. The instance must be backed up even after the opt-in is revoked. After the namespace is
// deleted, it must be backed up to a store. No other test can use the cluster at the same time.
func TestClosedNamespace(t *testing.T) {
	framework.Repeats(t, "TestDocumentedRights has the rights, TestNotLetIn what is said, and TestSecretsOfAClosedNamespace the "+
		"deletion")
	t.Cleanup(func() { reinstalled(t) })
	p := newPrompt(t)
	p.enter(t, "kubectl delete clusterrolebinding crossplane-mysql-contents", "deleted")
	p.enter(t, "kubectl apply --server-side -k controller/deploy/opted-in",
		"clusterrole.rbac.authorization.k8s.io/crossplane-mysql-contents serverside-applied")
	s := framework.NewServer(t, framework.ClassComposition)
	const advice = "The controller may not read Secrets in namespace"
	s.Create(t)
	s.Says(t, "to create the server's certificate in Secret "+s.Namespace+"/"+s.Name+"-tls: "+advice)
	letIn := func(s *framework.Server) {
		t.Helper()
		const command = "kubectl create rolebinding crossplane-mysql --namespace default --clusterrole " +
			"crossplane-mysql-contents --serviceaccount crossplane-mysql-system:crossplane-mysql"
		p.enter(t, strings.Replace(command, "default", s.Namespace, 1), "created")
	}
	letIn(s)
	s.Client().Connects(t, s.Password)
	s.Client().TypeSession(t)
	before := s.Client().MustQuery(t, framework.Rows)
	framework.MustKubectl(t, "delete", "rolebinding", "crossplane-mysql", "--namespace", s.Namespace)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	leavesNothing(t, s)
	letIn(s)
	s.Create(t)
	s.Client().SeesRows(t, before)

	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	gone := framework.NewServer(t, framework.ClassComposition)
	gone.Spec["backup"] = storedIn(b.GetName())
	letIn(gone)
	gone.Begin(t)
	loseNamespace(t, gone, 1)
	b.holds(t, s3, gone.Backups().Only(t))
}

// TestPoliciesOfAnotherRelease checks policies and a controller from different releases, as between two commands of
// an upgrade. The controller must log the difference when it becomes the leader. If a policy refuses a step of a
// deletion, the claim must report that, and no data may be lost. The deletion must continue once the policy is right.
// No other test can use the cluster at the same time.
func TestPoliciesOfAnotherRelease(t *testing.T) {
	framework.Repeats(t, "TestPolicyCheck has the version, and TestRefused what is said")
	t.Cleanup(func() {
		reinstalled(t)
		stopsTheController(t)() // Restart the controller, because another test reads the lines that it logs at its start.
	})
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	const theirs = "the Jobs of another release"
	changePolicy(t, "secrets", func(p *admissionv1.ValidatingAdmissionPolicySpec) {
		p.Validations[0].Message = "policies of version 1."
	})
	changePolicy(t, "jobs", func(p *admissionv1.ValidatingAdmissionPolicySpec) {
		p.Validations = append(p.Validations,
			admissionv1.Validation{Expression: "request.operation == 'DELETE'", Message: theirs})
	})
	stopsTheController(t)()
	framework.Eventually(t, "the controller's word", func(ctx context.Context) error {
		log, err := framework.Kubectl(ctx, "logs", "--namespace", framework.SystemNamespace, "deployment/crossplane-mysql",
			"--tail=-1")
		if err == nil && !strings.Contains(log, "policies of a different version are in force") {
			err = fmt.Errorf("it says nothing of other policies: %.2000s", log)
		}
		return err
	})
	s.StartDelete(t)
	s.Says(t, theirs)
	reinstalled(t)
	s.ClaimGone(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Client().SeesRows(t, before)
}

// changePolicy changes an admission policy that applies to the controller's token.
func changePolicy(t *testing.T, name string, change func(*admissionv1.ValidatingAdmissionPolicySpec)) {
	t.Helper()
	p := &admissionv1.ValidatingAdmissionPolicy{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Name: "crossplane-mysql-controller-" + name},
		p); err != nil {
		t.Fatal(err)
	}
	change(&p.Spec)
	if err := framework.Suite.Kube.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// clusterBindings returns the ClusterRoleBindings in a kustomization.
func clusterBindings(t *testing.T, dir string) []rbacv1.ClusterRoleBinding {
	t.Helper()
	var out []rbacv1.ClusterRoleBinding
	all, err := framework.Kubectl(t.Context(), "kustomize",
		filepath.Join(framework.Repository(), filepath.FromSlash(dir)))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(all, "\n---\n") {
		b := rbacv1.ClusterRoleBinding{}
		if err := yaml.Unmarshal([]byte(document), &b); err != nil {
			t.Fatal(err)
		}
		if b.Kind == "ClusterRoleBinding" {
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s binds nothing", dir)
	}
	return out
}

// readManifest reads an object from a file of this repository.
func readManifest(t *testing.T, file string, target client.Object) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(framework.Repository(), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, target); err != nil {
		t.Fatal(err)
	}
}

// A victim is a namespace with objects that an attacker with the controller's token tries to read, change or delete. A
// user of the namespace does not use the product.
type victim struct {
	namespace string
	// ours is a volume with the product's labels, and claim is a claim of the product. They belong to a different user.
	ours  *corev1.PersistentVolume
	claim *unstructured.Unstructured
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{namespace: framework.NewNamespace(t)}
	meta := metav1.ObjectMeta{Namespace: v.namespace, Name: "theirs"}
	pod := corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Image: framework.Toolbox, Command: []string{"sleep", "3600"}}}}
	labels := map[string]string{"theirs": "yes"}
	v.ours = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: v.namespace, Labels: ours(),
			Annotations: map[string]string{"crossplane-mysql.io/claim-namespace": v.namespace}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/nowhere"}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: v.namespace, Name: "db-pvc"}, StorageClassName: "none",
		},
	}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta},
		&corev1.ConfigMap{ObjectMeta: meta},
		&networkingv1.NetworkPolicy{ObjectMeta: meta},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.Pod{ObjectMeta: meta, Spec: pod},
		pvcOf(v.namespace, "theirs", nil),
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		}},
		v.ours,
	} {
		framework.Make(t, o)
	}
	v.claim = framework.ReadObjects(t, "examples/fresh-instance/claim.yaml", v.namespace)[0]
	v.claim.SetAnnotations(map[string]string{"crossplane.io/paused": "true"})
	framework.Make(t, v.claim)
	return v
}

// ours returns the labels that the product sets on its objects. Any user can set these labels as well.
func ours() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "crossplane-mysql", "crossplane-mysql.io/instance": "0123456789",
		"crossplane-mysql.io/xr": "an-uid"}
}

func pvcOf(namespace, name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("none"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		}}
}

// clientOf returns a client that uses a new token for a ServiceAccount. It sends only dry runs.
func (v *victim) clientOf(t *testing.T, namespace, account string) client.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(framework.Suite.Config)
	config.BearerToken = framework.TokenOf(t, namespace, account)
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client.NewDryRunClient(c)
}

// job returns a Job like the backup Job of the controller. If change is not nil, it gives the Job more privileges.
func (v *victim) job(t *testing.T, change func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{}
	readManifest(t, "controller/internal/lifecycle/testdata/backup-job.yaml", j)
	j.Namespace = v.namespace
	if change != nil {
		change(j)
	}
	return j
}

// copyOf returns a copy of an object, because the client overwrites the object that it sends with the response.
func copyOf(o client.Object) client.Object {
	out, _ := o.DeepCopyObject().(client.Object)
	return out
}

type tryIt func(ctx context.Context, user client.Client) error

// attacks returns an attack for each permission of the controller.
func (v *victim) attacks(t *testing.T) map[string]tryIt {
	t.Helper()
	out := map[string]tryIt{}
	for name, change := range attacksByJob() {
		j := v.job(t, change)
		out["Job"+name] = func(ctx context.Context, user client.Client) error { return user.Create(ctx, j.DeepCopy()) }
	}
	meta := metav1.ObjectMeta{Namespace: v.namespace, Name: "theirs"}
	for name, o := range map[string]client.Object{
		"Secret": &corev1.Secret{ObjectMeta: meta}, "ConfigMap": &corev1.ConfigMap{ObjectMeta: meta},
		"NetworkPolicy": &networkingv1.NetworkPolicy{ObjectMeta: meta}, "Service": &corev1.Service{ObjectMeta: meta},
		"Pod": &corev1.Pod{ObjectMeta: meta}, "PVC": &corev1.PersistentVolumeClaim{ObjectMeta: meta},
		"Deployment": &appsv1.Deployment{ObjectMeta: meta},
	} {
		out["Delete"+name] = func(ctx context.Context, user client.Client) error { return user.Delete(ctx, o) }
	}
	for name, o := range v.objectsMade() {
		out["Create"+name] = func(ctx context.Context, user client.Client) error { return user.Create(ctx, copyOf(o)) }
	}
	patch := func(o client.Object, subject string) tryIt {
		return func(ctx context.Context, user client.Client) error {
			return user.Patch(ctx, copyOf(o), client.RawPatch(types.MergePatchType, []byte(subject)))
		}
	}
	const taken = `"metadata":{"labels":{"crossplane-mysql.io/instance":"0123456789","app.kubernetes.io/managed-by":"crossplane-mysql"}}`
	out["PatchDeployment"] = patch(&appsv1.Deployment{ObjectMeta: meta},
		`{"spec":{"template":{"spec":{"serviceAccountName":"admin"}}}}`)
	out["ScaleUp"] = func(ctx context.Context, user client.Client) error {
		scale := &autoscalingv1.Scale{ObjectMeta: meta, Spec: autoscalingv1.ScaleSpec{Replicas: 100}}
		return user.SubResource("scale").Update(ctx, &appsv1.Deployment{ObjectMeta: meta}, client.WithSubResourceBody(scale))
	}
	out["UpdateSecret"] = func(ctx context.Context, user client.Client) error {
		return user.Update(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "theirs", Labels: ours()},
			StringData: map[string]string{"a": "b"}})
	}
	out["PatchPVC"] = patch(pvcOf(v.namespace, "theirs", nil), `{`+taken+`}`)
	out["MoveVolume"] = patch(v.ours, `{"spec":{"claimRef":{"namespace":"default"}}}`)
	out["OwnVolume"] = patch(v.ours, `{"metadata":{"annotations":{"crossplane-mysql.io/claim-namespace":"default"}}}`)
	out["PatchClaim"] = patch(v.claim, `{"spec":{"image":"registry.invalid/mysql:evil"}}`)
	return out
}

// objectsMade returns objects that an attacker would create with the token.
func (v *victim) objectsMade() map[string]client.Object {
	secret := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: name, Labels: ours(),
			Annotations: map[string]string{"kubernetes.io/service-account.name": "default"}}, Type: kind}
	}
	volume := func(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		o := v.ours.DeepCopy()
		o.ObjectMeta = metav1.ObjectMeta{Name: "backup-" + v.namespace, Labels: ours()}
		o.Spec.PersistentVolumeSource = source
		return o
	}
	copied := pvcOf(v.namespace, "copied-pvc", ours())
	copied.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "theirs"}
	return map[string]client.Object{
		"TokenSecret": secret("db-connection", corev1.SecretTypeServiceAccountToken),
		"NamedSecret": secret("tls", corev1.SecretTypeOpaque),
		"RootVolume":  volume(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"EtcVolume":   volume(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/kubernetes"}}),
		"NFSVolume":   volume(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/"}}),
		"CopiedPVC":   copied,
		"NamedPVC":    pvcOf(v.namespace, "cache", ours()),
	}
}

// attacksByJob returns functions that change a backup Job. With each change, the Job's pod would have more
// privileges.
func attacksByJob() map[string]func(*batchv1.Job) {
	inPod := func(change func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
	}
	inContainer := func(change func(*corev1.Container)) func(*batchv1.Job) {
		return inPod(func(p *corev1.PodSpec) { change(&p.Containers[0]) })
	}
	volume := func(source corev1.VolumeSource) func(*batchv1.Job) {
		return inPod(func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
		})
	}
	return map[string]func(*batchv1.Job){
		"Token":    inPod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }),
		"Account":  inPod(func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }),
		"HostPath": volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"Secret":   volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "theirs"}}),
		"OthersPVC": volume(corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "theirs"}}),
		"HostNetwork": inPod(func(p *corev1.PodSpec) { p.HostNetwork = true }),
		"HostPID":     inPod(func(p *corev1.PodSpec) { p.HostPID = true }),
		"Node":        inPod(func(p *corev1.PodSpec) { p.NodeName = "node1" }),
		"Unconfined":  inPod(func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil }),
		"Privileged": inContainer(func(c *corev1.Container) {
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), nil
		}),
		"Capability": inContainer(func(c *corev1.Container) {
			c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		}),
		"Env": inContainer(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "theirs"}}}}
		}),
		"Many": func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(1000)) },
		"Name": func(j *batchv1.Job) { j.Name = "miner" },
	}
}
