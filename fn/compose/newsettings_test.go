package compose

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// config returns a change of an Input that sets spec.config of the claim. pairs are names, each followed by its value.
func config(pairs ...string) func(*Input) {
	return func(in *Input) {
		in.XR.Spec.Config = map[string]v1.Setting{}
		for i := 0; i < len(pairs); i += 2 {
			in.XR.Spec.Config[pairs[i]] = v1.Setting(pairs[i+1])
		}
	}
}

// serves returns a change of an Input that adds a server, which accepts clients and runs with the given my.cnf.
func serves(text string) func(*Input) {
	return func(in *Input) {
		inUse(in)
		in.Observed.Template.ConfigHash = digest(text)
		in.Observed.Config = &corev1.ConfigMap{Data: map[string]string{v1.ConfigKey: text}}
		in.XR.Status.ServedImage = v1.DefaultImage
		in.Observed.Deployment.Status = appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 1}
	}
}

func madeWith(pairs ...string) func(*Input) {
	return func(in *Input) {
		in.XR.Status.FixedSettings = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			in.XR.Status.FixedSettings[pairs[i]] = pairs[i+1]
		}
	}
}

// TestFixedSettings checks options that can only be set when the data directory is initialized. Once there is data,
// an error names each changed option, and the status keeps the original value.
func TestFixedSettings(t *testing.T) {
	cases := map[string]struct {
		reason  string
		in      Input
		refused string
		status  map[string]string
	}{
		"New": {reason: "The data directory is initialized with the setting of the claim.",
			in:     given(config("lower_case_table_names", "1")),
			status: map[string]string{"lower_case_table_names": "1"}},
		"NewPages": {reason: "Sizes must be compared as numbers, so 32K is 32768.",
			in:     given(config("innodb-page-size", "32K")),
			status: map[string]string{"innodb_page_size": "32768"}},
		"Changed": {reason: "The server would not start on its data with another value.",
			in:      given(serves(configHeader), config("lower_case_table_names", "1")),
			refused: "spec.config[lower_case_table_names]"},
		"ChangedPages": {reason: "The server would not start on its data with another value.",
			in: given(serves(configHeader), config("loose_innodb_page_size", "4k")), refused: "spec.config[innodb_page_size]"},
		"ChangedUndo": {reason: "MySQL releases with this option would not start on the data.",
			in: given(serves(configHeader), config("innodb_undo_tablespaces", "4")), refused: "Remove it"},
		"NeverServed": {reason: "The settings with which a restored backup was initialized are unknown.",
			in: given(serves(configHeader), madeWith("lower_case_table_names", "1"), func(in *Input) {
				in.XR.Status.ServedImage, in.Observed.Deployment.Status = "", appsv1.DeploymentStatus{}
			})},
		"Default": {reason: "The claim sets the default values, which the data already has.",
			in: given(serves(configHeader), config("lower_case_table_names", "0", "innodb_page_size", "16K"))},
		"Removed": {reason: "The data was initialized with the setting, so it must not be removed.",
			in: given(serves(configHeader), madeWith("lower_case_table_names", "1")), refused: "Set it to 1"},
		"Kept": {reason: "The setting is unchanged.",
			in: given(serves(configHeader), madeWith("lower_case_table_names", "1"),
				config("lower-case-table-names", "1", "back_log", "7")), status: map[string]string{"lower_case_table_names": "1"}},
		"Earlier": {reason: "If an earlier release did not write the status, the setting comes from my.cnf.",
			in: given(serves(configHeader+"lower_case_table_names = 1\n"),
				config("lower_case_table_names", "1", "back_log", "7")), status: map[string]string{"lower_case_table_names": "1"}},
		"EarlierChanged": {reason: "The setting from my.cnf must not change either.",
			in: given(serves(configHeader+"lower_case_table_names = 1\n"), config("back_log", "7")), refused: "Set it to 1"},
		"Unknown": {reason: "The settings of a server that is not ready are unknown, so the change must be accepted.",
			in: given(serves(configHeader+"lower_case_table_names = 1\n"), config("back_log", "7"), func(in *Input) {
				in.Observed.Deployment.Status = appsv1.DeploymentStatus{}
			})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := tryCompose(t, tc.in)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%s want a refusal with %q, got %v", tc.reason, tc.refused, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.status, out.Status.FixedSettings); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNewSettingsStopNoServer checks that a running server keeps its settings, even if a newer release of the
// function would refuse them.
func TestNewSettingsStopNoServer(t *testing.T) {
	pairs := []string{"relay_log", "OFF", "tls_version", ""}
	if _, err := tryCompose(t, given(config(pairs...))); err == nil || !strings.Contains(err.Error(), "relay_log") ||
		!strings.Contains(err.Error(), "tls_version") {
		t.Fatalf("want both refused for a new instance, got %v", err)
	}
	runs := given(inUse, config(pairs...))
	r, _, err := readInput(runs)
	if err != nil {
		t.Fatal(err)
	}
	runs.Observed.Deployment.Annotations[v1.AnnotationRevision] = digestOf(r.templateInput) + ".0"
	if _, err := tryCompose(t, runs); err != nil {
		t.Errorf("want a server that runs with them left alone, got %v", err)
	}
	runs.XR.Spec.Config["back_log"] = "7"
	if _, err := tryCompose(t, runs); err == nil {
		t.Error("want them refused with the next change")
	}
}
