package sql

import "strings"

// Quote an identifier, such as a database's name. Everything that is not an
// identifier is a placeholder's.
func Quote(identifier string) string {
	return "`" + strings.ReplaceAll(identifier, "`", "``") + "`"
}
