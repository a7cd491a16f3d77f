package main

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/crossplane/function-sdk-go/errors"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/api/resource"
)

// encodeObject converts a typed object to a protobuf struct, and omits the fields in without.
func encodeObject(o any, without ...string) (*structpb.Struct, error) {
	v := reflect.ValueOf(o).Elem()
	return encodeFields(codecOf(v.Type()), v, without)
}

func encodeFields(c *codec, v reflect.Value, without []string) (*structpb.Struct, error) {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, 4)}
	for i := range c.fields {
		f := &c.fields[i]
		fv := v.FieldByIndex(f.index)
		if skipped(f, fv, without) {
			continue
		}
		value, err := encodeValue(f.codecFor(fv), fv)
		if err != nil {
			return nil, errors.Wrap(err, f.name)
		}
		s.Fields[f.name] = value
	}
	return s, nil
}

func skipped(f *jsonField, v reflect.Value, without []string) bool {
	if slices.Contains(without, f.name) || f.omitEmpty && empty(v) || f.omitZero && v.IsZero() {
		return true
	}
	// A zero time would be encoded as null.
	return v.Kind() == reflect.Struct && v.Type() == timeType && v.IsZero()
}

// empty reports whether encoding/json treats a value as empty. A struct is never empty.
func empty(v reflect.Value) bool {
	switch v.Kind() { //nolint:exhaustive // All other kinds are empty if they are zero.
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func encodeValue(c *codec, v reflect.Value) (*structpb.Value, error) {
	switch c.kind {
	case fields:
		s, err := encodeFields(c, v, nil)
		return structpb.NewStructValue(s), err
	case quantity:
		q := v.Interface().(resource.Quantity) //nolint:forcetypeassert // Only this type has that kind of codec.
		return structpb.NewStringValue(q.String()), nil
	case custom:
		return encodeCustom(v)
	case plain:
	}
	return encodePlain(v)
}

// encodeCustom encodes a type with its own JSON encoding.
func encodeCustom(v reflect.Value) (*structpb.Value, error) {
	b, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	value := &structpb.Value{}
	return value, value.UnmarshalJSON(b)
}

func encodePlain(v reflect.Value) (*structpb.Value, error) {
	switch v.Kind() { //nolint:exhaustive // Kinds that no Kubernetes type has are an error below.
	case reflect.Pointer:
		if v.IsNil() {
			return structpb.NewNullValue(), nil
		}
		return encodeValue(codecOf(v.Type().Elem()), v.Elem())
	case reflect.String:
		return structpb.NewStringValue(v.String()), nil
	case reflect.Bool:
		return structpb.NewBoolValue(v.Bool()), nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return structpb.NewNumberValue(float64(v.Int())), nil
	case reflect.Slice:
		return encodeSlice(v)
	case reflect.Map:
		return encodeMap(v)
	}
	return nil, errors.Errorf("cannot encode a %s", v.Type())
}

func encodeSlice(v reflect.Value) (*structpb.Value, error) {
	if v.IsNil() {
		return structpb.NewNullValue(), nil
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return structpb.NewStringValue(base64.StdEncoding.EncodeToString(v.Bytes())), nil
	}
	c := codecOf(v.Type().Elem())
	l := &structpb.ListValue{Values: make([]*structpb.Value, v.Len())}
	for i := range v.Len() {
		item, err := encodeValue(c, v.Index(i))
		if err != nil {
			return nil, err
		}
		l.Values[i] = item
	}
	return structpb.NewListValue(l), nil
}

func encodeMap(v reflect.Value) (*structpb.Value, error) {
	if v.IsNil() {
		return structpb.NewNullValue(), nil
	}
	c := codecOf(v.Type().Elem())
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, v.Len())}
	for it := v.MapRange(); it.Next(); {
		item, err := encodeValue(c, it.Value())
		if err != nil {
			return nil, err
		}
		s.Fields[it.Key().String()] = item
	}
	return structpb.NewStructValue(s), nil
}
