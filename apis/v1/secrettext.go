package v1

import (
	"regexp"
	"strings"
)

// hiddenText replaces a value that may be secret.
const hiddenText = "…"

// Patterns for messages of servers, clients and entrypoints that may contain a secret or a value from a table. After
// "near", a server quotes a statement that it cannot parse, and the statement may set a password. Values from a table
// follow words such as "entry", "value" or "string". A value can contain quotes, so each pattern matches up to the
// last quote that can belong to the value.
var (
	nearStatement = regexp.MustCompile(`(?s)\bnear ['"].*?(['"] at line \d+\S*\s*)?$`)
	nearEnd       = regexp.MustCompile(` at line \d+\S*\s*$`)
	rowValue      = regexp.MustCompile(
		`(?is)\b((?:duplicate )?entry|value:?|string:|text:|argument|expression:?|out of range in) (?:'.*'|".*"|'.*|".*)`)
	afterValue    = regexp.MustCompile(`['"]( (?:for|at|in|found)\b[^'"]*(?:['"][^'"]*['"])?[^'"]*)$`)
	identifiedBy  = regexp.MustCompile(`(?is)(\bidentified\s+(?:with\s+\S+\s+)?(?:by|as)(?:\s+password)?\s+).*$`)
	passwordValue = regexp.MustCompile(
		`(?im)((?:password|passwd|_pwd|secret_?key|access_?key|auth_?token)[\w.-]*['"]?(?:\s+is generated for \S+?)?\s*(?:[:=]|\bis\b|\bto\b)\s*)(\S.*)$`)
	passwordCall  = regexp.MustCompile(`(?is)(\bpassword\s*\(\s*)['"].*$`)
	passwordInURL = regexp.MustCompile(`(://[^\s:/@]*:)[^\s@]+@`)
)

// isNoSecret matches the text after "password:" in a message about a failed login.
var isNoSecret = regexp.MustCompile(`^(YES|NO)\)`)

// WithoutSecrets removes passwords and table rows from the output of a server or another program. It keeps the rest,
// which contains the cause of an error.
func WithoutSecrets(text string) string {
	text = nearStatement.ReplaceAllStringFunc(text, func(near string) string {
		return "near " + hiddenText + nearEnd.FindString(near)
	})
	text = rowValue.ReplaceAllStringFunc(text, withoutValue)
	text = identifiedBy.ReplaceAllString(text, "${1}"+hiddenText)
	text = passwordCall.ReplaceAllString(text, "${1}"+hiddenText)
	text = passwordValue.ReplaceAllStringFunc(text, func(found string) string {
		m := passwordValue.FindStringSubmatch(found)
		if isNoSecret.MatchString(m[2]) {
			return found
		}
		return m[1] + hiddenText
	})
	return passwordInURL.ReplaceAllString(text, "${1}"+hiddenText+"@")
}

// withoutValue removes a value from a table in a message. It keeps the server's words before and after the value.
func withoutValue(found string) string {
	word := found[:strings.IndexAny(found, `'"`)]
	after := ""
	if m := afterValue.FindStringSubmatch(found); m != nil {
		after = m[1]
	}
	return word + hiddenText + after
}
