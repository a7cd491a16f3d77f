package main

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// marker is a string that occurs only in hostile values.
const marker = "zq7marker"

// A place is a location in a response at which the values of certain fields may occur. The prefix of the location is
// path, and the prefix of the fields' names is field.
type place struct{ path, field string }

// anyField, as the field of a place, means all fields except the password.
const anyField = ""

// places lists all allowed places. TestNoFieldReachesFurther fails if the value of a field occurs anywhere else. If
// the value does no harm there, add a place.
var places = []place{
	{"config data.my.cnf", "config[]"},
	{"settings-check spec.template.metadata.annotations.crossplane-mysql.io/config", "config[]"},
	{"data-claim spec.storageClassName", "storageClassName"},
	{"data-claim metadata.annotations.crossplane-mysql.io/backup-store", "backup.storeRef.name"},
	{"data-claim metadata.annotations.crossplane-mysql.io/image", "image"},
	{"data-volume metadata.annotations.crossplane-mysql.io/backup-store", "backup.storeRef.name"},
	{"data-volume metadata.annotations.crossplane-mysql.io/image", "image"},
	{"root-password data.password", "password"},
	{"service metadata.annotations.", "service.annotations[]"},
	{"server-network spec.ingress[].from[].", "networkPolicy.from[]."},
	{"restore metadata.annotations.crossplane-mysql.io/restore", "restore."},

	{"pod containers[].image", "image"},
	{"pod imagePullSecrets[].name", "imagePullSecrets[].name"},
	{"pod containers[].command[]", "restore.import."},
	{"pod initContainers[].image", "image"},
	{"pod initContainers[].command[]", "restore.import."},
	{"pod initContainers[].env[].value", "database"},
	{"pod volumes[].persistentVolumeClaim.claimName", "restore.import.volume.pvcRef.name"},
	{"pod volumes[].secret.secretName", "restore.import.server.secretRef.name"},
	{"pod affinity.nodeAffinity.", "scheduling.affinity.nodeAffinity."},
	{"pod affinity.podAffinity.", "scheduling.affinity.podAffinity."},
	{"pod affinity.podAntiAffinity.", "scheduling.affinity.podAntiAffinity."},
	{"pod nodeSelector.", "scheduling.nodeSelector[]"},
	{"pod priorityClassName", "scheduling.priorityClassName"},
	{"pod tolerations[].", "scheduling.tolerations[]."},
	{"pod topologySpreadConstraints[].", "scheduling.topologySpreadConstraints[]."},

	{"requirement import", "restore.import."},
	{"requirement password", "passwordSecretRef.name"},
	{"message", anyField},
	{"status.message", anyField},
	{"status.backups.store", "backup.storeRef.name"},
	{"status.internal.backupStore", "backup.storeRef.name"},
	{"status.internal.choice", "restore."},
	{"status.image", "image"},
	{"status.internal.nodes.", "scheduling."},
	{"status.internal.pendingImage", "image"},
	{"status.restore.", "restore."},
}

// texts reports an error if the value of a field occurs in a response outside of its places. It records the places
// that it found in used.
func (g *guard) texts(field string, rsp *fnv1.RunFunctionResponse, used map[place]bool) {
	for name, r := range rsp.GetDesired().GetResources() {
		g.text(used, field, name+" ", r.GetResource().AsMap())
	}
	g.text(used, field, "", map[string]any{"status": at(rsp.GetDesired().GetComposite().GetResource().AsMap(), "status")})
	for key, value := range rsp.GetDesired().GetComposite().GetConnectionDetails() {
		g.text(used, field, "connection "+key, string(value))
	}
	for _, c := range rsp.GetConditions() {
		g.text(used, field, "message", c.GetMessage())
	}
	for _, r := range rsp.GetResults() {
		g.text(used, field, "message", r.GetMessage())
	}
	for key, s := range rsp.GetRequirements().GetResources() {
		g.text(used, field, "requirement "+key, s.String())
	}
}

// text searches a value and its children for the hostile value of a field, and reports each place that is not
// allowed.
func (g *guard) text(used map[place]bool, field, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			below := path + key
			if path != "" && !strings.HasSuffix(path, " ") {
				below = path + "." + key
			}
			g.text(used, field, below, key)
			g.text(used, field, below, child)
		}
	case []any:
		for _, child := range v {
			g.text(used, field, path+"[]", child)
		}
	case string:
		decoded, _ := base64.StdEncoding.DecodeString(v)
		if strings.Contains(v, marker) || strings.Contains(string(decoded), marker) {
			g.textAt(used, field, path)
		}
	}
}

// textAt fails the test if the hostile value of a field occurs at a path of the response, unless a place allows it.
func (g *guard) textAt(used map[place]bool, field, path string) {
	if _, inPod, ok := strings.Cut(path, " spec.template.spec."); ok {
		path = "pod " + inPod
	}
	for _, p := range places {
		if strings.HasPrefix(path, p.path) && strings.HasPrefix(field, p.field) &&
			(p.field != anyField || field != "password") {
			used[p] = true
			return
		}
	}
	g.complainf("its text stands in %s, which is not among the places (trust_text_test.go)", path)
}

// takesText reports whether the schema allows arbitrary text in a field.
func takesText(t *testing.T, field string) bool {
	t.Helper()
	for _, xrd := range []string{"xrd-xmysqls.yaml", "xrd-xdatabases.yaml"} {
		schema, ok := fieldsOf("", claimSchema(t, xrd))[field]
		if ok && schema["enum"] == nil && !slices.Contains([]any{"boolean", "integer", "number"}, schema["type"]) {
			return true
		}
	}
	return false
}

// isUnnoticed reports whether the server's pod changed, but not the digest of the spec fields that determine the pod
// (templateInput). A running server would ignore such a change, and the platform's policy would not apply to it.
func isUnnoticed(before, after *fnv1.RunFunctionResponse) bool {
	inputBefore, podBefore := serverIn(before)
	templateInput, pod := serverIn(after)
	return podBefore != nil && pod != nil && templateInput == inputBefore && !proto.Equal(pod, podBefore)
}

// serverIn returns the digest of the templateInput, and the pod template, from the Deployment in a response.
func serverIn(rsp *fnv1.RunFunctionResponse) (templateInput string, pod *structpb.Value) {
	d := rsp.GetDesired().GetResources()[v1.ResourceDeployment].GetResource().GetFields()
	annotations := d["metadata"].GetStructValue().GetFields()["annotations"].GetStructValue().GetFields()
	templateInput, _, _ = strings.Cut(annotations[v1.AnnotationRevision].GetStringValue(), ".")
	return templateInput, d["spec"].GetStructValue().GetFields()["template"]
}

// cannotChange reports whether the API server refuses each change of a field. These fields are type, and storageSize
// of a Database, because the volume of a Database is fixed.
func cannotChange(xrd, field string) bool {
	return xrd == "xrd-xdatabases.yaml" && (field == "type" || field == "storageSize")
}

// A tally counts what TestNoFieldReachesFurther has checked.
type tally struct {
	// composed counts the composed resources and the commands of containers. Its keys begin with the name of the
	// example.
	composed map[string]int
	// servers counts, by field, the servers that were composed with a hostile value. texts counts the accepted hostile
	// strings.
	servers, texts map[string]int
	// places contains the places at which the test found a hostile value.
	places map[place]bool
}

func (c *tally) count(base string, rsp *fnv1.RunFunctionResponse) {
	for name, r := range rsp.GetDesired().GetResources() {
		c.composed[base+" "+name]++
		for _, command := range commandsOf(r.GetResource().AsMap()) {
			c.composed[base+" "+command]++
		}
	}
}

// check checks that the test covered enough fields, places and objects.
func (c *tally) check(t *testing.T) {
	t.Helper()
	for field, r := range reaches {
		if c.servers[field] == 0 && !strings.HasPrefix(r.target, "nothing: ") {
			t.Errorf("no value of %s came as far as to a server: it may do what it likes there", field)
		}
		switch {
		case c.texts[field] == 0 && r.form == "" && takesText(t, field):
			t.Errorf("no text in %s was accepted, so nothing shows where it would stand: add an odd value with the marker to "+
				"its line in reaches, or the form of its values", field)
		case c.texts[field] > 0 && r.form != "":
			t.Errorf("text in %s was accepted, which is not %s: remove the form from its line in reaches", field, r.form)
		}
	}
	for _, p := range places {
		if !c.places[p] {
			t.Errorf("no text of %q stands in %q: remove the place", p.field, p.path)
		}
	}
	for _, base := range []string{"StorageClass", "HostPath"} {
		for _, command := range []string{"import", "import-server", "import-dump"} {
			if n := c.composed[base+" "+command]; n < 5 {
				t.Errorf("%s: only %d containers with %s were looked at", base, n, command)
			}
		}
		for _, name := range compose.ResourceNames() {
			least := 100
			switch name {
			case v1.ResourceServerPolicy:
				least = 30 // Only the fields for a network policy create one.
			case v1.ResourceSettingsCheck:
				least = 10 // Only new settings create one, in the example with a running server.
			}
			if n := c.composed[base+" "+name]; n < least && (base != "StorageClass" || name != v1.ResourceDataPV) &&
				(base != "HostPath" || name != v1.ResourceSettingsCheck) {
				t.Errorf("%s: only %d of %s were looked at", base, n, name)
			}
		}
	}
}
