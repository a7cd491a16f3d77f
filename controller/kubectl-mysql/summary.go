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

// A Summary contains the main fields of an instance's status, for the output of list and status.
type Summary struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message,omitempty"`

	Image string `json:"image,omitempty"`
	// PendingImage is the requested image, if the server will run it only after a backup.
	PendingImage string `json:"pendingImage,omitempty"`
	// Endpoint is the server's HOST:PORT. Binding is the Secret with the login for clients.
	Endpoint string `json:"endpoint,omitempty"`
	Binding  string `json:"binding,omitempty"`

	Password *v1.CredentialsStatus `json:"password,omitempty"`
	// CertificateUntil is the expiry of the certificate that the server presents.
	CertificateUntil *metav1.Time `json:"certificateUntil,omitempty"`

	// Newest is the newest verified backup that the claim lists. Store is the store for the next backup, or "" for a
	// volume.
	Newest        *Taken `json:"newestBackup,omitempty"`
	Store         string `json:"store,omitempty"`
	BackupWarning string `json:"backupWarning,omitempty"`
	// Ephemeral is true if the data is deleted with its pod. There are no backups in this case.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// NoLastBackup is the reason why a deletion takes no backup, or "" if it takes one.
	NoLastBackup string `json:"noLastBackup,omitempty"`
	// Requested and Scheduled are the last on-demand and scheduled backups of the instance.
	Requested *v1.LastBackupStatus     `json:"requestedBackup,omitempty"`
	Scheduled *v1.LastBackupStatus     `json:"scheduledBackup,omitempty"`
	Schedule  *v1.BackupScheduleStatus `json:"backupSchedule,omitempty"`

	Deletion *v1.DeletionStatus `json:"deletion,omitempty"`
	// WaitsFor lists the conditions of the instance that are not healthy.
	WaitsFor []Reason `json:"waitsFor,omitempty"`
}

// Taken is a verified backup. At is the time of its completion or, for the last on-demand or scheduled backup, of its
// start.
type Taken struct {
	Name string       `json:"name"`
	At   *metav1.Time `json:"at,omitempty"`
}

// A Reason contains the reason and the message of a condition.
type Reason struct {
	Condition string `json:"condition"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
}

// ready is the type of Crossplane's condition of a claim.
const ready = "Ready"

// summarize returns the summary of a claim.
func summarize(c *instance.Composite) Summary {
	st := &c.Status
	s := Summary{
		Kind: c.GetKind(), Namespace: c.GetNamespace(), Name: c.GetName(), Message: st.Message,
		Ready: meta.IsStatusConditionTrue(c.Conditions, ready),
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
		s.CertificateUntil = st.TLS.PresentedExpirationTime
	}
	s.Newest = newest(st)
	s.Ephemeral = instance.NewState(instance.Subject{Instance: v1.Instance{Kind: c.GetKind()}, Claim: c}).Ephemeral()
	switch {
	case c.Spec.DeletionPolicy == v1.DeletionDiscard:
		s.NoLastBackup = "spec.deletionPolicy is Discard"
	case c.GetAnnotations()[v1.AnnotationSkipBackup] != "":
		s.NoLastBackup = "the annotation " + v1.AnnotationSkipBackup + " is set, and takes effect if its value is " +
			"the UID of the composite resource"
	}
	if c.GetDeletionTimestamp() != nil {
		s.Deletion = cmp.Or(st.Deletion, &v1.DeletionStatus{})
	}
	s.WaitsFor = reasons(c.Conditions)
	return s
}

// newest returns the newest verified backup: either the newest one in the list, or the last on-demand or scheduled
// backup if that is newer.
func newest(st *v1.MySQLStatus) *Taken {
	var out *Taken
	for _, b := range []*v1.LastBackupStatus{st.RequestedBackup, st.ScheduledBackup} {
		if b != nil && b.Phase == v1.LastBackupVerified && (out == nil || b.BegunAt.After(out.At.Time)) {
			out = &Taken{Name: b.Backup, At: &b.BegunAt}
		}
	}
	for _, b := range st.ListedBackups() {
		if b.Phase != v1.BackupVerified {
			continue
		}
		if out == nil || b.CompletionTime != nil && b.CompletionTime.After(out.At.Time) {
			return &Taken{Name: b.Name, At: b.CompletionTime}
		}
		break
	}
	return out
}

// reasons returns why a claim is not healthy. PendingRestart is not a reason, because no action is required.
func reasons(all []metav1.Condition) []Reason {
	var out []Reason
	for _, c := range all {
		bad := metav1.ConditionFalse
		switch c.Type {
		case v1.ConditionBlocked:
			bad = metav1.ConditionTrue
		case v1.ConditionAccepted, v1.ConditionRestored, v1.ConditionServing,
			v1.ConditionLastBackupSucceeded, "Synced":
		default:
			continue
		}
		if c.Status == bad {
			out = append(out, Reason{Condition: c.Type, Reason: c.Reason, Message: c.Message})
		}
	}
	return out
}

// withReasons appends reasons and their messages to a line.
func withReasons(text string, reasons []Reason) string {
	parts := append(make([]string, 0, 1+len(reasons)), text)
	for _, r := range reasons {
		parts = append(parts, r.Reason+": "+r.Message)
	}
	return strings.Join(parts, "; ")
}

// lines returns the lines of a summary, each with a label and a value.
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
	add("On demand", takenText(s.Requested, now))
	add("Scheduled", takenText(s.Scheduled, now))
	add("Next backup", scheduleText(s.Schedule))
	if d := s.Deletion; d != nil {
		add("Deletion", strings.TrimSpace(
			strings.Join([]string{string(cmp.Or(d.Phase, v1.DeletionAnnounced)), percentText(d.Percent), d.Message}, " ")))
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
		return "none: the data is deleted with the pod"
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
	return strings.Join(strings.Fields(fmt.Sprintf("%q, %s, started %s: %s %s %s", b.Request, method,
		ago(b.BegunAt.Time, now), b.Phase, percentText(b.Percent), cmp.Or(b.Message, b.Backup))), " ")
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
		text += "; overdue since " + s.MissedAt.UTC().Format(time.RFC3339)
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

func ago(timestamp, now time.Time) string { return duration.HumanDuration(now.Sub(timestamp)) + " ago" }
