package compose

import (
	"cmp"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A revision contains everything that determines the server's pod: the template of its Deployment, and the my.cnf.
// Both must be from the same release, because the my.cnf may name files that only the template mounts.
type revision struct {
	// mark is the value of AnnotationRevision: the digests of the templateInput and the template, joined by a dot.
	mark     string
	template corev1.PodTemplateSpec
	config   string
	// certified is true if the server's pod mounts its certificate.
	certified bool
	// observed is true if the Deployment must keep its observed template.
	observed bool
	// seen is the digest of the observed template, if it was created from this revision.
	seen string
	// settings are new settings that are not in use yet, or nil.
	settings *newSettings
	// served is the last my.cnf that worked, if the ConfigMap must contain it in addition to config.
	served string
}

// asObserved returns the path of the Deployment's template if it must keep its observed value, or nil.
func (rev revision) asObserved() []string {
	if !rev.observed {
		return nil
	}
	return []string{"spec", "template"}
}

// chooseRevision returns the revision of the server with its new settings. If the settings in the spec were reverted,
// it uses the last settings that worked instead.
func chooseRevision(r *resolved, begin start) revision {
	back, isBack := takenBack(r)
	effective := *r
	if isBack {
		changed := *r.serverInput
		changed.config, effective.serverInput = back, &changed
	}
	out := decideRevision(&effective, begin, isBack)
	out.served = servedConfig(r, out, isBack)
	switch {
	case !r.Required.Platform.Known:
	case isBack:
		out.settings = &newSettings{phase: v1.SettingsTakenBack}
	case out.settings == nil && out.served != "":
		out.settings = &newSettings{phase: v1.SettingsOnTrial}
	}
	return out
}

// decideRevision returns the revision of this release and the current spec, unless a running server must keep its
// own. A changed template restarts the server, and neither a newer release of this function nor new platform settings
// may restart it. The server keeps its revision until one of these events:
//
// - its own spec changes; new settings are validated first
// - another client changes the template, which restarts it anyway (such as `kubectl rollout restart`)
// - it is stopped
// - the platform requests the restart
//
// If settings were reverted, a server that still runs with them restarts with the previous settings.
func decideRevision(r *resolved, begin start, isBack bool) revision {
	template := serverTemplate(r.serverInput)
	today := revision{mark: digestOf(r.templateInput) + "." + digestOf(template), template: template, config: r.config,
		certified: isCertified(r.serverInput)}
	d, t := r.Observed.Deployment, r.Observed.Template
	if d == nil || t == nil {
		return today
	}
	mark := d.Annotations[v1.AnnotationRevision]
	if mark == today.mark {
		today.seen = t.Digest
		return today
	}
	config, ok := configOf(r, t)
	observed := revision{mark: mark, config: config, observed: true, seen: t.Digest, certified: t.Certified}
	if !r.Required.Platform.Known { // The current template is also unknown.
		observed.config = cmp.Or(config, r.config)
		return observed
	}
	if isBack && ofClaim(r, config) != ofClaim(r, r.config) {
		return today
	}
	if ok && isAsMade(r) && isInUse(r, begin) && r.Settings.Maintenance != v1.MaintenanceNow &&
		r.XR.Status.Revision != "" && r.XR.Status.Revision == t.Digest {
		return observed
	}
	if observed.settings = validateSettings(r, begin); ok && observed.settings != nil {
		return observed
	}
	return today
}

// isAsMade reports whether the pod template of the Deployment was created from the current templateInput: the fields of
// the spec that determine the pod.
func isAsMade(r *resolved) bool {
	d := r.Observed.Deployment
	if d == nil {
		return false
	}
	made, _, _ := strings.Cut(d.Annotations[v1.AnnotationRevision], ".")
	return made == digestOf(r.templateInput)
}

// isInUse reports whether a server runs and a client has logged in, as far as this is known. If no client ever has, a
// newer release may change the server's pod to fix it.
func isInUse(r *resolved, begin start) bool {
	current := r.Observed.Deployment.Spec.Replicas
	return begin.replicas > 0 && current != nil && *current > 0 && r.started &&
		(!r.engine.password || connectionSecret(r) != nil || isInitialized(r, begin.restore))
}

// configOf returns the my.cnf that the observed template was created with, or false if it is unknown.
func configOf(r *resolved, t *Template) (string, bool) {
	if r.engine.config == "" || digest(r.config) == t.ConfigHash {
		return r.config, true
	}
	for _, key := range []string{v1.ConfigKey, v1.ServedConfigKey} {
		if text := observedConfig(r, key); digest(text) == t.ConfigHash {
			return text, true
		}
	}
	return "", false
}

// digestOf returns the digest of a value's JSON, in which the keys of maps are sorted.
func digestOf(v any) string {
	text, _ := json.Marshal(v) //nolint:errchkjson // Strings, numbers, quantities and booleans only.
	return digest(string(text))
}
