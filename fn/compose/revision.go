package compose

import (
	"cmp"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A revision is what a server's pod is made from: the template of its Deployment, and
// the my.cnf that the server reads when it starts. They change together: one release's
// my.cnf may name what only its own template mounts.
type revision struct {
	// mark of the Deployment: a digest of the wish, a dot, and one of the template.
	mark     string
	template corev1.PodTemplateSpec
	config   string
	// certified is true if the server's pod has its certificate.
	certified bool
	// observed: the template is wanted as it is observed, and not as it would be made today.
	observed bool
	// seen is the digest of the observed template where that came of this revision.
	seen string
	// settings that are not in force yet; nil if there are none.
	settings *newSettings
	// served is the last my.cnf that has served, while that is kept beside another one.
	served string
}

// asObserved is what of the Deployment is wanted so.
func (of revision) asObserved() []string {
	if !of.observed {
		return nil
	}
	return []string{"spec", "template"}
}

// chooseRevision of the server, with the settings that are on their way into it. Settings that were taken back are replaced by
// those that served last.
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

// decideRevision is today's, but for a server that runs: whatever changes its template
// restarts it, and a newer release of this function, or other settings of the platform,
// are no reason for that. It keeps what it was started with until its own spec changes,
// somebody else changes the template, which restarts it anyway (as `kubectl rollout
// restart` does), it is stopped, or the platform says that now is the time. New settings of its
// spec are validated first. If settings were rolled back,
// a server that still runs with them restarts with the previous settings.
func decideRevision(r *resolved, begin start, isBack bool) revision {
	template := serverTemplate(r.serverInput)
	today := revision{mark: digestOf(r.wish) + "." + digestOf(template), template: template, config: r.config, certified: isCertified(r.serverInput)}
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
	if !r.Required.Platform.Known { // Nor is today's template.
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

// isAsMade reports whether the wish is the one that the server's template was made with.
func isAsMade(r *resolved) bool {
	d := r.Observed.Deployment
	if d == nil {
		return false
	}
	made, _, _ := strings.Cut(d.Annotations[v1.AnnotationRevision], ".")
	return made == digestOf(r.wish)
}

// isInUse is true for a server that runs, and that somebody has logged in to where one
// can tell. One that never came so far may be what a newer release mends.
func isInUse(r *resolved, begin start) bool {
	have := r.Observed.Deployment.Spec.Replicas
	return begin.replicas > 0 && have != nil && *have > 0 && r.started &&
		(!r.engine.password || connectionSecret(r) != nil || isInitialized(r, begin.restore))
}

// configOf the observed template: today's where they are the same, or else what is
// observed, if it is what the template was made with.
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

// digestOf a value's JSON, in which the keys of a map are sorted.
func digestOf(v any) string {
	text, _ := json.Marshal(v) //nolint:errchkjson // Strings, numbers, quantities and booleans only.
	return digest(string(text))
}
