package gitops

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An object is an object of the API as a GitOps tool reads it.
type object = map[string]any

// repository is the path of the repository's root.
const repository = "../.."

// A response contains the fields of the function's response that affect the status.
type response struct {
	Conditions []struct{ Type, Status, Reason, Message string } `json:"conditions"`
	Desired    struct {
		Composite struct {
			Ready    string `json:"ready"`
			Resource object `json:"resource"`
		} `json:"composite"`
	} `json:"desired"`
	Results []struct{ Severity, Message string } `json:"results"`
}

// isFatal reports whether the function has refused the spec with a fatal result. From a response with a fatal result,
// Crossplane uses only the conditions.
func (r *response) isFatal() bool {
	for _, result := range r.Results {
		if result.Severity == "SEVERITY_FATAL" {
			return true
		}
	}
	return false
}

func read(t *testing.T, into any, path ...string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{repository}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// instance returns an instance of an API, as it is after Crossplane has called the function once with the composite
// resource of an example. If the function has refused it, the controller has reported that. The conditions are the
// same as in Crossplane v2.4.0 (internal/controller/apiextensions/{composite,claim}/reconciler.go).
func instance(t *testing.T, a v1.API, example string) object {
	t.Helper()
	var xr object
	var rsp response
	read(t, &xr, "examples", example, "xr.yaml")
	read(t, &rsp, "examples", example, "expected.yaml")
	status, _ := xr["status"].(object)
	if status == nil {
		status = object{}
	}
	fatal := rsp.isFatal()
	if !fatal {
		desired, _ := rsp.Desired.Composite.Resource["status"].(object)
		maps.Copy(status, desired)
	}
	// The conditions in an example are from the previous call of the function.
	delete(status, "conditions")
	o := object{
		"apiVersion": a.Object.GroupVersion().String(), "kind": a.Object.Kind, "spec": xr["spec"], "status": status,
		"metadata": object{"namespace": "default", "name": "shop", "generation": int64(1)},
	}
	switch {
	case fatal:
		status["reason"] = rsp.Conditions[0].Reason
		status["message"] = "Crossplane cannot create the objects of this instance: " + rsp.Conditions[0].Message
	case !a.HasClaims():
		status["observedGeneration"] = int64(1)
	}
	if a.HasClaims() || !fatal {
		setCondition(o, "Synced", "True", "ReconcileSuccess", "")
	} else {
		setCondition(o, "Synced", "False", "ReconcileError", "cannot compose resources: "+rsp.Conditions[0].Message)
	}
	switch {
	case rsp.Desired.Composite.Ready == "READY_TRUE":
		setCondition(o, "Ready", "True", "Available", "")
	case a.HasClaims():
		setCondition(o, "Ready", "False", "Waiting", "Claim is waiting for composite resource to become Ready")
	case !fatal: // A composite resource that was always refused has no condition Ready.
		setCondition(o, "Ready", "False", "Creating", "")
	}
	for _, c := range rsp.Conditions {
		value := map[string]string{"TRUE": "True", "FALSE": "False", "UNKNOWN": "Unknown"}[strings.TrimPrefix(c.Status,
			"STATUS_CONDITION_")]
		setCondition(o, c.Type, value, c.Reason, c.Message)
	}
	return o
}

// setCondition sets a condition of an object. System conditions also contain the generation that Crossplane has
// observed.
func setCondition(o object, kind, value, reason, message string) {
	status, _ := o["status"].(object)
	conditions, _ := status["conditions"].([]any)
	c := object{"type": kind, "status": value, "reason": reason, "message": message}
	if kind == "Synced" || kind == "Ready" {
		c["observedGeneration"] = metadata(o)["generation"]
	}
	for i := range conditions {
		if known, _ := conditions[i].(object); known["type"] == kind {
			conditions[i] = c
			return
		}
	}
	status["conditions"] = append(conditions, c)
}

// condition returns the message of an object's condition, or "".
func condition(o object, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o, "status", "conditions")
	for i := range conditions {
		if c, _ := conditions[i].(object); c["type"] == kind {
			message, _ := c["message"].(string)
			return message
		}
	}
	return ""
}

func metadata(o object) object {
	m, _ := o["metadata"].(object)
	return m
}

func set(o object, field string, value any) {
	status, _ := o["status"].(object)
	status[field] = value
}
