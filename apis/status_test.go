package apis_test

import (
	"slices"
	"strings"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// maxStatusFields is the maximum number of status fields for users. It includes the conditions, which Crossplane adds
// to the schema.
const maxStatusFields = 12

// TestStatusIsForPeople checks that a status has few fields for users. The state that only the function and the
// controller need is in status.internal.
func TestStatusIsForPeople(t *testing.T) {
	g := newGenerator(t)
	status := g.schema(t, "MySQLStatus")
	internal, ok := status.Properties[v1.StatusInternal]
	if !ok || !strings.Contains(internal.Description, "no part of the API") || len(internal.Properties) == 0 {
		t.Errorf("want status.%s described as no part of the API, got %q", v1.StatusInternal, internal.Description)
	}
	delete(status.Properties, v1.StatusInternal)
	if fields := len(status.Properties) + len([]string{"conditions"}); fields > maxStatusFields {
		t.Errorf("a status has %d fields for people, want %d at most", fields, maxStatusFields)
	}
	record, store := g.schema(t, "BackupRecordStatus"), g.schema(t, "BackupStoreStatus")
	for kind, s := range map[string]*extv1.JSONSchemaProps{v1.KindMySQL: &status, v1.KindBackupRecord: &record,
		v1.KindBackupStore: &store} {
		walk("status", s, func(path string, s *extv1.JSONSchemaProps) {
			checkReadable(t, kind+" "+path, s)
		})
	}
}

// notOurs returns the status fields that are exceptions from the naming rules. They keep their names from other
// objects.
func notOurs() []string {
	return []string{v1.KindBackupStore + " status.adoption.backups[].announcedAt",
		v1.KindMySQL + " status.restore.archive.dataBytes"}
}

// checkReadable checks that the name of a time ends with Time, that a size is a quantity, and that a list has a merge
// strategy.
func checkReadable(t *testing.T, path string, s *extv1.JSONSchemaProps) {
	t.Helper()
	if slices.Contains(notOurs(), path) {
		return
	}
	if s.Format == "date-time" && !strings.HasSuffix(path, "Time") {
		t.Errorf("%s: the name of a time ends with Time", path)
	}
	if s.Type == "integer" && strings.HasSuffix(path, "Bytes") {
		t.Errorf("%s: a size is a quantity", path)
	}
	if s.Type == typeArray && s.XListType == nil {
		t.Errorf("%s: a list has a listType", path)
	}
	if strings.Contains(s.Description, "PEM") {
		t.Errorf("%s: a certificate is in status.%s", path, v1.StatusInternal)
	}
}
