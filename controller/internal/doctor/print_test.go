package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

// onVolumes renames the volumes of the instance.
func onVolumes(c *Cluster, data, backup string) {
	c.Volumes[0].Name, c.PVCs[0].Spec.VolumeName, c.XRs[0].Status.Volume = data, data, data
	c.Volumes[1].Name, c.PVCs[1].Spec.VolumeName = backup, backup
}

// sample returns a report with an unhealthy instance, a healthy one, and leftover objects.
func sample() *Report {
	out := &Report{}
	for _, tc := range []struct {
		name   string
		change func(*Cluster)
	}{
		{"carts", func(c *Cluster) {
			onVolumes(c, "pvc-7d03", "pvc-b1e8")
			c.Records = nil
			c.Volumes[0].Finalizers = nil
		}},
		{"orders", func(c *Cluster) { onVolumes(c, "pvc-2f61", "pvc-90c4") }},
		{"stock", func(c *Cluster) {
			onVolumes(c, "pvc-54aa", "pvc-e6f2")
			gone(c)
		}},
	} {
		c := healthy()
		tc.change(c)
		r := Examine(c)
		r.Instances[0].Name = tc.name
		out.Instances = append(out.Instances, r.Instances...)
	}
	return out
}

func TestWriteText(t *testing.T) {
	all := healthy()
	all.Lease = nil
	all.Volumes = all.Volumes[:1]
	all.Volumes = append(all.Volumes, volume("pv-strange", nil), corev1.PersistentVolume{})
	for file, r := range map[string]*Report{
		"sample.txt": sample(),
		"rest.txt":   Examine(all),
		"nothing.txt": Examine(&Cluster{Now: now, SystemNamespace: systemNamespace, Lease: healthy().Lease,
			Absent: []string{v1.KindMySQL}}),
	} {
		t.Run(file, func(t *testing.T) {
			var b strings.Builder
			if err := r.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			golden.Text(t, file, b.String())
		})
	}
}

// TestForgedText checks that text from a status cannot add a line to the report or control the terminal.
func TestForgedText(t *testing.T) {
	const forged = "x\nok     MySQL prod/db\x1b[2J"
	r := &Report{
		Instances: []Instance{{Severity: Entry, State: forged,
			Findings: []Finding{{Severity: Entry, Text: forged, Advice: forged}}}},
		Cluster: []Finding{{Severity: Entry, Text: forged}},
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || strings.Contains(b.String(), "\x1b") ||
		strings.Contains(b.String(), "\nok") || strings.Count(b.String(), "x ok     MySQL prod/db [2J") != 4 {
		t.Errorf("%v, it prints\n%q", err, b.String())
	}
}

// TestWriteJSON checks that the output can be read back, with unchanged commands.
func TestWriteJSON(t *testing.T) {
	var b strings.Builder
	want := sample()
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "sample.json", b.String())
	got := &Report{}
	if err := json.Unmarshal([]byte(b.String()), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	r := &Report{
		Cluster: []Finding{newFinding("", "one")},
		Instances: []Instance{{Findings: []Finding{wrongFinding("", "two"), newFinding("", "three")}},
			{Findings: []Finding{wrongFinding("", "four")}}},
		Rest: []Finding{wrongFinding("", "five")},
	}
	if got := [...]int{r.Count(Entry), r.Count(Wrong)}; got != [...]int{2, 3} {
		t.Errorf("want 2 notes and 3 that are wrong, got %v", got)
	}
	for name, tc := range map[string]struct {
		findings []Finding
		want     Severity
	}{
		"None":      {nil, OK},
		"Notes":     {[]Finding{newFinding("", "one")}, Entry},
		"WrongLast": {[]Finding{newFinding("", "one"), wrongFinding("", "two")}, Wrong},
		"NoteLast":  {[]Finding{wrongFinding("", "one"), newFinding("", "two")}, Wrong},
	} {
		if got := worstOf(tc.findings); got != tc.want {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}

// TestVerdict checks that the exit code is 0 if a report contains only notes.
func TestVerdict(t *testing.T) {
	for severity, want := range map[Severity]int{OK: 0, Entry: 0, Wrong: ExitWrong} {
		r := &Report{Instances: []Instance{{Findings: []Finding{{Severity: severity}}}}}
		if got := agent.CodeOf(r.Err()); got != want {
			t.Errorf("want %d after a finding that is %s, got %d", want, severity, got)
		}
	}
}
