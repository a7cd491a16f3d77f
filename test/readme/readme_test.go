package readme

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommands(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"Block":     {"A comment is not typed.", "```shell\nmake demo   # see it\n```\n", []string{"make demo"}},
		"GoesOn":    {"A line that goes on is one command.", "```shell\ncrossplane render a.yaml \\\n  --xrd b.yaml\n```\n", []string{"crossplane render a.yaml --xrd b.yaml"}},
		"InComment": {"What a comment quotes is.", "```shell\nmake demo   # then `kubectl get mysql`\n```\n", []string{"kubectl get mysql", "make demo"}},
		"Inline":    {"A sentence may end its line in a command.", "Type `KUBECONFIG=a make\ndemo`, not `demo`.", []string{"KUBECONFIG=a make demo"}},
		"Prompt":    {"What a terminal showed was typed.", "```\n$ kubectl get msb\nNAME\n$ sql x\n```\n", []string{"kubectl get msb"}},
		"Other":     {"A file is not typed.", "```yaml\nmake: demo\n```\n", nil},
		"Once":      {"Whoever types it types it once.", "`make demo`\n```shell\nmake demo\n```\n`make demo`", []string{"make demo"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Commands(tc.text)); diff != "" {
				t.Errorf("\n%s\nCommands(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A typist is a file that types a command, and words of it: the command's, or the name of a test that takes its commands
// from README.md.
type typist struct{ file, words string }

// Tests that take their commands from README.md, and where others are typed.
var (
	byStandIns = typist{"test/readme/make_test.go", "func TestMake("}
	byShow     = typist{"test/render/typed.go", "func shown("}
	byRender   = typist{"test/render/typed.go", "func rendered("}
	byPush     = typist{"package/build/push_test.go", "func TestReadmePush("}
	byLive     = typist{"test/e2e/readme_test.go", "func TestReadmeLive("}
	byCluster  = typist{"test/e2e/framework/own.go", `"cluster-up", "cluster-load"`}
)

// onCluster is a command of which the tests on a cluster have the very words.
func onCluster(command string) typist { return typist{"test/e2e/readme_test.go", `"` + command + `"`} }

// inRecords is a command about records, which the tests of them type with names of their own.
func inRecords(words string) typist { return typist{"test/e2e/records_test.go", words} }

func inNewCluster(words string) typist { return typist{"test/e2e/new_cluster_test.go", words} }

// byChart is what the test with Helm types.
var byChart = typist{"test/e2e/chart_test.go", "func TestChart("}

// byProviderSQL is what the test with provider-sql types.
var byProviderSQL = typist{"test/e2e/providersql_test.go", "func appliesProviderSQL("}

// byToken is a command by which namespaces let the controller in.
func byToken(words string) typist { return typist{"test/e2e/token_test.go", words} }

// typists of all commands. All that make is told is typed by TestMake too, with stand-ins for what it calls; what runs for
// hours is nowhere else.
var typists = map[string]typist{
	"make demo":              {"test/e2e/demo_test.go", `"make", "demo"`},
	"KUBECONFIG=… make demo": {"test/e2e/demo_test.go", `"KUBECONFIG="`},
	"make test":              {".ci/run", "\nmake test\n"},
	"make render":            {"Makefile", " cluster-test render "},
	"make unit":              {"Makefile", " lint mysqld-test store-test unit "},
	"ALL=1 make render":      {"Makefile", "test-all: export ALL = 1"},
	"make render-update":     byStandIns,
	"make xpkg":              {"Makefile", "\nxpkg-test: xpkg "},
	"make mysqld-test":       {"Makefile", " lint mysqld-test store-test unit "},
	"make e2e":               {"Makefile", "--keep-going checks e2e #"},
	"make help":              {"test/readme/make_test.go", `"make", "help"`},
	"make generate":          byStandIns, // What it would write is compared by the same tests without -update.
	"make bench":             byStandIns,
	"make fuzz":              byStandIns,
	"make matrix":            byStandIns,
	"make test-all":          byStandIns,
	"make install":           onCluster("make install"),

	"make cluster-up":              byCluster,
	"make cluster-load":            byCluster,
	"make cluster-up cluster-load": byCluster,
	"make cluster-down":            {"test/e2e/framework/own.go", `"cluster-down"`},

	"make show EXAMPLE=original-claim": byShow,
	"make show":                        byShow,
	"crossplane render":                byRender,
	"crossplane beta render":           byRender,
	"crossplane render examples/fresh-instance/xr.yaml apis/composition-mysql.yaml examples/functions.yaml " +
		"--xrd apis/xrd-xmysqls.yaml --required-resources examples/fresh-instance/required.yaml " +
		`--crossplane-binary "$(go run ./test/tools core)"`: byRender,
	"crossplane beta render examples/fresh-instance/xr.yaml apis/composition-mysql.yaml examples/functions.yaml " +
		"--extra-resources examples/fresh-instance/required.yaml": byRender,
	"crossplane xpkg push -f dist/function-mysql-amd64.xpkg,dist/function-mysql-arm64.xpkg REGISTRY/function-mysql:v0.1.0": byPush,
	"crossplane xpkg push -f dist/configuration-mysql.xpkg REGISTRY/configuration-mysql:v0.1.0":                            byPush,

	"go run ./fn --insecure --address 127.0.0.1:9443": {"test/render/typed.go", "func starting("},
	"go run ./test/demo --help":                       {"test/demo/demo_test.go", `self(t, "--help")`},
	"go run ./controller doctor":                      onCluster("go run ./controller doctor"),

	"export KUBECONFIG=$PWD/.cache/cluster/dev/kubeconfig":                  byLive,
	"kubectl apply -f examples/original-claim/claim.yaml":                   byLive,
	"kubectl wait --for=condition=Ready --timeout=10m mysql/mysql-instance": byLive,
	"kubectl delete mysql mysql-instance":                                   byLive,
	"kubectl delete":                                                        byLive,
	"kubectl get mysqlbackup":                                               byLive,
	"kubectl replace --force":                                               {"test/e2e/readme_test.go", `"replace", "--force"`},
	"kubectl patch mysql mysql-instance --type=merge --patch-file=/dev/stdin <<<'{\"spec\":{\"password\":\"n3w-password\"}}'": {"test/demo/demo_test.go", "func TestShownIsDone("},

	"kubectl apply --server-side -k controller/deploy/opted-in":   byToken("-k controller/deploy/opted-in"),
	"kubectl delete clusterrolebinding crossplane-mysql-contents": byToken("delete clusterrolebinding crossplane-mysql-contents"),
	"kubectl create rolebinding crossplane-mysql --namespace default --clusterrole crossplane-mysql-contents --serviceaccount crossplane-mysql-system:crossplane-mysql": byToken(
		"create rolebinding crossplane-mysql --namespace default --clusterrole crossplane-mysql-contents --serviceaccount crossplane-mysql-system:crossplane-mysql"),

	"mysql --ssl-mode=VERIFY_IDENTITY --ssl-ca=/tmp/ca.crt --host=mysql-instance": {"test/e2e/tls_test.go", `"--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=/tmp/ca.crt"`},

	"kubectl rollout restart deployment NAME": {"test/e2e/release_test.go", `"rollout", "restart", "deployment"`},

	"kubectl delete -k controller/deploy/controller": inRecords(`"delete", "--kustomize", "controller/deploy/controller"`),
	"kubectl delete msb":                             inRecords(`"delete", "msb", name`),
	"kubectl delete msb RECORD":                      inRecords(`"delete", "msb", newest.GetName()`),
	"kubectl annotate msb RECORD otus.homework/delete-archive=$(kubectl get msb RECORD --output jsonpath={.metadata.uid})": inRecords(`"otus.homework/delete-archive="`),
	"kubectl annotate pv VOLUME --overwrite otus.homework/make-record=RECORD":                                              inRecords("func TestRecordDeletedIsMadeAgain("),
	"kubectl annotate pv VOLUME forget.otus.homework/RECORD=UID":                                                           inRecords(`"annotate", "pv", backupVolume(t, s).Name, "forget.otus.homework/"`),
	"kubectl annotate backupstore NAME --overwrite otus.homework/make-record=v1/NAMESPACE-UID/COMPOSITE-UID/RECORD":        {"test/e2e/store_test.go", "func (b *backupStore) makesRecord("},

	"kubectl annotate backupstore NAME --overwrite otus.homework/take-over-prefix=HOLDER":    {"test/e2e/store_test.go", "func (b *backupStore) takesOver("},
	"kubectl annotate backupstore offsite --overwrite otus.homework/take-over-prefix=HOLDER": {"test/e2e/store_test.go", "func (b *backupStore) takesOver("},

	"kubectl annotate pv VOLUME otus.homework/take-over=UID":   {"test/e2e/restored_cluster_test.go", `"take-over"`},
	"kubectl annotate pv VOLUME otus.homework/leave-alone=UID": {"test/e2e/restored_cluster_test.go", `"leave-alone"`},

	"make store-test":                                          {"Makefile", "lint mysqld-test store-test unit "},
	"make store-test-seaweedfs":                                {"Makefile", "test-all: test store-test-seaweedfs "},
	"kubectl mysql store-key":                                  {"test/e2e/store_test.go", `"store-key", name, "--to"`},
	"kubectl apply -f offsite-key.yaml":                        {"test/demo/store.go", `"apply", "-f", file`},
	"kubectl create secret generic":                            {"test/demo/store.go", `"create", "secret", "generic"`},
	"kubectl mysql store-key offsite --to offsite-key.yaml":    {"test/e2e/store_test.go", `"store-key", name, "--to"`},
	"kubectl get backupstore":                                  {"test/e2e/store_test.go", `"kubectl get backupstore"`},
	"kubectl get mysql --output wide":                          {"test/e2e/store_test.go", `"kubectl get mysql --output wide --all-namespaces"`},
	"kubectl explain backupstore.spec":                         {"test/e2e/store_test.go", "kubectl explain backupstore.spec"},
	"kubectl apply --server-side -k controller/deploy/gateway": {"test/e2e/store_test.go", "kubectl apply --server-side -k controller/deploy/gateway"},

	"kubectl mysql adopt --namespace default --volume backup-mysql-instance-pvc":           {"test/e2e/adopt_test.go", `adopt(t, s)`},
	"kubectl mysql adopt --namespace default --volume backup-mysql-instance-pvc --dry-run": {"test/e2e/adopt_test.go", `adopt(t, s, "--dry-run")`},

	"kubectl mysql adopt":                                                         {"test/e2e/adopt_test.go", `adopt(t, s)`},
	"kubectl mysql adopt --store":                                                 inNewCluster("b.adopt(t)"),
	"kubectl mysql adopt --store offsite":                                         inNewCluster("b.adopt(t)"),
	"kubectl mysql adopt --store offsite --map shop=new-shop --map crm":           inNewCluster("b.adopt(t, named), "),
	"kubectl mysql adopt --store offsite --map shop=new-shop --map crm --dry-run": inNewCluster(`b.adopt(t, named, "--dry-run")`),

	"kubectl apply --namespace default --filename docs/clients/provider-sql.yaml":                                                               byProviderSQL,
	"kubectl wait --namespace default --for=condition=Ready user.mysql.sql.m.crossplane.io/shop grant.mysql.sql.m.crossplane.io/shop-on-orders": byProviderSQL,

	`kubectl patch xmysql mysql-instance-x2b7k --type json --patch '[{"op":"test","path":"/metadata/finalizers/0","value":"composite.apiextensions.crossplane.io"},{"op":"remove","path":"/metadata/finalizers/0"}]'`: {"test/e2e/uninstall_test.go", "func runsPrintedCommands("},
	"kubectl logs --namespace crossplane-mysql-system deployment/crossplane-mysql": {"test/e2e/local_test.go", `"logs", "--namespace", framework.SystemNamespace, "deployment/crossplane-mysql"`},

	"make kubectl-mysql":                                          byStandIns,
	"kubectl mysql list":                                          {"test/e2e/plugin_test.go", `"mysql", "list"`},
	"kubectl mysql status mysql-instance":                         {"test/e2e/plugin_test.go", `"mysql", "status", s.Name`},
	"kubectl mysql backup mysql-instance":                         {"test/e2e/plugin_test.go", `"mysql", "backup", s.Name`},
	"kubectl mysql restore --from mysql-instance --to mysql-copy": {"test/e2e/plugin_test.go", `"mysql", "restore", "--from", s.Name, "--to"`},
	"kubectl mysql connect mysql-instance":                        {"test/e2e/plugin_test.go", `"mysql", "connect", "copy"`},
	"kubectl mysql doctor":                                        {"test/e2e/plugin_test.go", `"mysql", "doctor"`},

	"kubectl apply --server-side -k controller/deploy/monitoring": {"test/e2e/monitoring_test.go", `"-k", "controller/deploy/monitoring"`},
	"kubectl mysql status NAME":                                   {"test/e2e/plugin_test.go", `"mysql", "status", s.Name`},
	"make release-dry-run":                                        byStandIns,
	"make release-test":                                           byStandIns,
	"make dashboard-test":                                         byStandIns,
	"make chart":                                                  {"Makefile", "\nchart-test: chart "},
	"helm install crossplane-mysql dist/crossplane-mysql-0.1.0.tgz --namespace crossplane-system":                 byChart,
	"helm show crds dist/crossplane-mysql-0.1.0.tgz | kubectl apply --server-side --force-conflicts --filename -": byChart,
	"helm upgrade crossplane-mysql dist/crossplane-mysql-0.1.0.tgz --namespace crossplane-system":                 byChart,

	"tar --zstd -xf":     {"controller/internal/archive/backup_test.go", `"tar", "--zstd", "-xf"`},
	`tar \| zstd -1 -T0`: {"controller/internal/archive/speed_test.go", `"zstd", "-1", "-T0"`},
}

// typedOnCluster are more of those.
var typedOnCluster = []string{
	"kubectl get mysql", "kubectl get msb", "kubectl describe msb", "kubectl explain mysql.spec", "kubectl get db",
	"kubectl get pv -l app.kubernetes.io/component=backup",
	"kubectl apply --server-side -k controller/deploy/records", "kubectl apply --server-side -k controller/deploy/controller", "kubectl apply --server-side -k controller/deploy/platform",
	"kubectl wait --for=condition=Established crd/mysqlplatforms.otus.homework", "kubectl get mysqlplatform", "kubectl explain mysqlplatform.spec", "kubectl apply --server-side --force-conflicts -f package/install.yaml",
}

// TestEveryCommandIsTyped: each command of README.md and docs is typed by a test.
func TestEveryCommandIsTyped(t *testing.T) {
	all := Commands(pages(t))
	for _, c := range all {
		by, known := typists[c]
		if slices.Contains(typedOnCluster, c) {
			by, known = onCluster(c), true
		}
		if !known {
			t.Errorf("no test types `%s`", c)
			continue
		}
		if !strings.Contains(file(t, by.file), by.words) {
			t.Errorf("%s does not type `%s`: it has no %s", by.file, c, by.words)
		}
	}
	for _, c := range slices.AppendSeq(slices.Clone(typedOnCluster), maps.Keys(typists)) {
		if !slices.Contains(all, c) {
			t.Errorf("no page says `%s` any more", c)
		}
	}
}

func pages(t *testing.T) string {
	t.Helper()
	text, err := Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// test that a page names, and the part of it.
var namedTest = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/(\\w+))?`")

// elsewhere is what a test says that a short run leaves out, and word is a test's name in that. A repeating one is left out as a
// whole.
var (
	elsewhere = regexp.MustCompile(`(?:Repeats\(t, |OnEach\(t, map.*|\t(?:by|fault)\w+: +)".*`)
	word      = regexp.MustCompile(`\bTest[A-Z]\w*`)
	repeating = regexp.MustCompile(`\nfunc (Test\w+)\(t \*testing\.T\) {[^\n]*\n(?:\tt\.Parallel\(\)\n)?\tframework\.Repeats`)
)

// TestNamedTestsExist: who says which test shows something, on a page or instead of a test that takes long, does not outlive it.
func TestNamedTestsExist(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"apis", "controller", "fn", "package", "test"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path) //nolint:gosec // A test of this repository.
			code.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := namedTest.FindAllStringSubmatch(pages(t), -1)
	if len(all) < 10 {
		t.Errorf("only %d tests are named", len(all))
	}
	for _, m := range all {
		if !strings.Contains(code.String(), "\nfunc "+m[1]+"(t *testing.T)") {
			t.Errorf("there is no %s", m[1])
		}
		if m[2] != "" && !strings.Contains(code.String(), `"`+m[2]+`"`) {
			t.Errorf("%s has no part %s", m[1], m[2])
		}
	}
	left := elsewhere.FindAllString(code.String(), -1)
	if len(left) < 30 {
		t.Errorf("only %d tests and cells are left out", len(left))
	}
	leftOut := map[string]int{} // A name may be that of another package's test, too.
	for _, m := range repeating.FindAllStringSubmatch(code.String(), -1) {
		leftOut[m[1]]++
	}
	for _, where := range left {
		for _, name := range word.FindAllString(where, -1) {
			defined := "\nfunc " + name + "(t *testing.T)"
			if !strings.Contains(code.String(), defined) {
				t.Errorf("there is no %s: %s", name, where)
			}
			if strings.Count(code.String(), defined) == leftOut[name] {
				t.Errorf("%s is left out itself: %s", name, where)
			}
		}
	}
}

// TestPicturesNameWhatIsThere: each name of a function in a picture of docs/development.md, with its package, is in the code.
func TestPicturesNameWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/development.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```mermaid\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 2 {
		t.Fatalf("want two pictures, got %d", len(blocks))
	}
	seen := 0
	for _, block := range blocks {
		for _, name := range regexp.MustCompile(`\["(\w+)\.(\w+)[":]`).FindAllStringSubmatch(block[1], -1) {
			seen++
			if !declares(t, name[1], name[2]) {
				t.Errorf("docs/development.md shows %s.%s, which is no function of a package %s: rename it there", name[1], name[2], name[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d names were looked for", seen)
	}
}

// declares reports whether a package of the product declares a function or method.
func declares(t *testing.T, pkg, name string) bool {
	t.Helper()
	is := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`)
	for _, pattern := range []string{"../../fn/" + pkg + "/*.go", "../../controller/internal/" + pkg + "/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") && is.Match(text) {
				return true
			}
		}
	}
	return false
}
