package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The function converts typed objects to and from protobuf structs with its own code. With the usual libraries, a
// call takes 1.3 to 2.8 times as long, and errors do not name the field (docs/decisions/own-codec.md). Tests compare
// the results of both conversions with the libraries.

// A codec describes how a Go type is represented in JSON.
type codec struct {
	kind   codecKind
	fields []jsonField
	byName map[string]*jsonField
}

type codecKind int

const (
	// plain types, such as strings and numbers, are encoded by their reflect.Kind.
	plain codecKind = iota
	// fields is a struct that is encoded field by field.
	fields
	// quantity is a Kubernetes Quantity, which is a string in JSON.
	quantity
	// custom types implement their own JSON encoding, such as Time and IntOrString.
	custom
)

// A jsonField is a field of a struct. index is the argument of FieldByIndex, because the field can be in an inlined
// struct.
type jsonField struct {
	name                string
	index               []int
	codec               *codec
	omitEmpty, omitZero bool
}

// codecs caches the codec of each reflect.Type.
var codecs sync.Map

var (
	quantityType    = reflect.TypeFor[resource.Quantity]()
	timeType        = reflect.TypeFor[metav1.Time]()
	marshalerType   = reflect.TypeFor[json.Marshaler]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	objectType      = reflect.TypeFor[runtime.Object]()
)

func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec) //nolint:forcetypeassert // Nothing else is stored.
	}
	c := newCodec(t)
	codecs.Store(t, c)
	return c
}

func newCodec(t reflect.Type) *codec {
	switch {
	case t == quantityType:
		return &codec{kind: quantity}
	case t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(objectType):
		// API objects are decoded field by field, because the function must refuse a field that it cannot read. The lenient
		// UnmarshalJSON of some types is only for the controller.
	case t.Kind() != reflect.Pointer && (t.Implements(marshalerType) || reflect.PointerTo(t).Implements(unmarshalerType)):
		return &codec{kind: custom}
	case t.Kind() != reflect.Struct:
		return &codec{kind: plain}
	}
	c := &codec{kind: fields, fields: structFields(t, nil), byName: map[string]*jsonField{}}
	for i := range c.fields {
		c.byName[c.fields[i].name] = &c.fields[i]
	}
	return c
}

// structFields returns the fields of a struct type, including the fields of inlined structs.
func structFields(t reflect.Type, parents []int) []jsonField {
	var out []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(append([]int{}, parents...), i)
		switch {
		case name == "-" || !f.IsExported():
		case name == "":
			out = append(out, structFields(f.Type, index)...)
		default:
			out = append(out, jsonField{
				name: name, index: index, codec: elementCodec(f.Type),
				omitEmpty: strings.Contains(options, "omitempty"), omitZero: strings.Contains(options, "omitzero"),
			})
		}
	}
	return out
}

// elementCodec returns the codec of a field's type, or nil for a struct. A struct type may contain itself, so
// codecFor looks up its codec only when the field is used.
func elementCodec(t reflect.Type) *codec {
	if t.Kind() == reflect.Struct {
		return nil
	}
	return codecOf(t)
}

// codecFor returns the field's codec, or the codec of the value's type if the field has none.
func (f *jsonField) codecFor(v reflect.Value) *codec {
	if f.codec != nil {
		return f.codec
	}
	return codecOf(v.Type())
}
