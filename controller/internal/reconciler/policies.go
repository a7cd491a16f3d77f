package reconciler

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// policyVersion is that of the policies in controller/deploy that this controller was written with. It changes when they come
// to refuse something that an older controller does, or to allow something that a newer one needs.
const policyVersion = 9

// policyProbe is a Secret that the policies refuse, with their version. Nothing of it is kept.
const policyProbe = "crossplane-mysql-policy-probe"

// A policyCheck looks once, when the controller begins to lead, whether the policies for its token are in force. It stops
// nothing: where a policy refuses what is needed, the claim says so.
type policyCheck struct {
	kube      client.Client
	namespace string
}

// Start is what the manager calls.
func (p policyCheck) Start(ctx context.Context) error {
	if trouble := p.trouble(ctx); trouble != "" {
		log.FromContext(ctx).Info("The controller's token is not narrowed as it should be", "why", trouble, "todo", "apply controller/deploy/controller, or opted-in where that was installed, of this release: docs/security.md says what for")
	}
	return nil
}

// trouble with the policies in words; empty where they are in force, and of the same version.
func (p policyCheck) trouble(ctx context.Context) string {
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: policyProbe}}
	err := client.NewDryRunClient(p.kube).Create(ctx, probe)
	switch {
	case err == nil:
		return "no policy refuses what the controller never does"
	case !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err):
		return fmt.Sprintf("it cannot be found out: %v", err)
	case !strings.Contains(err.Error(), fmt.Sprintf("policies of version %d.", policyVersion)):
		return fmt.Sprintf("policies of another version are in force (%v), and this controller needs those of version %d", err, policyVersion)
	}
	return ""
}
