package main

import (
	"regexp"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"
)

// absurdNumber has an exponent of four digits or more. Reading 1e-9999999 as a
// quantity takes seconds, and a longer exponent takes for ever: whoever may
// write a claim could stop the function for everybody.
var absurdNumber = regexp.MustCompile(`^[+-]?[0-9.]*[eE][+-]?[0-9]{4,}`)

// absurd is the path of a text in the struct that is an absurd number, or
// nothing: the first by name, so that the same request gets the same answer.
func absurd(s *structpb.Struct) string {
	first := ""
	for k, v := range s.GetFields() {
		if path, found := absurdValue(v); found && (first == "" || k+path < first) {
			first = k + path
		}
	}
	return first
}

func absurdValue(v *structpb.Value) (string, bool) {
	switch v := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return "", startsNumber(v.StringValue) && absurdNumber.MatchString(v.StringValue)
	case *structpb.Value_StructValue:
		if path := absurd(v.StructValue); path != "" {
			return "." + path, true
		}
	case *structpb.Value_ListValue:
		for i, item := range v.ListValue.GetValues() {
			if path, found := absurdValue(item); found {
				return "[" + strconv.Itoa(i) + "]" + path, true
			}
		}
	}
	return "", false
}

// startsNumber spares most texts the regular expression.
func startsNumber(s string) bool {
	return len(s) > 4 && (s[0] >= '0' && s[0] <= '9' || s[0] == '+' || s[0] == '-' || s[0] == '.' || s[0] == 'e' || s[0] == 'E')
}
