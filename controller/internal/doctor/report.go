package doctor

import (
	"fmt"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A Severity says how bad a finding is.
type Severity string

// Severities, the mildest first. A note is something to know, and no reason to
// act.
const (
	OK    Severity = "ok"
	Note  Severity = "note"
	Wrong Severity = "wrong"
)

// Exit codes of a command that prints a Report.
const (
	ExitWrong = 1
	ExitBlind = 2
)

// Blind is the error of a command that could not look.
func Blind(err error) error {
	return &agent.ExitError{Code: ExitBlind, Err: fmt.Errorf("cannot look at the cluster: %w", err)}
}

// Err of a command that has printed it. Notes are no reason for one.
func (r *Report) Err() error {
	if n := r.Count(Wrong); n > 0 {
		return &agent.ExitError{Code: ExitWrong, Err: fmt.Errorf("findings that are wrong: %d", n)}
	}
	return nil
}

// A Finding is one thing to know, and what to do about it.
type Finding struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"`
}

// A Report is what was found.
type Report struct {
	// Cluster is what concerns all instances.
	Cluster   []Finding  `json:"cluster,omitempty"`
	Instances []Instance `json:"instances"`
	// Rest belongs to no instance.
	Rest []Finding `json:"rest,omitempty"`
}

// An Instance is a claim, or what one has left.
type Instance struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Severity is that of its worst finding.
	Severity Severity `json:"severity"`
	// State in a word or two.
	State string `json:"state"`
	// Data of the life that goes on; nil where no volume holds any.
	Data     *Data     `json:"data,omitempty"`
	Backups  Backups   `json:"backups"`
	Findings []Finding `json:"findings,omitempty"`
}

// Data is a volume, and what keeps it.
type Data struct {
	Volume        string `json:"volume"`
	ReclaimPolicy string `json:"reclaimPolicy"`
	Finalizer     bool   `json:"finalizer"`
}

// Backups that are proven, and the volumes that they lie on.
type Backups struct {
	Proven int `json:"proven"`
	// Newest is the age of the newest, such as 3h.
	Newest  string   `json:"newest,omitempty"`
	Volumes []string `json:"volumes,omitempty"`
	// Stores that some of them lie in.
	Stores []string `json:"stores,omitempty"`
}

// Count the findings of a severity.
func (r *Report) Count(of Severity) int {
	all := append(append([]Finding{}, r.Cluster...), r.Rest...)
	for i := range r.Instances {
		all = append(all, r.Instances[i].Findings...)
	}
	n := 0
	for _, f := range all {
		if f.Severity == of {
			n++
		}
	}
	return n
}

// worstOf the severities of the findings.
func worstOf(findings []Finding) Severity {
	out := OK
	for _, f := range findings {
		if f.Severity == Wrong || out == OK {
			out = f.Severity
		}
	}
	return out
}

func noteFinding(advice, text string, args ...any) Finding {
	return Finding{Severity: Note, Text: fmt.Sprintf(text, args...), Advice: advice}
}

func wrongFinding(advice, text string, args ...any) Finding {
	return Finding{Severity: Wrong, Text: fmt.Sprintf(text, args...), Advice: advice}
}

// nameOf is an object as people call it.
func nameOf(c *instance.Composite) string {
	if c.GetNamespace() == "" {
		return c.GetKind() + " " + c.GetName()
	}
	return c.GetKind() + " " + c.GetNamespace() + "/" + c.GetName()
}

// resourceOf of a claim or XR, as kubectl has it.
func resourceOf(c *instance.Composite) string { return strings.ToLower(c.GetKind()) }
