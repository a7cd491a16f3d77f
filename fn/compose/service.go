package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// service returns the Service, whose address is the same for all instances of this name.
func service(r *resolved) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: r.meta(r.instance.ServiceName(), map[string]string{v1.LabelApp: r.instance.AppLabel()}),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceType(r.spec.Service.Type),
			Selector: r.instance.ServerSelector(),
			Ports: []corev1.ServicePort{{
				Name: r.engine.portName, Port: r.engine.port, TargetPort: intstr.FromString(r.engine.portName),
				Protocol: corev1.ProtocolTCP,
			}},
		},
	}
	s.Annotations = r.spec.Service.Annotations
	if refusedService(r) != nil {
		withoutRefused(r, s)
	}
	if r.spec.Service.Headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return s
}

// checkService refuses a change that the API server would always refuse: a Service cannot become headless later, or
// stop being headless.
func checkService(r *resolved) error {
	s := r.Observed.Service
	if s == nil || s.Spec.ClusterIP == "" {
		return nil
	}
	wasHeadless, wantsHeadless := s.Spec.ClusterIP == corev1.ClusterIPNone, r.spec.Service.Headless
	if wasHeadless == wantsHeadless {
		return nil
	}
	return newRefusal(v1.ReasonInvalid,
		"spec.service.headless cannot change. Restore the previous value, or delete the claim (a backup is taken) and "+
			"create it again")
}
