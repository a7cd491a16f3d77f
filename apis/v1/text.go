package v1

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxForeignText is the maximum length, in bytes, of a quotation in a message. A quotation comes from a database
// server, a kubelet or a Job.
const MaxForeignText = 300

// PrintableText makes a string safe for a status, an event or a log. The result is a single line of limited length
// without terminal control characters. Consecutive characters that are not printable become one space. A string that
// is too long is truncated and ends in an ellipsis.
func PrintableText(text string, most int) string {
	var b strings.Builder
	blank := false
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			blank = b.Len() > 0
			continue
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		b.WriteRune(r)
		if b.Len() > most {
			return cutText(b.String(), most)
		}
	}
	return b.String()
}

// cutText truncates a string to a maximum number of bytes, including an ellipsis. It does not split a character.
func cutText(text string, most int) string {
	const ellipsis = "…"
	n := max(most-len(ellipsis), 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + ellipsis
}
