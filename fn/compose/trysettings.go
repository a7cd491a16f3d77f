package compose

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A running server restarts with new settings only after a Job has started a server of the same image with them. That
// server has no data:
//
//	spec.config ─▶ Job ── fails ────────▶ refused: the server keeps the old settings.
//	                  └── succeeds ─────▶ on trial: the server restarts with them.
//	                                       ├─ it accepts clients ─▶ in use.
//	                                       └─ it keeps exiting ───▶ reverted: it restarts with the last settings.
//
// The controller detects that the server keeps exiting, and writes it to status.internal.settingsVerdict.

// newSettings are settings of the spec that are not in use yet.
type newSettings struct {
	phase v1.SettingsPhase
	// validate is true if the Job that validates the settings is required.
	validate bool
	// message explains the phase of the new settings. It is used if the controller reports no message.
	message string
}

// settingsID identifies the settings, and everything else on which a successful start with them depends. Settings
// that were refused or reverted are therefore tried again with a different image or different resources.
func settingsID(r *resolved) string {
	return digestOf(struct {
		Image     string                `json:"image"`
		Config    map[string]v1.Setting `json:"config,omitempty"`
		Resources *v1.Resources         `json:"resources,omitempty"`
	}{r.templateInput.Image, r.templateInput.Config, r.templateInput.Resources})
}

// mayValidate reports whether the spec contains settings that the running server was not created with, so that a Job
// may have to validate them.
func mayValidate(r *resolved) bool {
	return r.started && r.engine.password && r.engine.config != "" && len(r.spec.Config) > 0 &&
		r.Observed.Template != nil && !isAsMade(r)
}

// validateSettings returns the new settings that a running server must not use yet, or nil if there are none.
func validateSettings(r *resolved, begin start) *newSettings {
	t := r.Observed.Template
	if !mayValidate(r) || !hasServed(r) || !isInUse(r, begin) || t.Images[r.engine.name] == r.templateInput.Image &&
		t.ConfigHash == digest(r.config) {
		return nil
	}
	j := r.Observed.SettingsCheck
	switch {
	case j == nil:
		return &newSettings{phase: v1.SettingsValidating, validate: true}
	case j.Annotations[v1.AnnotationSettings] != settingsID(r): // The old Job is deleted first, because a Job is immutable.
		return &newSettings{phase: v1.SettingsValidating}
	case jobComplete(j):
		return nil
	}
	if failed := jobCondition(j, batchv1.JobFailed); failed != nil {
		return &newSettings{phase: v1.SettingsRefused, validate: true, message: failed.Message}
	}
	return &newSettings{phase: v1.SettingsValidating, validate: true}
}

// observedConfig returns the value of a key in the observed ConfigMap, or "".
func observedConfig(r *resolved, key string) string {
	if r.Observed.Config == nil {
		return ""
	}
	return r.Observed.Config.Data[key]
}

// takenBack returns the previous my.cnf, if the settings in the spec were reverted because they did not work.
func takenBack(r *resolved) (config string, ok bool) {
	v := r.XR.Status.SettingsVerdict
	if v == nil || !v.TakenBack || !v.IsOf(settingsID(r)) {
		return "", false
	}
	kept := observedConfig(r, v1.ServedConfigKey)
	return configHeader + platformConfig(r.serverInput) + ofClaim(r, kept), kept != ""
}

// ofClaim returns the lines of a my.cnf that come from the claim's settings, without the platform's lines.
func ofClaim(r *resolved, config string) string {
	own := readLines(configHeader + platformConfig(r.serverInput))
	var out strings.Builder
	for line := range strings.Lines(config) {
		if key := keyOf(line); key != "" && own[key] == "" {
			out.WriteString(line)
		}
	}
	return out.String()
}

// servedConfig returns the last my.cnf that worked, if the server's next my.cnf has different settings of the claim, or
// if its settings were reverted. Otherwise it returns "".
func servedConfig(r *resolved, rev revision, isBack bool) string {
	kept := observedConfig(r, v1.ServedConfigKey)
	if isBack || !r.Required.Platform.Known {
		return kept
	}
	last := lastServed(r, kept)
	if last == "" || len(r.spec.Config) == 0 || ofClaim(r, last) == ofClaim(r, rev.config) {
		return ""
	}
	return last
}

// lastServed returns the last my.cnf with which the server accepted clients. This is the current my.cnf if the server
// accepts clients now, or if the parameter kept is empty. Otherwise it is the my.cnf in kept.
func lastServed(r *resolved, kept string) string {
	t, now := r.Observed.Template, observedConfig(r, v1.ConfigKey)
	if t == nil || !hasServed(r) {
		return ""
	}
	if kept == "" || deploymentAvailable(r.Observed.Deployment) && t.ConfigHash == digest(now) {
		return now
	}
	return kept
}

// settingsStatus returns the status of settings that are not in use yet, or nil if there are none.
func settingsStatus(r *resolved, rev revision) *v1.SettingsStatus {
	switch {
	case !r.Required.Platform.Known:
		return r.XR.Status.Settings
	case rev.settings == nil:
		return nil
	}
	return &v1.SettingsStatus{ID: settingsID(r), Phase: rev.settings.phase, ConfigHash: digest(r.config)}
}

// whatBecame returns what happened to the new settings, as reported by the controller or by the validating Job.
func (s state) whatBecame() string {
	if v := s.XR.Status.SettingsVerdict; v.IsOf(settingsID(s.resolved)) {
		return v.Message
	}
	return s.revision.settings.message
}

// settingsMessage describes what happened to the new settings, or returns "" if all settings are in use.
func (s state) settingsMessage() string {
	if s.revision.settings == nil {
		return ""
	}
	reason := inSentence(s.whatBecame())
	switch s.revision.settings.phase {
	case v1.SettingsValidating:
		return "The new settings in spec.config are validated before the server restarts with them" + reason
	case v1.SettingsRefused:
		return "A server does not start with the new settings (" + s.changedSettings() +
			"), so the running server keeps the old settings" + reason + ". Change spec.config"
	case v1.SettingsTakenBack:
		return "The server kept exiting with the new settings (" + s.changedSettings() +
			"), so they were reverted. It runs with the last working settings" + reason + ". Change spec.config"
	case v1.SettingsOnTrial:
	}
	return "The server restarts with new settings (" + s.changedSettings() + ")"
}

// changedSettings returns the names of the settings in spec.config that differ from the last my.cnf that worked.
func (s state) changedSettings() string {
	old, wanted := readLines(s.revision.config), readLines(s.config)
	if s.revision.served != "" {
		old = readLines(s.revision.served)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(joined(old, wanted))),
		func(name string) bool { return old[name] == wanted[name] })
	if len(names) == 0 {
		return "with another image"
	}
	return clipText(strings.Join(names, ", "))
}

func joined(one, other map[string]string) map[string]string {
	out := maps.Clone(one)
	maps.Copy(out, other)
	return out
}

// readLines returns the lines of a my.cnf by setting.
func readLines(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if key := keyOf(line); key != "" {
			out[key] = line
		}
	}
	return out
}

// keyOf returns the name of the setting in a line of a my.cnf, or "".
func keyOf(line string) string {
	key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if key == "#" || key == "[mysqld]" {
		return ""
	}
	return key
}

// settingsReasons maps the phases of new settings to the reasons of the condition PendingRestart.
var settingsReasons = map[v1.SettingsPhase]string{
	v1.SettingsValidating: v1.ReasonValidatingSettings,
	v1.SettingsRefused:    v1.ReasonSettingsRefused,
	v1.SettingsOnTrial:    v1.ReasonSettingsOnTrial,
	v1.SettingsTakenBack:  v1.ReasonSettingsTakenBack,
}
