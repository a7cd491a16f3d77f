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
		"Block": {"A comment is not part of the command.", "```shell\nmake demo   # see it\n```\n", []string{"make demo"}},
		"GoesOn": {"A command may continue on the next line.", "```shell\ncrossplane render a.yaml \\\n  --xrd b.yaml\n```\n",
			[]string{"crossplane render a.yaml --xrd b.yaml"}},
		"InComment": {"A command that a comment quotes must be found.",
			"```shell\nmake demo   # then `kubectl get mysql`\n```\n",
			[]string{"kubectl get mysql", "make demo"}},
		"Inline": {"A command in a sentence may continue on the next line.", "Type `KUBECONFIG=a make\ndemo`, not `demo`.",
			[]string{"KUBECONFIG=a make demo"}},
		"Prompt": {"A command after a prompt must be found.", "```\n$ kubectl get msbr\nNAME\n$ sql x\n```\n",
			[]string{"kubectl get msbr"}},
		"Other": {"The content of a file is not a command.", "```yaml\nmake: demo\n```\n", nil},
		"Once": {"A command that occurs several times must be listed once.",
			"`make demo`\n```shell\nmake demo\n```\n`make demo`",
			[]string{"make demo"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Commands(tc.text)); diff != "" {
				t.Errorf("\n%s\nCommands(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A typist is the proof that a documented command is tested: the file of a test must contain the words. They are the
// command itself, or the declaration of a test that reads its commands from the page.
type typist struct{ file, words string }

// Proofs for commands that tests read from README.md, or that other files run.
var (
	byStandIns = typist{"test/readme/make_test.go", "func TestMake("}
	byShow     = typist{"test/render/typed.go", "func shown("}
	byRender   = typist{"test/render/typed.go", "func rendered("}
	byPush     = typist{"package/build/push_test.go", "func TestReadmePush("}
	byLive     = typist{"test/e2e/readme_test.go", "func TestReadmeLive("}
	byCluster  = typist{"test/e2e/framework/own.go", `"cluster-up", "cluster-load"`}
)

// onCluster returns the proof for a command that an e2e test runs unchanged.
func onCluster(command string) typist { return typist{"test/e2e/readme_test.go", `"` + command + `"`} }

// inRecords returns the proof for a command about BackupRecords. A test runs it with different object names.
func inRecords(words string) typist { return typist{"test/e2e/records_test.go", words} }

// inDrain returns the proof for a command about a drained node.
func inDrain(words string) typist { return typist{"test/e2e/drain_test.go", words} }

func inNewCluster(words string) typist { return typist{"test/e2e/new_cluster_test.go", words} }

// byChart is the proof for the commands that call Helm.
var byChart = typist{"test/e2e/chart_test.go", "func TestChart("}

// byUpgrade is the proof for the commands that apply the files of a release, which the test of an upgrade runs.
var byUpgrade = typist{"test/e2e/upgrade_test.go", "func (r *release) install("}

// byKind returns the proof for a command that creates a cluster with kind.
func byKind(words string) typist { return typist{"test/kind/up", words} }

// Proofs for the commands on the pages of docs/get-started, which these tests read from the pages.
var (
	byQuickstart = typist{"test/e2e/getstarted_test.go", "func TestQuickstart("}
	byFirstHour  = typist{"test/e2e/getstarted_test.go", "func TestFirstHour("}
)

// inDemo returns the proof for a command that the demo runs with different object names.
func inDemo(words string) typist { return typist{"test/demo/store.go", words} }

// byProviderSQL is the proof for the commands that create users and databases with provider-sql.
var byProviderSQL = typist{"test/e2e/providersql_test.go", "func appliesProviderSQL("}

// printedTaint is the test of the message that contains the taint of a lost node. No test shuts down a node.
var printedTaint = typist{"controller/internal/instance/waiting_test.go", "out-of-service=nodeshutdown:NoExecute"}

// printedSkip is the test of the message that contains the annotation. TestSkippedBackup sets it on a cluster.
var printedSkip = typist{"controller/internal/lifecycle/next_test.go", `crossplane-mysql.io/skip-backup=" + xrUID`}

// byToken returns the proof for a command about the namespace opt-in.
func byToken(words string) typist { return typist{"test/e2e/token_test.go", words} }

// typists maps each command on the pages to the proof that a test runs it. TestMake also runs every make command with
// fake programs. Commands that take hours are run only there.
var typists = map[string]typist{
	"make demo":                     {"test/e2e/demo_test.go", `"make", "demo"`},
	"KUBECONFIG=… make demo":        {"test/e2e/demo_test.go", `"KUBECONFIG="`},
	"DEMO_API=namespaced make demo": {"test/e2e/demo_test.go", `"DEMO_API="+api`},
	"kubectl patch configmap argocd-cm --namespace argocd --type merge --patch-file package/argocd/argocd-cm.yaml": {
		"test/e2e/argocd_test.go", `"patch", "configmap", "argocd-cm", "--namespace", "argocd", "--type", "merge"`},
	"make test":          {".ci/run", "\nmake test\n"},
	"make render":        {"Makefile", " cluster-test render "},
	"make unit":          {"Makefile", " lint mysqld-test store-test unit "},
	"make lint":          {"Makefile", " lint mysqld-test store-test unit "},
	"make house":         {"Makefile", "(2 min).\n\tgo run ./test/tools/house\n"},
	"ALL=1 make render":  {"Makefile", "test-all: export ALL = 1"},
	"make render-update": byStandIns,
	"make xpkg":          {"Makefile", "\nxpkg-test: xpkg "},
	"make mysqld-test":   {"Makefile", " lint mysqld-test store-test unit "},
	"make e2e":           {"Makefile", "--keep-going checks e2e #"},
	"make help":          {"test/readme/make_test.go", `"make", "help"`},
	"make generate":      byStandIns, // The same tests without -update compare the files that this command would write.
	"make bench":         byStandIns,
	"make fuzz":          byStandIns,
	"make matrix":        byStandIns,

	"make recovery-matrix": byStandIns,
	"make test-all":        byStandIns,
	"make install":         onCluster("make install"),

	"make cluster-up":              byCluster,
	"make cluster-load":            byCluster,
	"make cluster-up cluster-load": byCluster,
	"make cluster-down":            {"test/e2e/framework/own.go", `"cluster-down"`},

	"make show EXAMPLE=original-claim": byShow,
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
	"go run ./controller/kubectl-mysql doctor":        onCluster("go run ./controller/kubectl-mysql doctor"),

	"export KUBECONFIG=$PWD/.cache/cluster/dev/kubeconfig":                  byLive,
	"kubectl apply -f examples/original-claim/claim.yaml":                   byLive,
	"kubectl wait --for=condition=Ready --timeout=10m mysql/mysql-instance": byLive,
	"kubectl delete mysql mysql-instance":                                   byLive,
	"kubectl delete":                                                        byLive,

	"kubectl apply --server-side -k controller/deploy/opted-in": byToken("-k controller/deploy/opted-in"),
	"kubectl delete clusterrolebinding crossplane-mysql-contents": byToken(
		"delete clusterrolebinding crossplane-mysql-contents"),
	"kubectl create rolebinding crossplane-mysql --namespace default --clusterrole crossplane-mysql-contents " +
		"--serviceaccount crossplane-mysql-system:crossplane-mysql": byToken(
		"create rolebinding crossplane-mysql --namespace default --clusterrole crossplane-mysql-contents --serviceaccount " +
			"crossplane-mysql-system:crossplane-mysql"),

	"mysql --ssl-mode=VERIFY_IDENTITY --ssl-ca=/tmp/ca.crt --host=mysql-instance": {"test/e2e/tls_test.go",
		`"--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=/tmp/ca.crt"`},

	"kubectl rollout restart deployment crossplane-mysql crossplane-mysql-gateway --namespace crossplane-mysql-system": {
		"test/e2e/release_test.go", `"rollout", "restart", "deployment"`},
	"kubectl rollout restart deployment --namespace default --selector app.kubernetes.io/managed-by=crossplane-mysql": {
		"test/e2e/release_test.go", `"rollout", "restart", "deployment"`},
	"kubectl rollout restart deployment NAME": {"test/e2e/release_test.go", `"rollout", "restart", "deployment"`},

	"kubectl delete -k controller/deploy/controller": inRecords(`"delete", "--kustomize", "controller/deploy/controller"`),
	"kubectl delete msbr":                            inRecords(`"delete", "msbr", name`),
	"kubectl delete msbr RECORD":                     inRecords(`"delete", "msbr", newest.GetName()`),
	"kubectl annotate msbr RECORD crossplane-mysql.io/delete-archive=$(kubectl get msbr RECORD --output jsonpath={.metadata.uid})": inRecords(`"crossplane-mysql.io/delete-archive="`),
	"kubectl annotate msb NAME crossplane-mysql.io/delete-archive=$(kubectl get msb NAME --output jsonpath={.metadata.uid})": {
		"test/e2e/request_test.go", `"crossplane-mysql.io/delete-archive="`},
	"kubectl wait --for=condition=Complete backup.crossplane-mysql.io/before-release-12": {"test/e2e/request_test.go",
		`"wait", "--for=condition=Complete"`},
	"kubectl delete msb NAME": {"test/e2e/request_test.go", `"delete", "msb"`},
	"kubectl annotate pv VOLUME --overwrite crossplane-mysql.io/make-record=RECORD": inRecords(
		"func TestRecordDeletedIsMadeAgain("),
	"kubectl annotate pv VOLUME forget.crossplane-mysql.io/RECORD=UID": inRecords(
		`"annotate", "pv", backupVolume(t, s).Name, "forget.crossplane-mysql.io/"`),
	"kubectl annotate backupstore NAME --overwrite crossplane-mysql.io/make-record=v1/NAMESPACE-UID/COMPOSITE-UID/RECORD": {
		"test/e2e/store_test.go", "func (b *backupStore) makesRecord("},

	"kubectl annotate backupstore NAME --overwrite crossplane-mysql.io/take-over-prefix=HOLDER": {"test/e2e/store_test.go",
		"func (b *backupStore) takesOver("},
	"kubectl annotate backupstore offsite --overwrite crossplane-mysql.io/take-over-prefix=HOLDER": {"test/e2e/store_test.go",
		"func (b *backupStore) takesOver("},

	"kubectl annotate pv VOLUME crossplane-mysql.io/take-over=UID":   {"test/e2e/restored_cluster_test.go", `"take-over"`},
	"kubectl annotate pv VOLUME crossplane-mysql.io/leave-alone=UID": {"test/e2e/restored_cluster_test.go", `"leave-alone"`},

	"crossplane resource validate package/input/crossplane-mysql.io_settings.yaml apis/composition-mysql.yaml": {
		"package/build/validate_test.go", `"resource", "validate", inputCRD, "apis/composition-mysql.yaml"`},

	"make store-test":                                       {"Makefile", "lint mysqld-test store-test unit "},
	"kubectl mysql store-key":                               {"test/e2e/store_test.go", `"store-key", name, "--to"`},
	"kubectl apply -f offsite-key.yaml":                     {"test/demo/store.go", `"apply", "-f", file`},
	"kubectl mysql store-key offsite --to offsite-key.yaml": {"test/e2e/store_test.go", `"store-key", name, "--to"`},
	"kubectl get backupstore":                               {"test/e2e/store_test.go", `"kubectl get backupstore"`},
	"kubectl drain NODE --ignore-daemonsets --delete-emptydir-data": inDrain(
		`s.nodes[1], "--ignore-daemonsets", "--delete-emptydir-data"`),
	"kubectl drain":                      inDrain(`"drain", s.nodes[1]`),
	"kubectl uncordon":                   inDrain(`command := "uncordon"`),
	"kubectl uncordon NODE":              inDrain(`command := "uncordon"`),
	"kubectl get mysql --all-namespaces": inDrain(`"get", "mysql", "--all-namespaces")`),
	"kubectl get pods --all-namespaces --field-selector spec.nodeName=NODE " +
		"--selector app.kubernetes.io/component=server --output wide": inDrain("listsOnNode(t, serverPods"),
	"kubectl get pods --all-namespaces --field-selector spec.nodeName=NODE " +
		"--selector app.kubernetes.io/managed-by=crossplane-mysql": inDrain("app.kubernetes.io/managed-by=crossplane-mysql"),
	"kubectl get mysql --output wide": {"test/e2e/store_test.go",
		`"kubectl get mysql --output wide --all-namespaces"`},
	"kubectl apply --server-side -k controller/deploy/gateway": {"test/e2e/store_test.go",
		"kubectl apply --server-side -k controller/deploy/gateway"},

	"kubectl mysql adopt --namespace default --volume backup-mysql-instance-pvc": {"test/e2e/adopt_test.go",
		`adopt(t, s)`},
	"kubectl mysql adopt --namespace default --volume backup-mysql-instance-pvc --dry-run": {"test/e2e/adopt_test.go",
		`adopt(t, s, "--dry-run")`},

	"kubectl mysql adopt": {"test/e2e/adopt_test.go",
		`adopt(t, s)`},
	"kubectl mysql adopt --store":                                       inNewCluster("b.adopt(t)"),
	"kubectl mysql adopt --store offsite":                               inNewCluster("b.adopt(t)"),
	"kubectl mysql adopt --store offsite --map shop=new-shop --map crm": inNewCluster("b.adopt(t, named), "),
	"kubectl mysql adopt --store offsite --map shop=new-shop --map crm --dry-run": inNewCluster(
		`b.adopt(t, named, "--dry-run")`),

	"kubectl apply --namespace default --filename docs/clients/provider-sql.yaml": byProviderSQL,
	"kubectl wait --namespace default --for=condition=Ready user.mysql.sql.m.crossplane.io/shop " +
		"grant.mysql.sql.m.crossplane.io/shop-on-orders": byProviderSQL,

	`kubectl patch xmysql mysql-instance-x2b7k --type json --patch '[{"op":"test","path":"/metadata/finalizers/0","value":"composite.apiextensions.crossplane.io"},{"op":"remove","path":"/metadata/finalizers/0"}]'`: {
		"test/e2e/uninstall_test.go", "func runsPrintedCommands("},
	"kubectl logs --namespace crossplane-mysql-system deployment/crossplane-mysql": {"test/e2e/local_test.go",
		`"logs", "--namespace", framework.SystemNamespace, "deployment/crossplane-mysql"`},

	"kubectl annotate xmysql COMPOSITE crossplane-mysql.io/skip-backup=" +
		"$(kubectl get xmysql COMPOSITE --output jsonpath={.metadata.uid})": printedSkip,
	"kubectl annotate msi NAME crossplane-mysql.io/skip-backup=" +
		"$(kubectl get msi NAME --output jsonpath={.metadata.uid})": printedSkip,
	"kubectl get mysql NAME --output jsonpath={.spec.resourceRef.name}": {"test/e2e/life_test.go",
		`NestedString(claim.Object, "spec", "resourceRef", "name")`},
	"helm install crossplane-mysql dist/crossplane-mysql-0.1.0.tgz --namespace crossplane-mysql-system": byChart,

	`kubectl patch pvc backup-NAME-pvc --patch '{"spec":{"resources":{"requests":{"storage":"20Gi"}}}}'`: {
		"test/e2e/faults_test.go", `kubectl patch pvc --namespace %s %s --patch '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'`},
	`kubectl patch mysql NAME --type=merge --patch '{"spec":{"backup":{"finalBackup":{"requireRestoreTest":false}}}}'`: {
		"test/e2e/restorable_test.go", `"--patch", ` + "`" + `{"spec":{"backup":{"finalBackup":{"requireRestoreTest":false}}}}` + "`"},
	"kubectl annotate mysql NAME crossplane.io/paused-": {"controller/internal/lifecycle/next_test.go",
		`"kubectl annotate mysql db crossplane.io/paused-"`},
	`kubectl annotate backupstore NAME --overwrite crossplane-mysql.io/answer="$(kubectl get backupstore NAME --output ` +
		`jsonpath='{.status.challenge.text}' | age --decrypt --identity FILE)"`: {"test/e2e/store_test.go",
		`"crossplane-mysql.io/answer=`},

	"kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute": printedTaint,
	"kubectl taint node NODE node.kubernetes.io/out-of-service-":                       printedTaint,

	"kubectl logs job/restore-mysql-before-job --container apply-log": {"test/e2e/recovery_test.go",
		`"logs", "--namespace", another.Namespace, "job/restore-"+another.Name+"-job", "--container", "apply-log"`},
	"kubectl get mysql mysql-instance --output yaml": {"test/e2e/framework/dump.go", `"get", "mysql", s.Name, "--namespace"`},
	`kubectl get mysql mysql-instance --output 'jsonpath={.status.conditions[?(@.type=="Archiving")]}'`: {
		"test/e2e/durability_test.go", "`jsonpath={.status.conditions[?(@.type==\"Archiving\")]}`"},
	"kubectl mysql restore --from mysql-instance --to mysql-before --at 2020-01-01T00:00:00Z --dry-run": {
		"test/e2e/recovery_test.go", `"--at", "2020-01-01T00:00:00Z", "--dry-run"`},
	"kubectl mysql restore --from mysql-instance --to mysql-before --at 2020-01-01T00:00:00Z --dry-run " +
		"--filename mysql-instance.yaml": {
		"controller/kubectl-mysql/kubectl_mysql_test.go", `&restoreCommand{From: "gone", To: "new", Filename: file`},

	"kubectl logs deployment/NAME":  {"test/e2e/readme_test.go", `"kubectl logs deployment/" + s.Name`},
	"kubectl describe backupstores": {"test/e2e/store_test.go", `"kubectl describe backupstores"`},
	"kubectl wait --for=condition=StorageAutogrow --timeout=10m mysql/mysql-instance": {"test/e2e/autogrow_test.go",
		`"kubectl wait --for=condition=StorageAutogrow --timeout=10m --namespace "+s.Namespace`},
	"kubectl get pvc mysql-instance-pvc": {"test/e2e/autogrow_test.go",
		`"kubectl get pvc --namespace "+s.Namespace+" "+s.DataPVC()`},
	"kubectl describe pvc NAME-pvc": {"test/e2e/autogrow_test.go",
		`"kubectl describe pvc --namespace "+s.Namespace+" "+s.DataPVC()`},
	"kubectl describe mysql NAME": {"test/e2e/archiving_test.go",
		`"kubectl describe mysql --namespace "+s.Namespace+" "+s.Name`},

	"make kubectl-mysql": byStandIns,
	"kubectl mysql list": {"test/e2e/plugin_test.go", `"mysql", "list"`},
	"kubectl mysql status mysql-instance": {"test/e2e/plugin_test.go",
		`"mysql", "status", s.Name`},
	"kubectl mysql backup mysql-instance": {"test/e2e/plugin_test.go",
		`"mysql", "backup", s.Name`},
	"kubectl mysql restore --from mysql-instance --to mysql-before --at 2026-11-22T18:00:00.25Z --dry-run": {
		"test/e2e/recovery_test.go", `"--at", moment, "--dry-run"`},
	"kubectl mysql restore --from mysql-instance --to mysql-before --at 2026-11-22T18:00:00.25Z": {
		"test/e2e/recovery_test.go", `"--from", s.Name, "--to", another.Name, "--at", moment`},
	"kubectl mysql restore --from mysql-instance --to mysql-before --at before:3e11fa47-71ca-11e1-9e33-c80aa9429562:23": {
		"test/e2e/recovery_test.go", `"--from", s.Name, "--to", another.Name, "--at", moment`},
	"kubectl mysql restore --from mysql-instance --to mysql-after --at 3e11fa47-71ca-11e1-9e33-c80aa9429562:23": {
		"test/e2e/recovery_test.go", `"--from", s.Name, "--to", another.Name, "--at", moment`},
	"kubectl mysql undo mysql-instance --before 2026-11-22T18:00:00Z --table shop.orders": {
		"test/e2e/undo_test.go", `"mysql", "undo", s.Name, "--before", moment, "--yes"`},
	"kubectl mysql undo mysql-instance --before 3e11fa47-71ca-11e1-9e33-c80aa9429562:23": {
		"test/e2e/undo_test.go", `"mysql", "undo", s.Name, "--before", id, "--table"`},
	"kubectl mysql restore --from mysql-instance --to mysql-copy": {"test/e2e/plugin_test.go",
		`"mysql", "restore", "--from", s.Name, "--to"`},
	"kubectl mysql connect mysql-instance": {"test/e2e/plugin_test.go",
		`"mysql", "connect", "copy"`},
	"kubectl mysql doctor": {"test/e2e/plugin_test.go", `"mysql", "doctor"`},

	"kubectl apply --server-side -k controller/deploy/monitoring": {"test/e2e/monitoring_test.go",
		`"-k", "controller/deploy/monitoring"`},
	"kubectl mysql status NAME": {"test/e2e/plugin_test.go",
		`"mysql", "status", s.Name`},
	"make release-dry-run": byStandIns,
	"make release-test":    byStandIns,
	"make chart":           {"Makefile", "\nchart-test: chart "},
	"helm install crossplane-mysql dist/crossplane-mysql-0.1.0.tgz --namespace crossplane-mysql-system --create-namespace": byChart,
	"helm test crossplane-mysql --namespace crossplane-mysql-system":                                                       byChart,
	"kubectl label namespace crossplane-mysql-system pod-security.kubernetes.io/enforce=restricted": {
		"test/e2e/chart_test.go", `"label namespace crossplane-mysql-system pod-security.kubernetes.io/enforce=restricted"`},
	"helm show crds dist/crossplane-mysql-0.1.0.tgz | kubectl apply --server-side --force-conflicts --filename -": byChart,
	"helm upgrade crossplane-mysql dist/crossplane-mysql-0.1.0.tgz --namespace crossplane-mysql-system":           byChart,
	"helm uninstall crossplane-mysql --namespace crossplane-mysql-system":                                         byChart,

	"kubectl apply --server-side --force-conflicts -f records.yaml":    byUpgrade,
	"kubectl apply --server-side --force-conflicts -f controller.yaml": byUpgrade,
	"kubectl apply --server-side --force-conflicts -f platform.yaml":   byUpgrade,
	"kubectl apply --server-side --force-conflicts -f packages.yaml":   byUpgrade,

	"kind create cluster": byKind("kind create cluster "),
	"kind delete cluster": {"Makefile", "sigs.k8s.io/kind@v0.30.0 delete cluster "},
	"helm install crossplane " + "crossplane --repo https://charts.crossplane.io/stable --namespace crossplane-system " +
		"--create-namespace --wait": byKind("crossplane --repo https://charts.crossplane.io/stable "),
	"helm install crossplane-mysql oci://ghcr.io/crossplane-mysql/charts/crossplane-mysql --version 0.1.0 " +
		"--namespace crossplane-mysql-system --create-namespace --set packages.namespaced=true": byChart,
	"kubectl wait --for=condition=Healthy --timeout=5m " +
		"configuration.pkg.crossplane.io/crossplane-mysql-configuration-mysql-namespaced": byChart,

	"kubectl apply -f shop.yaml":                                          byQuickstart,
	"kubectl wait --for=condition=Ready --timeout=10m mysqlinstance/shop": byQuickstart,
	"kubectl get mysqlinstance shop":                                      byQuickstart,
	`printf '[client]\nuser=root\nhost=127.0.0.1\npassword="%s"\n' "$(kubectl get secret shop-connection --output jsonpath={.data.password} | base64 --decode)" >client.cnf`: byQuickstart,
	`kubectl exec -i deployment/shop --container mysql -- mysql --defaults-extra-file=/dev/stdin shop --execute 'CREATE TABLE IF NOT EXISTS items (name TEXT)' <client.cnf`:  byQuickstart,
	`kubectl exec -i deployment/shop --container mysql -- mysql --defaults-extra-file=/dev/stdin shop --execute 'INSERT INTO items VALUES ("first")' <client.cnf`:            byQuickstart,
	`kubectl exec -i deployment/shop --container mysql -- mysql --defaults-extra-file=/dev/stdin shop --execute 'SELECT name FROM items' <client.cnf`:                        byQuickstart,
	"kubectl delete mysqlinstance shop": byQuickstart,

	"kubectl apply -f orders.yaml":                                       byFirstHour,
	"kubectl apply -f orders-copy.yaml":                                  byFirstHour,
	"kubectl wait --for=condition=Ready --timeout=10m mysql/orders":      byFirstHour,
	"kubectl wait --for=condition=Ready --timeout=10m mysql/orders-copy": byFirstHour,
	"kubectl get mysql orders":                                           byFirstHour,
	"kubectl delete mysql orders":                                        byFirstHour,
	"kubectl delete mysql orders orders-copy":                            byFirstHour,
	"kubectl apply -f backup.yaml":                                       byFirstHour,
	"kubectl wait --for=condition=Complete --timeout=10m backup.crossplane-mysql.io/orders-before-release-12": byFirstHour,
	"kubectl apply -f crm.yaml":                                                                            byFirstHour,
	"kubectl apply -f crm-copy.yaml":                                                                       byFirstHour,
	"kubectl wait --for=condition=Ready --timeout=10m mysqlinstance/crm":                                   byFirstHour,
	"kubectl wait --for=condition=Ready --timeout=10m mysqlinstance/crm-copy":                              byFirstHour,
	"kubectl get mysqlinstance crm":                                                                        byFirstHour,
	"kubectl delete mysqlinstance crm":                                                                     byFirstHour,
	"kubectl delete mysqlinstance crm crm-copy":                                                            byFirstHour,
	"kubectl wait --for=condition=Complete --timeout=10m backup.crossplane-mysql.io/crm-before-release-12": byFirstHour,

	"kubectl create secret generic offsite-credentials --namespace crossplane-mysql-system " +
		"--from-literal=accessKey=ACCESS-KEY --from-literal=secretKey=SECRET-KEY": inDemo(`"create", "secret", "generic"`),
	"kubectl apply -f offsite.yaml": inDemo(`"apply", "-f", "-"}, stdin: d.backupStore(recipient)`),
	"kubectl wait --for=condition=Reachable --timeout=10m backupstore/offsite": inDemo(
		`"wait", "--for=condition=Reachable", "backupstore/"`),
	`kubectl patch platform crossplane-mysql --type=merge --patch '{"spec":{"allowedBackupStores":["offsite"]}}'`: inDemo(
		`"patch", platformName, "--type=merge"`),
	"kubectl mysql backup shop":  {"test/e2e/plugin_test.go", `"mysql", "backup", s.Name`},
	"kubectl mysql status shop":  {"test/e2e/plugin_test.go", `"mysql", "status", s.Name`},
	"kubectl mysql connect shop": {"test/e2e/plugin_test.go", `"mysql", "connect", "copy"`},
	"kubectl scale statefulset shop-mysql --replicas=0": {"test/e2e/import_layout_test.go",
		`"scale", "statefulset", "shop-mysql", "--replicas=0"`},
	"kubectl wait --for=delete pod/shop-mysql-0 --timeout=5m": {"test/e2e/import_layout_test.go",
		`"wait", "--for=delete", "pod/shop-mysql-0", "--timeout=5m"`},
	"kubectl scale deployment old-mysql --replicas=0": {"test/e2e/import_layout_test.go",
		`"scale", "deployment", "old-mysql", "--replicas=0"`},

	"tar --zstd -xf": {"controller/internal/archive/backup_test.go", `"tar", "--zstd", "-xf"`},
}

// typedOnCluster lists further commands that the tests on a cluster run unchanged.
var typedOnCluster = []string{
	"kubectl get mysql", "kubectl get msb", "kubectl get msb --output wide", "kubectl get msbr",
	"kubectl get msbr --output wide", "kubectl describe msbr", "kubectl get db",
	"kubectl get pv -l app.kubernetes.io/component=backup",
	"kubectl get platform", "kubectl get functions", "kubectl explain platform.spec",
	"kubectl apply --server-side --force-conflicts -f package/install.yaml",
}

// Go code breaks a long line in two ways: it splits a string literal, or it continues after an argument.
var (
	wrappedText      = regexp.MustCompile(`"\s*\+\n\s*"`)
	wrappedArguments = regexp.MustCompile(`,\n\s*`)
)

// joined joins lines that are wrapped only because of their length.
func joined(code string) string {
	return wrappedArguments.ReplaceAllString(wrappedText.ReplaceAllString(code, ""), ", ")
}

// TestEveryCommandIsTyped checks that each command in README.md and docs is run by a test.
func TestEveryCommandIsTyped(t *testing.T) {
	all := Commands(pages(t))
	for _, c := range all {
		typist, known := typists[c]
		if slices.Contains(typedOnCluster, c) {
			typist, known = onCluster(c), true
		}
		if !known {
			t.Errorf("no test types `%s`", c)
			continue
		}
		code := file(t, typist.file)
		if !strings.Contains(code, typist.words) && !strings.Contains(joined(code), typist.words) {
			t.Errorf("%s does not type `%s`: it has no %s", typist.file, c, typist.words)
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

// namedTest matches the name of a test on a page, optionally with a subtest.
var namedTest = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/(\\w+))?`")

// elsewhere matches a call that skips a slow test, with the reason. The reason contains the names of the tests that
// cover the same behavior. word matches such a name. repeating matches a test that is skipped as a whole.
var (
	elsewhere = regexp.MustCompile(`(?:Repeats\(t, |OnEach\(t, map.*|\t(?:by|fault)\w+: +)".*`)
	word      = regexp.MustCompile(`\bTest[A-Z]\w*`)
	repeating = regexp.MustCompile(
		`\nfunc (Test\w+)\(t \*testing\.T\) {[^\n]*\n(?:\tt\.Parallel\(\)\n)?\tframework\.Repeats`)
)

// TestNamedTestsExist checks that a test exists if a page mentions it, or if it is the reason for skipping another
// test.
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
	leftOut := map[string]int{} // Several packages may have a test with the same name.
	for _, m := range repeating.FindAllStringSubmatch(code.String(), -1) {
		leftOut[m[1]]++
	}
	for _, place := range left {
		for _, name := range word.FindAllString(place, -1) {
			defined := "\nfunc " + name + "(t *testing.T)"
			if !strings.Contains(code.String(), defined) {
				t.Errorf("there is no %s: %s", name, place)
			}
			if strings.Count(code.String(), defined) == leftOut[name] {
				t.Errorf("%s is left out itself: %s", name, place)
			}
		}
	}
}

// TestPicturesNameWhatIsThere checks that each function in a diagram of docs/contribute/development.md exists in the
// package that the diagram names.
func TestPicturesNameWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/contribute/development.md")
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
				t.Errorf("docs/contribute/development.md shows %s.%s, which is no function of a package %s: rename it there", name[1], name[2],
					name[1])
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
	declaration := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`)
	for _, pattern := range []string{"../../fn/" + pkg + "/*.go", "../../controller/internal/" + pkg + "/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") && declaration.Match(text) {
				return true
			}
		}
	}
	return false
}
