package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A finding is a problem or a hint about the cluster or an instance that `kubectl mysql doctor` reports.
type finding struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Advice   string `json:"advice"`
}

// A diagnosis is the complete output of `kubectl mysql doctor --output json`.
type diagnosis struct {
	Cluster   []finding `json:"cluster"`
	Rest      []finding `json:"rest"`
	Instances []patient `json:"instances"`
}

// wrong is the severity of a finding that requires action.
const wrong = "wrong"

// A patient is the part of the doctor's output about one instance.
type patient struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Severity  string    `json:"severity"`
	State     string    `json:"state"`
	Findings  []finding `json:"findings"`
	Backups   struct {
		Verified int `json:"proven"`
	} `json:"backups"`
}

// TestDoctor checks that the doctor reports no problems of a healthy instance, and names a volume that has lost its
// finalizer. The controller is stopped during that check, because it would add the finalizer again immediately.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	keepsDataVolume(t, s)
	isWell(t, s, "running")
	start := stopsTheController(t)
	stopped := func(f finding) bool { return strings.HasPrefix(f.Text, "no controller is running") }
	framework.Eventually(t, "the controller's end", func(ctx context.Context) error {
		if got := examination(ctx, t).Cluster; !slices.ContainsFunc(got, stopped) {
			// The doctor notices only after up to a minute that a controller was killed.
			return fmt.Errorf("want it to say that no controller is running, got %+v", got)
		}
		return nil
	})
	volume := takeFinalizer(t, s)
	named := func(f finding) bool {
		return f.Severity == wrong && strings.Contains(f.Text, volume) && strings.Contains(f.Text, "has no finalizer")
	}
	framework.Eventually(t, "volume "+volume, func(ctx context.Context) error {
		if got := examineInstance(ctx, t, s); got.Severity != wrong || !slices.ContainsFunc(got.Findings, named) {
			return fmt.Errorf("it is not named, %+v is", got) // The doctor does not report new volumes immediately.
		}
		return nil
	})
	start()
	keepsDataVolume(t, s)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	if got := isWell(t, s, "deleted"); got.Backups.Verified != 1 {
		t.Errorf("want one proven backup, got %+v", got)
	}
}

// isWell waits until `kubectl mysql doctor` reports the given state of the instance, and no problems. Directly after a
// deletion, the doctor may still report a volume for a moment.
func isWell(t *testing.T, s *framework.Server, state string) (got patient) {
	t.Helper()
	framework.Eventually(t, "that it is well, and "+state, func(ctx context.Context) error {
		if got = examineInstance(ctx, t, s); got.Severity != "ok" || got.State != state || len(got.Findings) > 0 {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	return got
}

// keepsDataVolume waits until the controller has added its finalizer to the data volume.
func keepsDataVolume(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the finalizer of the data volume", func(ctx context.Context) error {
		v, err := s.VolumeOf(ctx, s.DataPVC())
		switch {
		case err != nil:
			return err
		case v == nil:
			return errors.New("there is no volume")
		case !controllerutil.ContainsFinalizer(v, "crossplane-mysql.io/protect-data"):
			return fmt.Errorf("volume %s has %v", v.Name, v.Finalizers)
		}
		return nil
	})
}

// takeFinalizer removes the controller's finalizer from the data volume, and returns the name of the volume.
func takeFinalizer(t *testing.T, s *framework.Server) string {
	t.Helper()
	v := s.MustFindDataVolume(t)
	before := v.DeepCopy()
	controllerutil.RemoveFinalizer(v, "crossplane-mysql.io/protect-data")
	if err := framework.Suite.Kube.Patch(t.Context(), v, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return v.Name
}

// examineInstance returns the doctor's diagnosis of the instance.
func examineInstance(ctx context.Context, t *testing.T, s *framework.Server) patient {
	t.Helper()
	all := examination(ctx, t)
	n := slices.IndexFunc(all.Instances, func(p patient) bool {
		return p.Kind == "MySQL" && p.Namespace == s.Namespace && p.Name == s.Name
	})
	if n < 0 {
		t.Fatalf("there is no %s/%s in %+v", s.Namespace, s.Name, all)
	}
	return all.Instances[n]
}

// examination runs the doctor on the whole cluster. The doctor must exit with 0 if, and only if, nothing requires
// action.
func examination(ctx context.Context, t *testing.T) diagnosis {
	t.Helper()
	var log bytes.Buffer
	cmd := pluginCommand(ctx, &log, "doctor", "--output=json")
	out, err := cmd.Output()
	var got diagnosis
	if jerr := json.Unmarshal(out, &got); jerr != nil {
		t.Fatalf("kubectl mysql doctor (%v): %v\n%s%s", err, jerr, out, log.String())
	}
	if isWrong := got.wrong() > 0; isWrong != (err != nil) {
		t.Errorf("kubectl mysql doctor ended with %v:\n%s%s", err, out, log.String())
	}
	return got
}

// pluginCommand returns a command of the kubectl plugin.
func pluginCommand(ctx context.Context, log io.Writer, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./controller/kubectl-mysql"}, args...)...)
	cmd.Dir = framework.Repository()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+framework.Suite.Kubeconfig, "CGO_ENABLED=0")
	cmd.Stderr = log
	return cmd
}

// wrong returns the number of findings that require action.
func (d *diagnosis) wrong() int {
	all := slices.Concat(d.Cluster, d.Rest)
	for _, p := range d.Instances {
		all = append(all, p.Findings...)
	}
	return len(slices.DeleteFunc(all, func(f finding) bool { return f.Severity != wrong }))
}
