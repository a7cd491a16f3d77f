// Package admission has the policies of controller/deploy judge what a test writes, with the API server's own plugin.
package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientgotesting "k8s.io/client-go/testing"
)

// Controller is the name under which the API server knows the controller.
const Controller = "system:serviceaccount:crossplane-mysql-system:crossplane-mysql"

// A Write of an object: Old is nil for one that is made, and New for one that is deleted.
type Write struct {
	Resource    schema.GroupVersionResource
	Subresource string
	New, Old    runtime.Object
	// By a user; empty for the controller.
	By string
}

// Policies that are in force.
type Policies struct {
	plugin  *validating.Plugin
	objects admission.ObjectInterfaces
}

// Read the policies of manifest files and put them in force, until the context ends.
func Read(ctx context.Context, files ...string) (*Policies, error) {
	done := ctx.Done()
	if done == nil { // It never ends.
		done = make(chan struct{})
	}
	var objects []runtime.Object
	for _, file := range files {
		found, err := decode(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, found...)
	}
	kube := fake.NewClientset(objects...)
	kube.PrependReactor("get", "namespaces", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		get, ok := action.(clientgotesting.GetAction)
		if !ok {
			return false, nil, nil
		}
		return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: get.GetName()}}, nil
	})
	p := &Policies{plugin: validating.NewPlugin(nil), objects: admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)}
	factory := informers.NewSharedInformerFactory(kube, time.Hour)
	p.plugin.SetExternalKubeClientSet(kube)
	p.plugin.SetExternalKubeInformerFactory(factory)
	p.plugin.SetRESTMapper(meta.NewDefaultRESTMapper(nil))
	p.plugin.SetDynamicClient(dynamic.Interface(dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)))
	p.plugin.SetAuthorizer(authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", errors.New("no policy may ask")
	}))
	p.plugin.SetDrainedNotification(done)
	if err := p.plugin.ValidateInitialization(); err != nil {
		return nil, err
	}
	factory.Start(done)
	if !p.plugin.WaitForReady() {
		return nil, errors.New("the policies are not in force")
	}
	return p, nil
}

// decode the policies and their bindings of a file.
func decode(file string) ([]runtime.Object, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // A test says which.
	if err != nil {
		return nil, err
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	var out []runtime.Object
	for {
		var kind metav1.TypeMeta
		var part runtime.RawExtension
		if err := d.Decode(&part); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(part.Raw, &kind); err != nil {
			return nil, err
		}
		var o runtime.Object
		switch kind.Kind {
		case "ValidatingAdmissionPolicy":
			o = withDefaults(&admissionv1.ValidatingAdmissionPolicy{})
		case "ValidatingAdmissionPolicyBinding":
			o = &admissionv1.ValidatingAdmissionPolicyBinding{}
		default:
			return nil, fmt.Errorf("there is a %s among the policies", kind.Kind)
		}
		if err := yaml.UnmarshalStrict(part.Raw, o); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
}

// withDefaults that the API server adds.
func withDefaults(p *admissionv1.ValidatingAdmissionPolicy) *admissionv1.ValidatingAdmissionPolicy {
	p.Spec.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(admissionv1.Equivalent),
	}
	return p
}

// Refusal of a write; nil where nothing is said against it.
func (p *Policies) Refusal(ctx context.Context, w Write) error {
	o, operation, options := w.New, admission.Create, runtime.Object(&metav1.CreateOptions{})
	switch {
	case w.New == nil:
		o, operation, options = w.Old, admission.Delete, &metav1.DeleteOptions{}
	case w.Old != nil:
		operation, options = admission.Update, &metav1.UpdateOptions{}
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	name := w.By
	if name == "" {
		name = Controller
	}
	a := admission.NewAttributesRecord(w.New, w.Old, o.GetObjectKind().GroupVersionKind(), m.GetNamespace(), m.GetName(), w.Resource, w.Subresource, operation, options, false, &user.DefaultInfo{Name: name})
	return p.plugin.Validate(ctx, a, p.objects)
}
