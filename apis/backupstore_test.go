package apis_test

import (
	"maps"
	"strings"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestBackupStoreSchema checks which combinations of credentials in a BackupStore's spec the API server accepts.
func TestBackupStoreSchema(t *testing.T) {
	type m = map[string]any
	crd := &extv1.CustomResourceDefinition{}
	read(t, "crd-backupstores.yaml", crd)
	v := newCRDValidator(t, crd)
	secret := m{"name": "offsite-credentials"}
	for name, c := range map[string]struct {
		spec m
		want string
	}{
		"Secret":   {m{"credentialsSecretRef": secret}, ""},
		"Identity": {m{"workloadIdentity": m{}}, ""},
		"Role": {m{"workloadIdentity": m{"roleARN": "arn:aws-us-gov:iam::123456789012:role/team/backups",
			"stsEndpoint": "https://sts.us-gov-west-1.amazonaws.com"}}, ""},
		"Both":    {m{"credentialsSecretRef": secret, "workloadIdentity": m{}}, "exactly one of credentialsSecretRef and"},
		"Neither": {m{}, "exactly one of credentialsSecretRef and"},
		"NoRole":  {m{"workloadIdentity": m{"roleARN": "backups"}}, "roleARN"},
		"User":    {m{"workloadIdentity": m{"roleARN": "arn:aws:iam::123456789012:user/backups"}}, "roleARN"},
		"HTTP":    {m{"workloadIdentity": m{"stsEndpoint": "http://sts.test"}}, "stsEndpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := m{"endpoint": "https://s3.test", "bucket": "backups", "keySecretRef": m{"name": "offsite"}}
			maps.Copy(spec, c.spec)
			got := v.validate(m{"apiVersion": v1.GroupVersion.String(), "kind": v1.KindBackupStore,
				"metadata": m{"name": "offsite"}, "spec": spec}, nil)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}
