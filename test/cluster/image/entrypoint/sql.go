package main

import "strings"

// firstSQL is what makes root's accounts, the database and its user. Nothing of it may depend on the user's sql_mode or
// go to replicas.
func firstSQL(f flavor, o options) string {
	var b strings.Builder
	say := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
		b.WriteString(";\n")
	}
	password := literal(o.rootPassword)
	say("SET SESSION sql_log_bin = 0, SESSION sql_mode = ''")
	if f.cleanUp != "" {
		say(f.cleanUp)
	}
	say("DROP DATABASE IF EXISTS test")
	if o.database != "" {
		say("CREATE DATABASE IF NOT EXISTS ", name(o.database))
	}
	if o.user != "" && o.password != "" {
		account := literal(o.user) + "@'%'"
		say("CREATE USER ", account, " IDENTIFIED BY ", literal(o.password))
		if o.database != "" {
			say("GRANT ALL ON ", name(noWildcards(o.database)), ".* TO ", account)
		}
	}
	for _, host := range rootHosts(o) {
		account := "'root'@" + literal(host)
		say("CREATE USER IF NOT EXISTS ", account)
		say("ALTER USER ", account, " IDENTIFIED BY ", password)
		say("GRANT ALL ON *.* TO ", account, " WITH GRANT OPTION")
	}
	return b.String()
}

// rootHosts ends with localhost, whose password the session that says all this needs no more by then.
func rootHosts(o options) []string {
	if o.rootHost == "localhost" {
		return []string{"localhost"}
	}
	return []string{o.rootHost, "localhost"}
}

// literal is a string of SQL. Line breaks are escaped for the client, which reads line by line.
func literal(s string) string {
	return "'" + strings.NewReplacer(
		`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\x00", `\0`, "\x1a", `\Z`,
	).Replace(s) + "'"
}

func name(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// noWildcards of a database's name, which GRANT takes for a pattern.
func noWildcards(s string) string {
	return strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`).Replace(s)
}
