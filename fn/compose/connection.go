package compose

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// connectionOf returns the connection details of the instance from the controller's Secret. If the Secret cannot be
// read, it returns the details that are already published.
func connectionOf(r *resolved) map[string][]byte {
	if s := connectionSecret(r); s != nil {
		return s.Data
	}
	if len(r.Published) > 0 {
		return r.Published
	}
	return nil
}

// connectionSecret returns the connection Secret of this XR, or nil.
func connectionSecret(r *resolved) *corev1.Secret {
	s := r.Required.Connection.firstItem()
	if s == nil || len(s.Data) == 0 || s.Labels[v1.LabelXR] != string(r.instance.XR) {
		return nil
	}
	return s
}

// isConnected reports whether the credentials for clients are published, or are not needed.
func isConnected(r *resolved) bool { return !r.engine.password || connectionSecret(r) != nil }

// bindingOf returns the name of the connection Secret for the status. The name is kept once it is set.
func bindingOf(r *resolved) *v1.Binding {
	if connectionSecret(r) == nil {
		return r.XR.Status.Binding
	}
	return &v1.Binding{Name: r.instance.ConnectionSecretName()}
}

// endpointOf returns the address of the server for clients, or nil without a Service. It is the address that a load
// balancer has assigned, or else the Service's name in the cluster.
func endpointOf(r *resolved) *v1.Endpoint {
	s := r.Observed.Service
	if s == nil {
		return nil
	}
	e := &v1.Endpoint{Host: r.instance.Host(), Port: r.engine.port}
	if len(s.Spec.Ports) > 0 {
		e.NodePort = s.Spec.Ports[0].NodePort
	}
	if address := loadBalancerAddress(s); address != "" && r.spec.Service.Type == v1.ServiceLoadBalancer {
		e.Host = address
	}
	return e
}

// loadBalancerAddress returns the first address that a load balancer has assigned, or "".
func loadBalancerAddress(s *corev1.Service) string {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if address := cmp.Or(in.Hostname, in.IP); address != "" {
			return address
		}
	}
	return ""
}
