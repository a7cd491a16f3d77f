package compose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// outsideWarning returns problems outside of the server, such as a load balancer without an address, or "". They do
// not prevent the server from being ready.
func outsideWarning(r *resolved) string {
	var all []string
	if refused := refusedService(r); refused != nil {
		all = append(all, fmt.Sprintf(
			"Service %s does not match spec.service, because the API server refused the change: %s. Clients reach the server "+
				"at %s. Change spec.service, or fix the cause. The change is retried every ten minutes",
			qualifiedName(r.instance.Namespace, r.instance.ServiceName()), refused.Message, inCluster(r)))
	} else if awaitsAddress(r) {
		name := qualifiedName(r.instance.Namespace, r.instance.ServiceName())
		all = append(all, fmt.Sprintf(
			"Service %s has no address yet, because no load balancer has assigned one (kubectl describe service --namespace "+
				"%s %s). Clients in the cluster reach the server at %s",
			name, r.instance.Namespace, r.instance.ServiceName(), inCluster(r)))
	}
	if w := r.XR.Status.CrossplaneWarning; w != "" {
		all = append(all, w)
	}
	return strings.Join(all, ". ")
}

// inCluster returns the server's host and port in the cluster.
func inCluster(r *resolved) string {
	return r.instance.Host() + ":" + strconv.Itoa(int(r.engine.port))
}

// awaitsAddress reports whether the Service is of type LoadBalancer and has no address.
func awaitsAddress(r *resolved) bool {
	s := r.Observed.Service
	return s != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer && loadBalancerAddress(s) == ""
}

// serviceRefused matches Crossplane's message that the API server refused the Service. After any error other than
// "invalid", Crossplane applies nothing else, not even the status. Source: internal/controller/apiextensions/composite
// of Crossplane v2.4.0.
var serviceRefused = regexp.MustCompile(`cannot apply composed resource "` + v1.ResourceService + `": (.*)`)

// serviceInvalid matches Crossplane's message that the Service is invalid. The reason is only in an event.
var serviceInvalid = regexp.MustCompile(`^Unsynced resources: (?:.*[ ,])?` + v1.ResourceService + `(?:,|$)`)

// refusedService returns the refusal if the API server has refused the type or the annotations of the Service, or
// nil. They are then omitted. Otherwise a quota for load balancers, for example, would prevent Crossplane from
// applying any other change of the instance. The controller regularly removes the status field, so that the requested
// Service is tried again.
func refusedService(r *resolved) *v1.RefusedService {
	wanted := r.spec.Service
	if len(wanted.Annotations) == 0 && wanted.Type != v1.ServiceNodePort && wanted.Type != v1.ServiceLoadBalancer {
		return nil // The Service has no type or annotation that can be omitted.
	}
	digest := digestOf(wanted)
	if known := r.XR.Status.RefusedService; known != nil && known.Digest == digest {
		return known
	}
	if m := serviceRefused.FindStringSubmatch(r.Unsynced); m != nil {
		return &v1.RefusedService{Digest: digest, Message: v1.PrintableText(m[1], v1.MaxForeignText)}
	}
	if serviceInvalid.MatchString(r.Unsynced) {
		return &v1.RefusedService{Digest: digest,
			Message: "the Service is invalid (for the reason, see the events of the composite resource)"}
	}
	return nil
}

// withoutRefused changes a Service to the type and annotations of the observed Service. If none is observed, it
// changes the Service to type ClusterIP. A headless Service stays headless, because this cannot change later.
func withoutRefused(r *resolved, s *corev1.Service) {
	s.Spec.Type, s.Annotations = corev1.ServiceTypeClusterIP, nil
	observed := r.Observed.Service
	if observed == nil {
		return
	}
	if observed.Spec.Type != "" {
		s.Spec.Type = observed.Spec.Type
	}
	for key := range r.spec.Service.Annotations {
		if value, ok := observed.Annotations[key]; ok {
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			s.Annotations[key] = value
		}
	}
}

// checkOwnSecret refuses a Secret that the instance itself creates, because the instance would wait for it forever.
func checkOwnSecret(r *resolved, path, name string) error {
	if name != "" && r.instance.IsOwnSecret(name) {
		return newRefusal(v1.ReasonInvalid,
			"%s: Secret %s is created by this instance itself. Create a Secret with another name, and use that name", path,
			qualifiedName(r.instance.Namespace, name))
	}
	return nil
}
