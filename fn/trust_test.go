package main

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/durability"
)

// These tests assume that a claim is written by a user who may only create claims, in one namespace.

// odd lists unusual values for every field that accepts text.
var odd = []any{
	"", ".", "..", "../x", "../../kube-system/token", "/etc/shadow", "other/x", marker, "other:x", "-x", "--help", "a b",
	"a\nb", "a\x00b", "$(HOME)", "${HOME}", "$(id)", "`id`",
	"a,b", "a=b", "a: b", "*", "%2e%2e%2f", "x.database", "backup-x", "crossplane-mysql-system", "\u202ex",
	strings.Repeat("a", 253), strings.Repeat("../", 80), 7, true, nil,
	[]any{"x"}, map[string]any{"namespace": "other", "name": "x"},
}

// A reach documents what a field of a claim may influence. It also contains hostile values for a test of this limit.
type reach struct {
	// target describes what the field can influence.
	target string
	// odd lists additional values for this field only.
	odd []any
	// keys are the keys of a map field. If empty, the odd values are used as keys.
	keys []string
	// form describes the accepted values, if the field accepts no arbitrary text.
	form string
}

// reaches has an entry for every field of both kinds of claims. Each new field needs an entry.
var reaches = withCoreTypes(map[string]reach{
	"backup.beforeUpgrade": {target: "whether this instance's server is stopped for a backup",
		odd: []any{"Always", true}},
	"backup.continuous.durability": {target: "whether a commit of this server waits until its store has it",
		odd: []any{"Store", "Server", "store", true}},
	"backup.continuous.storeFailurePolicy": {target: "whether a commit of this server waits while its store is broken",
		odd: []any{"Wait", "Continue", "Ignore", true}},
	"backup.continuous.enabled": {target: "whether the binary log of this instance is archived in its store",
		odd: []any{"true", 1, false}},
	"backup.finalBackup.requireRestoreTest": {target: "how long this instance's data stays after its backup",
		odd: []any{"true", 1}},
	"backup.retention.count": {target: "the number of this instance's backups", odd: []any{-1, 0, 1 << 40}},
	"backup.retention.minAge": {form: "a duration", target: "how long this instance's backups stay",
		odd: []any{"1", "0d", "1m", "-1d", "999999h", 1}},
	"backup.schedule.cron": {form: "a schedule of cron",
		target: "in which minutes this instance is backed up",
		odd:    []any{"0 3 * * *", "* * * *", "@every 1s", "TZ=UTC 0 3 * * *", "at night", strings.Repeat("1,", 60), 1}},
	"backup.schedule.method": {
		target: "whether this instance's server is stopped for a scheduled backup", odd: []any{"Online", "Hot", "cold", true}},
	"backup.schedule.timeZone": {form: "a name of the IANA database", target: "which minutes those are",
		odd: []any{"../../etc/passwd", "/etc/localtime", "a b", 1}},
	"backup.storeRef.name": {
		target: "which store this instance's backups go to, by the gateway, of those that the platform allows",
		odd:    []any{"theirs", "Volume", "volume", "a/b"}},
	"backup.volume": {form: "an empty object", target: "whether this instance's backups go to a volume",
		odd: []any{map[string]any{}, true, 1}},
	"compositeDeletePolicy": {target: "how Crossplane deletes the XR", odd: []any{"Foreground", "Orphan"}},
	"config[]": {
		target: "my.cnf of the server, and of one without data that is tried first, without files, plugins and includes",
		keys: []string{"plugin_load", "plugin-load-add", "init_file", "datadir", "!includedir", "[client]",
			"loose_plugin_dir", "skip-grant-tables", "max_connections", "a.plugin_load", "sql_mode"}},
	"database": {
		target: "the name of a schema in the server, and an environment variable of it"},
	"deletionPolicy": {target: "this instance's data", odd: []any{"Discard", "Orphan"}},
	"image": {
		target: "what runs in the server's container, and which image's version is asked",
		odd: []any{"registry.example/x@sha256:1", "docker://x", "file:///x", "x --privileged", "x\tb", "-v", "..",
			"a/../../b"}},
	"imagePullSecrets[].name": {
		target: "Secrets of the claim's namespace, for the kubelet that pulls the images of the server and of its Jobs",
		odd:    []any{"theirs", "kube-system/theirs"}},
	"metrics.enabled": {
		target: "whether this server's pod has the platform's exporter, with an account that cannot read the data",
		odd:    []any{"true", 1, true}},
	"networkPolicy.from[].ipBlock.cidr": {form: "a range of addresses", target: "who reaches this server",
		odd: []any{"0.0.0.0/0", "::/0", "10.0.0.1/8"}},
	"networkPolicy.from[].ipBlock.except[]": {form: "a range of addresses", target: "who does not",
		odd: []any{"10.0.0.0/8"}},
	"password":              {target: "root of this server"},
	"passwordSecretRef.key": {target: "a key of a Secret of the claim's namespace", odd: []any{v1.PasswordKey}},
	"passwordSecretRef.name": {target: "a Secret of the claim's namespace",
		odd: []any{"ours", "theirs", "kube-system/theirs"}},
	"requireTLS": {target: "whether this server takes clients that do not encrypt", odd: []any{"true", 1}},
	"resources.claims[].name": {
		form: "none", target: "nothing: it is refused", odd: []any{"gpu"},
	},
	"resources.claims[].request": {form: "none", target: "nothing: it is refused", odd: []any{"gpu"}},
	"resources.limits[]": {form: "a quantity", target: "cpu, memory and room of a node", odd: []any{"1"},
		keys: []string{"memory", "cpu", "nvidia.com/gpu", "devices.kubevirt.io/kvm", "../x", "hugepages-2Mi"}},
	"resources.requests[]": {form: "a quantity", target: "cpu, memory and room of a node", odd: []any{"1"},
		keys: []string{"memory", "smarter-devices/fuse", "storage", "x y"}},
	"restore.at": {form: "a time or a GTID", target: "how much of the archived binary log is applied to a backup",
		odd: []any{"2026-11-22T18:00:00.25Z", "2026-11-22", "now", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "3e11fa47:1",
			"before:3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "before:now",
			"2026-11-22T18:00:00Z --help", 1}},
	"restore.fromKind": {target: "backups of an instance of the other API in the same namespace",
		odd: []any{"Database", "Pod", "MySQL.example.org", "../MySQL"}},
	"restore.from": {target: "backups of another claim of the claim's namespace",
		odd: []any{"../other", "theirs"}},
	"restore.backup": {target: "backups of the claim's namespace, of any claim in it",
		odd: []any{"theirs", "theirs-with-our-label", "default-mysql-instance-27f037cefa"}},
	"restore.import.dump.name": {
		target: "an object in the folder of the claim's namespace in a store, which the platform team has put there",
		odd:    []any{"a.sql", marker + ".sql", "../other/a.sql", "a/b.sql", "a.sql.exe", ".sql"}},
	"restore.import.dump.sha256": {form: "a checksum", target: "whether that object is taken",
		odd: []any{strings.Repeat("0", 64), strings.Repeat("A", 64)}},
	"restore.import.dump.storeRef.name": {target: "a store that the platform allows",
		odd: []any{"offsite", "theirs", "Volume"}},
	"restore.import.server.host": {target: "a server that the platform allows",
		odd: []any{"db.allowed", marker + ".allowed", "db.allowed.", "evil/db.allowed", "allowed", "evilallowed", "10.0.0.1",
			"::1", "-x.allowed", "kubernetes.default.svc"}},
	"restore.import.server.port": {target: "a port of that server", odd: []any{0, -1, 443, 65536, 1 << 40}},
	"restore.import.server.secretRef.name": {target: "username, password and ca.crt of a Secret of the claim's namespace",
		odd: []any{"ours", "theirs", "other/theirs"}},
	"restore.import.volume.directory": {target: "a folder of that volume",
		odd: []any{"data", "lib/mysql", "a/../b", "a/./b", "a//b", "a/", ".hidden", "a/.."}},
	"restore.import.volume.pvcRef.name": {target: "a volume of the claim's namespace, to be read",
		odd: []any{"theirs", "mysql-instance-pvc", "backup-mysql-instance-pvc", "other/theirs"}},
	"restore.insteadOf": {target: "whether the choice beside it counts: it is compared with a name",
		odd: []any{"theirs", "default-mysql-instance-27f037cefa"}},
	"restore.policy": {target: "whether this instance's backups are used", odd: []any{"Never"}},
	"scheduling.priorityClassName": {
		target: "the place of other pods, by the classes that the platform allows",
		odd:    []any{"system-node-critical", "system-cluster-critical", "../x"}},
	"scheduling.tolerations[].effect": {form: "a word of Kubernetes",
		target: "nodes with taints that the platform allows", odd: []any{"NoSchedule", "NoExecute", "All"}},
	"scheduling.tolerations[].key": {target: "nodes with taints that the platform allows",
		odd: []any{"node-role.kubernetes.io/control-plane", "node.kubernetes.io/unschedulable", "", "theirs", allowedTaint}},
	"scheduling.tolerations[].operator": {form: "a word of Kubernetes",
		target: "nodes with taints that the platform allows: without a key it is refused",
		odd:    []any{"Exists", "Equal", "Gt"}},
	"scheduling.tolerations[].tolerationSeconds": {target: "how long it stays on a node that is not well",
		odd: []any{-1, 1 << 40}},
	"scheduling.tolerations[].value": {target: "nodes with taints that the platform allows",
		odd: []any{"a b", "x"}},
	"scheduling.topologySpreadConstraints[].maxSkew": {
		target: "nodes with fewer servers of the claim's namespace", odd: []any{0, -1, 1 << 40}},
	"scheduling.topologySpreadConstraints[].topologyKey": {
		target: "nodes with fewer servers of the claim's namespace", odd: []any{"a b", "kubernetes.io/hostname"}},
	"scheduling.topologySpreadConstraints[].whenUnsatisfiable": {form: "a word of Kubernetes",
		target: "nodes with fewer servers of the claim's namespace", odd: []any{"DoNotSchedule", "Never"}},
	"scheduling.nodeSelector[]": {target: "nodes that take everybody's pods",
		odd: []any{"web", "x y"}, keys: []string{"kubernetes.io/hostname", "node-role.kubernetes.io/control-plane",
			"crossplane-mysql.io/instance", "x y", ""}},
	"service.annotations[]": {
		target: "what cloud controllers do for this Service, by the keys that the platform allows",
		keys: []string{
			"service.beta.kubernetes.io/aws-load-balancer-internal", "external-dns.alpha.kubernetes.io/hostname",
			"metallb.io/allow-shared-ip", "crossplane.io/external-name",
			"crossplane.io/composition-resource-name", "crossplane-mysql.io/claim-namespace",
			"kubectl.kubernetes.io/last-applied-configuration", "service.beta.kubernetes.io.evil/x",
			"evil/service.beta.kubernetes.io", "/x", "",
		},
	},
	"service.type": {target: "a port of the nodes, or a load balancer",
		odd: []any{"NodePort", "LoadBalancer", "ExternalName", "Headless"}},
	"service.headless": {target: "whether this Service has an address", odd: []any{"true", 1, true}},
	"storageClassName": {target: "a storage class, as in any PersistentVolumeClaim"},
	"storageAutogrow.below": {form: "a percentage", target: "when this instance's volume grows",
		odd: []any{"15%", "0%", "100%", "15", 15}},
	"storageAutogrow.by": {form: "a percentage or a quantity", target: "room on a storage class, up to a limit",
		odd: []any{"20%", "101%", "1Gi", "-1Gi", "1e99999"}},
	"storageAutogrow.to": {form: "a quantity", target: "room on a storage class, up to the limit of the platform",
		odd: []any{"100Gi", "-1Gi", "1e99999", "1Ei", 1}},
	"storageSize": {form: "a quantity", target: "room on a storage class",
		odd: []any{"1Gi", "2Gi", "-1Gi", "1e99", "1e-9999999"}},
	"suspend": {target: "whether this instance's server is off", odd: []any{"true", 1, true}},
	"storage_size": {form: "a quantity", target: "room on a storage class",
		odd: []any{"1Gi", "2Gi", "-1Gi", "1e99", "1e-9999999"}},
	"type": {target: "which of two servers it is", odd: []any{"mongo", "mysql", "postgres"}},
})

// withCoreTypes adds the fields of Kubernetes core types.
func withCoreTypes(out map[string]reach) map[string]reach {
	word := func(target string, odd ...any) reach {
		return reach{form: "a word of Kubernetes", target: target, odd: odd}
	}
	expressions := func(prefix, target string) {
		out[prefix+"matchExpressions[].key"] = reach{target: target, odd: []any{"metadata.name", "disk", "a b"}}
		out[prefix+"matchExpressions[].operator"] = word(target, "In", "Gt", "Is")
		out[prefix+"matchExpressions[].values[]"] = reach{target: target, odd: []any{"control-plane", "../x"}}
	}
	selector := func(prefix, target string) {
		expressions(prefix, target)
		out[prefix+"matchLabels[]"] = reach{target: target, odd: []any{"web", "x y"},
			keys: []string{"a", "kubernetes.io/hostname", "crossplane-mysql.io/instance", "namespace", "x y", ""}}
	}
	refused := func(target string, fields ...string) {
		for _, field := range fields {
			out[field] = reach{form: "none", target: "nothing: " + target + " are refused", odd: []any{"theirs", "kube-system"}}
		}
	}
	const nodes, clients = "nodes that take everybody's pods", "who reaches this server"
	selector("networkPolicy.from[].podSelector.", clients)
	selector("networkPolicy.from[].namespaceSelector.", clients)
	affinity := func(kind, when string) string {
		return "scheduling.affinity." + kind + "." + when + "DuringSchedulingIgnoredDuringExecution"
	}
	for _, prefix := range []string{affinity("nodeAffinity", "preferred") + "[].preference.",
		affinity("nodeAffinity", "required") + ".nodeSelectorTerms[]."} {
		expressions(prefix, nodes)
		out[prefix+"matchFields[].key"] = word(nodes, "metadata.name", "disk", "a b")
		out[prefix+"matchFields[].operator"] = word(nodes, "In", "Gt", "Is")
		out[prefix+"matchFields[].values[]"] = reach{target: nodes, odd: []any{"control-plane", "../x"}}
	}
	out[affinity("nodeAffinity", "preferred")+"[].weight"] = reach{target: nodes, odd: []any{-1, 1000}}
	for kind, target := range map[string]string{
		"podAffinity":     "nodes near pods of the claim's namespace",
		"podAntiAffinity": "nodes without pods of the claim's namespace, which come to none that this server is on",
	} {
		out[affinity(kind, "preferred")+"[].weight"] = reach{target: target, odd: []any{0, 101}}
		for _, prefix := range []string{affinity(kind, "preferred") + "[].podAffinityTerm.", affinity(kind, "required") + "[]."} {
			selector(prefix+"labelSelector.", target)
			out[prefix+"topologyKey"] = reach{target: target, odd: []any{"kubernetes.io/hostname", "a b"}}
			refused("pods of other namespaces", prefix+"namespaces[]", prefix+"namespaceSelector.matchExpressions[].key",
				prefix+"namespaceSelector.matchExpressions[].operator",
				prefix+"namespaceSelector.matchExpressions[].values[]")
			out[prefix+"namespaceSelector.matchLabels[]"] = reach{form: "none", target: "nothing: pods of other namespaces are refused",
				odd: []any{"web"}, keys: []string{"a"}}
			refused("pods of other revisions", prefix+"matchLabelKeys[]", prefix+"mismatchLabelKeys[]")
		}
	}
	const spread, target = "scheduling.topologySpreadConstraints[].", "nodes with fewer servers of the claim's namespace"
	selector(spread+"labelSelector.", target)
	refused("pods of other revisions", spread+"matchLabelKeys[]")
	out[spread+"minDomains"] = reach{target: target, odd: []any{0, -1, 1 << 40}}
	out[spread+"nodeAffinityPolicy"] = word(target, "Honor", "Ignore", "Never")
	out[spread+"nodeTaintsPolicy"] = word(target, "Honor", "Ignore", "Never")
	return out
}

// fieldsOf returns the fields of a schema by their paths. [] stands for any key or any item.
func fieldsOf(prefix string, schema map[string]any) map[string]map[string]any {
	if properties, ok := schema["properties"].(map[string]any); ok {
		out := map[string]map[string]any{}
		for name, child := range properties {
			maps.Copy(out, fieldsOf(strings.TrimPrefix(prefix+"."+name, "."), child.(map[string]any)))
		}
		return out
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		// A setting is never a list. Its schema has items only in order to refuse lists.
		if child, ok := schema[keyword].(map[string]any); ok && fmt.Sprint(schema["maxItems"]) != "0" {
			return fieldsOf(prefix+"[]", child)
		}
	}
	return map[string]map[string]any{prefix: schema}
}

// claimFields returns the paths of the fields of the spec in an XRD.
func claimFields(t *testing.T, xrd string) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(fieldsOf("", claimSchema(t, xrd))))
}

// claimSchema returns the schema of the spec in an XRD.
func claimSchema(t *testing.T, xrd string) map[string]any {
	t.Helper()
	d := documents(t, filepath.Join("..", "apis", xrd))[0]
	version, _ := at(d, "spec", "versions").([]any)[0].(map[string]any)
	spec, _ := at(version, "schema", "openAPIV3Schema", "properties", "spec").(map[string]any)
	return spec
}

// TestEveryFieldHasAReach checks that reaches has an entry for each field of a claim.
func TestEveryFieldHasAReach(t *testing.T) {
	fields := append(claimFields(t, "xrd-xmysqls.yaml"), claimFields(t, "xrd-xdatabases.yaml")...)
	slices.Sort(fields)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(reaches)), slices.Compact(fields)); diff != "" {
		t.Errorf("say in reaches what each field of a claim can reach, and of no other. -reaches, +XRDs:\n%s", diff)
	}
}

// with sets a field of the claim's spec, such as backup.schedule.cron, to a value. For a map, key is the key of the
// value. It also sets other fields that the API requires together with this field.
func (c *caller) with(field, key string, value any) *caller {
	for _, rival := range [][]string{{"password", "passwordSecretRef"}, {"storage_size", "storageSize"}} {
		for i, name := range rival {
			if strings.HasPrefix(field, name) && at(c.xr, "spec", rival[1-i]) != nil {
				c.set(rival[1-i], nil)
			}
		}
	}
	steps := strings.Split(field, ".")
	if before, after, ok := strings.Cut(field, "[]"); ok {
		value = below(after, field, key, value)
		steps = strings.Split(before, ".")
	}
	if kind, ok := strings.CutPrefix(field, "restore.import."); ok { // An import needs exactly one source.
		kind, _, _ = strings.Cut(kind, ".")
		c.xr = setIn(c.xr, map[string]any{"policy": "Latest", "import": map[string]any{kind: imports[kind]()}}, "spec",
			"restore")
	}
	switch field {
	case "backup.schedule.cron", "backup.schedule.method", "backup.schedule.timeZone":
		c.xr = setIn(c.xr, map[string]any{"cron": "0 3 * * *", "method": "Cold"}, "spec", "backup", "schedule")
	case "backup.continuous.durability", "backup.continuous.storeFailurePolicy":
		c.xr = setIn(c.xr, map[string]any{"storeRef": named("offsite"), "continuous": map[string]any{"durability": "Store"}},
			"spec", "backup")
		c.set("image", "mysql:8.4")
	case "storageAutogrow.below", "storageAutogrow.by":
		c.xr = setIn(c.xr, "100Gi", "spec", "storageAutogrow", "to")
	case "passwordSecretRef.name":
		c.xr = setIn(c.xr, v1.PasswordKey, "spec", "passwordSecretRef", "key")
	case "passwordSecretRef.key":
		c.xr = setIn(c.xr, "ours", "spec", "passwordSecretRef", "name")
	}
	c.xr = setIn(c.xr, value, append([]string{"spec"}, steps...)...)
	if spec, _ := c.xr["spec"].(map[string]any); spec != nil {
		giveSiblings("", spec["scheduling"])
		giveSiblings("", spec["networkPolicy"])
	}
	return c
}

// allowedTaint is the taint that claims may tolerate in this test.
const allowedTaint = marker

// siblings contains valid values for required fields, by the name of their parent. The tests add them to a parent,
// because the hostile value of another field would otherwise always be refused.
var siblings = map[string]map[string]any{
	"matchExpressions": {"key": "disk", "operator": "In", "values": []any{"ssd"}},
	"matchFields":      {"key": "metadata.name", "operator": "In", "values": []any{"node-1"}},
	"nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
		"weight": 1.0, "preference": map[string]any{
			"matchExpressions": []any{map[string]any{"key": "disk", "operator": "In", "values": []any{"ssd"}}}}},
	"podAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
		"weight": 1.0, "podAffinityTerm": map[string]any{}},
	"podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
		"weight": 1.0, "podAffinityTerm": map[string]any{}},
	"podAffinity.requiredDuringSchedulingIgnoredDuringExecution": {
		"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{}},
	"podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution": {
		"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{}},
	"podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{}},
	"labelSelector":   {"matchLabels": map[string]any{"app": "web"}},
	"topologySpreadConstraints": {"maxSkew": 1.0, "topologyKey": "topology.kubernetes.io/zone",
		"whenUnsatisfiable": "ScheduleAnyway"},
	"tolerations": {"key": allowedTaint, "effect": "NoExecute"},
	"ipBlock":     {"cidr": "10.0.0.0/7"},
}

// giveSiblings adds the required fields in siblings to all objects below a key that lack them.
func giveSiblings(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, good := range siblings[key] {
			if _, ok := v[name]; !ok {
				v[name] = runtime.DeepCopyJSONValue(good)
			}
		}
		for name, child := range v {
			if key == "nodeAffinity" || key == "podAffinity" || key == "podAntiAffinity" {
				name = key + "." + name // These terms have the same name, but different fields.
			}
			giveSiblings(name, child)
		}
	case []any:
		for _, child := range v {
			giveSiblings(key, child)
		}
	}
}

// imports contains a valid import source of each kind. letImport makes the platform allow them.
var imports = map[string]func() any{
	"volume": func() any { return map[string]any{"pvcRef": map[string]any{"name": "theirs"}} },
	"server": func() any { return map[string]any{"host": "db.allowed", "secretRef": map[string]any{"name": "ours"}} },
	"dump":   func() any { return map[string]any{"storeRef": map[string]any{"name": "offsite"}, "name": "a.sql"} },
}

// below wraps a value in the list, map and objects that contain its field. path is the part of the field's path after
// the first [].
func below(path, field, key string, value any) any {
	if path == "" && len(reaches[field].keys) > 0 {
		return map[string]any{key: value}
	}
	steps := strings.Split(strings.TrimPrefix(path, "."), ".")
	for i := len(steps) - 1; i >= 0 && path != ""; i-- {
		name, many := strings.CutSuffix(steps[i], "[]")
		switch {
		case many && len(reaches[field].keys) > 0:
			value = map[string]any{key: value}
		case many:
			value = []any{value}
		}
		value = map[string]any{name: value}
	}
	return []any{value}
}

// strangers returns objects of other users in the test's cluster. A claim must not be able to reach them.
func strangers() []map[string]any {
	record := func(name, namespace, label string) map[string]any {
		return map[string]any{
			"apiVersion": "crossplane-mysql.io/v1alpha1", "kind": "BackupRecord",
			"metadata": map[string]any{"name": name, "creationTimestamp": "2026-05-01T10:00:00Z",
				"labels": map[string]any{v1.LabelInstance: label, v1.LabelBackup: v1.BackupKey("default", name)}},
			"spec": map[string]any{
				"instance": map[string]any{"kind": "MySQL", "namespace": namespace,
					"namespaceUID": "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d", "name": "mysql-instance", "xr": "x"},
				"version": "8.4.0", "cleanShutdown": true, "storageSize": "1Gi",
				"archive": map[string]any{"pvcName": "backup-theirs-pvc", "path": "theirs/data.tar.zst",
					"sha256": strings.Repeat("0", 64)},
			},
			"status": map[string]any{"phase": "Verified"},
		}
	}
	ours := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "mysql-instance"}.Key()
	theirs := map[string]any{"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"namespace": "other", "name": "theirs"}, "data": map[string]any{"password": "c2VjcmV0"}}
	account := func(name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Secret",
			"metadata": map[string]any{"namespace": "default", "name": name},
			"data":     map[string]any{"password": "c2VjcmV0", marker: "c2VjcmV0"}}
	}
	volume := func(name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": map[string]any{"namespace": "default", "name": name}}
	}
	return []map[string]any{
		record("theirs", "other", "x"), record("theirs-with-our-label", "other", ours), record(marker, "default", "x"),
		theirs,
		account("ours"), account(marker), volume("theirs"), volume(marker),
	}
}

// TestNoFieldReachesFurther sets each field of a claim to hostile values. The composed and required objects must stay
// in the claim's namespace, and the pods must not get more privileges.
func TestNoFieldReachesFurther(t *testing.T) {
	bases := map[string]func(*caller){"StorageClass": func(*caller) {}, "HostPath": onHostPath}
	examples := map[string]string{
		"fresh-instance": "xrd-xmysqls.yaml", "restore-before": "xrd-xmysqls.yaml", "restore-named": "xrd-xmysqls.yaml",
		"database-mysql": "xrd-xdatabases.yaml", "database-restore": "xrd-xdatabases.yaml", "running": "xrd-xmysqls.yaml",
	}
	seen := tally{composed: map[string]int{}, servers: map[string]int{}, texts: map[string]int{}, places: map[place]bool{}}
	for example, xrd := range examples {
		for base, prepare := range bases {
			prepared := load(t, example)
			prepare(prepared)
			prepared.cluster = append(prepared.cluster, strangers()...)
			prepared.letImport()
			_, unchanged := prepared.run(t)
			for _, field := range append(claimFields(t, xrd), "") {
				t.Run(example+"/"+base+"/"+field, func(t *testing.T) {
					for _, h := range hostile(field) {
						c := *prepared
						c.xr = runtime.DeepCopyJSON(c.xr)
						if field != "" {
							c.with(field, h.key, h.value)
						}
						_, rsp := c.run(t)
						seen.count(base, rsp)
						// If a change is refused, the server in the running example keeps running.
						if _, ok := rsp.GetDesired().GetResources()[v1.ResourceDeployment]; ok && example != "running" {
							seen.servers[field]++
							seen.texts[field] += strings.Count(h.key+fmt.Sprint(h.value), marker)
						}
						g := beyond(&c, rsp)
						if strings.Contains(h.key+fmt.Sprint(h.value), marker) {
							g.texts(field, rsp, seen.places)
						}
						if isUnnoticed(unchanged, rsp) && !cannotChange(xrd, field) {
							g.complainf("the server's pod changes, and the digest of the template input does not: see compose.TestPreference")
						}
						for _, complaint := range g.complaints {
							t.Errorf("spec.%s %q: %.100q: %s", field, h.key, fmt.Sprint(h.value), complaint)
						}
					}
				})
			}
		}
	}
	seen.check(t)
}

// commandsOf returns the commands of a Job's containers.
func commandsOf(o map[string]any) []string {
	var out []string
	for _, field := range []string{"initContainers", "containers"} {
		all, _ := at(o, "spec", "template", "spec", field).([]any)
		for _, c := range all {
			if command, _ := c.(map[string]any)["command"].([]any); len(command) > 1 {
				out = append(out, command[1].(string))
			}
		}
	}
	return out
}

// letImport allows the test's import sources in the Platform.
func (c *caller) letImport() {
	for i, o := range c.cluster {
		if kindOf(o) == v1.KindPlatform {
			o = setIn(o, []any{"*.allowed"}, "spec", "allowedImportServers")
			o = setIn(o, []any{allowedTaint}, "spec", "allowedTolerations")
			o = setIn(o, []any{marker}, "spec", "allowedPriorityClasses")
			c.cluster[i] = setIn(o, []any{"offsite", marker}, "spec", "allowedBackupStores")
		}
	}
}

func onHostPath(c *caller) { c.input = setIn(c.input, "HostPath", "volumes") }

// A hostileValue is a value for a field. It has a key if the field is a map.
type hostileValue struct {
	key   string
	value any
}

func hostile(field string) []hostileValue {
	if field == "" {
		return []hostileValue{{}} // This is the unchanged example.
	}
	r := reaches[field]
	var out []hostileValue
	if !strings.HasSuffix(field, "[]") || len(r.keys) == 0 {
		for _, v := range append(slices.Clone(odd), r.odd...) {
			out = append(out, hostileValue{value: v})
		}
		return out
	}
	for _, key := range append(slices.Clone(r.keys), marker) {
		for _, v := range append([]any{marker, "/x/evil.so", "a\nplugin_load=x", "0.0.0.0/0", 1}, r.odd...) {
			out = append(out, hostileValue{key: key, value: v})
		}
	}
	return out
}

// beyond checks all parts of a response for anything that exceeds the claim's permissions.
func beyond(c *caller, rsp *fnv1.RunFunctionResponse) *guard {
	g := &guard{caller: c, hostPath: at(c.input, "volumes") == "HostPath"}
	ref := at(c.xr, "spec", "claimRef").(map[string]any)
	g.instance = v1.Instance{Kind: ref["kind"].(string), Namespace: ref["namespace"].(string), Name: ref["name"].(string),
		XR: ""}
	for name, r := range rsp.GetDesired().GetResources() {
		g.object(name, r.GetResource().AsMap())
	}
	for key, s := range rsp.GetRequirements().GetResources() {
		g.need(key, s)
	}
	return g
}

// A guard checks the objects that are composed for an instance.
type guard struct {
	*caller

	instance   v1.Instance
	hostPath   bool
	complaints []string
}

func (g *guard) complainf(format string, args ...any) {
	g.complaints = append(g.complaints, fmt.Sprintf(format, args...))
}

// need checks a resource that the function requires from Crossplane.
func (g *guard) need(key string, s *fnv1.ResourceSelector) {
	cluster := []string{"PersistentVolume", "StorageClass", "Namespace", v1.KindBackupRecord, v1.KindPlatform}
	switch {
	case s.GetMatchLabels() == nil && (s.GetMatchName() == "" || strings.Contains(s.GetMatchName(), "/")):
		g.complainf("it asks for %s: %v", key, s)
	case s.GetMatchLabels() != nil && !g.isStoredHere(s.GetMatchLabels().GetLabels()[v1.LabelInstance]) &&
		!g.isNamed(s.GetMatchLabels().GetLabels()[v1.LabelBackup]):
		g.complainf("it asks for the records of others: %v", s)
	case s.GetKind() == v1.KindPlatform && s.GetMatchName() != v1.PlatformName:
		g.complainf("it asks for another platform: %v", s)
	case s.GetKind() == "Namespace" && s.GetMatchName() != g.instance.Namespace:
		g.complainf("it asks for another namespace: %v", s)
	case s.GetNamespace() != g.instance.Namespace && !slices.Contains(cluster, s.GetKind()):
		g.complainf("it asks for %s of namespace %q: %v", key, s.GetNamespace(), s)
	}
}

// isStoredHere reports whether key, a value of LabelInstance, belongs to the instance, or to the instance in
// spec.restore.from in the same namespace.
func (g *guard) isStoredHere(key string) bool {
	other := g.instance
	other.Name, _ = at(g.xr, "spec", "restore", "from").(string)
	return key == g.instance.Key() || other.Name != "" && key == other.Key()
}

// isNamed reports whether key, a value of LabelBackup, belongs to the backup in spec.restore.backup, in the instance's
// own namespace.
func (g *guard) isNamed(key string) bool {
	name, _ := at(g.xr, "spec", "restore", "backup").(string)
	return name != "" && key == v1.BackupKey(g.instance.Namespace, name)
}

// kinds lists the kinds that the function may compose for a claim.
var kinds = []string{"PersistentVolume", "PersistentVolumeClaim", "Secret", "ConfigMap", "Deployment", "Service", "Job",
	"NetworkPolicy"}

func (g *guard) object(name string, o map[string]any) {
	kind := kindOf(o)
	if !slices.Contains(kinds, kind) {
		g.complainf("a %s is composed", kind)
	}
	meta, _ := o["metadata"].(map[string]any)
	if kind == "PersistentVolume" {
		g.volume(o)
	} else if meta["namespace"] != g.instance.Namespace {
		g.complainf("%s is in namespace %v", name, meta["namespace"])
	}
	if f, ok := meta["finalizers"].([]any); ok && !cmp.Equal(f, []any{v1.Finalizer}) {
		g.complainf("%s has the finalizers %v", name, f)
	}
	g.annotations(name, meta)
	if name == v1.ResourceDeployment { // A Job has annotations for service meshes, too.
		g.annotations(name, mapAt(o, "spec", "template", "metadata"))
	}
	g.labels(name, o)
	g.walk(name, "", o)
	switch kind {
	case "Deployment", "Job":
		if pod, ok := at(o, "spec", "template", "spec").(map[string]any); ok && !g.isObserved(pod) {
			g.pod(name, pod)
		}
	case "NetworkPolicy":
		if value := at(o, "spec", "podSelector", "matchLabels", v1.LabelInstance); value != g.instance.Key() {
			g.complainf("%s is about the pods of %v", name, value)
		}
	case "PersistentVolumeClaim":
		if keys := slices.Sorted(maps.Keys(o["spec"].(map[string]any))); slices.Contains(keys, "dataSource") ||
			slices.Contains(keys, "dataSourceRef") {
			g.complainf("%s is filled from elsewhere", name)
		}
	}
}

// isObserved reports whether a pod equals the observed pod template of the Deployment. The caller does not check such a
// pod again.
func (g *guard) isObserved(pod map[string]any) bool {
	return slices.ContainsFunc(g.observed, func(o map[string]any) bool {
		return reflect.DeepEqual(at(o, "spec", "template", "spec"), any(pod))
	})
}

// volume checks that a hostPath volume has its own directory below the platform's root directory, and is reserved for
// this claim.
func (g *guard) volume(o map[string]any) {
	name, _ := at(o, "metadata", "name").(string)
	root, _ := g.input["hostPathRoot"].(string)
	if root == "" {
		root = v1.DefaultHostPathRoot
	}
	if !g.hostPath || at(o, "spec", "hostPath", "path") != root+"/"+name || path.Base(root+"/"+name) != name {
		g.complainf("the volume %s lies at %v", name, at(o, "spec", "hostPath", "path"))
	}
	if at(o, "spec", "claimRef", "namespace") != g.instance.Namespace ||
		at(o, "spec", "claimRef", "name") != g.instance.DataPVCName() {
		g.complainf("the volume %s is for %v", name, at(o, "spec", "claimRef"))
	}
}

// annotations checks that an object has only this product's annotations. A Service may also have annotations that the
// platform allows.
func (g *guard) annotations(name string, meta map[string]any) {
	all, _ := meta["annotations"].(map[string]any)
	for key := range all {
		domain, _, _ := strings.Cut(key, "/")
		allowed := name == v1.ResourceService && slices.Contains(v1.DefaultServiceAnnotations(), key)
		if !allowed && (name == v1.ResourceService || domain != v1.Group) {
			g.complainf("%s has the annotation %q", name, key)
		}
	}
}

// outOfMeshes are annotations that exclude Jobs from service meshes.
var outOfMeshes = map[string]string{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"}

// labels checks that an object has the labels and selectors of the instance, regardless of its spec.
func (g *guard) labels(name string, o map[string]any) {
	for _, path := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"},
		{"spec", "selector"}, {"spec", "selector", "matchLabels"}} {
		all, _ := at(o, path...).(map[string]any)
		for key, value := range all {
			want, known := g.instance.Labels()[key]
			if app, ok := g.instance.ServerSelector()[key]; ok {
				want, known = app, true
			}
			if word, ok := outOfMeshes[key]; ok && (name == v1.ResourceRestore || name == v1.ResourceSettingsCheck) {
				want, known = word, true
			}
			if key == v1.LabelXR {
				want, known = at(g.xr, "metadata", "uid").(string), true
			}
			ofJob := name == v1.ResourceRestore && value == v1.ComponentRestore || name == v1.ResourceSettingsCheck &&
				value == v1.ComponentSettings
			if key == v1.LabelComponent && ofJob || key == "matchLabels" {
				continue
			}
			if !known || value != want {
				g.complainf("%s has the label %q: %v at %v", name, key, value, path)
			}
		}
	}
}

// forbidden lists keys that must not occur in any object at any level.
var forbidden = []string{
	"hostPID", "hostIPC", "hostNetwork", "hostUsers", "hostPort", "privileged", "procMount", "nodeName",
	"serviceAccountName", "serviceAccount", "externalIPs", "externalName",
	"ownerReferences", "volumeDevices", "ephemeralContainers", "lifecycle", "sysctls", "seLinuxOptions", "windowsOptions",
	"csi", "nfs", "projected", "envFrom", "valueFrom",
	"runtimeClassName", "hostAliases", "hostname", "generateName", "livenessProbe",
}

// walk checks the values of a composed object at all levels, such as its namespace and its tolerations.
func (g *guard) walk(name, key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for k, child := range v {
			if key == "data" || key == "annotations" || key == "labels" || key == "matchLabels" {
				continue // The values are texts, which other functions check.
			}
			if slices.Contains(forbidden, k) {
				g.complainf("%s has %s: %v", name, k, child)
			}
			if k == "args" && (name != v1.ResourceDeployment || fmt.Sprint(child) != fmt.Sprint(durability.Arguments(v1.DefaultImage))) {
				g.complainf("%s has args: %v", name, child)
			}
			if k == "namespace" && child != g.instance.Namespace {
				g.complainf("%s names namespace %v", name, child)
			}
			if k == "tolerations" {
				g.tolerations(name, child)
			}
			if k == "priorityClassName" && child != marker {
				g.complainf("%s has the priority class %v", name, child)
			}
			if (k == "namespaces" || k == "namespaceSelector") && name != v1.ResourceServerPolicy &&
				name != v1.ResourceJobPolicy {
				g.complainf("%s looks at other namespaces: %s: %v", name, k, child)
			}
			if k == "hostPath" && (name != v1.ResourceDataPV || key != "spec") {
				g.complainf("%s has a hostPath in %s", name, key)
			}
			g.walk(name, k, child)
		}
	case []any:
		for _, child := range v {
			g.walk(name, key, child)
		}
	}
}

// tolerations checks that a pod tolerates only the taint that claims may tolerate.
func (g *guard) tolerations(name string, value any) {
	all, _ := value.([]any)
	if slices.ContainsFunc(all, func(one any) bool { return at(one.(map[string]any), "key") != allowedTaint }) {
		g.complainf("%s tolerates %v", name, value)
	}
}

// pod checks the privileges, the containers and the volumes of the server's pod or a Job's pod.
func (g *guard) pod(name string, pod map[string]any) {
	onNode := g.hostPath && hasVolume(pod)
	security, _ := pod["securityContext"].(map[string]any)
	switch {
	case onNode && name == v1.ResourceRestore:
		if security["runAsUser"] != 0.0 {
			g.complainf("the Job on hostPath runs as %v: say so in security.go and here", security["runAsUser"])
		}
	case security["runAsNonRoot"] != true || security["runAsUser"] == 0.0:
		g.complainf("%s may run as root: %v", name, security)
	}
	if at(security, "seccompProfile", "type") != "RuntimeDefault" {
		g.complainf("%s has no seccomp profile", name)
	}
	if got, want := pod["imagePullSecrets"], at(g.xr, "spec", "imagePullSecrets"); !reflect.DeepEqual(got, want) {
		g.complainf("%s has the image pull secrets %v, and its claim %v", name, got, want)
	}
	if pod["automountServiceAccountToken"] != false {
		g.complainf("%s gets a token of the API server", name)
	}
	containers, _ := pod["containers"].([]any)
	first, _ := pod["initContainers"].([]any)
	for _, c := range append(slices.Clone(first), containers...) {
		g.container(name, c.(map[string]any), onNode)
	}
	volumes, _ := pod["volumes"].([]any)
	for _, v := range volumes {
		g.mounted(name, v.(map[string]any))
	}
}

func hasVolume(pod map[string]any) bool {
	volumes, _ := pod["volumes"].([]any)
	return slices.ContainsFunc(volumes, func(v any) bool { return at(v.(map[string]any), "persistentVolumeClaim") != nil })
}

func (g *guard) container(name string, c map[string]any, onNode bool) {
	security, _ := c["securityContext"].(map[string]any)
	added, _ := at(security, "capabilities", "add").([]any)
	ours := c["image"] == "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"
	if ours && onNode {
		added = slices.DeleteFunc(slices.Clone(added), func(c any) bool {
			return slices.Contains([]any{"CHOWN", "DAC_OVERRIDE", "FOWNER"}, c)
		})
	}
	dropped, _ := at(security, "capabilities", "drop").([]any)
	if len(added) > 0 || security["allowPrivilegeEscalation"] != false || !cmp.Equal(dropped, []any{"ALL"}) ||
		security["readOnlyRootFilesystem"] != true {
		g.complainf("container %v of %s has %v", c["name"], name, security)
	}
	switch user := security["runAsUser"]; {
	case c["name"] == agent.ExporterName && c["image"] == v1.DefaultExporterImage:
		g.exporter(c, security)
	case !ours && (user != 999.0 || security["runAsNonRoot"] != true):
		g.complainf("container %v of %s runs an image of the claim's as %v", c["name"], name, security)
	case ours && user != nil && (!onNode || c["name"] != "own"):
		g.complainf("container %v of %s runs as %v", c["name"], name, user)
	}
	// The containers that use the backup have the job image, regardless of the server's image.
	if n := c["name"]; name == v1.ResourceRestore &&
		!slices.Contains([]any{"version", "import-server", "import-dump"}, n) && !ours {
		g.complainf("container %v of %s is %v", n, name, c["image"])
	}
	command, _ := c["command"].([]any)
	if name == v1.ResourceRestore &&
		(len(command) == 0 || command[0] != "/controller" && command[0] != "/tools/controller") {
		g.complainf("container %v of %s runs %v", c["name"], name, command)
	}
	for _, field := range []string{"limits", "requests"} {
		for kind := range mapAt(c, "resources", field) {
			g.resource(name, kind)
		}
	}
	g.mounts(name, c, ours)
}

// exporter checks that the exporter, which has an image of the platform, cannot read the data. The containers of the
// pod share a process namespace, so it needs another user than the server.
func (g *guard) exporter(c, security map[string]any) {
	if user := security["runAsUser"]; user == 999.0 || user == 0.0 || security["runAsNonRoot"] != true {
		g.complainf("the exporter runs as %v", user)
	}
	mounts, _ := c["volumeMounts"].([]any)
	for _, m := range mounts {
		mount := m.(map[string]any)
		if mount["readOnly"] != true || !slices.Contains([]any{"tools", agent.ExporterName, "scratch"}, mount["name"]) ||
			mount["name"] == "scratch" && mount["subPath"] != "run" {
			g.complainf("the exporter mounts %v", mount)
		}
	}
}

// mounts checks the mounts of a container. Backups and imported volumes must be read-only. Only containers with the
// job image may mount the Secret for access to a store.
func (g *guard) mounts(name string, c map[string]any, ours bool) {
	mounts, _ := c["volumeMounts"].([]any)
	for _, m := range mounts {
		mount := m.(map[string]any)
		if sub := mount["subPath"]; sub != nil && sub != v1.DataDirectory && mount["name"] != "scratch" {
			g.complainf("container %v of %s mounts %v", c["name"], name, mount)
		}
		if mount["name"] == "source" && (mount["readOnly"] != true || !ours) {
			g.complainf("container %v of %s may do more than read what is imported", c["name"], name)
		}
		if mount["name"] == "access" && !ours {
			g.complainf("container %v of %s has the way to a store", c["name"], name)
		}
		if mount["name"] == "backup" && (mount["readOnly"] != true || c["name"] == "version") {
			g.complainf("container %v of %s may write to the backups", c["name"], name)
		}
	}
}

func mapAt(m map[string]any, path ...string) map[string]any {
	out, _ := at(m, path...).(map[string]any)
	return out
}

func (g *guard) resource(name, kind string) {
	if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, kind) && !strings.HasPrefix(kind, "hugepages-") {
		g.complainf("%s asks for %s of a node", name, kind)
	}
}

// mounted checks that a volume belongs to this instance or to the backup that it is restored from.
func (g *guard) mounted(name string, v map[string]any) {
	delete(v, "name")
	kind := slices.Sorted(maps.Keys(v))
	i := g.instance
	allowed := []any{i.DataPVCName(), i.RootSecretName(), i.ConfigMapName()}
	if name == v1.ResourceDeployment || name == v1.ResourceSettingsCheck {
		allowed = append(allowed, i.TLSSecretName())
	}
	if name == v1.ResourceRestore {
		for _, r := range g.cluster {
			if kindOf(r) == v1.KindBackupRecord && at(r, "spec", "instance", "namespace") == i.Namespace {
				allowed = append(allowed, at(r, "spec", "archive", "pvcName"))
			}
		}
	}
	source := mapAt(v, kind[0])
	if n, ok := at(g.xr, "spec", "restore", "import", "volume", "pvcRef", "name").(string); ok && source["claimName"] == n &&
		source["readOnly"] == true && n != "" && !slices.Contains([]string{i.DataPVCName(), i.BackupPVCName()}, n) {
		return // A pod can only use PersistentVolumeClaims of its own namespace.
	}
	if items, _ := source["items"].([]any); slices.Contains([]any{"ours", marker}, source["secretName"]) &&
		len(items) == 3 {
		return // Only the keys of the account are mounted.
	}
	if items, _ := source["items"].([]any); name == v1.ResourceDeployment && source["secretName"] == i.MetricsSecretName() &&
		cmp.Equal(items, []any{map[string]any{"key": "my.cnf", "path": "my.cnf"}}) {
		return // The exporter gets its own account and nothing else.
	}
	if name == v1.ResourceRestore && at(g.xr, "spec", "restore", "import", "dump") != nil {
		allowed = append(allowed, i.TLSSecretName(), i.Accesses().Restore())
	}
	for _, subject := range []string{"claimName", "secretName", "name"} {
		if n, ok := source[subject]; ok && !slices.Contains(allowed, n) {
			g.complainf("%s mounts %v", name, v)
		}
	}
	if kind[0] == "emptyDir" && source["sizeLimit"] == nil {
		g.complainf("%s may fill its node's disk with %v", name, v)
	}
	if len(kind) != 1 || !slices.Contains([]string{"persistentVolumeClaim", "secret", "configMap", "emptyDir"}, kind[0]) &&
		(kind[0] != "downwardAPI" || name != v1.ResourceSettingsCheck) {
		g.complainf("%s mounts %v", name, v)
	}
}
