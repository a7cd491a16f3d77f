package adopt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestInstanceOn checks that the instance is derived from the name of the PersistentVolumeClaim unless the name was
// shortened.
func TestInstanceOn(t *testing.T) {
	cases := map[string]struct {
		kind, pvc, name string
		want            string
		fails           string
	}{
		"Plain":     {kind: "MySQL", pvc: "backup-db-pvc", want: "db"},
		"Database":  {kind: "Database", pvc: "backup-db.database-pvc", want: "db"},
		"OtherKind": {kind: "Database", pvc: "backup-db-pvc", fails: "--name"},
		"Other":     {kind: "MySQL", pvc: "db-pvc", fails: "--name"},
		"Nothing":   {kind: "MySQL", pvc: "backup--pvc", fails: "--name"},
		"Said":      {kind: "MySQL", pvc: "backup-db-pvc", name: "db", want: "db"},
		"SaidOther": {kind: "MySQL", pvc: "backup-db-pvc", name: "other",
			fails: "are on PersistentVolumeClaim backup-other-pvc"},
		"Long": {kind: "MySQL", pvc: "backup-" + strings.Repeat("n", 63) + "-pvc", fails: "--name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := instanceOn(tc.pvc, v1.Instance{Kind: tc.kind, Namespace: "default", Name: tc.name})
			switch {
			case tc.fails == "" && (err != nil || got.Name != tc.want || got.Namespace != "default"):
				t.Errorf("want %q, got %+v, %v", tc.want, got, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("want %q, got %v", tc.fails, err)
			}
		})
	}
}

// TestNamedNamespaces checks that each original namespace is mapped to exactly one namespace.
func TestNamedNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		given []string
		want  map[string]string
		fails string
	}{
		"None":     {want: map[string]string{}},
		"Same":     {given: []string{"shop"}, want: map[string]string{"shop": "shop"}},
		"Others":   {given: []string{"shop=new-shop", "crm"}, want: map[string]string{"shop": "new-shop", "crm": "crm"}},
		"Together": {given: []string{"a=c", "b=c"}, want: map[string]string{"a": "c", "b": "c"}},
		"Again":    {given: []string{"a=c", "a=c"}, want: map[string]string{"a": "c"}},
		"Twice":    {given: []string{"a=c", "a=d"}, fails: "are already mapped to c"},
		"NoName":   {given: []string{"a="}, fails: "is not a valid namespace"},
		"BadName":  {given: []string{"A=b"}, fails: `"A" is not a valid namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := namedNamespaces(tc.given)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("want %q, got %v", tc.fails, err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v, -want, +got:\n%s", err, diff)
			}
		})
	}
}

// TestAdoptSaysNo checks that invalid flags are refused before any request to the cluster.
func TestAdoptSaysNo(t *testing.T) {
	for name, tc := range map[string]struct {
		flags     Flags
		namespace string
		want      string
	}{
		"Moved":   {flags: Flags{Volume: "backup-db-pvc", Map: []string{"a=b"}}, want: "--map is only for --store"},
		"NotOne":  {flags: Flags{Store: "offsite"}, namespace: "shop", want: "use --map to specify the namespaces"},
		"BadName": {flags: Flags{Store: "offsite", Map: []string{"A=b"}}, want: `--map A=b: "A" is not a valid namespace`},
		"OneOf":   {flags: Flags{Store: "offsite", Name: "db"}, want: "--name is only for --volume"},
		"Whose":   {flags: Flags{Volume: "db-pvc"}, want: "--name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.flags.Check(tc.namespace)
			if err == nil {
				err = tc.flags.Adopt(t.Context(), nil, nil, v1.KindMySQL, "default")
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// TestJobResources checks that the flag --job-resources takes precedence over the environment variable JOB_RESOURCES.
func TestJobResources(t *testing.T) {
	const in, flag = `{"limits":{"memory":"300Mi"}}`, `--job-resources={"limits":{"memory":"400Mi"}}`
	for want, c := range map[string]corev1.Container{
		"300Mi": {Env: []corev1.EnvVar{{Name: "AGENT_IMAGE", Value: "x"}, {Name: "JOB_RESOURCES", Value: in}}},
		"400Mi": {Env: []corev1.EnvVar{{Name: "JOB_RESOURCES", Value: in}}, Args: []string{"start", flag}},
	} {
		if got, err := jobResources(c); err != nil || got.Limits.Memory().String() != want {
			t.Errorf("want %s, got %v, %v", want, got, err)
		}
	}
	if got, err := jobResources(corev1.Container{}); err != nil || got != nil {
		t.Errorf("of none: %v, %v", got, err)
	}
	if _, err := jobResources(corev1.Container{Args: []string{"--job-resources={"}}); err == nil {
		t.Error("what cannot be read is passed over")
	}
}

// TestRefusals checks that refused backups cause an error even if others are imported.
func TestRefusals(t *testing.T) {
	if err := refusals([]Finding{{Verdict: Adopt}, {Verdict: Refused}}); err == nil ||
		err.Error() != "1 backups were refused" {
		t.Errorf("got %v", err)
	}
	if err := refusals([]Finding{{Verdict: Adopt}}); err != nil {
		t.Error(err)
	}
}
