package main

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"
)

// digest of a value: the same for the same value, and for no other.
func digest(v *structpb.Value) string {
	sum := sha256.Sum256(canonical(make([]byte, 0, 4096), v))
	return hex.EncodeToString(sum[:16])
}

// canonical text of a value, which begins with its kind, and each part with its length.
// JSON would do, but protojson puts spaces where it likes.
func canonical(to []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		fields := k.StructValue.GetFields()
		to = strconv.AppendInt(append(to, '{'), int64(len(fields)), 10)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			to = canonical(canonicalText(to, name), fields[name])
		}
		return to
	case *structpb.Value_ListValue:
		values := k.ListValue.GetValues()
		to = strconv.AppendInt(append(to, '['), int64(len(values)), 10)
		for _, item := range values {
			to = canonical(to, item)
		}
		return to
	case *structpb.Value_StringValue:
		return canonicalText(to, k.StringValue)
	case *structpb.Value_NumberValue:
		return strconv.AppendUint(append(to, '#'), math.Float64bits(k.NumberValue), 16)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(append(to, '?'), k.BoolValue)
	}
	return append(to, '0') // Null.
}

func canonicalText(to []byte, text string) []byte {
	return append(append(strconv.AppendInt(append(to, '"'), int64(len(text)), 10), ':'), text...)
}
