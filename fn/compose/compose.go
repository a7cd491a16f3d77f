package compose

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A plan is an Input that was checked, with all that is derived from it.
type plan struct {
	Input

	engine   engine
	instance v1.Instance
	spec     v1.MySQLSpec
	image    string
	// asked is the size that the spec asks for, and size what the volume gets.
	asked resource.Quantity
	size  resource.Quantity
	// serverResources and jobResources are what their containers ask for.
	serverResources, jobResources corev1.ResourceRequirements

	password string
	config   string
	volume   string
	start    start
	// trouble of an instance that has started: what cannot be carried out, where
	// the rest can.
	trouble *Refusal
}

// Compose an instance. An error is a *Refusal: the caller must leave all that
// exists as it is, and the Output then has nothing but the needs that led to
// it. While an answer is still unknown nothing is added that is not observed
// already.
func Compose(in Input) (*Output, error) {
	p := &plan{Input: in, engine: engineOf(in), instance: in.XR.Instance(), spec: withDefaults(in.XR.Spec.MySQLSpec)}
	for _, step := range []func() error{p.readSettings, p.checkSpec} {
		if err := step(); err != nil {
			return &Output{}, err
		}
	}
	for _, step := range []func() error{p.checkStorage, p.checkGrowth, p.checkPassword, p.checkService, p.checkNames, p.decide} {
		if err := step(); err != nil {
			return &Output{Needs: p.needs()}, err
		}
	}
	out := &Output{Needs: p.needs(), Resources: p.resources(), Connection: p.connection()}
	p.report(out)
	return out, nil
}

// resources that are wanted and may be made.
func (p *plan) resources() map[string]Resource {
	out := map[string]Resource{
		v1.ResourceDataPVC:      {Object: p.dataPVC(), Ready: claimReady(p.Observed.DataPVC)},
		v1.ResourceRootPassword: {Object: p.rootPassword(), Ready: p.Observed.RootPassword != nil},
		v1.ResourceConfig:       {Object: p.configMap(), Ready: p.Observed.Config != nil},
		v1.ResourceDeployment:   {Object: p.deployment(), Ready: deploymentReady(p.Observed.Deployment)},
		v1.ResourceService:      {Object: p.service(), Ready: serviceReady(p.Observed.Service)},
	}
	if p.hostPath() {
		out[v1.ResourceDataPV] = Resource{Object: p.dataPV(), Ready: volumeReady(p.Observed.DataPV)}
	}
	if p.wantsJob() {
		out[v1.ResourceRestore] = Resource{Object: p.restoreJob(), Ready: jobComplete(p.Observed.Restore), SpecObserved: p.Observed.Restore != nil}
	}
	for name := range out {
		if !p.Observed.has(name) && !p.mayMake(name) {
			delete(out, name)
		}
	}
	return out
}

// mayMake is true once the resource's name is known to be free. A gate delays
// creation, it never takes away.
func (p *plan) mayMake(name string) bool {
	if !p.wants(name) || name == v1.ResourceRootPassword && p.password == "" {
		return false
	}
	return p.Answers.Existing[name].Known && p.taken(name) == nil
}

// wantsJob is true while there is something to restore. A Job that was observed
// stays, and one that has done its work and is gone is not made again.
func (p *plan) wantsJob() bool {
	if p.Observed.Restore != nil {
		return true
	}
	r := p.start.restore
	if p.fenced() || p.blind() {
		return false
	}
	return r != nil && r.Phase != v1.RestoreSucceeded && p.start.replicas == 0 && !p.started()
}

// hostPath is true if the data lies in a folder of the node.
func (p *plan) hostPath() bool { return p.Settings.Volumes == v1.VolumesHostPath && !p.ephemeral() }

// started is true once the function let the server start. The Deployment says so
// too, for a status that was never written. Its replicas do not: whoever scales
// a Deployment that waits must not start an empty server.
func (p *plan) started() bool {
	d := p.Observed.Deployment
	return p.XR.Status.Started || d != nil && d.Annotations[v1.AnnotationStarted] == p.startedMark()
}

// startedMark is of this life of the instance alone.
func (p *plan) startedMark() string { return "started-" + string(p.instance.XR) }

// connection details are those of the Secret that the controller keeps. While
// it cannot be seen, what was published stays.
func (p *plan) connection() map[string][]byte {
	if s := p.connectionSecret(); s != nil {
		return s.Data
	}
	if len(p.Published) > 0 {
		return p.Published
	}
	return nil
}

// connectionSecret of this life of the instance, or nil.
func (p *plan) connectionSecret() *corev1.Secret {
	s := p.Answers.Connection.first()
	if s == nil || len(s.Data) == 0 || s.Labels[v1.LabelXR] != string(p.instance.XR) {
		return nil
	}
	return s
}

// unlessStarted refuses for an instance that has not started. One that has goes
// on without what cannot be carried out, and says so: a Secret that somebody
// deleted must not keep a server from being stopped, or a volume from growing.
func (p *plan) unlessStarted(err error) error {
	if r := (*Refusal)(nil); p.started() && errors.As(err, &r) {
		p.trouble = r
		return nil
	}
	return err
}

// refuse with a reason.
func refuse(reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, args...)}
}
