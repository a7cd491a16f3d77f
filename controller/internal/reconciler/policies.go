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

// policyVersion is the version of the policies in controller/deploy that this controller requires. It changes if the
// policies refuse something that an older controller does, or allow something that a newer one needs.
const policyVersion = 11

// policyProbe is the name of a Secret that the policies always refuse. Their message contains their version. The
// Secret is never stored.
const policyProbe = "crossplane-mysql-policy-probe"

// A policyCheck checks once whether the policies for the controller's token are in force. It runs when the controller
// becomes the leader. It only reports problems. If a policy refuses a write that the controller needs, the claim
// reports that.
type policyCheck struct {
	kube      client.Client
	namespace string
}

// Start runs the check. The manager calls it.
func (p policyCheck) Start(ctx context.Context) error {
	if trouble := p.trouble(ctx); trouble != "" {
		log.FromContext(ctx).Info("The admission policies for the controller's token are not in force", "why", trouble, "todo",
			"apply controller/deploy/controller of this release, or controller/deploy/opted-in if that is "+
				"installed: docs/concepts/tenancy-and-policy.md explains the policies")
	}
	return nil
}

// trouble describes a problem with the policies. It returns "" if they are in force and have the required version.
func (p policyCheck) trouble(ctx context.Context) string {
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: policyProbe}}
	err := client.NewDryRunClient(p.kube).Create(ctx, probe)
	switch {
	case err == nil:
		return "no policy refused a test write that the policies must refuse"
	case !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err):
		return fmt.Sprintf("the policies cannot be tested: %v", err)
	case !strings.Contains(err.Error(), fmt.Sprintf("policies of version %d.", policyVersion)):
		return fmt.Sprintf("policies of a different version are in force (%v), but this controller requires version %d",
			err, policyVersion)
	}
	return ""
}
