package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// TestKstatus checks the status that kstatus computes for each state. docs/how-to/flux.md lists the states for which
// users would expect a different status. TestKstatusIsDocumented checks that list.
func TestKstatus(t *testing.T) {
	for _, s := range states() {
		for _, a := range v1.APIs() {
			t.Run(a.InstanceKind()+"/"+s.name, func(t *testing.T) {
				result, err := status.Compute(&unstructured.Unstructured{Object: s.object(t, a)})
				if err != nil {
					t.Fatal(err)
				}
				if want := s.kstatus(a); result.Status != want {
					t.Errorf("want %s, got %s: %s", want, result.Status, result.Message)
				}
			})
		}
	}
}

// object returns an instance of the API in the state that the test case describes.
func (s state) object(t *testing.T, a v1.API) object {
	t.Helper()
	o := instance(t, a, s.example)
	if s.change != nil {
		s.change(o)
		setProgress(o)
	}
	return o
}

// setProgress computes the conditions Stalled and Reconciling from the other conditions, with the code of the
// function.
func setProgress(o object) {
	conditions, _, _ := unstructured.NestedSlice(o, "status", "conditions")
	var others []compose.Condition
	for i := range conditions {
		if c, _ := conditions[i].(object); c["type"] != v1.ConditionStalled && c["type"] != v1.ConditionReconciling {
			others = append(others, compose.Condition{Type: fmt.Sprint(c["type"]), True: c["status"] == "True",
				Unknown: c["status"] == "Unknown", Reason: fmt.Sprint(c["reason"]), Message: fmt.Sprint(c["message"])})
		}
	}
	if len(others) == 0 { // The function was not called yet.
		return
	}
	for _, c := range compose.ProgressConditions(others, false) {
		value := "False"
		if c.True {
			value = "True"
		}
		setCondition(o, c.Type, value, c.Reason, c.Message)
	}
}

func (s state) kstatus(a v1.API) status.Status {
	if a.HasClaims() {
		return s.claim
	}
	return s.namespaced
}

// TestKstatusIsDocumented checks that the page lists exactly the states for which kstatus computes a different status
// than users expect.
func TestKstatusIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "docs", "how-to", "flux.md"))
	if err != nil {
		t.Fatal(err)
	}
	const head = "| state | claim | `MySQL` without a claim | expected |\n|---|---|---|---|\n"
	_, after, found := strings.Cut(string(page), head)
	if !found {
		t.Fatalf("the page has no table\n%s", head)
	}
	got, _, _ := strings.Cut(after, "\n\n")
	var want []string
	for _, s := range states() {
		if s.users != "" && (s.claim != s.users || s.namespaced != s.users) {
			want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", s.name, s.claim, s.namespaced, s.users))
		}
	}
	if diff := cmp.Diff(want, strings.Split(got, "\n")); diff != "" {
		t.Errorf("docs/how-to/flux.md (-want, +got):\n%s", diff)
	}
}
