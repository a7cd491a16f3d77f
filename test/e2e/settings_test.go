package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// settingsAre waits until the claim's condition PendingRestart has the given reason, and its message contains the
// text.
func settingsAre(t *testing.T, s *framework.Server, reason, text string) {
	t.Helper()
	s.Eventually(t, "the settings: "+reason, func(ctx context.Context) error {
		c, err := framework.FindCondition(ctx, s.Claim.DeepCopy(), "PendingRestart")
		if err != nil {
			return err
		}
		if message := fmt.Sprint(c["message"]); c["reason"] != reason || !strings.Contains(message, text) {
			return fmt.Errorf("they are %v: %s", c["reason"], message)
		}
		return nil
	})
}

// crashLoopsWith sets settings with which the server exits at every start. It sets them while the server is suspended,
// because new settings are not validated then.
func crashLoopsWith(t *testing.T, s *framework.Server, config map[string]any) {
	t.Helper()
	s.Set(t, map[string]any{"suspend": true})
	hasNoPods(t, s)
	s.Set(t, map[string]any{"config": config, "suspend": false})
	s.Pods().WaitFor(t, "server", func(p *corev1.Pod) bool { return waits(p, "CrashLoopBackOff") })
}

// TestSettingsTakeNoServerDown checks that invalid settings never stop a server. If mysqld refuses new settings, the
// server must keep running in the same pod, and the claim must report mysqld's error. Valid settings must be applied.
// If the server does not start with new settings, they must be reverted automatically. A read-only server must be
// restored.
func TestSettingsTakeNoServerDown(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRefusedSettingsStopNoServer and TestSettingsAreTakenBack have each decision, and "+
		"TestRealValidateSettings a server that refuses them")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["config"] = map[string]any{"sql_mode": "", "log_bin": false}
	rows := s.Begin(t)
	if got := s.Client().MustQuery(t, "SELECT @@global.sql_mode, @@global.log_bin"); strings.TrimSpace(got) != "0" {
		t.Errorf("want no mode and no binary log, got %q", got)
	}
	pod := s.Pods().MustFindServer(t).UID
	for setting, value := range map[string]string{"innodb_no_such": "1", "max_connections": "lots"} {
		s.Set(t, map[string]any{"config": map[string]any{"sql_mode": "", "log_bin": false, setting: value}})
		settingsAre(t, s, "SettingsRefused", setting)
		s.Client().SeesRows(t, rows)
	}
	s.Set(t, map[string]any{"config": map[string]any{"lower_case_table_names": "1"}})
	s.Refuses(t, "spec.config[lower_case_table_names]")
	s.Client().SeesRows(t, rows)
	if now := s.Pods().MustFindServer(t).UID; now != pod {
		t.Errorf("the server was restarted: it was in pod %s, and is in %s", pod, now)
	}

	s.Set(t, map[string]any{"config": map[string]any{"sql_mode": "", "log_bin": true, "max_connections": int64(77)}})
	settingsAre(t, s, "UpToDate", "")
	s.Eventually(t, "the new settings", func(ctx context.Context) error {
		got, err := s.Client().Query(ctx, s.Password, "SELECT @@global.max_connections, @@global.log_bin_basename")
		if err == nil && (!strings.Contains(got, "77") || !strings.Contains(got, "/binlog")) {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})

	crashLoopsWith(t, s, map[string]any{"no_such_setting": "1"})
	settingsAre(t, s, "SettingsTakenBack", "no_such_setting")
	s.Client().SeesRows(t, rows)
	s.Eventually(t, "the last settings that served", func(ctx context.Context) error {
		got, err := s.Client().Query(ctx, s.Password, "SELECT @@global.max_connections")
		if err == nil && !strings.Contains(got, "77") {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})

	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Spec["config"] = map[string]any{"super_read_only": true}
	s.Create(t)
	s.Client().SeesRows(t, rows)
}
