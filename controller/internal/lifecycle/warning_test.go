package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// memoryOf adds a LimitRange for containers with a default memory limit and a maximum.
func memoryOf(most string) variation {
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer,
		Default: corev1.ResourceList{"memory": resource.MustParse("64Mi")}}
	if most != "" {
		item.Max = corev1.ResourceList{"memory": resource.MustParse(most)}
	}
	return func(s *instance.State) {
		s.Rules = &nsrules.Rules{Namespace: s.Namespace,
			Ranges: []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "small"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}}}
	}
}

func quotaOf(hard, used corev1.ResourceList) variation {
	return func(s *instance.State) {
		s.Rules = &nsrules.Rules{Quotas: []corev1.ResourceQuota{
			{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
				Status: corev1.ResourceQuotaStatus{Used: used}}}}
	}
}

// TestNamespaceRefusesBackup checks the warning about rules of a namespace that would refuse the pod of a backup, or
// of a required restore test. The warning is shown while the instance exists, and removed when it no longer applies.
func TestNamespaceRefusesBackup(t *testing.T) {
	one, none := resource.MustParse("1"), resource.MustParse("0")
	wantsTest := func(s *instance.State) {
		s.XR.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
		s.Claim.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
	}
	discards := func(s *instance.State) {
		s.XR.Spec.DeletionPolicy, s.Claim.Spec.DeletionPolicy = v1.DeletionDiscard, v1.DeletionDiscard
	}
	online := func(s *instance.State) {
		s.XR.Spec.Backup.Schedule = &v1.BackupSchedule{Cron: "@daily", Method: v1.MethodOnline}
		s.XR.Status.RequestedBackup = &v1.LastBackupStatus{Request: modelRequest, Phase: v1.LastBackupFailed}
	}
	for name, tc := range map[string]struct {
		reason string
		state  *instance.State
		says   string
	}{
		"Default": {reason: "The Jobs set their limits, so the default limit of the namespace does not apply.",
			state: running(memoryOf(""))},
		"Max": {reason: "The maximum of the LimitRange is too low for the pod of the final backup.",
			state: running(memoryOf("64Mi")),
			says: "A deletion of this instance would wait, because its final backup could not run: LimitRange small allows at " +
				"most 64Mi of memory"},
		"Discard": {reason: "A deletion without a backup needs no pod.", state: running(memoryOf("64Mi"), discards)},
		"Cold": {reason: "The Job of a deletion runs no server, so it needs little memory.",
			state: running(memoryOf("256Mi"))},
		"Test": {reason: "A restore test runs a server, so it needs more memory.",
			state: running(memoryOf("256Mi"), wantsTest),
			says: "A deletion of this instance would wait, because the restore test of its final backup " +
				"(requireRestoreTest) could not run"},
		"Online": {reason: "An online backup runs a temporary server, so it needs more memory.",
			state: running(memoryOf("256Mi"), online),
			says:  "An online backup of this instance could not run: LimitRange small"},
		"Quota": {reason: "The quota allows no further pod.",
			state: running(quotaOf(corev1.ResourceList{"pods": none}, nil)),
			says:  "ResourceQuota team allows 0 of pods"},
		"Jobs": {reason: "The quota allows no further Job.",
			state: running(quotaOf(corev1.ResourceList{"count/jobs.batch": one}, corev1.ResourceList{"count/jobs.batch": one})),
			says:  "count/jobs.batch"},
		"NotStarted": {reason: "There is no data to back up before the instance has started.",
			state: running(memoryOf("64Mi"), func(s *instance.State) { s.XR.Status.Started = false })},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.state
			step := Next(s)
			if tc.says == "" {
				if step.Action == steps.WarnOfBackup {
					t.Fatalf("%s got %q", tc.reason, step.Message)
				}
				if step.Action == steps.NoOp && step.After != time.Hour {
					t.Errorf("%s want another look after an hour, got %s", tc.reason, step.After)
				}
				return
			}
			if step.Action != steps.WarnOfBackup || !strings.Contains(step.Message, tc.says) ||
				fieldsWritten(step)["backupWarning"] != step.Message {
				t.Fatalf("%s want %q, got %s %q", tc.reason, tc.says, step.Action, step.Text())
			}
			s.XR.Status.BackupWarning = step.Message
			if second := Next(s); second.Action == steps.WarnOfBackup {
				t.Errorf("%s it is written again and again: %q", tc.reason, second.Message)
			}
			s.Rules = &nsrules.Rules{}
			if step = Next(s); step.Action != steps.WarnOfBackup || fieldsWritten(step)["backupWarning"] != nil {
				t.Errorf("%s want it taken back, got %s %q", tc.reason, step.Action, step.Text())
			}
		})
	}
}

// TestJobsFitTheirNamespace checks that the resources of the Jobs are within the LimitRange of their namespace.
func TestJobsFitTheirNamespace(t *testing.T) {
	least := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer,
		Min: corev1.ResourceList{"cpu": resource.MustParse("200m"), "memory": resource.MustParse("300Mi")}}
	s := fenced(withJob(complete), func(s *instance.State) {
		s.Rules = &nsrules.Rules{Ranges: []corev1.LimitRange{
			{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{least}}}}}
	})
	for _, j := range []struct {
		name string
		pod  *corev1.PodSpec
	}{
		{"backup", &backup.NewJob(s).Spec.Template.Spec}, {"wipe", &backup.WipeJob(s).Spec.Template.Spec}, {"prune",
			&backup.PruneJob(s, nil).Spec.Template.Spec},
	} {
		c := j.pod.Containers[0].Resources
		if c.Requests.Cpu().String() != "200m" || c.Requests.Memory().String() != "300Mi" ||
			c.Limits.Memory().Cmp(*c.Requests.Memory()) < 0 {
			t.Errorf("the Job of a %s asks for %v", j.name, c)
		}
		if reason := s.Rules.WhyRefused(j.pod, true); reason != "" {
			t.Errorf("the Job of a %s: %s", j.name, reason)
		}
	}
}
