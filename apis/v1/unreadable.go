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

// An UnreadableField is a field of a stored object whose value does not match its type. The schema refuses invalid
// values, but an object can be older than the schema, and users can change a schema.
type UnreadableField struct {
	// Path is the path of the field. For spec.config.mysqld, it contains spec, config and mysqld.
	Path []string
	// Why is the reason for the decoding error.
	Why string
}

// String returns the path and the reason.
func (f *UnreadableField) String() string {
	return PrintableText(fmt.Sprintf("%s cannot be read: %s", f.dotted(), f.Why), MaxForeignText)
}

func (f *UnreadableField) dotted() string { return strings.Join(f.Path, ".") }

// pointer returns the path of the field in a JSON patch.
func (f *UnreadableField) pointer() string {
	var out strings.Builder
	for _, step := range f.Path {
		out.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return out.String()
}

// UnreadableFields lists the fields of an object that could not be decoded. All other fields were decoded.
type UnreadableFields []UnreadableField

// Has reports whether a field such as spec.backup.keep may contain a value that was not decoded. The value can be in
// the field itself, in one of its parents, or in one of its children.
func (u UnreadableFields) Has(field string) bool {
	return slices.ContainsFunc(u, func(f UnreadableField) bool {
		path := f.dotted()
		return path == field || strings.HasPrefix(path, field+".") || strings.HasPrefix(field, path+".")
	})
}

// HasAny reports whether any of these fields may contain a value that was not decoded.
func (u UnreadableFields) HasAny(fields ...string) bool { return slices.ContainsFunc(fields, u.Has) }

// maxNamedFields is the number of unreadable fields that a message names.
const maxNamedFields = 3

// String names the first fields. It is empty if all fields were decoded.
func (u UnreadableFields) String() string {
	named := make([]string, 0, maxNamedFields+1)
	for _, f := range u[:min(len(u), maxNamedFields)] {
		named = append(named, f.String())
	}
	if rest := len(u) - maxNamedFields; rest > 0 {
		named = append(named, fmt.Sprintf("%d more fields cannot be read", rest))
	}
	return strings.Join(named, "; ")
}

// Repair returns the command that removes the first unreadable field. object names the object for kubectl, such as
// "mysql db --namespace shop". The command is empty if all fields were decoded.
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

// Edit returns the command that edits the part of the object with the first unreadable field.
func (u UnreadableFields) Edit(object string) string {
	if len(u) > 0 && u[0].Path[0] == "status" {
		return "kubectl edit " + object + " --subresource=status"
	}
	return "kubectl edit " + object
}

// ReadObject decodes JSON into a struct as far as possible. It returns the fields that cannot be decoded, which keep
// their zero values, and decodes all others. It returns an error only if raw is not a JSON object.
func ReadObject(raw []byte, target any) (UnreadableFields, error) {
	v := reflect.ValueOf(target).Elem()
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

// readWhole decodes a value. If a part of the value cannot be decoded, it sets the value to zero and returns an error.
func readWhole(raw []byte, v reflect.Value) error {
	fresh := reflect.New(v.Type())
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, fresh.Interface()); err != nil {
		v.SetZero()
		return err
	}
	v.Set(fresh.Elem())
	return nil
}

// A lenientReader decodes as many values as possible, and records the fields that it cannot decode.
type lenientReader struct{ unread UnreadableFields }

// unmarshaler is implemented by types that decode themselves. They are decoded as a whole, or not at all.
var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// read decodes a value at a path. It returns false if no part of the value was decoded.
func (r *lenientReader) read(raw []byte, v reflect.Value, path []string) bool {
	err := readWhole(raw, v)
	if err == nil {
		return true
	}
	if v.Kind() == reflect.Pointer {
		target := reflect.New(v.Type().Elem())
		if r.read(raw, target.Elem(), path) {
			v.Set(target)
			return true
		}
		return false
	}
	if !v.Addr().Type().Implements(unmarshaler) {
		switch v.Kind() { //nolint:exhaustive // The other kinds have no parts.
		case reflect.Struct:
			return r.readStruct(raw, v, path)
		case reflect.Map:
			return r.readMap(raw, v, path)
		case reflect.Slice:
			return r.readSlice(raw, v, path)
		}
	}
	return r.record(path, reason(err, v))
}

// record adds a field that cannot be decoded to the result. It always returns false, for use as the result of read.
func (r *lenientReader) record(path []string, reason string) bool {
	r.unread = append(r.unread, UnreadableField{Path: slices.Clone(path), Why: reason})
	return false
}

// reason explains a decoding error. It describes the expected JSON value instead of the Go type.
func reason(err error, v reflect.Value) string {
	if v.Addr().Type().Implements(unmarshaler) && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err.Error()
	}
	switch v.Kind() { //nolint:exhaustive // The other kinds have their own errors.
	case reflect.String:
		return "it must be a string"
	case reflect.Bool:
		return "it must be true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "it must be a whole number within its range"
	}
	return err.Error()
}

func (r *lenientReader) readStruct(raw []byte, v reflect.Value, path []string) bool {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return r.record(path, "it must be a map")
	}
	r.readFields(fields, v, path)
	return true
}

// readFields decodes the fields of a struct, and of the structs that it inlines.
func (r *lenientReader) readFields(fields map[string]json.RawMessage, v reflect.Value, path []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch raw, ok := fields[name]; {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			r.readFields(fields, v.Field(i), path)
		case ok:
			r.read(raw, v.Field(i), append(slices.Clone(path), name))
		}
	}
}

func (r *lenientReader) readMap(raw []byte, v reflect.Value, path []string) bool {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return r.record(path, "it must be a map")
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := reflect.New(v.Type().Elem()).Elem()
		if r.read(fields[key], value, append(slices.Clone(path), key)) {
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
		}
	}
	return true
}

func (r *lenientReader) readSlice(raw []byte, v reflect.Value, path []string) bool {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return r.record(path, "it must be a list")
	}
	out := reflect.MakeSlice(v.Type(), 0, len(items))
	for i, item := range items {
		value := reflect.New(v.Type().Elem()).Elem()
		if r.read(item, value, append(slices.Clone(path), strconv.Itoa(i))) {
			out = reflect.Append(out, value)
		}
	}
	v.Set(out)
	return true
}

// UnmarshalJSON decodes a BackupRecord as far as possible, so that one invalid object does not make a whole list
// unreadable.
func (b *BackupRecord) UnmarshalJSON(raw []byte) (err error) {
	type plain BackupRecord
	out := plain{}
	out.Unreadable, err = ReadObject(raw, &out)
	*b = BackupRecord(out)
	return err
}

// UnmarshalJSON decodes a BackupStore as far as possible, so that one invalid object does not make a whole list
// unreadable.
func (s *BackupStore) UnmarshalJSON(raw []byte) (err error) {
	type plain BackupStore
	out := plain{}
	out.Unreadable, err = ReadObject(raw, &out)
	*s = BackupStore(out)
	return err
}

// UnmarshalJSON decodes a Platform as far as possible.
func (p *Platform) UnmarshalJSON(raw []byte) (err error) {
	type plain Platform
	out := plain{}
	out.Unreadable, err = ReadObject(raw, &out)
	*p = Platform(out)
	return err
}
