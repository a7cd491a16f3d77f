package main

import "strings"

// firstSQL is what makes root's accounts, the database and its user. MySQL's own image puts every value into it as it
// is (docker_setup_db in docker-library/mysql), so that a password with a quote is a syntax error after which the
// folder of the system tables is there and the accounts are not; MariaDB's escapes them. Whoever relies on better must
// see it fail here.
func firstSQL(f flavor, o options) []string {
	literal, name := f.literal, f.name
	accounts := []string{"SET autocommit = 1", "SET SESSION sql_log_bin = 0"}
	if f.cleanUp != "" {
		accounts = append(accounts, f.cleanUp)
	}
	for _, host := range rootHosts(o) {
		account := "'root'@" + literal(host)
		if host != localhost || f.cleanUp != "" {
			accounts = append(accounts, "CREATE USER IF NOT EXISTS "+account)
		}
		accounts = append(accounts, "ALTER USER "+account+" IDENTIFIED BY "+literal(o.rootPassword),
			"GRANT ALL ON *.* TO "+account+" WITH GRANT OPTION")
	}
	out := []string{strings.Join(append(accounts, "DROP DATABASE IF EXISTS test"), ";\n") + ";\n"}
	if o.database != "" {
		out = append(out, "CREATE DATABASE IF NOT EXISTS "+name(o.database)+";\n")
	}
	if o.user != "" && o.password != "" {
		account := literal(o.user) + "@'%'"
		out = append(out, "CREATE USER "+account+" IDENTIFIED BY "+literal(o.password)+";\n")
		if o.database != "" {
			out = append(out, "GRANT ALL ON "+name(strings.ReplaceAll(o.database, "_", `\_`))+".* TO "+account+";\n")
		}
	}
	return out
}

const localhost = "localhost"

// rootHosts begins with localhost, which is there already.
func rootHosts(o options) []string {
	if o.rootHost == localhost {
		return []string{localhost}
	}
	return []string{localhost, o.rootHost}
}

// plain is a value between quotes, whatever is in it.
func plain(quote string) func(string) string {
	return func(s string) string { return quote + s + quote }
}

// literal is a string of SQL. Line breaks are escaped for the client, which reads line by line.
func literal(s string) string {
	return "'" + strings.NewReplacer(
		`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\x00", `\0`, "\x1a", `\Z`,
	).Replace(s) + "'"
}

func name(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
