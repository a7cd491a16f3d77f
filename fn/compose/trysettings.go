package compose

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// New settings stop a server that runs only after a server of its image has started with them, without data, in a Job:
//
//	spec.config ─▶ Job ── fails ────────▶ refused: the server goes on with the old settings
//	                  └── succeeds ─────▶ on trial: the server restarts with them
//	                                       ├─ it takes clients ─▶ in force
//	                                       └─ it keeps exiting ─▶ taken back: it restarts with the last settings that served
//
// The controller sees that the server keeps exiting, and says so in status.settingsVerdict.

// newSettings are settings of the spec that are not in force.
type newSettings struct {
	phase v1.SettingsPhase
	// validate is true while the Job is wanted.
	validate bool
	// message of the phase, where the controller has none.
	message string
}

// settingsID identifies settings with all that decides whether a server starts with them. What was refused or taken
// back is tried again with another image or other resources.
func settingsID(r *resolved) string {
	return digestOf(struct {
		Image     string                `json:"image"`
		Config    map[string]v1.Setting `json:"config,omitempty"`
		Resources *v1.Resources         `json:"resources,omitempty"`
	}{r.wish.Image, r.wish.Config, r.wish.Resources})
}

// mayValidate reports whether the spec asks for settings that the server was not made with.
func mayValidate(r *resolved) bool {
	return r.started && r.engine.password && r.engine.config != "" && len(r.spec.Config) > 0 && r.Observed.Template != nil && !isAsMade(r)
}

// validateSettings returns the settings that a running server does not get yet; nil if it may have those of the spec.
func validateSettings(r *resolved, begin start) *newSettings {
	t := r.Observed.Template
	if !mayValidate(r) || !hasServed(r) || !isInUse(r, begin) || t.Images[r.engine.name] == r.wish.Image && t.ConfigHash == digest(r.config) {
		return nil
	}
	j := r.Observed.SettingsCheck
	switch {
	case j == nil:
		return &newSettings{phase: v1.SettingsValidating, validate: true}
	case j.Annotations[v1.AnnotationSettings] != settingsID(r): // It is deleted first: a Job does not change.
		return &newSettings{phase: v1.SettingsValidating}
	case jobComplete(j):
		return nil
	}
	if failed := jobCondition(j, batchv1.JobFailed); failed != nil {
		return &newSettings{phase: v1.SettingsRefused, validate: true, message: failed.Message}
	}
	return &newSettings{phase: v1.SettingsValidating, validate: true}
}

// observedConfig is the text of a key of the ConfigMap, or empty.
func observedConfig(r *resolved, key string) string {
	if r.Observed.Config == nil {
		return ""
	}
	return r.Observed.Config.Data[key]
}

// takenBack returns the my.cnf that the server goes back to, if the settings of the spec were taken back.
func takenBack(r *resolved) (config string, ok bool) {
	v := r.XR.Status.SettingsVerdict
	if v == nil || !v.TakenBack || !v.IsOf(settingsID(r)) {
		return "", false
	}
	kept := observedConfig(r, v1.ServedConfigKey)
	return configHeader + tlsConfig(r.serverInput) + ofClaim(r, kept), kept != ""
}

// ofClaim is the part of a my.cnf that a claim's settings have made. The platform's own lines are those of today.
func ofClaim(r *resolved, config string) string {
	own := readLines(configHeader + tlsConfig(r.serverInput))
	var out strings.Builder
	for line := range strings.Lines(config) {
		if key := keyOf(line); key != "" && own[key] == "" {
			out.WriteString(line)
		}
	}
	return out.String()
}

// servedConfig is the last my.cnf that has served, if the server is to have another one, or was to have one that was taken
// back. Empty otherwise.
func servedConfig(r *resolved, of revision, isBack bool) string {
	kept := observedConfig(r, v1.ServedConfigKey)
	if isBack || !r.Required.Platform.Known {
		return kept
	}
	last := lastServed(r, kept)
	if last == "" || len(r.spec.Config) == 0 || ofClaim(r, last) == ofClaim(r, of.config) {
		return ""
	}
	return last
}

// lastServed is the my.cnf that the server takes clients with or, while it takes none, the one that is kept. Where none is kept, the
// server has taken clients with the one that it has.
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

// settingsStatus for the controller; nil if all settings are in force.
func settingsStatus(r *resolved, of revision) *v1.SettingsStatus {
	switch {
	case !r.Required.Platform.Known:
		return r.XR.Status.Settings
	case of.settings == nil:
		return nil
	}
	return &v1.SettingsStatus{ID: settingsID(r), Phase: of.settings.phase, ConfigHash: digest(r.config)}
}

// whatBecame of new settings, in words of the controller or of Kubernetes.
func (s state) whatBecame() string {
	if v := s.XR.Status.SettingsVerdict; v.IsOf(settingsID(s.resolved)) {
		return v.Message
	}
	return s.revision.settings.message
}

// settingsMessage says in a sentence what became of new settings; empty if all are in force.
func (s state) settingsMessage() string {
	if s.revision.settings == nil {
		return ""
	}
	why := inSentence(s.whatBecame())
	switch s.revision.settings.phase {
	case v1.SettingsValidating:
		return "The new settings in spec.config are validated before the server restarts with them" + why
	case v1.SettingsRefused:
		return "A server does not start with the new settings (" + s.changedSettings() + "), so this one goes on with the old ones" + why + ". Change spec.config"
	case v1.SettingsTakenBack:
		return "The server kept exiting with the new settings (" + s.changedSettings() + "), so they were taken back, and it runs with the last settings that served" + why + ". Change spec.config"
	case v1.SettingsOnTrial:
	}
	return "The server restarts with new settings (" + s.changedSettings() + ")"
}

// changedSettings names the settings that differ between spec.config and the last my.cnf that served.
func (s state) changedSettings() string {
	old, wanted := readLines(s.revision.config), readLines(s.config)
	if s.revision.served != "" {
		old = readLines(s.revision.served)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(joined(old, wanted))), func(name string) bool { return old[name] == wanted[name] })
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

// readLines are the lines of a my.cnf, by the names of the settings.
func readLines(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if key := keyOf(line); key != "" {
			out[key] = line
		}
	}
	return out
}

// keyOf a line of a my.cnf, empty for one that has no setting.
func keyOf(line string) string {
	key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if key == "#" || key == "[mysqld]" {
		return ""
	}
	return key
}

// settingsReasons of the condition.
var settingsReasons = map[v1.SettingsPhase]string{
	v1.SettingsValidating: v1.ReasonValidatingSettings,
	v1.SettingsRefused:    v1.ReasonSettingsRefused,
	v1.SettingsOnTrial:    v1.ReasonSettingsOnTrial,
	v1.SettingsTakenBack:  v1.ReasonSettingsTakenBack,
}

// settingsCondition says whether the server runs with the settings of spec.config; nil for an instance that never had any.
func (s state) settingsCondition() []Condition {
	n := s.revision.settings
	switch {
	case n != nil:
		return []Condition{{Type: v1.ConditionSettingsApplied, Reason: settingsReasons[n.phase], Message: s.settingsMessage()}}
	case s.engine.config == "" || !s.Required.Platform.Known || len(s.spec.Config) == 0 && s.XR.Status.Settings == nil:
		return nil
	}
	return []Condition{{Type: v1.ConditionSettingsApplied, True: true, Reason: v1.ReasonSettingsApplied}}
}
