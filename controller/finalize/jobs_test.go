package finalize

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/golden"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// TestManifests holds what is made against its golden file.
func TestManifests(t *testing.T) {
	onNode := running(hostPath)
	versioned := running(func(s *instance.State) { s.DataPVC.Annotations = map[string]string{v1.AnnotationVersion: "8.4.6"} })
	const agent = "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"
	cases := map[string]any{
		"backup-job":            backupJob(versioned, agent),
		"backup-job-silent":     backupJob(running(silent), agent),
		"backup-job-database":   backupJob(running(silent, asDatabase), agent),
		"backup-job-hostpath":   backupJob(onNode, agent),
		"wipe-job":              wipeJob(onNode, agent),
		"prune-job":             pruneJob(running(), agent, []client.Object{&v1.MySQLBackup{}}),
		"backup-claim":          backupPVC(running(), nil),
		"backup-claim-class":    backupPVC(running(), new("cheap")),
		"backup-claim-hostpath": backupPVC(onNode, nil),
		"backup-claim-again": backupPVC(running(func(s *instance.State) {
			s.BackupPV = &corev1.PersistentVolume{}
			s.BackupPV.Name, s.BackupPV.Spec.StorageClassName = "pvc-2", "fast"
		}), nil),
		"backup-volume-hostpath": backupPV(onNode),
		"record":                 newRecord(versioned),
	}
	for name, got := range cases {
		t.Run(name, func(t *testing.T) {
			raw := golden.Manifest(t, name, got)
			for _, secret := range []string{"password", "MYSQL_ROOT"} {
				if bytes.Contains(raw, []byte(secret)) {
					t.Errorf("a manifest speaks of a %s", secret)
				}
			}
		})
	}
}
