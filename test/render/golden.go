package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	apiextensionsv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// compare compares the output of a CLI with the example's golden file, which contains the function's complete
// response. A CLI prints only a part of it.
func (g generation) compare(example string, cmd *exec.Cmd) error {
	output, err := printed(cmd)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join("examples", example, "expected.yaml"))
	if err != nil {
		return errors.Wrap(err, "no golden file; `make render-update` writes it")
	}
	golden := &fnv1.RunFunctionResponse{}
	if b, err = yaml.YAMLToJSON(b); err == nil {
		err = protojson.Unmarshal(b, golden)
	}
	if !g.v2 {
		golden.Conditions = nil
	}
	got, unreadable := parse(output)
	if err := errors.Join(err, unreadable); err != nil {
		return errors.Wrapf(err, "cannot compare this output with the golden file:\n%s", output)
	}
	if diff := cmp.Diff(lines(returned(golden)), lines(got)); diff != "" {
		return errors.Errorf("the output differs from the golden file: -want, +got:\n%s", diff)
	}
	return nil
}

// returned converts the part of a response that a CLI prints: the XR, its conditions by type, and the composed
// resources by name. For a fatal result, it returns only the message.
func returned(golden *fnv1.RunFunctionResponse) map[string]any {
	for _, r := range golden.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			return map[string]any{"refusal": r.GetMessage() + "\n"}
		}
	}
	all := map[string]any{"XR": golden.GetDesired().GetComposite().GetResource().AsMap()}
	for name, r := range golden.GetDesired().GetResources() {
		all[name] = r.GetResource().AsMap()
	}
	for _, c := range golden.GetConditions() {
		all[c.GetType()] = []string{strings.TrimPrefix(c.GetStatus().String(), "STATUS_CONDITION_"), c.GetReason(),
			c.GetMessage()}
	}
	return all
}

// parse reads the XR, its conditions and the composed resources, or the message of a fatal result, from the output of
// a CLI. The result can be compared with the result of the function returned.
func parse(output string) (map[string]any, error) {
	if text, ok := strings.CutPrefix(output, "exit code 1\n"); ok {
		parts := strings.SplitAfterN(text, " returned a fatal result: ", 2)
		return map[string]any{"refusal": parts[len(parts)-1]}, nil
	}
	all := map[string]any{}
	for d := documents.NewYAMLOrJSONDecoder(strings.NewReader(output), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		name := o.GetAnnotations()["crossplane.io/composition-resource-name"]
		if name == "" {
			name = "XR"
			xr := &struct {
				Status xpv2.ConditionedStatus `json:"status"`
			}{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, xr); err != nil {
				return nil, err
			}
			for _, c := range xr.Status.Conditions {
				if !apiextensionsv1.IsSystemConditionType(c.Type) {
					all[string(c.Type)] = []string{strings.ToUpper(string(c.Status)), string(c.Reason), c.Message}
				}
			}
			delete(o.Object, "metadata")
			delete(o.Object, "spec")
		}
		all[name] = strip(o.Object)
	}
}

// lines returns the values as lines of YAML, so that differences are shown line by line.
func lines(all map[string]any) []string {
	b, _ := yaml.Marshal(all) // It was read from YAML.
	return strings.Split(string(b), "\n")
}

// strip removes the fields that Crossplane adds to an object that the function has returned.
func strip(o map[string]any) map[string]any {
	maps.DeleteFunc(o, func(key string, value any) bool {
		if m, ok := value.(map[string]any); ok && len(m) > 0 {
			return len(strip(m)) == 0
		}
		return strings.HasPrefix(key, "crossplane.io/") ||
			slices.Contains([]string{"generateName", "ownerReferences", "conditions", "claimConditionTypes"}, key)
	})
	return o
}
