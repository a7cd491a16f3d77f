// Package admission tests the admission policies in controller/deploy with the API server's own plugin.
package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientgotesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// controller is the user name that the API server gives to the controller's ServiceAccount.
const controller = "system:serviceaccount:crossplane-mysql-system:crossplane-mysql"

// A Write is a request to write an object. Old is nil for a creation, and New is nil for a deletion. A Scale is
// always the scale of a Deployment.
type Write struct {
	New, Old client.Object
	// By is the name of the user, or "" for the controller.
	By string
	// Subresource is the written subresource, or "" for the object itself.
	Subresource string
}

// A Grant contains the permissions that RBAC gives a user in one namespace, or in all namespaces if Namespace is
// empty.
type Grant struct {
	User, Namespace string
	Rules           []rbacv1.PolicyRule
}

// allows reports whether the grant covers a request, by the rules of RBAC.
func (g Grant) allows(a authorizer.Attributes) bool {
	if a.GetUser().GetName() != g.User || g.Namespace != "" && g.Namespace != a.GetNamespace() {
		return false
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	contains := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return slices.ContainsFunc(g.Rules, func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) == 0 && contains(r.Verbs, a.GetVerb()) && contains(r.APIGroups, a.GetAPIGroup()) &&
			contains(r.Resources, resource)
	})
}

// Policies evaluates the admission policies in a manifest file.
type Policies struct {
	plugin  *validating.Plugin
	objects admission.ObjectInterfaces
}

// Read activates the policies of a manifest file until the context is canceled. If a policy checks the permissions of
// a user, the grants decide. Without grants, such a check is an error.
func Read(ctx context.Context, file string, grants ...Grant) (*Policies, error) {
	objects, err := decode(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	done := make(chan struct{})
	context.AfterFunc(ctx, func() { close(done) })
	kube := fake.NewClientset(objects...)
	kube.PrependReactor("get", "namespaces", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		get, ok := action.(clientgotesting.GetAction)
		if !ok {
			return false, nil, nil
		}
		return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: get.GetName()}}, nil
	})
	p := &Policies{plugin: validating.NewPlugin(nil),
		objects: admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)}
	factory := informers.NewSharedInformerFactory(kube, time.Hour)
	p.plugin.SetExternalKubeClientSet(kube)
	p.plugin.SetExternalKubeInformerFactory(factory)
	p.plugin.SetRESTMapper(meta.NewDefaultRESTMapper(nil))
	p.plugin.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme))
	p.plugin.SetAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
		string, error) {
		switch {
		case len(grants) == 0:
			return authorizer.DecisionNoOpinion, "", errors.New("the test grants nothing, so a policy must not ask the " +
				"authorizer")
		case slices.ContainsFunc(grants, func(g Grant) bool { return g.allows(a) }):
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
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

// decode returns the policies and bindings in a file, with the defaults of the API server.
func decode(file string) ([]runtime.Object, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // The test chooses the file.
	if err != nil {
		return nil, err
	}
	strict := serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		o, _, err := strict.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, err
		}
		switch o := o.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			m := o.Spec.MatchConstraints
			m.NamespaceSelector, m.ObjectSelector, m.MatchPolicy = &metav1.LabelSelector{}, &metav1.LabelSelector{}, new(
				admissionv1.Equivalent)
		case *admissionv1.ValidatingAdmissionPolicyBinding:
		default:
			return nil, fmt.Errorf("unexpected %T among the policies", o)
		}
		out = append(out, o)
	}
	return out, nil
}

// Refusal returns the error of the policy that refuses a write, or nil if all policies allow it.
func (p *Policies) Refusal(ctx context.Context, w Write) error {
	o, operation, options := w.New, admission.Create, runtime.Object(&metav1.CreateOptions{})
	switch {
	case w.New == nil:
		o, operation, options = w.Old, admission.Delete, &metav1.DeleteOptions{}
	case w.Old != nil:
		operation, options = admission.Update, &metav1.UpdateOptions{}
	}
	kind, err := apiutil.GVKForObject(o, clientgoscheme.Scheme)
	if err != nil { // The scheme does not contain the product's own types.
		kind = o.GetObjectKind().GroupVersionKind()
	}
	resource := v1.ResourceOf(kind)
	subresource := w.Subresource
	if kind.Kind == "Scale" {
		resource, subresource = appsv1.SchemeGroupVersion.WithResource("deployments"), "scale"
	}
	requester := &user.DefaultInfo{Name: cmp.Or(w.By, controller)}
	return p.plugin.Validate(ctx, admission.NewAttributesRecord(w.New, w.Old, kind, o.GetNamespace(), o.GetName(),
		resource, subresource, operation, options, false, requester), p.objects)
}
