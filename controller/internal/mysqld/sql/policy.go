package sql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// PasswordRules are a server's rules for passwords (validate_password). They come from the component or the plugin.
type PasswordRules struct {
	// Length is the minimum length in bytes. The other fields are the minimum numbers of lower case letters, upper
	// case letters, digits and special characters.
	Length, Lower, Upper, Digits, Special int
	// Dictionary is true if the password must not contain words of a dictionary.
	Dictionary bool
}

// maxPassword is the maximum length in bytes for caching_sha2_password (sql/auth/sha2_password_common.h in MySQL).
const maxPassword = 256

// A generated password consists of the following characters. None has a special meaning in SQL, a shell, an option
// file or a URL.
const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits    = "0123456789"
	special   = "_"
)

// fewestOfKind and fewestInAll are the minimum numbers of characters in a generated password, per kind and in
// total. Most servers' rules require less.
const (
	fewestOfKind = 4
	fewestInAll  = 32
)

// A RuleError reports that no generated password satisfies the server's rules, or that another setting prevents an
// operation. A user must change the server.
type RuleError struct{ text string }

// Error returns the message with the next step.
func (e *RuleError) Error() string { return e.text }

// String describes the rules for users.
func (r PasswordRules) String() string {
	out := fmt.Sprintf("at least %d characters, including %d lowercase letters, %d uppercase letters, %d digits and "+
		"%d special characters", r.Length,
		r.Lower, r.Upper, r.Digits, r.Special)
	if r.Dictionary {
		out += ", and no word from validate_password.dictionary_file"
	}
	return out
}

// passwordRules returns the rules of a server, or the zero value if it has none.
func (s *Session) passwordRules(ctx context.Context) (PasswordRules, error) {
	name, value, settings := sql.NullString{}, sql.NullString{}, map[string]string{}
	err := s.queryRows(ctx, []sql.Scanner{&name, &value}, func() { settings[name.String] = value.String },
		`SHOW GLOBAL VARIABLES LIKE 'validate\_password%'`)
	if err != nil {
		return PasswordRules{}, s.wrapError(err, "read the server's password policy")
	}
	return parseRules(settings), nil
}

// parseRules parses the settings of the component, whose names contain a dot, or of the plugin. The policy is a word
// or a number (MySQL manual, 8.4.3.2 Password Validation Options and Variables).
func parseRules(settings map[string]string) PasswordRules {
	value := func(name string) string {
		if v, ok := settings["validate_password."+name]; ok {
			return v
		}
		return settings["validate_password_"+name]
	}
	count := func(name string) int {
		n, _ := strconv.Atoi(value(name)) // An invalid number is treated as zero.
		return max(n, 0)
	}
	r := PasswordRules{Length: count("length")}
	policy := strings.ToUpper(value("policy"))
	if policy == "" || policy == "LOW" || policy == "0" {
		return r
	}
	r.Lower, r.Upper, r.Digits, r.Special = count("mixed_case_count"), count("mixed_case_count"), count(
		"number_count"), count("special_char_count")
	r.Dictionary = (policy == "STRONG" || policy == "2") && value("dictionary_file") != ""
	return r
}

// NewPassword returns a random password without special meaning in SQL, a shell or an option file. The usual password
// rules (validate_password) accept it.
func NewPassword() Password { return newPassword(PasswordRules{}) }

// newPassword returns a password that follows the rules.
func newPassword(r PasswordRules) Password {
	var out []byte
	add := func(kind string, n int) {
		for range n {
			out = append(out, kind[below(len(kind))])
		}
	}
	add(lowerCase, max(r.Lower, fewestOfKind))
	add(upperCase, max(r.Upper, fewestOfKind))
	add(digits, max(r.Digits, fewestOfKind))
	add(special, max(r.Special, fewestOfKind))
	add(lowerCase+upperCase+digits, max(r.Length, fewestInAll)-len(out))
	for i := len(out) - 1; i > 0; i-- { // The order of the kinds is random.
		k := below(i + 1)
		out[i], out[k] = out[k], out[i]
	}
	return Password(out)
}

// below returns a random number from 0 to n-1.
func below(n int) int {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err) // The package's own reader never fails.
	}
	return int(i.Int64())
}

// passwordFor returns a password for a new account that follows the server's rules. If none can follow them, the error
// suggests to change the rules, or to do what otherwise describes.
func passwordFor(r PasswordRules, otherwise string) (Password, error) {
	p := newPassword(r)
	if len(p) > maxPassword {
		return "", &RuleError{fmt.Sprintf(
			"the server's password policy (validate_password) cannot be satisfied: it requires %s, but a password "+
				"has at most %d characters. Lower validate_password.length, or %s", r, maxPassword, otherwise)}
	}
	return p, nil
}
