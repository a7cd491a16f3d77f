package main

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A Summary is a claim on one screen. Its fields are those of the claim's status, in fewer words.
type Summary struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message,omitempty"`

	Image string `json:"image,omitempty"`
	// PendingImage waits for a backup.
	PendingImage string `json:"pendingImage,omitempty"`
	// Endpoint is the server's HOST:PORT, and Binding the Secret with which clients log in.
	Endpoint string `json:"endpoint,omitempty"`
	Binding  string `json:"binding,omitempty"`

	Password *v1.CredentialsStatus `json:"password,omitempty"`
	// CertificateUntil is the end of the one that the server shows.
	CertificateUntil *metav1.Time `json:"certificateUntil,omitempty"`

	// Newest proven backup that the claim knows of, and Store where the next goes, unless to a volume.
	Newest        *Taken `json:"newestBackup,omitempty"`
	Store         string `json:"store,omitempty"`
	BackupWarning string `json:"backupWarning,omitempty"`
	// Ephemeral is true of one whose data goes with its pod: there are no backups of it.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// NoLastBackup says why a deletion takes none; empty where it does.
	NoLastBackup string `json:"noLastBackup,omitempty"`
	// Requested and Scheduled are the last ones while it goes on.
	Requested *v1.LastBackupStatus     `json:"requestedBackup,omitempty"`
	Scheduled *v1.LastBackupStatus     `json:"scheduledBackup,omitempty"`
	Schedule  *v1.BackupScheduleStatus `json:"backupSchedule,omitempty"`

	Deletion *v1.DeletionStatus `json:"deletion,omitempty"`
	// WaitsFor are conditions that are not as they should be.
	WaitsFor []Reason `json:"waitsFor,omitempty"`
}

// A Taken backup, by the name of its record, and when: when its proof held, or, while the instance goes on, when it was begun.
type Taken struct {
	Name string       `json:"name"`
	At   *metav1.Time `json:"at,omitempty"`
}

// A Reason is what a condition says.
type Reason struct {
	Condition string `json:"condition"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
}

// ready is Crossplane's condition of a claim.
const ready = "Ready"

// summarize a claim.
func summarize(c *instance.Composite) Summary {
	st := &c.Status
	s := Summary{
		Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName(), Message: st.Message, Ready: meta.IsStatusConditionTrue(c.Conditions, ready),
		Image: cmp.Or(st.ServedImage, st.Image), PendingImage: st.PendingImage,
		Password: st.Credentials, Store: st.BackupStore, BackupWarning: st.BackupWarning,
		Requested: st.RequestedBackup, Scheduled: st.ScheduledBackup, Schedule: st.BackupSchedule,
	}
	if e := st.Endpoint; e != nil {
		s.Endpoint = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	if st.Binding != nil {
		s.Binding = st.Binding.Name
	}
	if st.TLS != nil {
		s.CertificateUntil = st.TLS.ServedNotAfter
	}
	s.Newest = newest(st)
	s.Ephemeral = (&instance.State{Life: v1.Instance{Kind: c.GetKind()}, Claim: c}).Ephemeral()
	switch {
	case c.Spec.DeletionPolicy == v1.DeletionDiscard:
		s.NoLastBackup = "spec.deletionPolicy is Discard"
	case c.GetAnnotations()[v1.AnnotationSkipBackup] != "":
		s.NoLastBackup = "the annotation " + v1.AnnotationSkipBackup + " says so, if it has the UID of its composite resource"
	}
	if c.GetDeletionTimestamp() != nil {
		s.Deletion = cmp.Or(st.Deletion, &v1.DeletionStatus{})
	}
	s.WaitsFor = reasons(c.Conditions)
	return s
}

// newest proven backup: what the status lists, which is brought up to date with each proof, or what the server's own time has taken since.
func newest(st *v1.MySQLStatus) *Taken {
	var out *Taken
	for _, b := range []*v1.LastBackupStatus{st.RequestedBackup, st.ScheduledBackup} {
		if b != nil && b.Phase == v1.LastBackupProven && (out == nil || b.BegunAt.After(out.At.Time)) {
			out = &Taken{Name: b.Backup, At: &b.BegunAt}
		}
	}
	for _, b := range st.Backups {
		if b.Phase != v1.BackupProven {
			continue
		}
		if out == nil || b.ProvenAt != nil && b.ProvenAt.After(out.At.Time) {
			return &Taken{Name: b.Name, At: b.ProvenAt}
		}
		break
	}
	return out
}

// reasons for which a claim is not as it should be. Updated is none: nobody has to do anything about it.
func reasons(all []metav1.Condition) []Reason {
	var out []Reason
	for _, c := range all {
		bad := metav1.ConditionFalse
		switch c.Type {
		case v1.ConditionBlocked:
			bad = metav1.ConditionTrue
		case v1.ConditionAccepted, v1.ConditionRestored, v1.ConditionServing, v1.ConditionBackedUp, "Synced":
		default:
			continue
		}
		if c.Status == bad {
			out = append(out, Reason{Condition: c.Type, Reason: c.Reason, Message: c.Message})
		}
	}
	return out
}

// withReasons after a text, on one line.
func withReasons(text string, of []Reason) string {
	said := append(make([]string, 0, 1+len(of)), text)
	for _, r := range of {
		said = append(said, r.Reason+": "+r.Message)
	}
	return strings.Join(said, "; ")
}

// lines of a summary, as a screen has them: a name, and what there is to say.
func (s *Summary) lines(now time.Time) [][2]string {
	var out [][2]string
	add := func(name, text string) {
		if text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	add("Status", s.Message)
	add("Server", s.serverText())
	add("Log in with", secretText(s.Binding))
	add("Password", passwordText(s.Password, now))
	if s.CertificateUntil != nil {
		add("Certificate", "until "+s.CertificateUntil.UTC().Format(time.DateOnly))
	}
	add("Last backup", s.backupText(now))
	add("Warning", s.BackupWarning)
	add("Asked for", takenText(s.Requested, now))
	add("Planned", takenText(s.Scheduled, now))
	add("Next backup", scheduleText(s.Schedule))
	if d := s.Deletion; d != nil {
		add("Deletion", strings.TrimSpace(strings.Join([]string{string(cmp.Or(d.Phase, v1.DeletionAnnounced)), percentText(d.Percent), d.Message}, " ")))
	}
	for _, r := range s.WaitsFor {
		add("Waits for", strings.TrimSuffix(fmt.Sprintf("%s, %s: %s", r.Condition, r.Reason, r.Message), ": "))
	}
	return out
}

func (s *Summary) serverText() string {
	text := "not ready"
	if s.Ready {
		text = "ready"
	}
	if s.Image != "" {
		text += ", " + s.Image
	}
	if s.PendingImage != "" {
		text += " (" + s.PendingImage + " waits)"
	}
	if s.Endpoint != "" {
		text += " at " + s.Endpoint
	}
	return text
}

func secretText(name string) string {
	if name == "" {
		return ""
	}
	return "Secret " + name
}

func passwordText(c *v1.CredentialsStatus, now time.Time) string {
	if c == nil {
		return ""
	}
	text := c.State
	if c.ChangedAt != nil {
		text += ", changed " + ago(c.ChangedAt.Time, now)
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

func (s *Summary) backupText(now time.Time) string {
	if s.Ephemeral {
		return "none: the data goes with the pod"
	}
	text := "none yet"
	if s.Newest != nil {
		text = s.Newest.Name
		if s.Newest.At != nil {
			text += ", " + ago(s.Newest.At.Time, now)
		}
	}
	switch {
	case s.NoLastBackup != "":
		return text + "; a deletion takes none: " + s.NoLastBackup
	case s.Store != "":
		return text + "; the next one is in store " + s.Store
	}
	return text + "; the next one is on a volume"
}

func takenText(b *v1.LastBackupStatus, now time.Time) string {
	if b == nil {
		return ""
	}
	method := cmp.Or(b.Method, v1.MethodCold)
	return strings.Join(strings.Fields(fmt.Sprintf("%q, %s, begun %s: %s %s %s", b.Request, method, ago(b.BegunAt.Time, now), b.Phase, percentText(b.Percent), cmp.Or(b.Message, b.Backup))), " ")
}

func scheduleText(s *v1.BackupScheduleStatus) string {
	if s == nil {
		return ""
	}
	text := "by " + strings.TrimSpace(s.Schedule+" "+s.TimeZone)
	if s.NextAt != nil {
		text = s.NextAt.UTC().Format(time.RFC3339) + " " + text
	}
	if s.MissedAt != nil {
		text += "; missed: " + s.MissedAt.UTC().Format(time.RFC3339)
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

func percentText(percent int32) string {
	if percent == 0 {
		return ""
	}
	return fmt.Sprintf("%d %%", percent)
}

func ago(at, now time.Time) string { return duration.HumanDuration(now.Sub(at)) + " ago" }
