package gitops

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

var update = flag.Bool("update", false, "write package/argocd/argocd-cm.yaml")

// argocd is the directory with the files for Argo CD.
var argocd = filepath.Join(repository, "package", "argocd")

// checkedKinds returns the kinds for which there is a health check.
func checkedKinds() []schema.GroupVersionKind {
	others := []string{v1.KindBackup, v1.KindBackupStore, v1.KindPlatform}
	out := make([]schema.GroupVersionKind, 0, len(others)+len(v1.APIs()))
	for _, kind := range others {
		out = append(out, v1.GroupVersion.WithKind(kind))
	}
	for _, a := range v1.APIs() {
		out = append(out, a.Object)
	}
	return out
}

func scriptPath(kind schema.GroupVersionKind) string {
	return filepath.Join(argocd, "resource_customizations", kind.Group, kind.Kind, "health.lua")
}

func script(t *testing.T, kind schema.GroupVersionKind) string {
	t.Helper()
	raw, err := os.ReadFile(scriptPath(kind))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A health is the health of an object, as an Argo CD health check returns it.
type health struct{ Status, Message string }

// healthOf returns the health of an object as Argo CD determines it (GetResourceHealth in its gitops-engine, and
// ExecuteHealthLua in its util/lua). By default, a check in argocd-cm can use the libraries package, base, table and
// a part of os. It must finish within a second. In this test, it cannot use os.
func healthOf(t *testing.T, kind schema.GroupVersionKind, o object) health {
	t.Helper()
	if metadata(o)["deletionTimestamp"] != nil {
		return health{progressing, pendingDeletion}
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", luaValue(state, o))
	if err := state.DoString(script(t, kind)); err != nil {
		t.Fatal(err)
	}
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("want a table, got %s", state.Get(-1).Type())
	}
	return health{lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))}
}

// luaValue converts a value to the same Lua types as decodeValue in util/lua.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case object:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	}
	return lua.LNil
}

// TestHealth checks the health of an instance in each state.
func TestHealth(t *testing.T) {
	for _, s := range states() {
		for _, a := range v1.APIs() {
			t.Run(a.InstanceKind()+"/"+s.name, func(t *testing.T) {
				o := s.object(t, a)
				want := health{s.health, s.messageIn(o)}
				if want.Message == "" {
					t.Fatal("the state has no message")
				}
				if diff := cmp.Diff(want, healthOf(t, a.Object, o)); diff != "" {
					t.Errorf("-want, +got:\n%s", diff)
				}
			})
		}
	}
}

// messageIn returns the message that Argo CD must show for the object.
func (s state) messageIn(o object) string {
	switch {
	case s.message == "":
		return statusMessage(o)
	case strings.Contains(s.message, " "):
		return s.message
	}
	return condition(o, s.message)
}

// TestHealthOfExamples checks that the health check returns a health for each example and each API.
func TestHealthOfExamples(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(repository, "examples", "*", "expected.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	seen := map[string]bool{}
	for _, path := range found {
		example := filepath.Base(filepath.Dir(path))
		for _, a := range v1.APIs() {
			got := healthOf(t, a.Object, instance(t, a, example))
			if !slices.Contains([]string{healthy, progressing, degraded, suspended}, got.Status) || got.Message == "" {
				t.Errorf("%s of %s: got %+v", example, a.InstanceKind(), got)
			}
			seen[got.Status] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("want all kinds of health, got %v", slices.Sorted(maps.Keys(seen)))
	}
}

func TestHealthOfOthers(t *testing.T) {
	complete := func(value metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1.ConditionComplete, Status: value, Reason: reason, Message: message}
	}
	tested := func(value metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1.ConditionRestoreTested, Status: value, Reason: reason, Message: message}
	}
	reachable := func(value metav1.ConditionStatus, reason, message string, seen int64) metav1.Condition {
		return metav1.Condition{Type: v1.ConditionReachable, Status: value, Reason: reason, Message: message,
			ObservedGeneration: seen}
	}
	releases := func(controller, function string, seen int64) metav1.Condition {
		c := (&v1.PlatformStatus{}).SetReleases(controller, function, "The Function is not installed")
		c.ObservedGeneration = seen
		return c
	}
	for name, tc := range map[string]struct {
		kind       string
		conditions []metav1.Condition
		want       health
		kstatus    status.Status
	}{
		"a new Backup": {v1.KindBackup, nil, health{progressing, "Waiting for the controller"}, status.CurrentStatus},
		"a Backup that waits": {v1.KindBackup, []metav1.Condition{complete("False", v1.ReasonBackupWaiting, "x")},
			health{progressing, "in the status"}, status.CurrentStatus},
		"a Backup in progress": {v1.KindBackup, []metav1.Condition{complete("False", v1.ReasonBackupInProgress, "x"),
			tested("Unknown", v1.ReasonNotTested, "y")}, health{progressing, "in the status"}, status.CurrentStatus},
		"a verified Backup": {v1.KindBackup, []metav1.Condition{complete("True", v1.ReasonBackupVerified, "x"),
			tested("Unknown", v1.ReasonNotTested, "y")}, health{healthy, "in the status"}, status.CurrentStatus},
		"a tested Backup": {v1.KindBackup, []metav1.Condition{complete("True", v1.ReasonBackupVerified, "x"),
			tested("True", v1.ReasonServerStarted, "y")}, health{healthy, "in the status"}, status.CurrentStatus},
		"a broken Backup": {v1.KindBackup, []metav1.Condition{complete("True", v1.ReasonBackupVerified, "x"),
			tested("False", v1.ReasonBroken, "No server starts")}, health{degraded, "No server starts"}, status.CurrentStatus},
		"a Backup that failed": {v1.KindBackup, []metav1.Condition{complete("False", v1.ReasonBackupFailed, "No space")},
			health{degraded, "No space"}, status.CurrentStatus},

		"a new BackupStore": {v1.KindBackupStore, nil, health{progressing, "Waiting for the controller"}, status.CurrentStatus},
		"a BackupStore": {v1.KindBackupStore, []metav1.Condition{reachable("True", v1.ReasonProbed, "an object was written", 2)},
			health{healthy, "an object was written"}, status.CurrentStatus},
		"a BackupStore that does not answer": {v1.KindBackupStore, []metav1.Condition{reachable("False", "Unreachable", "timeout", 2)},
			health{degraded, "timeout"}, status.CurrentStatus},
		"a BackupStore that wants a proof": {v1.KindBackupStore,
			[]metav1.Condition{reachable("False", v1.ReasonChallenge, "decrypt it", 2)}, health{degraded, "decrypt it"}, status.CurrentStatus},
		"a changed BackupStore": {v1.KindBackupStore, []metav1.Condition{reachable("False", "Unreachable", "timeout", 1)},
			health{progressing, "Waiting for the controller"}, status.CurrentStatus},

		"a new Platform": {v1.KindPlatform, nil, health{progressing, "Waiting for the controller"}, status.CurrentStatus},
		"a Platform":     {v1.KindPlatform, []metav1.Condition{releases("v0.1.0", "v0.1.0", 2)}, health{healthy, ""}, status.CurrentStatus},
		"a Platform with releases that differ": {v1.KindPlatform, []metav1.Condition{releases("v0.1.0", "v0.2.0", 2)},
			health{degraded, releases("v0.1.0", "v0.2.0", 2).Message}, status.InProgressStatus},
		"a Platform without the Function": {v1.KindPlatform, []metav1.Condition{releases("v0.1.0", "", 2)},
			health{progressing, "The Function is not installed"}, status.InProgressStatus},
		"a changed Platform": {v1.KindPlatform, []metav1.Condition{releases("v0.1.0", "v0.1.0", 1)},
			health{progressing, "Waiting for the controller"}, status.CurrentStatus},
	} {
		t.Run(name, func(t *testing.T) {
			o := object{"kind": tc.kind, "metadata": object{"name": "x", "generation": int64(2)}}
			if tc.conditions != nil {
				o["status"] = statusWith(t, tc.conditions)
			}
			if diff := cmp.Diff(tc.want, healthOf(t, v1.GroupVersion.WithKind(tc.kind), o)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			result, err := status.Compute(&unstructured.Unstructured{Object: o})
			if err != nil || result.Status != tc.kstatus {
				t.Errorf("kstatus: want %s, got %+v, %v", tc.kstatus, result, err)
			}
		})
	}
}

// statusWith returns a status with the given conditions, converted to the types of decoded JSON.
func statusWith(t *testing.T, conditions []metav1.Condition) object {
	t.Helper()
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Conditions []metav1.Condition `json:"conditions"`
		Message    string             `json:"message"`
	}{conditions, "in the status"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSameCheckOfInstances checks that all kinds of an instance have the same health check, because they have the
// same conditions.
func TestSameCheckOfInstances(t *testing.T) {
	all := v1.APIs()
	want := script(t, all[0].Object)
	for _, a := range all[1:] {
		if diff := cmp.Diff(want, script(t, a.Object)); diff != "" {
			t.Errorf("%s is not %s (-want, +got):\n%s", scriptPath(a.Object), scriptPath(all[0].Object), diff)
		}
	}
}

// TestFragment checks that argocd-cm.yaml contains all health checks.
func TestFragment(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(argocd, "resource_customizations", "*", "*", "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) != len(checkedKinds()) {
		t.Errorf("want a check for each of %v, got %v", checkedKinds(), scripts)
	}
	data := map[string]string{}
	for _, kind := range checkedKinds() {
		data[fmt.Sprintf("resource.customizations.health.%s_%s", kind.Group, kind.Kind)] = script(t, kind)
	}
	raw, err := json.Marshal(object{"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": object{"name": "argocd-cm", "namespace": "argocd"}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := yaml.JSONToYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	const head = "# Health checks for Argo CD (docs/how-to/argo-cd.md). `go test -C test/gitops . -update` writes this file.\n"
	want = append([]byte(head), want...)
	path := filepath.Join(argocd, "argocd-cm.yaml")
	if *update {
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not made of the checks: go test -C test/gitops . -update\n%s", path, cmp.Diff(string(want), string(got)))
	}
}
