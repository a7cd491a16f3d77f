package compose

import (
	"cmp"
	"errors"
	"fmt"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Compose an instance. An error is a *Refusal: the caller must leave all that
// exists as it is, and the Output then has nothing but the requirements that led to
// it. While a required resource is still unknown nothing is added that is not observed
// already.
func Compose(in Input) (*Output, error) {
	r, err := resolve(in)
	if err != nil {
		return &Output{Requirements: map[string]Requirement{RequiredPlatform: platformRequirement()}}, err
	}
	s, err := resolveStorage(r)
	requirements := requirementsOf(r, s)
	if err != nil {
		return &Output{Requirements: requirements}, err
	}
	password, missing := resolvePassword(r)
	taken := checkNames(r)
	kept, forbidden := checkAllowed(r)
	if err := cmp.Or(r.unlessStarted(missing), checkService(r), forbidden, r.unlessStarted(taken)); err != nil {
		return &Output{Requirements: requirements}, err
	}
	begin, err := decideStart(r, password)
	if err != nil {
		return &Output{Requirements: requirements}, err
	}
	revision := chooseRevision(r, begin)
	resources := build(r, s, begin, revision, password)
	out := report(r, s, begin, revision, resources, warningOf(r.unplanned, s.cannotGrow, kept, missing, taken))
	out.Requirements, out.Resources, out.Connection = requirements, resources, connectionOf(r)
	return out, nil
}

// build the resources that are wanted and may be made.
func build(r *resolved, s storage, begin start, of revision, password string) map[string]Resource {
	out := map[string]Resource{
		v1.ResourceDataPVC:      {Object: dataPVC(r, s), Ready: pvcReady(r.Observed.DataPVC)},
		v1.ResourceRootPassword: {Object: rootPassword(r, begin, password), Ready: r.Observed.RootPassword != nil},
		v1.ResourceConfig:       {Object: configMap(r.serverInput, of), Ready: r.Observed.Config != nil},
		v1.ResourceDeployment:   {Object: deployment(r.serverInput, begin, of), Ready: deploymentReady(r.Observed.Deployment), AsObserved: of.asObserved()},
		v1.ResourceService:      {Object: service(r), Ready: serviceReady(r.Observed.Service)},
		v1.ResourceJobPolicy:    {Object: jobPolicy(r), Ready: true}, // Clients wait for no policy.
	}
	if r.spec.NetworkPolicy != nil {
		out[v1.ResourceServerPolicy] = Resource{Object: serverPolicy(r), Ready: true}
	}
	if r.hostPath {
		out[v1.ResourceDataPV] = Resource{Object: dataPV(r, s), Ready: pvReady(r.Observed.DataPV)}
	}
	if wantsRestoreJob(r, begin) {
		job := Resource{Object: restoreJob(r, begin.restore), Ready: jobComplete(r.Observed.Restore)}
		if r.Observed.Restore != nil {
			job.AsObserved = []string{"spec"}
		}
		out[v1.ResourceRestore] = job
	}
	if of.settings != nil && of.settings.validate {
		job := Resource{Object: settingsJob(r), Ready: true} // The server runs without it.
		if r.Observed.SettingsCheck != nil {
			job.AsObserved = []string{"spec"}
		}
		out[v1.ResourceSettingsCheck] = job
	}
	for name := range out {
		if !r.Observed.hasResource(name) && !mayMake(r, name, password) {
			delete(out, name)
		}
	}
	return out
}

// mayMake is true once the resource's name is known to be free. A gate delays
// creation, it never takes away.
func mayMake(r *resolved, name, password string) bool {
	if !mayHave(r, name) || !r.Required.Platform.Known || name == v1.ResourceRootPassword && password == "" {
		return false
	}
	return r.Required.Existing[name].Known && checkName(r, name) == nil
}

// unlessStarted refuses for an instance that has not started. One that has goes
// on without what cannot be carried out, and says so: a Secret that somebody
// deleted must not keep a server from being stopped, or a volume from growing.
func (r *resolved) unlessStarted(err error) error {
	if refusal := (*Refusal)(nil); r.started && errors.As(err, &refusal) {
		return nil
	}
	return err
}

// warningOf what cannot be carried out where the rest can: the last of them, or nil.
func warningOf(errs ...error) *Refusal {
	var last *Refusal
	for _, err := range errs {
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			last = refusal
		}
	}
	return last
}

// newRefusal with a reason.
func newRefusal(reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, args...)}
}
