package e2e

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestAdopt checks that `kubectl mysql adopt` imports an archive whose BackupRecord, labels, annotations and
// finalizer were lost, as after an etcd restore. It must refuse forged archives on the same volume. The next claim
// has all rows.
func TestAdopt(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestSurvey has what lies there, and TestJudge what of it is believed")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	name := s.Backups().Only(t).GetName()
	framework.MustKubectl(t, "delete", "msbr", name)
	loseIndex(t, s)
	startHand(t, s, "hand", s.BackupPVC())
	forge :=
		`cd /data && cp -r "$0" copied && cp -r "$0" others && sed -i 's/"name": "[^"]*"/"name": "of-another"/' others/manifest.json`
	if _, err := framework.Exec(t.Context(), s.Namespace, "hand", "", "sh", "-c", forge, name); err != nil {
		t.Fatal(err)
	}
	endHand(t, s, "hand")

	saw := adopt(t, s, "--dry-run")
	for _, want := range []string{name, "would be adopted", "copied ",
		"refused: it is not in the directory where the controller stores a backup with that name", "others ",
		`refused: its manifest belongs to "MySQL" "of-another"`} {
		if !strings.Contains(saw, want) {
			t.Errorf("want %q in what it says:\n%s", want, saw)
		}
	}
	if n := len(s.Backups().MustList(t)); n != 0 {
		t.Errorf("want nothing written, found %d records", n)
	}
	adopt(t, s)
	isVerifiedAgain(t, s)
	if got := adopt(t, s); !strings.Contains(got, "already has a BackupRecord") {
		t.Errorf("want it to know the record, got:\n%s", got)
	}

	s.Create(t)
	s.Client().SeesRows(t, before)
}

// loseIndex removes the labels, annotations and finalizers of the backup volume, by which the controller recognizes it.
func loseIndex(t *testing.T, s *framework.Server) {
	t.Helper()
	v, err := s.VolumeOf(t.Context(), s.BackupPVC())
	if err != nil || v == nil {
		t.Fatalf("the backups have no volume: %v", err)
	}
	for key := range v.Annotations {
		if strings.Contains(key, "crossplane-mysql.io/") {
			delete(v.Annotations, key)
		}
	}
	v.Labels, v.Finalizers = nil, nil
	if err := framework.Suite.Kube.Update(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	pvc := framework.NewObject("v1", "PersistentVolumeClaim", s.Namespace, s.BackupPVC())
	if err := framework.Suite.Kube.Patch(t.Context(), pvc,
		client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":null,"annotations":{"crossplane-mysql.io/retained-volume":null}}}`))); err != nil {
		t.Fatal(err)
	}
}

// adopt runs `kubectl mysql adopt` and returns its output. The command exits with an error, because it must refuse
// two of the archives.
func adopt(t *testing.T, s *framework.Server, flags ...string) string {
	t.Helper()
	var log bytes.Buffer
	cmd := pluginCommand(t.Context(), &log,
		append([]string{"adopt", "--namespace", s.Namespace, "--volume", s.BackupPVC()}, flags...)...)
	out, err := cmd.Output()
	if err == nil || !strings.Contains(log.String(), "2 backups were refused") {
		t.Fatalf("kubectl mysql adopt: %v\n%s%s", err, out, log.String())
	}
	return string(out)
}
