package main

import "strings"

// firstSQL returns the statements that create root's accounts, the database and its user.
//
// MySQL's official image inserts every value without escaping it (docker_setup_db in docker-library/mysql). A quote
// in a password therefore causes a syntax error. After that, the directory of the system tables exists, but the
// accounts do not. MariaDB's image escapes values. Code that depends on escaping must fail with the tests' image,
// too.
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

// rootHosts returns the hosts of root's accounts. The first one, localhost, already exists.
func rootHosts(o options) []string {
	if o.rootHost == localhost {
		return []string{localhost}
	}
	return []string{localhost, o.rootHost}
}

// plain returns a function that puts a value between quotes without escaping it.
func plain(quote string) func(string) string {
	return func(s string) string { return quote + s + quote }
}

// literal returns a value as an SQL string. It escapes newlines, because the client reads one line at a time.
func literal(s string) string {
	return "'" + strings.NewReplacer(
		`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\x00", `\0`, "\x1a", `\Z`,
	).Replace(s) + "'"
}

func name(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
