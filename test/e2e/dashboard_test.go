//go:build dashboard

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestDashboard sends the query of each panel to a real Prometheus, which discovers its targets with the
// configuration in docs/reference/metrics.md. The value of each metric must be between the values that its source
// reports before and after the query.
func TestDashboard(t *testing.T) {
	exporter := runGo(t, framework.Repository(), "run", "./test/tools", "exporter")
	program := runGo(t, framework.Repository(), "run", "./test/tools", "prometheus")
	p := startPrometheus(t, program)
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	startExporter(t, s, exporter)
	backedUp(t, s)
	s.Client().ChangePassword(t, "another-password")
	s.Password = "another-password"
	strain(t, s)

	d := readDashboard(t)
	replace := strings.NewReplacer("$__rate_interval", "1m", "$namespace", s.Namespace, "$mysql", s.Name)
	asked := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			query := replace.Replace(target.Expr)
			t.Run(panel.Title+"/"+target.RefID, func(t *testing.T) {
				framework.Eventually(t, "an answer to "+query, func(ctx context.Context) error {
					values, err := p.ask(ctx, query)
					if err == nil && len(values) == 0 {
						err = errors.New("it has none")
					}
					return err
				})
				for _, selector := range selectors.FindAllString(query, -1) {
					asked++
					p.compare(t, s, selector)
				}
			})
		}
	}
	if asked < 25 {
		t.Errorf("only %d metrics were compared", asked)
	}
}

// selectors matches the metrics in a query with their label selectors.
var selectors = regexp.MustCompile(
	`\b(crossplane_mysql|mysql|process|grpc|rest|controller_runtime)_[a-z0-9_]+(\{[^}]*\})?`)

// A dashboard contains the fields of a Grafana dashboard that the test reads.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			RefID string `json:"refId"` //nolint:tagliatelle // This is Grafana's spelling.
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(framework.Repository(), "controller/deploy/monitoring/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// A prometheusPod is a pod that runs a real Prometheus.
type prometheusPod struct{ namespace, token string }

// startPrometheus starts Prometheus with the configuration in docs/reference/metrics.md and a scrape interval of 2
// seconds.
func startPrometheus(t *testing.T, program string) *prometheusPod {
	t.Helper()
	p := &prometheusPod{namespace: framework.NewNamespace(t)}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"get", "list", "watch"}}}}
	framework.Make(t, role)
	for _, name := range []string{role.Name, framework.MetricsRole} {
		framework.Make(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: "default"}},
		})
	}
	framework.StartPod(t, framework.ToolboxPod(p.namespace, "prometheus", ""))
	config := "global: {scrape_interval: 2s, scrape_timeout: 2s}\n" + scrapeConfigs(t)
	if out, err := framework.Exec(t.Context(), p.namespace, "prometheus", config, "sh", "-c",
		"cat >/tmp/prometheus.yml"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	runIn(t, p.namespace, "prometheus", "/tmp", program,
		"--config.file=/tmp/prometheus.yml --storage.tsdb.path=/tmp/data --web.listen-address=:9090")
	p.token = framework.TokenWith(t, p.namespace, framework.MetricsRole)
	framework.Eventually(t, "Prometheus, which has found the controller and the function",
		func(ctx context.Context) error {
			up, err := p.ask(ctx, "sum(up) >= 2")
			if err == nil && len(up) == 0 {
				err = errors.New("it has not")
			}
			return err
		})
	return p
}

// scrapeConfigs returns the scrape configuration in docs/reference/metrics.md.
func scrapeConfigs(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(framework.Repository(), "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(raw), "```yaml\nscrape_configs:\n")
	config, _, ends := strings.Cut(after, "```")
	if !found || !ends {
		t.Fatal("there is no configuration on the page")
	}
	return "scrape_configs:\n" + config
}

// runIn copies a program to a pod and starts it there. It runs as long as the pod.
func runIn(t *testing.T, namespace, pod, dir, program, args string) {
	t.Helper()
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // Nothing was written.
	path := dir + "/program"
	if err := framework.ExecStream(t.Context(), namespace, pod, file, &strings.Builder{}, "sh", "-c",
		fmt.Sprintf("cat >%s && chmod +x %[1]s && (nohup %[1]s %s >%s/log 2>&1 &)", path, args, dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := framework.Exec(context.WithoutCancel(t.Context()), namespace, pod, "", "sh", "-c",
				"tail -n 10 "+dir+"/log | cut -c1-300")
			t.Logf("%s: %v\n%s", pod, err, out)
		}
	})
}

// ask sends an instant query to Prometheus and returns the values of the series.
func (p *prometheusPod) ask(ctx context.Context, query string) ([]float64, error) {
	raw, err := framework.Suite.Typed.CoreV1().Pods(p.namespace).
		ProxyGet("http", "prometheus", "9090", "/api/v1/query", map[string]string{"query": query}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", raw, err)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	var out []float64
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) {
			return nil, fmt.Errorf("it says %q", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// gauges maps metrics that can also decrease to the largest change that is expected between two scrapes.
var gauges = map[string]float64{"process_resident_memory_bytes": 64 << 20, "mysql_global_status_threads_connected": 4,
	"crossplane_mysql_instances": 0}

// compare checks that the value of a metric in Prometheus is between two values from its source: before and after the
// scrape.
func (p *prometheusPod) compare(t *testing.T, s *framework.Server, selector string) {
	t.Helper()
	name, _, _ := strings.Cut(selector, "{")
	before, err := p.source(t, s, selector)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // This is enough for two scrapes.
	got, err := p.ask(t.Context(), "sum("+selector+")")
	if err != nil {
		t.Fatal(err)
	}
	after, err := p.source(t, s, selector)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 && before == 0 && after == 0 { // There is no series for the metric in either of them.
		return
	}
	slack := gauges[name] + 0.01
	if strings.HasSuffix(name, "_timestamp_seconds") {
		slack = 5 // The value changes by seconds between scrapes.
	}
	t.Logf("%s: its source has %g and then %g, and Prometheus %g", selector, before, after, got)
	if len(got) != 1 || got[0] < before-slack || got[0] > after+slack {
		t.Errorf("%s: its source has %g and then %g, and Prometheus %g", selector, before, after, got)
	}
}

// source reads a metric directly from its source: the controller, the function or the server.
func (p *prometheusPod) source(t *testing.T, s *framework.Server, selector string) (float64, error) {
	t.Helper()
	name, _, _ := strings.Cut(selector, "{")
	switch {
	case strings.HasPrefix(name, "mysql_"):
		return ofServer(t, s, name, selector)
	case strings.HasPrefix(name, "grpc_"):
		pods := &corev1.PodList{}
		if err := framework.Suite.Kube.List(t.Context(), pods, client.InNamespace("crossplane-system"),
			client.MatchingLabels{"pkg.crossplane.io/function": "crossplane-mysql-function-mysql"}); err != nil || len(
			pods.Items) != 1 {
			return 0, fmt.Errorf("the function has %d pods, %w", len(pods.Items), err)
		}
		body, err := framework.Suite.Typed.CoreV1().Pods("crossplane-system").
			ProxyGet("http", pods.Items[0].Name, "8080", "/metrics", nil).DoRaw(t.Context())
		if err != nil {
			return 0, err
		}
		return sumIn(string(body), name, `grpc_method="RunFunction"`)
	}
	_, body, err := framework.MetricsOf(t).Ask(t.Context(), p.token)
	if err != nil {
		return 0, err
	}
	return sumIn(body, name, "")
}

// sumIn returns the sum of a metric's series in the response of a metrics endpoint. Each series must contain the text
// label.
func sumIn(body, name, label string) (sum float64, err error) {
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(line, name+"{") && f[0] != name || !strings.Contains(line, label) {
			continue
		}
		n, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// ofServer reads a status variable or a system variable from the server, from which the exporter creates the metric.
func ofServer(t *testing.T, s *framework.Server, name, selector string) (float64, error) {
	t.Helper()
	status, isStatus := strings.CutPrefix(name, "mysql_global_status_")
	variable, isVariable := strings.CutPrefix(name, "mysql_global_variables_")
	query := "SELECT 1"
	switch {
	case isStatus && status == "innodb_row_ops_total":
		query = "SELECT SUM(VARIABLE_VALUE) FROM performance_schema.global_status WHERE VARIABLE_NAME IN " +
			"('Innodb_rows_inserted', 'Innodb_rows_updated', 'Innodb_rows_deleted', 'Innodb_rows_read')"
	case isStatus && status == "connection_errors_total" && strings.Contains(selector, `error="max_connections"`):
		query = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = " +
			"'Connection_errors_max_connections'"
	case isStatus:
		query = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = '" + status + "'"
	case isVariable:
		query = "SELECT @@" + variable
	case name != "mysql_up":
		return 0, fmt.Errorf("nobody knows what %s is", name)
	}
	return strconv.ParseFloat(strings.TrimSpace(s.Client().MustQuery(t, query)), 64)
}

// startExporter starts mysqld-exporter as the documentation describes, but copies the program to a toolbox pod
// instead of using the exporter's image.
func startExporter(t *testing.T, s *framework.Server, program string) {
	t.Helper()
	s.Client().MustQuery(t, "CREATE USER exporter@'%' IDENTIFIED BY 'choose-another' REQUIRE SSL WITH "+
		"MAX_USER_CONNECTIONS 3; GRANT PROCESS, REPLICATION CLIENT ON *.* TO exporter@'%'; GRANT SELECT ON "+
		"performance_schema.* TO exporter@'%'")
	var pod *corev1.Pod
	for _, o := range framework.ReadObjects(t, "docs/clients/mysqld-exporter.yaml", s.Namespace) {
		switch o.GetKind() {
		case "Secret":
			secret := &corev1.Secret{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, secret); err != nil {
				t.Fatal(err)
			}
			secret.StringData["my.cnf"] = strings.Replace(secret.StringData["my.cnf"], ".default.svc", "."+s.Namespace+".svc", 1)
			framework.Make(t, secret)
		case "Deployment":
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
				t.Fatal(err)
			}
			pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: d.Name,
				Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
		}
	}
	c := &pod.Spec.Containers[0]
	args := strings.Join(c.Args, " ")
	c.Image, c.Args, c.Command, c.Resources = framework.Toolbox, nil, []string{"sleep",
		"3600"}, corev1.ResourceRequirements{}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "program", MountPath: "/program"})
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "program", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	framework.StartPod(t, pod)
	runIn(t, s.Namespace, pod.Name, "/program", program, args)
}

// backedUp creates two backups for the dashboard: the final backup of another claim, which is created and deleted,
// and an online backup of the given server.
func backedUp(t *testing.T, s *framework.Server) {
	t.Helper()
	n := s.Neighbour(t, "another")
	n.Create(t)
	n.Client().SeesVersion(t)
	n.Delete(t)
	n.Backups().AreVerified(t, 1)
	createBackup(t, s, "for-the-dashboard", "Online")
	s.Eventually(t, "a backup of its own", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		if err == nil && len(records) == 0 {
			err = errors.New("there is none")
		}
		if err != nil {
			return err
		}
		return framework.IsVerified(&records[0])
	})
}

// strain sends writes, slow queries and failed logins to the server until the test ends.
func strain(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Client().MustQuery(t, "SET GLOBAL long_query_time = 0; CREATE TABLE load_of_test (id INT PRIMARY KEY "+
		"AUTO_INCREMENT, note TEXT)")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = s.Client().Query(ctx, s.Password,
				"INSERT INTO load_of_test (note) VALUES (REPEAT('x', 1000)); UPDATE load_of_test SET note = 'y' ORDER BY id "+
					"DESC LIMIT 1; SELECT COUNT(*) FROM load_of_test")
			_, _ = s.Client().Query(ctx, "wrong", "SELECT 1")
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}
