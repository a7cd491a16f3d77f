package readme

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommands(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"Block":     {"A comment is not typed.", "```shell\nmake demo   # see it\n```\n", []string{"make demo"}},
		"GoesOn":    {"A line that goes on is one command.", "```shell\ncrossplane render a.yaml \\\n  --xrd b.yaml\n```\n", []string{"crossplane render a.yaml --xrd b.yaml"}},
		"InComment": {"What a comment quotes is.", "```shell\nmake demo   # then `kubectl get mysql`\n```\n", []string{"kubectl get mysql", "make demo"}},
		"Inline":    {"A sentence may end its line in a command.", "Type `KUBECONFIG=a make\ndemo`, not `demo`.", []string{"KUBECONFIG=a make demo"}},
		"Prompt":    {"What a terminal showed was typed.", "```\n$ kubectl get msb\nNAME\n$ sql x\n```\n", []string{"kubectl get msb"}},
		"Other":     {"A file is not typed.", "```yaml\nmake: demo\n```\n", nil},
		"Once":      {"Whoever types it types it once.", "`make demo`\n```shell\nmake demo\n```\n`make demo`", []string{"make demo"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Commands(tc.text)); diff != "" {
				t.Errorf("\n%s\nCommands(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
