package v1

import (
	"strings"
	"testing"
)

// TestWithoutSecrets checks that WithoutSecrets removes passwords and table rows from a message, but keeps the cause
// of the error.
func TestWithoutSecrets(t *testing.T) {
	const secret = "s3cr3t"
	cases := map[string]struct{ text, want string }{
		"Command": {text: `ERROR at line 1: Unknown command '\-'.`, want: `ERROR at line 1: Unknown command '\-'.`},
		"Packet": {text: `ERROR 1153 (08S01) at line 7: Got a packet bigger than 'max_allowed_packet' bytes`,
			want: `ERROR 1153 (08S01) at line 7: Got a packet bigger than 'max_allowed_packet' bytes`},
		"Collation": {text: `Unknown collation: 'utf8mb4_uca1400_ai_ci'`,
			want: `Unknown collation: 'utf8mb4_uca1400_ai_ci'`},
		"Variable": {text: `Variable 'sql_mode' can't be set to the value of 'NO_AUTO_CREATE_USER'`,
			want: `Variable 'sql_mode' can't be set to the value of 'NO_AUTO_CREATE_USER'`},
		"Option": {text: `[MY-000067] [Server] unknown variable 'innodb_foo=1'.`,
			want: `[MY-000067] [Server] unknown variable 'innodb_foo=1'.`},
		"Default": {text: `Invalid default value for 'created'`, want: `Invalid default value for 'created'`},
		"Policy": {text: `Your password does not satisfy the current policy requirements`,
			want: `Your password does not satisfy the current policy requirements`},
		"Login": {text: `Access denied for user 'root'@'10.0.0.1' (using password: YES)`,
			want: `Access denied for user 'root'@'10.0.0.1' (using password: YES)`},
		"Syntax": {
			text: `check the manual for the right syntax to use near 'IDENTIFIED BY 's3cr3t' REQUIRE X' at line 1`,
			want: `check the manual for the right syntax to use near … at line 1`},
		"Unclosed":  {text: `syntax to use near ''s3cr3t`, want: `syntax to use near …`},
		"Lines":     {text: "syntax to use near 's3cr3t\nmore' at line 12", want: "syntax to use near … at line 12"},
		"Duplicate": {text: `Duplicate entry 's3cr3t' for key 't.PRIMARY'`, want: `Duplicate entry … for key 't.PRIMARY'`},
		"Quotes": {text: `Duplicate entry 'it's s3cr3t' for key 't.PRIMARY'`,
			want: `Duplicate entry … for key 't.PRIMARY'`},
		"Incorrect": {text: `Incorrect datetime value: 's3cr3t' for column 'created' at row 1`,
			want: `Incorrect datetime value: … for column 'created' at row 1`},
		"String": {text: `Incorrect string value: '\xF0s3cr3t' for column 'c' at row 3`,
			want: `Incorrect string value: … for column 'c' at row 3`},
		"Identified": {text: `failed: CREATE USER 'a'@'%' IDENTIFIED WITH caching_sha2_password BY 's3cr3t'`,
			want: `failed: CREATE USER 'a'@'%' IDENTIFIED WITH caching_sha2_password BY …`},
		"Generated": {text: `[Entrypoint]: GENERATED ROOT PASSWORD: s3cr3t and more`,
			want: `[Entrypoint]: GENERATED ROOT PASSWORD: …`},
		"Temporary": {text: `A temporary password is generated for root@localhost: s3cr3t`,
			want: `A temporary password is generated for root@localhost: …`},
		"Flag":        {text: `command was: mysqld --password=s3cr3t`, want: `command was: mysqld --password=…`},
		"Environment": {text: `MYSQL_ROOT_PASSWORD=s3cr3t: not found`, want: `MYSQL_ROOT_PASSWORD=…`},
		"Call":        {text: `SET PASSWORD = PASSWORD('s3cr3t')`, want: `SET PASSWORD = …`},
		"URL": {text: `cannot reach mysql://root:s3cr3t@db:3306/shop`,
			want: `cannot reach mysql://root:…@db:3306/shop`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := WithoutSecrets(tc.text); got != tc.want || strings.Contains(got, secret) {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}
