package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestArchiving checks that the metrics and the events report an archive of a binary log that fails, works again, and
// has a gap. The metrics vanish with the instance.
func TestArchiving(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestArchivingStory has each event, and TestRecovery archives a binary log")
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["backup"] = map[string]any{"storeRef": map[string]any{"name": b.GetName()}, "continuous": map[string]any{}}
	s.Begin(t)
	isRecoverable(t, s)
	token := framework.TokenWith(t, s.Namespace, framework.MetricsRole)
	hasArchive(t, s, token, 1)

	moveBucket(t, s3, "backups", "hidden")
	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 4000))
	s.HasEvents(t, "ArchivingInterrupted")
	newPrompt(t).enter(t, "kubectl describe mysql --namespace "+s.Namespace+" "+s.Name, "ArchivingInterrupted")
	hasArchive(t, s, token, 0)
	moveBucket(t, s3, "hidden", "backups")
	s.HasEvents(t, "ArchivingResumed")
	hasArchive(t, s, token, 1)

	s.Client().MustQuery(t, "RESET BINARY LOGS AND GTIDS")
	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 4001))
	s.HasEvents(t, "ArchiveGap")
	isRecoverable(t, s)
	s.Delete(t)
	hasArchive(t, s, token)
}

// moveBucket renames the bucket on the S3 server, so that the controller can no longer archive the binary log there.
func moveBucket(t *testing.T, s3 *s3Server, previous, next string) {
	t.Helper()
	if out, err := framework.Exec(t.Context(), s3.namespace, "s3/toolbox", "", "mv", "/data/objects/"+previous,
		"/data/objects/"+next); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// hasArchive waits until the metric crossplane_mysql_instance_archiving of the instance has the value want. Without a
// value, it waits until the metric no longer exists.
func hasArchive(t *testing.T, s *framework.Server, token string, want ...float64) {
	t.Helper()
	theController.RLock()
	defer theController.RUnlock()
	metrics, label := framework.MetricsOf(t), fmt.Sprintf("namespace=%q", s.Namespace)
	framework.Eventually(t, fmt.Sprintf("an archive with the values %v", want), func(ctx context.Context) error {
		_, body, err := metrics.Ask(ctx, token)
		if err != nil {
			return err
		}
		const name = "crossplane_mysql_instance_archiving"
		if len(want) == 0 {
			if strings.Contains(seriesOf(body, name), label) {
				err = errors.New("it still exists")
			}
			return err
		}
		value, err := framework.SumSeries(body, name, func(labels string) bool { return strings.Contains(labels, label) })
		if err == nil && value != want[0] {
			err = fmt.Errorf("it is %g", value)
		}
		return err
	})
}

// seriesOf returns the lines of a metric in the response of a metrics endpoint.
func seriesOf(body, name string) string {
	var out strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name+"{") {
			out.WriteString(line)
		}
	}
	return out.String()
}
