package sql

import (
	"strings"
	"testing"
	"unicode"
)

// TestPasswordRules checks that a generated password follows the server's rules. If that is impossible, the error
// must name the rules.
func TestPasswordRules(t *testing.T) {
	component := func(list ...string) map[string]string {
		out := map[string]string{
			"validate_password.policy": "MEDIUM", "validate_password.length": "8", "validate_password.mixed_case_count": "1",
			"validate_password.number_count": "1", "validate_password.special_char_count": "1",
			"validate_password.dictionary_file": "",
		}
		for i := 0; i < len(list); i += 2 {
			out["validate_password."+list[i]] = list[i+1]
		}
		return out
	}
	cases := map[string]struct {
		settings map[string]string
		want     PasswordRules
		refused  string
	}{
		"None":  {settings: nil},
		"Usual": {settings: component(), want: PasswordRules{Length: 8, Lower: 1, Upper: 1, Digits: 1, Special: 1}},
		"Two": {settings: component("mixed_case_count", "2", "number_count", "2", "special_char_count", "2"),
			want: PasswordRules{Length: 8, Lower: 2, Upper: 2, Digits: 2, Special: 2}},
		"Many": {settings: component("mixed_case_count", "20", "number_count", "30", "special_char_count", "40",
			"length", "200"), want: PasswordRules{Length: 200, Lower: 20, Upper: 20, Digits: 30, Special: 40}},
		"Low": {settings: component("policy", "LOW", "number_count", "50", "length", "64"),
			want: PasswordRules{Length: 64}},
		"Number": {settings: component("policy", "2", "dictionary_file", "words"),
			want: PasswordRules{Length: 8, Lower: 1, Upper: 1, Digits: 1, Special: 1, Dictionary: true}},
		"Plugin": {settings: map[string]string{"validate_password_policy": "STRONG", "validate_password_length": "77",
			"validate_password_number_count": "9"}, want: PasswordRules{Length: 77, Digits: 9}},
		"TooLong": {settings: component("length", "257"),
			want: PasswordRules{Length: 257, Lower: 1, Upper: 1, Digits: 1, Special: 1}, refused: "at least 257 characters"},
		"TooManyAll": {settings: component("number_count", "300"),
			want: PasswordRules{Length: 8, Lower: 1, Upper: 1, Digits: 300, Special: 1}, refused: "300 digits"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := parseRules(tc.settings)
			if r != tc.want {
				t.Errorf("want the rules %+v, got %+v", tc.want, r)
			}
			p, err := passwordFor(r, "")
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || !IsNoDonor(err) {
					t.Errorf("want an error that is final and says %q, got %v", tc.refused, err)
				}
				return
			}
			if err != nil || !satisfies(string(p), r) || len(p) < fewestInAll {
				t.Errorf("a password of %d characters does not satisfy %s (%v)", len(p), r, err)
			}
		})
	}
}

// satisfies reports whether a password follows the rules of validate_password.
func satisfies(p string, r PasswordRules) bool {
	lower, upper, digits, special := 0, 0, 0, 0
	for _, c := range p {
		switch {
		case unicode.IsLower(c):
			lower++
		case unicode.IsUpper(c):
			upper++
		case unicode.IsDigit(c):
			digits++
		default:
			special++
		}
	}
	return len(p) >= r.Length && lower >= r.Lower && upper >= r.Upper && digits >= r.Digits && special >= r.Special
}
