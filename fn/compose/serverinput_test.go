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
	// name in JSON, such as scheduling.tolerations[].key.
	name string
	// change gives the leaf of a value another value.
	change func(reflect.Value)
}

// leavesOf returns all leaves of a type.
func leavesOf(of reflect.Type, name string) []leaf {
	var out []leaf
	add := func(part reflect.Type, name string, enter func(v reflect.Value, change func(reflect.Value))) {
		for _, l := range leavesOf(part, name) {
			out = append(out, leaf{l.name, func(v reflect.Value) { enter(v, l.change) }})
		}
	}
	item := func(change func(reflect.Value)) reflect.Value {
		v := reflect.New(of.Elem())
		change(v.Elem())
		return v
	}
	switch of.Kind() { //nolint:exhaustive // A spec has no others.
	case reflect.Struct:
		for i := range of.NumField() {
			add(of.Field(i).Type, joinName(name, jsonName(of.Field(i))), func(v reflect.Value, change func(reflect.Value)) { change(v.Field(i)) })
		}
	case reflect.Pointer:
		add(of.Elem(), name, func(v reflect.Value, change func(reflect.Value)) { v.Set(item(change)) })
	case reflect.Slice:
		add(of.Elem(), name+"[]", func(v reflect.Value, change func(reflect.Value)) { v.Set(reflect.Append(v, item(change).Elem())) })
	case reflect.Map:
		add(of.Elem(), name+"[]", func(v reflect.Value, change func(reflect.Value)) {
			v.Set(reflect.MakeMap(of))
			v.SetMapIndex(reflect.ValueOf("x7").Convert(of.Key()), item(change).Elem())
		})
	case reflect.String:
		out = append(out, leaf{name, func(v reflect.Value) { v.SetString("7") }})
	case reflect.Bool:
		out = append(out, leaf{name, func(v reflect.Value) { v.SetBool(!v.Bool()) }})
	case reflect.Int32, reflect.Int64:
		out = append(out, leaf{name, func(v reflect.Value) { v.SetInt(v.Int() + 7) }})
	default:
		panic("leavesOf does not know how to change " + name + ", which is a " + of.String())
	}
	return out
}

// jsonName of a field; empty for one that is inline.
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

// serverOf an Input, whether resolve would refuse it or not.
func serverOf(t *testing.T, in Input) *serverInput {
	t.Helper()
	r, _, err := readInput(in)
	if err != nil {
		t.Fatal(err)
	}
	return r.serverInput
}

// TestWish changes each field of a spec. If that changes the server's pod, the field must be in the wish: otherwise a server that
// runs would ignore the change, and the platform's policy would not apply to it. If not, the field must not be in the wish:
// otherwise the change would restart a server for nothing.
func TestWish(t *testing.T) {
	for name, instance := range map[string]func(*Input){"New": func(*Input) {}, "InUse": inUse, "Database": func(in *Input) { inUse(in); asDatabase(in) }} {
		t.Run(name, func(t *testing.T) {
			base := serverOf(t, given(instance))
			madeOf, template := digestOf(base.wish), digestOf(serverTemplate(base))
			changed := map[string]bool{}
			for _, l := range leavesOf(reflect.TypeFor[v1.MySQLSpec](), "") {
				got := serverOf(t, given(instance, func(in *Input) { l.change(reflect.ValueOf(&in.XR.Spec.MySQLSpec).Elem()) }))
				inWish, inTemplate := digestOf(got.wish) != madeOf, digestOf(serverTemplate(got)) != template
				switch {
				case inTemplate && !inWish:
					t.Errorf("spec.%s changes the server's pod and not the wish: add it to wish and wishOf (serverinput.go)", l.name)
				case inWish && !inTemplate:
					t.Errorf("spec.%s changes the wish and not the server's pod: use it in the pod, or remove it from wish and wishOf (serverinput.go)", l.name)
				case inWish:
					top, _, _ := strings.Cut(l.name, ".")
					changed[strings.TrimSuffix(top, "[]")] = true
				}
			}
			for f := range reflect.TypeFor[wish]().Fields() {
				if !changed[jsonName(f)] {
					t.Errorf("no field of the spec changes %s of the wish: set it in wishOf (serverinput.go)", jsonName(f))
				}
			}
		})
	}
}

// TestWishIsFrozen: a release in which the digest of a wish is another one restarts every server that has such a wish.
func TestWishIsFrozen(t *testing.T) {
	full := func(in *Input) {
		in.XR.Spec.Image, in.XR.Spec.Config = new("mysql:9.7"), map[string]v1.Setting{"max_connections": "5", "back_log": "7"}
		in.XR.Spec.Resources = &v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{"memory": "1Gi"}, Requests: map[corev1.ResourceName]v1.Amount{"cpu": "1"}}
	}
	got, frozen := map[string]string{}, map[string]bool{}
	for name, in := range map[string]Input{
		"least":      given(inUse),
		"full":       given(inUse, full),
		"requireTLS": given(inUse, func(in *Input) { in.XR.Spec.RequireTLS = new(true) }),
		"scheduling": given(inUse, scheduled),
	} {
		w := serverOf(t, in).wish
		got[name] = digestOf(w)
		for f, v := range reflect.ValueOf(w).Fields() {
			frozen[jsonName(f)] = frozen[jsonName(f)] || !v.IsZero()
		}
	}
	want := map[string]string{"least": "a5df04f1e39f34aa", "full": "14cd457f2a61a99f", "requireTLS": "84f560757cee02af", "scheduling": "cd4b4715866894aa"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	for name, is := range frozen {
		if !is {
			t.Errorf("no case of this test has %s of the wish: add one, so that its digest stays the same", name)
		}
	}
}
