package main

import (
	"fmt"
	"strings"
)

// mysql is the name of the server's container, and the name of the client program in it.
const mysql = "mysql"

// login is an option file for the mysql client with root's login, so that no password is on a command line.
const login = "[client]\nuser=root\npassword=\"%s\"\nhost=127.0.0.1\n"

func (d *demo) deployment() string { return "deployment/" + d.name }

// client returns a command that runs an SQL statement with the mysql client in the server's pod.
func (d *demo) client(statement string) command {
	return command{args: []string{
		"exec", "-i", d.deployment(), "-c", mysql, "--",
		mysql, "--defaults-extra-file=/dev/stdin", "--table", d.database, "-e", statement,
	}}
}

// sql returns a command that runs an SQL statement with the given password. The demo shows it as a call of the shell
// function sql.
func (d *demo) sql(password, statement string) command {
	c := d.client(statement)
	c.stdin = fmt.Sprintf(login, password)
	c.text = "sql " + d.shownPassword(password) + " " + quote(statement)
	return c
}

// sqlFunction returns the definition of the shell function sql, which the demo shows before it uses the function in its
// commands.
func (d *demo) sqlFunction() string {
	return fmt.Sprintf("$ sql() {\n    printf '[client]\\nuser=root\\npassword=\"%%s\"\\nhost=127.0.0.1\\n' \"$1\" |\n "+
		"   %s \"$2\"\n  }\n",
		d.kube.shell(command{args: d.client("").args[:len(d.client("").args)-1]}))
}

// tableOf returns the lines of a table that the mysql client has printed. It removes kubectl's own messages.
func tableOf(printed string) string {
	var out strings.Builder
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "+") {
			out.WriteString(line)
		}
	}
	return out.String()
}
