package lifecycle

import (
	"os"
	"runtime/debug"
	"testing"
)

// long contains the tests that use a CPU core for half a minute or more, so that only `make test-all` runs them. The
// value is the reason why `make test` can skip the test. It is empty for a test in which the model must find an
// error of the code, because `make test` runs shorter tests of this kind.
var long = map[string]string{
	"TestModelStore/store_down,_record_deleted": "TestModelStore/store,_record_deleted has the same records and " +
		"no outage",
	"TestModelStoreFindsBugs/silence_is_consent":      "",
	"TestModelStoreFindsBugs/published_unwritten":     "",
	"TestModelStoreFindsBugs/only_the_PVC_knows":      "",
	"TestModelStoreFindsBugs/stores_are_not_asked":    "",
	"TestModelStoreFindsBugs/record_first":            "",
	"TestModelRecordsFindsBugs/proven_before_noted":   "",
	"TestModelRecordsFindsBugs/records_are_the_truth": "",
	"TestModelRecordsFindsBugs/announced_again":       "",
	"TestModelFindsBugs/held_by_a_restore":            "",
	"TestModelFindsBugs/restore_test_first":           "",
	"TestModelFindsBugs/image_overtaken":              "",
	"TestModelFindsBugs/Job_left":                     "",
	"TestModelFindsBugs/no_other_try":                 "",
	"TestModelFindsBugs/in_the_way":                   "",
	"TestModelFindsBugs/no_word":                      "",
	"TestModelStoreFindsBugs/removed_unasked":         "",
	"TestModelStoreFindsBugs/proven_before_published": "",
}

// leavesToAll skips a long test unless `make test-all` runs it.
func leavesToAll(t *testing.T) {
	t.Helper()
	if reason, ok := long[t.Name()]; ok && os.Getenv("ALL") == "" {
		t.Skip("It takes long, and make test-all runs it. " + reason)
	}
}

// TestMain lets the heap grow more between two garbage collections, because the model creates many small objects.
// With the default, a third of the time was spent on garbage collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
