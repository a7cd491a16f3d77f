package compose

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A leaf is a field that contains no other fields.
type leaf struct {
	// name is the path of the field in JSON, such as scheduling.tolerations[].key.
	name string
	// change sets the leaf to another value. Its argument is the value that contains the leaf.
	change func(reflect.Value)
}

// leavesOf returns all leaves of a type.
func leavesOf(typ reflect.Type, name string) []leaf {
	var out []leaf
	add := func(part reflect.Type, name string, enter func(v reflect.Value, change func(reflect.Value))) {
		for _, l := range leavesOf(part, name) {
			out = append(out, leaf{l.name, func(v reflect.Value) { enter(v, l.change) }})
		}
	}
	item := func(change func(reflect.Value)) reflect.Value {
		v := reflect.New(typ.Elem())
		change(v.Elem())
		return v
	}
	switch typ.Kind() { //nolint:exhaustive // A spec has no other kinds.
	case reflect.Struct:
		for i := range typ.NumField() {
			add(typ.Field(i).Type, joinName(name, jsonName(typ.Field(i))),
				func(v reflect.Value, change func(reflect.Value)) { change(v.Field(i)) })
		}
	case reflect.Pointer:
		add(typ.Elem(), name, func(v reflect.Value, change func(reflect.Value)) { v.Set(item(change)) })
	case reflect.Slice:
		add(typ.Elem(), name+"[]", func(v reflect.Value, change func(reflect.Value)) {
			v.Set(reflect.Append(v, item(change).Elem()))
		})
	case reflect.Map:
		add(typ.Elem(), name+"[]", func(v reflect.Value, change func(reflect.Value)) {
			v.Set(reflect.MakeMap(typ))
			v.SetMapIndex(reflect.ValueOf("x7").Convert(typ.Key()), item(change).Elem())
		})
	case reflect.String:
		out = append(out, leaf{name, func(v reflect.Value) { v.SetString("7") }})
	case reflect.Bool:
		out = append(out, leaf{name, func(v reflect.Value) { v.SetBool(!v.Bool()) }})
	case reflect.Int32, reflect.Int64:
		out = append(out, leaf{name, func(v reflect.Value) { v.SetInt(v.Int() + 7) }})
	default:
		panic("leavesOf does not know how to change " + name + ", which is a " + typ.String())
	}
	return out
}

// jsonName returns the name of a field in JSON, or "" for an inlined struct.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func joinName(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// serverOf returns the server input of an Input, even if resolve would refuse the Input.
func serverOf(t *testing.T, in Input) *serverInput {
	t.Helper()
	r, _, err := readInput(in)
	if err != nil {
		t.Fatal(err)
	}
	return r.serverInput
}

// TestPreference changes each field of a spec. A field that changes the server's pod must be in templateInput.
// Otherwise a running server would ignore the change, and the platform's policy would not apply to it. Any other
// field must not be in templateInput, because a change would restart the server unnecessarily.
func TestPreference(t *testing.T) {
	for name, instance := range map[string]func(*Input){"New": func(*Input) {}, "InUse": inUse,
		"Database": func(in *Input) { inUse(in); asDatabase(in) }} {
		t.Run(name, func(t *testing.T) {
			base := serverOf(t, given(instance))
			madeOf, template := digestOf(base.templateInput), digestOf(serverTemplate(base))
			changed := map[string]bool{}
			for _, l := range leavesOf(reflect.TypeFor[v1.MySQLSpec](), "") {
				got := serverOf(t, given(instance, func(in *Input) { l.change(reflect.ValueOf(&in.XR.Spec.MySQLSpec).Elem()) }))
				inInputOnly, inTemplate := digestOf(got.templateInput) != madeOf, digestOf(serverTemplate(got)) != template
				switch {
				case inTemplate && !inInputOnly:
					t.Errorf("spec.%s changes the server's pod and not the wish: add it to wish and wishOf (serverinput.go)", l.name)
				case inInputOnly && !inTemplate:
					t.Errorf("spec.%s changes the wish and not the server's pod: use it in the pod, or remove it from wish and "+
						"wishOf (serverinput.go)", l.name)
				case inInputOnly:
					top, _, _ := strings.Cut(l.name, ".")
					changed[strings.TrimSuffix(top, "[]")] = true
					changed[l.name[strings.LastIndex(l.name, ".")+1:]] = true
				}
			}
			for f := range reflect.TypeFor[templateInput]().Fields() {
				if !changed[jsonName(f)] {
					t.Errorf("no field of the spec changes %s of the wish: set it in wishOf (serverinput.go)", jsonName(f))
				}
			}
		})
	}
}

// TestJobsFollowTheServer changes each field of a spec. A change of the server pod's scheduling or pull secrets must
// also apply to each Job of the function. These Jobs run the same image, and some of them are the first to use the
// data volume.
func TestJobsFollowTheServer(t *testing.T) {
	// podsOf returns the pods without the fields that differ between a server and a Job.
	podsOf := func(in Input) map[string]string {
		r, _, err := readInput(in)
		if err != nil {
			t.Fatal(err)
		}
		pods := map[string]corev1.PodSpec{
			"server":                 serverPod(r.serverInput),
			v1.ResourceSettingsCheck: settingsJob(r).Spec.Template.Spec,
			v1.ResourceRestore: restoreJob(r,
				&v1.RestoreStatus{Archive: v1.Archive{PVCName: "backups", Path: "a"}}).Spec.Template.Spec,
			v1.ResourceRestore + " (import)": restoreJob(r,
				&v1.RestoreStatus{Import: &v1.Import{Volume: &v1.ImportedVolume{PVCRef: v1.LocalReference{Name: "source"}}}}).Spec.Template.Spec,
		}
		out := map[string]string{}
		for name, pod := range pods {
			pod.InitContainers, pod.Containers, pod.Volumes = nil, nil, nil
			out[name] = digestOf(pod)
		}
		return out
	}
	base, followed := podsOf(given()), 0
	for _, l := range leavesOf(reflect.TypeFor[v1.MySQLSpec](), "") {
		got := podsOf(given(func(in *Input) { l.change(reflect.ValueOf(&in.XR.Spec.MySQLSpec).Elem()) }))
		if got["server"] == base["server"] {
			continue
		}
		followed++
		for name := range got {
			if got[name] == base[name] {
				t.Errorf("spec.%s changes the server's pod and not the pod of the Job %s: use it there as well", l.name, name)
			}
		}
	}
	if followed < 10 {
		t.Errorf("only %d fields were found that change the server's pod", followed)
	}
}

// TestTemplateIsFrozen checks that the digests of some templateInputs stay the same. If a release changed a digest, it
// would restart every server with the same templateInput.
func TestTemplateIsFrozen(t *testing.T) {
	full := func(in *Input) {
		in.XR.Spec.Image, in.XR.Spec.Config = new("mysql:9.7"), map[string]v1.Setting{"max_connections": "5", "back_log": "7"}
		in.XR.Spec.Resources = &v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{"memory": "1Gi"},
			Requests: map[corev1.ResourceName]v1.Amount{"cpu": "1"}}
	}
	got, frozen := map[string]string{}, map[string]bool{}
	for name, in := range map[string]Input{
		"least":      given(inUse),
		"full":       given(inUse, full),
		"requireTLS": given(inUse, func(in *Input) { in.XR.Spec.RequireTLS = new(true) }),
		"scheduling": given(inUse, scheduled),
		"imagePullSecrets": given(inUse, func(in *Input) {
			in.XR.Spec.ImagePullSecrets = []v1.ImagePullSecret{{Name: "registry"}, {Name: "mirror"}}
		}),
		"metrics":    given(inUse, withMetrics),
		"noMetrics":  given(inUse, func(in *Input) { in.XR.Spec.Metrics = &v1.MetricsSpec{} }),
		"durability": given(inUse, durable),
		"noDurability": given(inUse, func(in *Input) {
			in.XR.Spec.Backup.Continuous = &v1.ContinuousBackup{Durability: v1.DurabilityServer}
		}),
	} {
		w := serverOf(t, in).templateInput
		got[name] = digestOf(w)
		for f, v := range reflect.ValueOf(w).Fields() {
			frozen[jsonName(f)] = frozen[jsonName(f)] || !v.IsZero()
		}
	}
	want := map[string]string{"least": "a5df04f1e39f34aa", "full": "14cd457f2a61a99f", "requireTLS": "84f560757cee02af",
		"scheduling": "9a9396fb66508d29", "imagePullSecrets": "1431b9ac50683d59", "metrics": "889422dc5a436af8",
		"noMetrics": "a5df04f1e39f34aa", "durability": "768e36bcbe718fdb", "noDurability": "a5df04f1e39f34aa"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	for name, frozenValue := range frozen {
		if !frozenValue {
			t.Errorf("no case of this test has %s of the wish: add one, so that its digest stays the same", name)
		}
	}
}
