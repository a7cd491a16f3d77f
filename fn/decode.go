package main

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strings"

	"github.com/crossplane/function-sdk-go/errors"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A fieldError reports which field of an object cannot be read, and why.
type fieldError struct {
	path  string
	cause error
}

func (e *fieldError) Error() string { return strings.TrimPrefix(e.path, ".") + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *fieldError) Unwrap() error { return e.cause }

// inField adds a step to the path of the field in an error.
func inField(step string, err error) error {
	if f := (*fieldError)(nil); errors.As(err, &f) {
		return &fieldError{path: step + f.path, cause: f.cause}
	}
	return &fieldError{path: step, cause: err}
}

// decodeObject converts a protobuf struct to a typed object. Names are case-sensitive. Fields that the type does not
// have are ignored, or are an error in strict mode. Errors name the field.
func decodeObject(s *structpb.Struct, target any, strict bool) error {
	v := reflect.ValueOf(target).Elem()
	return decodeFields(codecOf(v.Type()), s, v, strict)
}

// decodeOnly decodes only the named fields of an object, and the name and namespace in its metadata. The name of a
// field consists of one or two steps, such as data or spec.replicas. The function needs only a few fields of the
// objects that the API server sends.
func decodeOnly(s *structpb.Struct, target any, names []string) error {
	m := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for _, path := range append(names, "metadata.name", "metadata.namespace") {
		top, key, inner := strings.Cut(path, ".")
		v, ok := s.GetFields()[top]
		if !ok {
			continue
		}
		child := v.GetStructValue()
		if !inner || child == nil {
			m.Fields[top] = v
			continue
		}
		kept := m.GetFields()[top].GetStructValue()
		if kept == nil {
			kept = &structpb.Struct{Fields: map[string]*structpb.Value{}}
			m.Fields[top] = structpb.NewStructValue(kept)
		}
		if v, ok = child.GetFields()[key]; ok {
			kept.Fields[key] = v
		}
	}
	return decodeObject(m, target, false)
}

// decodeFields decodes the fields of a struct. If several fields have errors, it reports the first one in
// alphabetical order, so that the same request always has the same response.
func decodeFields(c *codec, s *structpb.Struct, v reflect.Value, strict bool) error {
	first, reason := "", error(nil)
	for name, value := range s.GetFields() {
		f, ok := c.byName[name]
		if !ok && !strict {
			continue
		}
		err := errors.New("unknown field")
		if ok {
			fv := v.FieldByIndex(f.index)
			err = decodeValue(f.codecFor(fv), value, fv, strict)
		}
		if err != nil && (first == "" || name < first) {
			first, reason = name, err
		}
	}
	if reason != nil {
		return inField("."+first, reason)
	}
	return nil
}

func decodeValue(c *codec, value *structpb.Value, v reflect.Value, strict bool) error {
	// A type with its own JSON decoding handles null itself, as in encoding/json.
	if _, null := value.GetKind().(*structpb.Value_NullValue); null && c.kind != custom {
		return nil
	}
	switch c.kind {
	case fields:
		s := value.GetStructValue()
		if s == nil {
			return errors.New("must be an object")
		}
		return decodeFields(c, s, v, strict)
	case quantity:
		return decodeQuantity(value, v)
	case custom:
		b, err := value.MarshalJSON()
		if err != nil {
			return err
		}
		return json.Unmarshal(b, v.Addr().Interface())
	case plain:
	}
	return decodePlain(value, v, strict)
}

func decodeQuantity(value *structpb.Value, v reflect.Value) error {
	text := value.GetStringValue()
	if _, ok := value.GetKind().(*structpb.Value_StringValue); !ok {
		b, err := value.MarshalJSON()
		if err != nil {
			return err
		}
		text = string(b)
	}
	q, err := v1.ParseQuantity(text)
	if err != nil {
		return err
	}
	v.Set(reflect.ValueOf(q))
	return nil
}

func decodePlain(value *structpb.Value, v reflect.Value, strict bool) error {
	switch v.Kind() { //nolint:exhaustive // Kinds that no type here has are an error below.
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(codecOf(v.Type().Elem()), value, v.Elem(), strict)
	case reflect.String:
		if s, ok := value.GetKind().(*structpb.Value_StringValue); ok {
			v.SetString(s.StringValue)
			return nil
		}
		return errors.New("must be a string")
	case reflect.Bool:
		if b, ok := value.GetKind().(*structpb.Value_BoolValue); ok {
			v.SetBool(b.BoolValue)
			return nil
		}
		return errors.New("must be true or false")
	case reflect.Int, reflect.Int32, reflect.Int64:
		return decodeInt(value, v)
	case reflect.Slice:
		return decodeSlice(value, v, strict)
	case reflect.Map:
		return decodeMap(value, v, strict)
	}
	return errors.Errorf("cannot read a %s", v.Type())
}

// decodeInt decodes an integer. JSON numbers are floating-point numbers, so it refuses fractions and numbers that do
// not fit into the type.
func decodeInt(value *structpb.Value, v reflect.Value) error {
	n, ok := value.GetKind().(*structpb.Value_NumberValue)
	if !ok || n.NumberValue != math.Trunc(n.NumberValue) || math.Abs(n.NumberValue) >= 1<<63 ||
		v.OverflowInt(int64(n.NumberValue)) {
		return errors.New("must be a whole number")
	}
	v.SetInt(int64(n.NumberValue))
	return nil
}

func decodeSlice(value *structpb.Value, v reflect.Value, strict bool) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := base64.StdEncoding.DecodeString(value.GetStringValue())
		if _, ok := value.GetKind().(*structpb.Value_StringValue); !ok || err != nil {
			return errors.New("must be base64")
		}
		v.SetBytes(b)
		return nil
	}
	l := value.GetListValue()
	if l == nil {
		return errors.New("must be a list")
	}
	c := codecOf(v.Type().Elem())
	v.Set(reflect.MakeSlice(v.Type(), len(l.GetValues()), len(l.GetValues())))
	for i, item := range l.GetValues() {
		if err := decodeValue(c, item, v.Index(i), strict); err != nil {
			return err
		}
	}
	return nil
}

func decodeMap(value *structpb.Value, v reflect.Value, strict bool) error {
	s := value.GetStructValue()
	if s == nil {
		return errors.New("must be an object")
	}
	t := v.Type()
	c := codecOf(t.Elem())
	v.Set(reflect.MakeMapWithSize(t, len(s.GetFields())))
	first, reason := "", error(nil)
	for name, item := range s.GetFields() {
		e := reflect.New(t.Elem()).Elem()
		if err := decodeValue(c, item, e, strict); err != nil && (first == "" || name < first) {
			first, reason = name, err
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), e)
	}
	if reason != nil {
		return inField("["+first+"]", reason)
	}
	return nil
}
