package main

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	apiextensionsv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	corev2 "github.com/crossplane/crossplane/apis/v2/core/v2"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

var (
	update  = flag.Bool("update", false, "write the golden files instead of comparing them")
	marshal = protojson.MarshalOptions{UseProtoNames: true}
)

// TestExamples compares the response to each example with its golden file. It also checks that a Crossplane 1 caller
// gets the same response as a current one.
func TestExamples(t *testing.T) {
	for _, name := range examples(t) {
		t.Run(name, func(t *testing.T) {
			c := load(t, name)
			_, rsp := c.run(t)
			golden(t, filepath.Join("..", "examples", name, "expected.yaml"), yamlOf(t, rsp))
			c.legacy = true
			_, old := c.run(t)
			ignore := protocmp.IgnoreFields(&fnv1.RunFunctionResponse{}, "requirements")
			if diff := cmp.Diff(rsp, old, protocmp.Transform(), ignore); diff != "" {
				t.Errorf("A caller of Crossplane 1 gets something else: -v2, +v1:\n%s", diff)
			}
			if old.GetRequirements().GetResources() != nil {
				t.Error("A caller that does not advertise capabilities must get extra_resources alone.")
			}
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("The golden file is missing, `make render-update` writes it: %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("If the change is wanted: make render-update\n-want, +got:\n%s", diff)
	}
}

// TestStaleStatus checks that the function refuses a status from a previous XR of the same name. Otherwise it would
// assume that the instance was started or restored.
func TestStaleStatus(t *testing.T) {
	for _, example := range []string{"running", "restore-after", "restore-before"} {
		c := load(t, example)
		status, _ := at(c.xr, "status", "internal").(map[string]any)
		status["uid"] = "of-an-earlier-one"
		_, rsp := c.run(t)
		if got := fatal(rsp); !strings.Contains(got, "a previous composite resource with this name (UID of-an-earlier-one)") {
			t.Errorf("%s: want it refused, got %q", example, got)
		}
		delete(status, "uid")
		if _, rsp := c.run(t); fatal(rsp) != "" {
			t.Errorf("%s: want it taken where it does not say whose it is, got %q", example, fatal(rsp))
		}
	}
}

// TestBackupNodes checks that the first pod that uses the data runs on a node that can use the backup volume. A
// server whose data is deleted with its pod is not restricted.
func TestBackupNodes(t *testing.T) {
	nodes := map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
		map[string]any{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []any{"a"}},
	}}}}
	for example, resource := range map[string]string{"fresh-instance": "deployment", "restore-before": "restore"} {
		c := load(t, example)
		c.xr = setIn(c.xr, nodes, "status", "internal", "backupNodes")
		_, rsp := c.run(t)
		got := at(rsp.GetDesired().GetResources()[resource].GetResource().AsMap(), "spec", "template", "spec", "affinity",
			"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
		if diff := cmp.Diff(any(nodes), got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", example, diff)
		}
		if at(rsp.GetDesired().GetComposite().GetResource().AsMap(), "status", "internal", "backupNodes") != nil {
			t.Errorf("%s: it is the controller's to write", example)
		}
	}
}

// TestPure calls the function twice with the same request, for every example. The responses must be equal, and the
// request must not change.
func TestPure(t *testing.T) {
	f := newFunction()
	for _, name := range examples(t) {
		t.Run(name, func(t *testing.T) {
			req, first := load(t, name).run(t)
			// These are desired resources of an earlier function in the pipeline.
			req.Desired = &fnv1.State{
				Composite: &fnv1.Resource{Resource: toStruct(t, map[string]any{"status": map[string]any{"other": "kept"}})},
				Resources: map[string]*fnv1.Resource{
					"theirs": {Resource: toStruct(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap"})}},
			}
			before := proto.CloneOf(req)
			one, _ := f.RunFunction(context.Background(), req)
			two, _ := f.RunFunction(context.Background(), req)
			if diff := cmp.Diff(one, two, protocmp.Transform()); diff != "" {
				t.Errorf("The same request must get the same response: -one, +two:\n%s", diff)
			}
			if diff := cmp.Diff(before, req, protocmp.Transform()); diff != "" {
				t.Errorf("The request must not be changed: -before, +after:\n%s", diff)
			}
			in, err := parseRequest(req)
			if err != nil {
				t.Fatal(err)
			}
			in.Release = v1.Release
			parsed := jsonOf(t, in)
			_, _ = compose.Compose(*in)
			if diff := cmp.Diff(parsed, jsonOf(t, in)); diff != "" {
				t.Errorf("Compose writes to its input. -before, +after:\n%s", diff)
			}
			if _, ok := one.GetDesired().GetResources()["theirs"]; !ok {
				t.Error("What an earlier function wants must stay.")
			}
			if fatal(first) == "" && one.GetDesired().GetComposite().GetResource().GetFields()["status"].GetStructValue().
				GetFields()["other"].GetStringValue() != "kept" {
				t.Error("What an earlier function says in the status must stay.")
			}
		})
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEmptyDesired checks that an earlier function of the pipeline may return a desired XR without fields.
func TestEmptyDesired(t *testing.T) {
	f := newFunction()
	for name, xr := range map[string]*fnv1.Resource{
		"Nothing": {},
		"Empty":   {Resource: &structpb.Struct{}},
		"EmptyStatus": {Resource: &structpb.Struct{
			Fields: map[string]*structpb.Value{"status": structpb.NewStructValue(&structpb.Struct{})}}},
	} {
		t.Run(name, func(t *testing.T) {
			req, _ := load(t, "running").run(t)
			req.Desired = &fnv1.State{Composite: xr}
			rsp, err := f.RunFunction(context.Background(), req)
			if err != nil || fatal(rsp) != "" {
				t.Fatal(err, fatal(rsp))
			}
			if status := rsp.GetDesired().GetComposite().GetResource().
				GetFields()["status"].GetStructValue(); status.GetFields()["message"].GetStringValue() == "" {
				t.Error("The status must be there.")
			}
		})
	}
}

// controllersStatus returns the paths of the status fields that the controller writes, as documented in
// v1.MySQLStatus and v1.InternalStatus. Server-side apply merges the structs that both the function and the
// controller write.
func controllersStatus() [][]string {
	internal := []string{"previousBackup", "heldBackup", "restoreSource", "backupNumber", "firstBackupNumber",
		"backupNeeds", "backupWarning", "outsideData", "backupNodes", "restoredBy", "blockedBy", "crossplaneWarning",
		"settingsVerdict", "imageChange", "requestedBackup", "scheduledBackup", "backupSchedule", "credentials",
		"authorities", "pvcDeleted"}
	out := make([][]string, 0, len(internal)+3)
	for _, field := range internal {
		out = append(out, []string{"internal", field})
	}
	return append(out, []string{"backups", "recent"}, []string{"tls"}, []string{"deletion"})
}

// TestControllersStatus checks that the function writes no status field of the controller, because the function would
// become the owner of that field.
func TestControllersStatus(t *testing.T) {
	for _, name := range []string{"running", "fenced", "restore-after"} {
		_, rsp := load(t, name).run(t)
		xr := rsp.GetDesired().GetComposite().GetResource().AsMap()
		for _, path := range controllersStatus() {
			if at(xr, append([]string{"status"}, path...)...) != nil {
				t.Errorf("%s: status.%s is the controller's", name, strings.Join(path, "."))
			}
		}
		if at(xr, "status", "message") == nil {
			t.Errorf("%s: status.message is missing", name)
		}
	}
}

// TestRefusedPods checks that the message contains the reason why the server's pods are rejected, such as a quota.
// The Deployment's conditions contain that reason.
func TestRefusedPods(t *testing.T) {
	c := load(t, "running")
	c.observed = edit(c.observed, "Deployment", map[string]any{"conditions": []any{
		map[string]any{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"},
	}}, "status")
	_, rsp := c.run(t)
	if message := messageOf(rsp); !strings.Contains(message, "exceeded quota: small") {
		t.Errorf("want the quota, got %q", message)
	}
}

func messageOf(rsp *fnv1.RunFunctionResponse) string {
	return rsp.GetDesired().GetComposite().GetResource().GetFields()["status"].GetStructValue().
		GetFields()["message"].GetStringValue()
}

// TestMessagesArePrintable checks that messages of webhooks and Jobs are printable, even if they contain line breaks
// and control characters.
func TestMessagesArePrintable(t *testing.T) {
	const text, want = "denied by policy:\n\x1b[2J\tno\u202esecond line", "denied by policy: [2J no second line"
	cases := map[string]struct {
		example, kind string
		conditions    []any
	}{
		"Deployment": {example: "running", kind: "Deployment",
			conditions: []any{map[string]any{"type": "ReplicaFailure", "status": "True", "message": text}}},
		"Job": {example: "restore-failed", kind: "Job",
			conditions: []any{map[string]any{"type": "Failed", "status": "True", "message": text}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := load(t, tc.example)
			c.observed = edit(c.observed, tc.kind, map[string]any{"conditions": tc.conditions}, "status")
			_, rsp := c.run(t)
			texts := make([]string, 0, 1+len(rsp.GetConditions())+len(rsp.GetResults()))
			texts = append(texts, messageOf(rsp))
			for _, r := range rsp.GetConditions() {
				texts = append(texts, r.GetMessage())
			}
			for _, r := range rsp.GetResults() {
				texts = append(texts, r.GetMessage())
			}
			if !strings.Contains(texts[0], want) {
				t.Errorf("want %q in the message, got %q", want, texts[0])
			}
			for _, text := range texts {
				if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("want nothing that does not print, got %q", text)
				}
			}
		})
	}
}

// TestRecordsMadeAgain checks that BackupRecords with the same creation time are ordered by the time in their spec,
// as in the controller.
func TestRecordsMadeAgain(t *testing.T) {
	c := load(t, "restore-before")
	name := "mysql-instance-00c0ffee" // By creation time, this is the older one of the two.
	c.xr = setIn(c.xr, name, "status", "internal", "previousBackup")
	for i, d := range c.cluster {
		created := "2025-01-01T00:00:00Z"
		if at(d, "metadata", "name") == name {
			created = "2025-01-02T00:00:00Z"
		}
		if kindOf(d) == "BackupRecord" {
			c.cluster[i] = setIn(d, created, "spec", "announcedAt")
		}
	}
	_, rsp := c.run(t)
	status := rsp.GetDesired().GetComposite().GetResource().GetFields()["status"].GetStructValue().GetFields()
	if got := status["restore"].GetStructValue().GetFields()["backup"].GetStringValue(); got != name {
		t.Errorf("want %q restored, got %q: %s", name, got, status["message"].GetStringValue())
	}
}

// TestPassword checks that the password is only in the root Secret and the connection details.
func TestPassword(t *testing.T) {
	_, rsp := load(t, "running").run(t)
	delete(rsp.GetDesired().GetResources(), "root-password")
	rsp.GetDesired().GetComposite().ConnectionDetails = nil
	text := yamlOf(t, rsp)
	for _, secret := range []string{"otuspassword", "b3R1c3Bhc3N3b3Jk"} {
		if strings.Contains(text, secret) {
			t.Errorf("the password appears in:\n%s", text)
		}
	}
}

// TestFirstPass checks the first call, in which the state of the cluster is unknown. The function must not create
// objects, and must keep all observed ones.
func TestFirstPass(t *testing.T) {
	f := newFunction()
	cases := map[string]struct {
		reason  string
		example string
		want    []string
	}{
		"Fresh": {reason: "Nothing may be created before the function knows that the names are free.",
			example: "fresh-instance"},
		"Running": {reason: "All observed objects must stay.", example: "running",
			want: []string{"config", "data-claim", "deployment", "root-password", "service"}},
		"During": {reason: "The restore Job must stay too.", example: "restore-during",
			want: []string{"config", "data-claim", "deployment", "restore", "root-password", "service"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rsp, err := f.RunFunction(context.Background(), load(t, tc.example).request(t))
			if err != nil || fatal(rsp) != "" {
				t.Fatalf("%s: %v %s", tc.reason, err, fatal(rsp))
			}
			got := map[string]bool{}
			for k := range rsp.GetDesired().GetResources() {
				got[k] = true
			}
			want := map[string]bool{}
			for _, k := range tc.want {
				want[k] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestKeptConditions checks that the conditions of a running server do not become Unknown if a change of the spec is
// refused.
func TestKeptConditions(t *testing.T) {
	c := load(t, "running").set("image", "")
	status := maps.Clone(c.xr["status"].(map[string]any))
	status["conditions"] = []any{map[string]any{"type": "Serving", "status": "True", "reason": "Running"},
		map[string]any{"type": "PendingRestart", "status": "False", "reason": "UpToDate"},
		map[string]any{"type": "LastBackupSucceeded", "status": "Unknown", "reason": "NoBackup"},
		map[string]any{"type": "Blocked", "status": "False", "reason": "NotBlocked"},
		map[string]any{"type": "Ready", "status": "True", "reason": "Available"}}
	c.xr["status"] = status
	_, rsp := c.run(t)
	got := map[string]fnv1.Status{}
	for _, cond := range rsp.GetConditions() {
		got[cond.GetType()] = cond.GetStatus()
	}
	const unknown = fnv1.Status_STATUS_CONDITION_UNKNOWN
	want := map[string]fnv1.Status{"Accepted": fnv1.Status_STATUS_CONDITION_FALSE,
		"Serving": fnv1.Status_STATUS_CONDITION_TRUE, "PendingRestart": fnv1.Status_STATUS_CONDITION_FALSE,
		"Restored": unknown, "LastBackupSucceeded": unknown, "Blocked": unknown,
		"Stalled": fnv1.Status_STATUS_CONDITION_TRUE, "Reconciling": fnv1.Status_STATUS_CONDITION_FALSE}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestConditionsExist checks that the first response already contains each condition, even for a refused spec.
// Otherwise `kubectl wait` would not find it.
func TestConditionsExist(t *testing.T) {
	want := []string{"Accepted", "Blocked", "LastBackupSucceeded", "PendingRestart", "Reconciling", "Restored",
		"Serving", "Stalled"}
	for _, example := range examples(t) {
		_, rsp := load(t, example).run(t)
		var got []string
		for _, c := range rsp.GetConditions() {
			got = append(got, c.GetType())
			if c.GetReason() == "" || c.GetStatus() == fnv1.Status_STATUS_CONDITION_UNSPECIFIED {
				t.Errorf("%s: %v", example, c)
			}
		}
		slices.Sort(got)
		want := want
		// Only an instance with a BackupStore has the condition Archiving.
		if slices.Contains([]string{"durable", "restore-at", "restore-from-store"}, example) {
			want = slices.Insert(slices.Clone(want), 1, "Archiving")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: want %v, got %v", example, want, got)
		}
	}
}

// TestPublished checks that the connection details are kept while the connection Secret cannot be read.
func TestPublished(t *testing.T) {
	c := load(t, "running")
	c.cluster = without(c.cluster, "Secret")
	req := c.request(t)
	req.Observed.Composite.ConnectionDetails = map[string][]byte{"password": []byte("old")}
	c.answer(t, req, &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}})
	rsp, _ := newFunction().RunFunction(context.Background(), req)
	if got := string(rsp.GetDesired().GetComposite().GetConnectionDetails()["password"]); got != "old" {
		t.Errorf("published password: want %q, got %q", "old", got)
	}
	if rsp.GetDesired().GetComposite().GetReady() == fnv1.Ready_READY_TRUE {
		t.Error("An instance without a connection Secret must not be ready.")
	}
}

// TestConditionsAreOurs checks that no condition has the name of one of Crossplane's conditions. Crossplane ignores a
// function's condition with such a name (IsSystemConditionType in apis/core/v2/condition.go and
// apiextensions/v1/conditions.go).
func TestConditionsAreOurs(t *testing.T) {
	for _, example := range []string{"running", "update-waits"} {
		_, rsp := load(t, example).run(t)
		for _, c := range rsp.GetConditions() {
			if apiextensionsv1.IsSystemConditionType(corev2.ConditionType(c.GetType())) {
				t.Errorf("Crossplane drops the condition %s", c.GetType())
			}
		}
	}
}

// TestRestoredBy checks that a restore is complete if its Job never completes but the controller reports its success.
// The report must contain the UID of the same Job.
func TestRestoredBy(t *testing.T) {
	for job, want := range map[string]string{"job-1": "Succeeded", "job-0": "Running"} {
		c := load(t, "restore-during")
		for _, o := range c.observed {
			if meta, ok := o["metadata"].(map[string]any); ok && o["kind"] == "Job" {
				meta["uid"] = "job-1"
			}
		}
		c.xr = setIn(c.xr, job, "status", "internal", "restoredBy")
		_, rsp := c.run(t)
		if got := at(rsp.GetDesired().GetComposite().GetResource().AsMap(), "status", "restore", "phase"); got != want {
			t.Errorf("restored by %s: want %s, got %v", job, want, got)
		}
	}
}
