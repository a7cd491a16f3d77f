package sql

import (
	"slices"
	"strings"
	"testing"
)

func TestNewPassword(t *testing.T) {
	one, other := string(NewPassword()), string(NewPassword())
	if one == other {
		t.Error("It is the same twice.")
	}
	harmless := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
	}
	if strings.ContainsFunc(one, func(r rune) bool { return !harmless(r) }) ||
		!slices.ContainsFunc([]rune(one), func(r rune) bool { return r == '_' }) {
		t.Error("It has a character that may mean something, or breaks the usual rules.")
	}
}
