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

// digest returns the digest of a value. Different values have different digests.
func digest(v *structpb.Value) string {
	sum := sha256.Sum256(canonical(make([]byte, 0, 4096), v))
	return hex.EncodeToString(sum[:16])
}

// canonical appends the canonical form of a value, which contains the kind and length of each part. JSON is not
// canonical, because protojson inserts spaces at random.
func canonical(dst []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		fields := k.StructValue.GetFields()
		dst = strconv.AppendInt(append(dst, '{'), int64(len(fields)), 10)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			dst = canonical(canonicalText(dst, name), fields[name])
		}
		return dst
	case *structpb.Value_ListValue:
		values := k.ListValue.GetValues()
		dst = strconv.AppendInt(append(dst, '['), int64(len(values)), 10)
		for _, item := range values {
			dst = canonical(dst, item)
		}
		return dst
	case *structpb.Value_StringValue:
		return canonicalText(dst, k.StringValue)
	case *structpb.Value_NumberValue:
		return strconv.AppendUint(append(dst, '#'), math.Float64bits(k.NumberValue), 16)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(append(dst, '?'), k.BoolValue)
	}
	return append(dst, '0') // Null.
}

func canonicalText(dst []byte, text string) []byte {
	return append(append(strconv.AppendInt(append(dst, '"'), int64(len(text)), 10), ':'), text...)
}
