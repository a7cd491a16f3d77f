package compose

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// report on the instance: status, conditions and readiness.
func (p *plan) report(out *Output) {
	up := p.start.replicas > 0 && deploymentReady(p.Observed.Deployment) && serviceReady(p.Observed.Service)
	out.Ready = up && p.connected() && allReady(out.Resources)
	out.Status = v1.MySQLStatus{
		Message:     p.message(up),
		Image:       p.image,
		Endpoint:    p.endpoint(),
		Volume:      p.XR.Status.Volume,
		Started:     p.started() || p.start.replicas > 0,
		Initialized: p.engine.password && p.initialized(),
		Restore:     p.start.restore,
	}
	if c := p.Observed.DataPVC; c != nil && c.Spec.VolumeName != "" && (c.Status.Phase == corev1.ClaimBound || !p.hostPath()) {
		out.Status.Volume = c.Spec.VolumeName
	}
	out.Conditions = []Condition{
		p.accepted(),
		p.restored(),
		p.serving(up),
	}
}

func (p *plan) accepted() Condition {
	if p.trouble != nil {
		return Condition{Type: v1.ConditionAccepted, Reason: p.trouble.Reason, Message: p.trouble.Error()}
	}
	return Condition{Type: v1.ConditionAccepted, True: true, Reason: v1.ReasonAccepted}
}

func allReady(rs map[string]Resource) bool {
	for _, r := range rs {
		if !r.Ready {
			return false
		}
	}
	return true
}

// message for people, in a sentence or two. What the original operators said
// after a restore, it says too.
func (p *plan) message(up bool) string {
	switch {
	case p.start.replicas == 0:
		return p.start.message + p.podTrouble()
	case !up:
		return p.prefix() + "Starting the server" + p.podTrouble()
	case !p.connected():
		return p.prefix() + p.loginPending()
	}
	if p.trouble != nil {
		return p.prefix() + "Running, but " + p.trouble.Error()
	}
	return p.prefix() + "Running" + p.reached() + p.passwordTrouble() + p.claimTrouble()
}

// loginPending says what keeps a server that is up from being served: nobody has
// logged in with the password that clients would get.
func (p *plan) loginPending() string {
	if c := p.XR.Status.Credentials; c != nil && c.State == v1.CredentialsFailed {
		return "The server is up, but nobody can log in: " + c.Message
	}
	return "The server is up; waiting for the controller to log in and publish the connection Secret"
}

// podTrouble is what keeps a pod from running: what Kubernetes says to the
// Deployment, or what the controller heard of the pod.
func (p *plan) podTrouble() string {
	trouble := p.XR.Status.Trouble
	if d := p.Observed.Deployment; d != nil && trouble == "" {
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				trouble = c.Message
			}
		}
	}
	if trouble == "" {
		return ""
	}
	return " (" + trouble + ")"
}

// passwordTrouble is what the controller says of the password in the running
// server, where it is not the wanted one.
func (p *plan) passwordTrouble() string {
	switch c := p.XR.Status.Credentials; {
	case c == nil:
		return ""
	case c.State == v1.CredentialsFailed:
		return ", but its password could not be changed: " + c.Message
	case c.State == v1.CredentialsChanging:
		return ". Changing the password: " + c.Message
	}
	return ""
}

// claimTrouble says what became of the handle of the data volume, if anything.
func (p *plan) claimTrouble() string {
	c, name := p.Observed.DataPVC, qualified(p.instance.Namespace, p.instance.DataPVCName())
	switch {
	case p.ephemeral():
	case c == nil:
		return fmt.Sprintf(". PersistentVolumeClaim %s was deleted: it is made again on volume %q", name, p.volume)
	case c.DeletionTimestamp != nil:
		return fmt.Sprintf(". PersistentVolumeClaim %s was deleted: the server stops until it is back on its volume", name)
	}
	return ""
}

func (p *plan) prefix() string {
	if r := p.start.restore; r != nil {
		return fmt.Sprintf("Restoring DB have succeed (backup %s). ", r.Backup)
	}
	return ""
}

func (p *plan) restored() Condition {
	switch p.start.reason {
	case v1.ReasonRestored, v1.ReasonNothingToRestore:
		return Condition{Type: v1.ConditionRestored, True: true, Reason: p.start.reason}
	case v1.ReasonFenced:
		return Condition{Type: v1.ConditionRestored, True: p.started(), Reason: p.start.reason}
	}
	return Condition{Type: v1.ConditionRestored, Reason: p.start.reason, Message: p.start.message}
}

func (p *plan) serving(up bool) Condition {
	switch {
	case p.fenced():
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonFenced, Message: p.start.message}
	case p.start.replicas == 0:
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonHeld, Message: p.start.message}
	case !up:
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonStarting, Message: "The server does not take clients yet" + p.podTrouble()}
	case !p.connected():
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonLoginPending, Message: p.loginPending()}
	}
	return Condition{Type: v1.ConditionServing, True: true, Reason: v1.ReasonRunning}
}

// endpoint at which clients reach the server, or nil while it has none.
func (p *plan) endpoint() *v1.Endpoint {
	s := p.Observed.Service
	if s == nil {
		return nil
	}
	e := &v1.Endpoint{Host: p.instance.Host(), Port: p.engine.port}
	if len(s.Spec.Ports) > 0 {
		e.NodePort = s.Spec.Ports[0].NodePort
	}
	if p.spec.Service.Type != v1.ServiceLoadBalancer {
		return e
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	in := s.Status.LoadBalancer.Ingress[0]
	if e.Host = in.Hostname; e.Host == "" {
		e.Host = in.IP
	}
	return e
}
