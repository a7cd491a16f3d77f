package v1

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPrintableText(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		most   int
		want   string
	}{
		"Plain": {reason: "Printable characters must stay the same.",
			text: "Access denied for user 'root'@'10.0.0.1'  (using password: YES)", most: 100,
			want: "Access denied for user 'root'@'10.0.0.1'  (using password: YES)"},
		"OtherScript": {reason: "Printable letters of all scripts must stay the same.",
			text: "пароль 密码 é 😀", most: 100, want: "пароль 密码 é 😀"}, //nolint:gosmopolitan // The test needs it.
		"Lines": {reason: "A message must have only one line.", text: "one\r\n\ttwo\n", most: 100, want: "one two"},
		"Terminal": {reason: "Control characters must be replaced, because a terminal would execute them.",
			text: "\x1b[2J\x1b]0;owned\x07end", most: 100,
			want: "[2J ]0;owned end"},
		"Direction": {reason: "Characters that change the direction of text must be replaced.",
			text: "a\u202egpj.exe\u2028b", most: 100, want: "a gpj.exe b"},
		"NoUTF8": {reason: "Bytes that are not UTF-8 must be replaced, because JSON cannot contain them.",
			text: "a\xff\xfe\x00b\xed\xa0\x80c", most: 100, want: "a b c"},
		"Fits":      {reason: "The text has the maximum length.", text: "12345", most: 5, want: "12345"},
		"Long":      {reason: "A longer text must be cut, with an ellipsis.", text: "123456", most: 5, want: "12…"},
		"LongRunes": {reason: "A character must not be cut in half.", text: "ééééé", most: 6, want: "é…"},
		"Empty":     {reason: "The text contains no printable characters.", text: "\n\x00", most: 5, want: ""},
		"Megabytes": {reason: "A text of many megabytes must be cut.",
			text: strings.Repeat("x", 16<<20), most: 5, want: "xx…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PrintableText(tc.text, tc.most); got != tc.want {
				t.Errorf("%s PrintableText(%.50q, %d): %q, want %q", tc.reason, tc.text, tc.most, got, tc.want)
			}
		})
	}
}

func FuzzPrintableText(f *testing.F) {
	f.Add("a\x1b\n\xffé\u202e", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(3, most%1000)
		got := PrintableText(text, most)
		if len(got) > most || !utf8.ValidString(got) ||
			strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("PrintableText(%q, %d): %q", text, most, got)
		}
		if second := PrintableText(got, most); second != got {
			t.Errorf("PrintableText(%q, %d): %q, and of that %q", text, most, got, second)
		}
	})
}
