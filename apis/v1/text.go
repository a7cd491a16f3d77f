package v1

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxForeignText in bytes is how much of what somebody else said, such as a
// database server, a kubelet or a Job, is repeated in a message.
const MaxForeignText = 300

// PrintableText is a text as it may stand in a status, an event or a log: on one
// line, of at most so many bytes, and without anything that a terminal would
// obey. Each run of what does not print becomes one space, and what is too long
// ends in an ellipsis.
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

// cutText at a rune's end, with an ellipsis in the same number of bytes.
func cutText(text string, most int) string {
	const ellipsis = "…"
	n := max(most-len(ellipsis), 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + ellipsis
}
