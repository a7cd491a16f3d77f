package doctor

import (
	"fmt"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A Severity describes whether a finding requires an action.
type Severity string

// The severities are sorted from mildest to worst. A note requires no action.
const (
	OK    Severity = "ok"
	Entry Severity = "note"
	Wrong Severity = "wrong"
)

// A command that prints a Report exits with these codes.
const (
	ExitWrong = 1
	ExitBlind = 2
)

// Blind returns the error of a command that could not read the cluster.
func Blind(err error) error {
	return &agent.ExitError{Code: ExitBlind, Err: fmt.Errorf("cannot check the cluster: %w", err)}
}

// Err returns the error of a command that has printed the report, if there are problems. Notes cause no error.
func (r *Report) Err() error {
	if n := r.Count(Wrong); n > 0 {
		return &agent.ExitError{Code: ExitWrong, Err: fmt.Errorf("problems found: %d", n)}
	}
	return nil
}

// A Finding is a problem or a note about an instance or the cluster, with the advice how to fix it.
type Finding struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"`
}

// A Report contains everything that the doctor has found in a cluster.
type Report struct {
	// Cluster contains the findings that concern all instances.
	Cluster   []Finding  `json:"cluster,omitempty"`
	Instances []Instance `json:"instances"`
	// Rest contains the findings that belong to no instance.
	Rest []Finding `json:"rest,omitempty"`
}

// An Instance is an existing claim, or the remaining objects of a deleted one.
type Instance struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Severity is the severity of the worst finding.
	Severity Severity `json:"severity"`
	// State is a short text, such as "running" or "being recovered".
	State string `json:"state"`
	// Data is the data of the existing instance, or nil if no volume holds its data.
	Data     *Data     `json:"data,omitempty"`
	Backups  Backups   `json:"backups"`
	Findings []Finding `json:"findings,omitempty"`
}

// Data is the data volume of an instance, and what protects it from deletion.
type Data struct {
	Volume        string `json:"volume"`
	ReclaimPolicy string `json:"reclaimPolicy"`
	Finalizer     bool   `json:"finalizer"`
}

// Backups are the verified backups, and the volumes and stores that contain them.
type Backups struct {
	Verified int `json:"proven"`
	// Newest is the age of the newest backup, such as 3h.
	Newest  string   `json:"newest,omitempty"`
	Volumes []string `json:"volumes,omitempty"`
	// Stores are the stores that contain backups.
	Stores []string `json:"stores,omitempty"`
}

// Count returns the number of findings with a severity.
func (r *Report) Count(severity Severity) int {
	all := append(append([]Finding{}, r.Cluster...), r.Rest...)
	for i := range r.Instances {
		all = append(all, r.Instances[i].Findings...)
	}
	n := 0
	for _, f := range all {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// worstOf returns the worst severity of the findings.
func worstOf(findings []Finding) Severity {
	out := OK
	for _, f := range findings {
		if f.Severity == Wrong || out == OK {
			out = f.Severity
		}
	}
	return out
}

func newFinding(advice, text string, args ...any) Finding {
	return Finding{Severity: Entry, Text: fmt.Sprintf(text, args...), Advice: advice}
}

func wrongFinding(advice, text string, args ...any) Finding {
	return Finding{Severity: Wrong, Text: fmt.Sprintf(text, args...), Advice: advice}
}

// nameOf returns the kind, namespace and name of an object in one string.
func nameOf(c *instance.Composite) string {
	if c.GetNamespace() == "" {
		return c.GetKind() + " " + c.GetName()
	}
	return c.GetKind() + " " + c.GetNamespace() + "/" + c.GetName()
}
