package finalize

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

var update = flag.Bool("update", false, "write the golden files")

// TestManifests holds what is made against its golden file.
func TestManifests(t *testing.T) {
	onNode := running(hostPath)
	versioned := running(func(s *instance.State) { s.DataClaim.Annotations = map[string]string{v1.AnnotationVersion: "8.4.6"} })
	const agent = "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"
	cases := map[string]any{
		"backup-job":            backupJob(versioned, agent),
		"backup-job-silent":     backupJob(running(silent), agent),
		"backup-job-database":   backupJob(running(silent, asDatabase), agent),
		"backup-job-hostpath":   backupJob(onNode, agent),
		"wipe-job":              wipeJob(onNode, agent),
		"prune-job":             pruneJob(running(), agent, []client.Object{&v1.MySQLBackup{}}),
		"backup-claim":          backupClaim(running(), nil),
		"backup-claim-class":    backupClaim(running(), new("cheap")),
		"backup-claim-hostpath": backupClaim(onNode, nil),
		"backup-claim-again": backupClaim(running(func(s *instance.State) {
			s.BackupVolume = &corev1.PersistentVolume{}
			s.BackupVolume.Name, s.BackupVolume.Spec.StorageClassName = "pvc-2", "fast"
		}), nil),
		"backup-volume-hostpath": backupVolume(onNode),
		"record":                 newRecord(versioned),
	}
	for name, got := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, raw, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(raw)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			for _, secret := range []string{"password", "MYSQL_ROOT"} {
				if bytes.Contains(raw, []byte(secret)) {
					t.Errorf("a manifest speaks of a %s", secret)
				}
			}
		})
	}
}
