package process

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	cases := map[string]struct {
		pieces     []string
		want, line string
	}{
		"Nothing": {want: "it printed nothing to standard output or standard error"},
		"Errors": {
			pieces: []string{"t 0 [Note] a\nt 0 [Warn",
				"ing] b\nt 1 [ERROR] [MY-1] [InnoDB] bad\nt 0 [ERROR] [MY-2] [Server] worse\nt 0 [ERROR] [MY-010119] [Server] " +
					"Aborting\nlast\n"},
			want: "[MY-1] [InnoDB] bad; [MY-2] [Server] worse",
			line: "server: t 0 [Warning] b\nserver: t 1 [ERROR] [MY-1] [InnoDB] bad\nserver: t 0 [ERROR] [MY-2] " +
				"[Server] worse\n",
		},
		"Signal": {pieces: []string{
			"t 0 [Note] a\n2026-01-01T00:00:00Z UTC - mysqld got signal 11 ;\nThis could be because you hit a bug.\nstack\n"},
			want: "mysqld got signal 11 ;",
			line: "server: 2026-01-01T00:00:00Z UTC - mysqld got signal 11 ;\n"},
		"Secrets": {pieces: []string{
			"[Entrypoint]: GENERATED ROOT PASSWORD: s3cr3t\nERROR 1064 at line 2: syntax to use near 'IDENTIFIED " +
				"BY\n's3cr3t'' at line 2\n"}, want: "[Entrypoint]: GENERATED ROOT PASSWORD: …; ERROR 1064 at line 2: syntax to " +
			"use near … at line 2"},
		"LastWords": {pieces: []string{"one\n", "\n", "two\nhalf"}, want: "one; two; half"},
		"WarningOnly": { // The log of MariaDB 10.11 with --secure-file-priv=NULL.
			pieces: []string{"t 0 [Warning] Failed to normalize the argument for --secure-file-priv.\n"},
			want:   "t 0 [Warning] Failed to normalize the argument for --secure-file-priv.",
			line:   "server: t 0 [Warning] Failed to normalize the argument for --secure-file-priv.\n",
		},
		"Loose": {pieces: []string{"t 0 [Warning] mariadbd: unknown option '--loose-skip-replica-start'\nlast\n"},
			want: "last"},
		"AbortingOnly": {pieces: []string{"t 0 [ERROR] Aborting\n"}, want: "t 0 [ERROR] Aborting"},
		"Terminal": {
			pieces: []string{"t 0 [ERROR] \x1b[2Jbad\xff\u202eworse\n"},
			want:   " [2Jbad worse",
			line:   "server: t 0 [ERROR]  [2Jbad worse\n",
		},
		"Cause": {
			pieces: []string{"[ERROR] cause\n[ERROR] b\n[ERROR] c\n[ERROR] d\n[ERROR] e\n[ERROR] f\n[ERROR] g\n"},
			want:   "cause; b; c; f; g",
			line: "server: [ERROR] cause\nserver: [ERROR] b\nserver: [ERROR] c\nserver: [ERROR] d\nserver: [ERROR] " +
				"e\nserver: [ERROR] f\nserver: [ERROR] g\n",
		},
		"Many": {pieces: []string{"a\nb\nc\nd\ne\nf\ng\n"}, want: "c; d; e; f; g"},
		"Long": {pieces: slices.Repeat([]string{strings.Repeat("y", 10_000), "\n"}, 10),
			want: strings.Repeat("y", 300) + "; " + strings.Repeat("y", 295) + "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := &Log{Out: &out}
			for _, p := range tc.pieces {
				n, err := l.Write([]byte(p))
				if n != len(p) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
			}
			if got := l.Complaints(); got != tc.want || out.String() != tc.line {
				t.Errorf("complaints: %q\nwant: %q\nsaid: %q\nwant: %q", got, tc.want, out.String(), tc.line)
			}
		})
	}
}
