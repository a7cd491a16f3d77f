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

// PasswordRules are what a server demands of a password (validate_password), as a component or as a plugin.
type PasswordRules struct {
	// Length in bytes at least, and how many Lower and Upper case letters, Digits and Special characters.
	Length, Lower, Upper, Digits, Special int
	// Dictionary is true if words are forbidden in it.
	Dictionary bool
}

// maxPassword in bytes that caching_sha2_password takes (sql/auth/sha2_password_common.h in MySQL).
const maxPassword = 256

// Kinds of characters of a generated password. None means anything to SQL, to a shell, to an option file or to a URL.
const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits    = "0123456789"
	special   = "_"
)

// fewest characters of each kind, and of all of them, that a generated password has. Most servers' rules ask for less.
const (
	fewestOfKind = 4
	fewestInAll  = 32
)

// A RuleError says that no generated password can satisfy the server's rules, or that another setting forbids what is needed. It
// stays so until somebody changes the server.
type RuleError struct{ text string }

// Error says what to do.
func (e *RuleError) Error() string { return e.text }

// String says the rules to people.
func (r PasswordRules) String() string {
	out := fmt.Sprintf("at least %d characters, of them %d lower case, %d upper case, %d digits, %d special", r.Length, r.Lower, r.Upper, r.Digits, r.Special)
	if r.Dictionary {
		out += ", and no word of validate_password.dictionary_file"
	}
	return out
}

// passwordRules of a server; the zero value where it has none.
func (s *Session) passwordRules(ctx context.Context) (PasswordRules, error) {
	name, value, settings := sql.NullString{}, sql.NullString{}, map[string]string{}
	err := s.queryRows(ctx, []sql.Scanner{&name, &value}, func() { settings[name.String] = value.String }, `SHOW GLOBAL VARIABLES LIKE 'validate\_password%'`)
	if err != nil {
		return PasswordRules{}, s.wrapError(err, "read the server's rules for passwords")
	}
	return parseRules(settings), nil
}

// parseRules of settings of the component, which have a dot, or of the plugin, which have not. A policy is a word or a number
// (MySQL manual, 8.4.3.2 Password Validation Options and Variables).
func parseRules(settings map[string]string) PasswordRules {
	of := func(name string) string {
		if v, ok := settings["validate_password."+name]; ok {
			return v
		}
		return settings["validate_password_"+name]
	}
	count := func(name string) int {
		n, _ := strconv.Atoi(of(name)) // What is no number asks for nothing.
		return max(n, 0)
	}
	r := PasswordRules{Length: count("length")}
	policy := strings.ToUpper(of("policy"))
	if policy == "" || policy == "LOW" || policy == "0" {
		return r
	}
	r.Lower, r.Upper, r.Digits, r.Special = count("mixed_case_count"), count("mixed_case_count"), count("number_count"), count("special_char_count")
	r.Dictionary = (policy == "STRONG" || policy == "2") && of("dictionary_file") != ""
	return r
}

// NewPassword that means nothing to anybody, nor to a shell or an option file, and that the usual rules for passwords
// accept (validate_password).
func NewPassword() Password { return newPassword(PasswordRules{}) }

// newPassword that satisfies the rules.
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
	for i := len(out) - 1; i > 0; i-- { // No kind has its place.
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

// passwordFor a new account on a server with rules.
func passwordFor(r PasswordRules) (Password, error) {
	p := newPassword(r)
	if len(p) > maxPassword {
		return "", &RuleError{fmt.Sprintf("the server's rules for passwords (validate_password) cannot be satisfied: they ask for %s, and a password has at most %d characters. Lower them (validate_password.length), or take backups with method Cold", r, maxPassword)}
	}
	return p, nil
}
