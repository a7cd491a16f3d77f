package compose

import (
	"cmp"
	"errors"
	"fmt"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Compose composes an instance. Every error is a *Refusal. In that case, the Output contains only the requirements,
// and the caller must not change existing objects. While a required resource is unknown, Compose adds no resource
// that is not observed yet.
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

// build returns the desired resources. It omits resources that must not be created yet.
func build(r *resolved, s storage, begin start, rev revision, password string) map[string]Resource {
	out := map[string]Resource{
		v1.ResourceDataPVC:      {Object: dataPVC(r, s), Ready: pvcReady(r.Observed.DataPVC)},
		v1.ResourceRootPassword: {Object: rootPassword(r, begin, password), Ready: r.Observed.RootPassword != nil},
		v1.ResourceConfig:       {Object: configMap(r.serverInput, rev), Ready: r.Observed.Config != nil},
		v1.ResourceDeployment: {Object: deployment(r.serverInput, begin, rev),
			Ready: deploymentReady(r.Observed.Deployment), AsObserved: rev.asObserved()},
		v1.ResourceService:   {Object: service(r), Ready: serviceReady(r.Observed.Service)},
		v1.ResourceJobPolicy: {Object: jobPolicy(r), Ready: true}, // Clients do not wait for a policy.
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
	if rev.settings != nil && rev.settings.validate {
		job := Resource{Object: settingsJob(r), Ready: true} // The server runs without this Job.
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

// mayMake reports whether a resource may be created now. For example, no other object may have its name. For a
// resource that already exists, the result is irrelevant.
func mayMake(r *resolved, name, password string) bool {
	if !mayHave(r, name) || isPlanned(r) || !r.Required.Platform.Known || name == v1.ResourceRootPassword && password == "" ||
		name == v1.ResourceDataPVC && awaitsBackups(r) {
		return false
	}
	return r.Required.Existing[name].Known && checkName(r, name) == nil
}

// unlessStarted returns the error if the instance has not started, and nil if it has. A started instance continues
// with a warning. For example, a Secret that a user deleted must not prevent a server from stopping or a volume from
// growing.
func (r *resolved) unlessStarted(err error) error {
	if refusal := (*Refusal)(nil); r.started && errors.As(err, &refusal) {
		return nil
	}
	return err
}

// warningOf returns the last Refusal in errs, or nil. The errors did not stop the instance, so the caller reports the
// Refusal as a warning.
func warningOf(errs ...error) *Refusal {
	var last *Refusal
	for _, err := range errs {
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			last = refusal
		}
	}
	return last
}

// newRefusal returns a Refusal with a reason.
func newRefusal(reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, args...)}
}
