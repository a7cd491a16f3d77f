package v1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// An UnreadableField is a field of a stored object that does not hold what its type allows. A schema refuses such a
// value, but an object may be older than the schema, and a schema can be changed.
type UnreadableField struct {
	// Path of the field, such as spec, config and mysqld.
	Path []string
	// Why it cannot be read.
	Why string
}

// String is the path and the reason.
func (f *UnreadableField) String() string {
	return PrintableText(fmt.Sprintf("%s cannot be read: %s", f.dotted(), f.Why), MaxForeignText)
}

func (f *UnreadableField) dotted() string { return strings.Join(f.Path, ".") }

// pointer to the field in a JSON patch.
func (f *UnreadableField) pointer() string {
	var out strings.Builder
	for _, step := range f.Path {
		out.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return out.String()
}

// UnreadableFields of one object. The rest of the object was read.
type UnreadableFields []UnreadableField

// Has reports whether a field such as spec.backup.keep may hold something that was not read: the field itself, one
// above it, or one below it.
func (u UnreadableFields) Has(field string) bool {
	return slices.ContainsFunc(u, func(f UnreadableField) bool {
		at := f.dotted()
		return at == field || strings.HasPrefix(at, field+".") || strings.HasPrefix(field, at+".")
	})
}

// HasAny reports whether one of the fields may hold something that was not read.
func (u UnreadableFields) HasAny(fields ...string) bool { return slices.ContainsFunc(fields, u.Has) }

// maxNamedFields is how many unreadable fields a message names.
const maxNamedFields = 3

// String names the first fields. It is empty if all was read.
func (u UnreadableFields) String() string {
	named := make([]string, 0, maxNamedFields+1)
	for _, f := range u[:min(len(u), maxNamedFields)] {
		named = append(named, f.String())
	}
	if more := len(u) - maxNamedFields; more > 0 {
		named = append(named, fmt.Sprintf("%d more fields cannot be read", more))
	}
	return strings.Join(named, "; ")
}

// Repair is the command that removes the first unreadable field. The object is named as kubectl takes it, such as
// "mysql db --namespace shop". It is empty if all was read.
func (u UnreadableFields) Repair(object string) string {
	if len(u) == 0 {
		return ""
	}
	command := "kubectl patch " + object
	if u[0].Path[0] == "status" {
		command += " --subresource=status"
	}
	patch, _ := json.Marshal([]map[string]string{{"op": "remove", "path": u[0].pointer()}}) //nolint:errchkjson // Strings only.
	if len(u[0].Path) == 1 {                                                                // A spec cannot be removed.
		return u.Edit(object)
	}
	if text := string(patch); PrintableText(text, MaxForeignText) == text && !strings.Contains(text, "'") {
		return command + " --type=json --patch '" + text + "'"
	}
	return u.Edit(object)
}

// Edit is the command that opens the part of the object with the first unreadable field in an editor.
func (u UnreadableFields) Edit(object string) string {
	if len(u) > 0 && u[0].Path[0] == "status" {
		return "kubectl edit " + object + " --subresource=status"
	}
	return "kubectl edit " + object
}

// ReadObject reads JSON into a struct as far as it can be read. A field that cannot be read keeps its zero value, and is
// returned; its neighbors are read. It is an error only if the text is not a JSON object at all.
func ReadObject(raw []byte, into any) (UnreadableFields, error) {
	v := reflect.ValueOf(into).Elem()
	if readWhole(raw, v) == nil {
		return nil, nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &map[string]json.RawMessage{}); err != nil {
		return nil, err
	}
	r := &lenientReader{}
	r.read(raw, v, nil)
	return r.unread, nil
}

// readWhole reads a value, or leaves it zero.
func readWhole(raw []byte, v reflect.Value) error {
	fresh := reflect.New(v.Type())
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, fresh.Interface()); err != nil {
		v.SetZero()
		return err
	}
	v.Set(fresh.Elem())
	return nil
}

// A lenientReader reads what it can, and notes the rest.
type lenientReader struct{ unread UnreadableFields }

// unmarshaler is implemented by types that read themselves: they are read whole, or not at all.
var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// read a value at a path. It returns false if nothing of the value was read.
func (r *lenientReader) read(raw []byte, v reflect.Value, at []string) bool {
	err := readWhole(raw, v)
	if err == nil {
		return true
	}
	if v.Kind() == reflect.Pointer {
		to := reflect.New(v.Type().Elem())
		if r.read(raw, to.Elem(), at) {
			v.Set(to)
			return true
		}
		return false
	}
	if !v.Addr().Type().Implements(unmarshaler) {
		switch v.Kind() { //nolint:exhaustive // The others have no parts.
		case reflect.Struct:
			return r.readStruct(raw, v, at)
		case reflect.Map:
			return r.readMap(raw, v, at)
		case reflect.Slice:
			return r.readSlice(raw, v, at)
		}
	}
	return r.note(at, reason(err, v))
}

// note that a field cannot be read.
func (r *lenientReader) note(at []string, why string) bool {
	r.unread = append(r.unread, UnreadableField{Path: slices.Clone(at), Why: why})
	return false
}

// reason in words of JSON, and not of Go.
func reason(err error, v reflect.Value) string {
	if v.Addr().Type().Implements(unmarshaler) && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err.Error()
	}
	switch v.Kind() { //nolint:exhaustive // The others have their own errors.
	case reflect.String:
		return "it must be a string"
	case reflect.Bool:
		return "it must be true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "it must be a whole number within its range"
	}
	return err.Error()
}

func (r *lenientReader) readStruct(raw []byte, v reflect.Value, at []string) bool {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return r.note(at, "it must be a map")
	}
	r.readFields(fields, v, at)
	return true
}

// readFields of a struct, and of the structs that it inlines.
func (r *lenientReader) readFields(fields map[string]json.RawMessage, v reflect.Value, at []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch raw, ok := fields[name]; {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			r.readFields(fields, v.Field(i), at)
		case ok:
			r.read(raw, v.Field(i), append(slices.Clone(at), name))
		}
	}
}

func (r *lenientReader) readMap(raw []byte, v reflect.Value, at []string) bool {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return r.note(at, "it must be a map")
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := reflect.New(v.Type().Elem()).Elem()
		if r.read(fields[key], value, append(slices.Clone(at), key)) {
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
		}
	}
	return true
}

func (r *lenientReader) readSlice(raw []byte, v reflect.Value, at []string) bool {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return r.note(at, "it must be a list")
	}
	out := reflect.MakeSlice(v.Type(), 0, len(items))
	for i, item := range items {
		value := reflect.New(v.Type().Elem()).Elem()
		if r.read(item, value, append(slices.Clone(at), strconv.Itoa(i))) {
			out = reflect.Append(out, value)
		}
	}
	v.Set(out)
	return true
}

// UnmarshalJSON reads a backup as far as it can be read: one that cannot be read keeps no list from being read.
func (b *MySQLBackup) UnmarshalJSON(raw []byte) (err error) {
	type plain MySQLBackup
	out := plain{}
	out.Unreadable, err = ReadObject(raw, &out)
	*b = MySQLBackup(out)
	return err
}

// UnmarshalJSON reads a store as far as it can be read: one that cannot be read keeps no list from being read.
func (s *BackupStore) UnmarshalJSON(raw []byte) (err error) {
	type plain BackupStore
	out := plain{}
	out.Unreadable, err = ReadObject(raw, &out)
	*s = BackupStore(out)
	return err
}

// UnmarshalJSON reads the platform's object as far as it can be read.
func (p *MySQLPlatform) UnmarshalJSON(raw []byte) (err error) {
	type plain MySQLPlatform
	out := plain{}
	out.Unreadable, err = ReadObject(raw, &out)
	*p = MySQLPlatform(out)
	return err
}
