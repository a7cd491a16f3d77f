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

// Typed objects are read from and written to protobuf structs directly. With the libraries a call takes 1.3 to 2.8
// times as long, and their errors do not name the field (docs/decisions/own-codec.md). Tests compare both directions
// with the libraries.

// A codec knows how a Go type stands in JSON.
type codec struct {
	kind   codecKind
	fields []jsonField
	byName map[string]*jsonField
}

type codecKind int

const (
	// plain types are encoded by their reflect.Kind.
	plain codecKind = iota
	// fields: a struct of fields.
	fields
	// quantity of Kubernetes, which is a string.
	quantity
	// custom types read and write themselves, such as Time and IntOrString.
	custom
)

// A jsonField is a field of a struct. Its index goes through inlined structs.
type jsonField struct {
	name                string
	index               []int
	codec               *codec
	omitEmpty, omitZero bool
}

// codecs of types; a type never changes.
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
		// An object is read field by field, also where its type reads JSON more leniently for the controller: what the
		// function cannot read it refuses.
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

// structFields of a type, those of inlined structs among them.
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

// elementCodec is that of a field's type. A struct is resolved when it is met,
// because a type may hold itself.
func elementCodec(t reflect.Type) *codec {
	if t.Kind() == reflect.Struct {
		return nil
	}
	return codecOf(t)
}

// codecFor a value: the field's codec, or that of its type.
func (f *jsonField) codecFor(v reflect.Value) *codec {
	if f.codec != nil {
		return f.codec
	}
	return codecOf(v.Type())
}
