package sql

import "strings"

// Quote quotes an identifier, such as the name of a database. Values are passed as arguments of placeholders instead.
func Quote(identifier string) string {
	return "`" + strings.ReplaceAll(identifier, "`", "``") + "`"
}
