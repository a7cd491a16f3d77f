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

// A fieldError says which field of an object cannot be read, and why.
type fieldError struct {
	path  string
	cause error
}

func (e *fieldError) Error() string { return strings.TrimPrefix(e.path, ".") + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *fieldError) Unwrap() error { return e.cause }

// inField names the field that an error is in.
func inField(step string, err error) error {
	if f := (*fieldError)(nil); errors.As(err, &f) {
		return &fieldError{path: step + f.path, cause: f.cause}
	}
	return &fieldError{path: step, cause: err}
}

// decodeObject reads a struct into a typed object. Names are taken as they are
// written; fields that the type does not have are passed over, or are an error in
// strict mode. Errors name the field.
func decodeObject(s *structpb.Struct, target any, strict bool) error {
	v := reflect.ValueOf(target).Elem()
	return decodeFields(codecOf(v.Type()), s, v, strict)
}

// decodeOnly the named fields of an object, and its metadata's name and
// namespace. Each is named by one step or two. What an API server sends is
// mostly what nothing asks for.
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

// decodeFields reports the first field by name that cannot be read, so that the
// same request gets the same answer.
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
	// A type that reads itself says what null is, as in JSON.
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
	switch v.Kind() { //nolint:exhaustive // What no type here has is an error below.
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

// decodeInt refuses what is no whole number of the type's size: a cluster's
// numbers come as floating point.
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
