package main

import (
	"fmt"
	"strings"
)

// mysql is the name of the server's container, and of the client in it.
const mysql = "mysql"

// login of root, as mysql reads it from a file. No password is on a command line.
const login = "[client]\nuser=root\npassword=\"%s\"\nhost=127.0.0.1\n"

func (d *demo) deployment() string { return "deployment/" + d.name }

// client is mysql in the server's own pod.
func (d *demo) client(statement string) command {
	return command{args: []string{
		"exec", "-i", d.deployment(), "-c", mysql, "--",
		mysql, "--defaults-extra-file=/dev/stdin", "--table", d.database, "-e", statement,
	}}
}

// sql is what the shell function does.
func (d *demo) sql(password, statement string) command {
	c := d.client(statement)
	c.stdin = fmt.Sprintf(login, password)
	c.text = "sql " + d.shownPassword(password) + " " + quote(statement)
	return c
}

// sqlFunction for a shell.
func (d *demo) sqlFunction() string {
	return fmt.Sprintf("$ sql() {\n    printf '[client]\\nuser=root\\npassword=\"%%s\"\\nhost=127.0.0.1\\n' \"$1\" |\n "+
		"   %s \"$2\"\n  }\n",
		d.kube.shell(command{args: d.client("").args[:len(d.client("").args)-1]}))
}

// tableOf what was printed and complained about: kubectl has its own words about a connection beside it.
func tableOf(printed string) string {
	var out strings.Builder
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "+") {
			out.WriteString(line)
		}
	}
	return out.String()
}
