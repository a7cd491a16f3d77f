package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestOthersRecord checks that a BackupRecord is not restored if its spec names another instance, even if its label
// and the XR's status name this instance.
func TestOthersRecord(t *testing.T) {
	c := load(t, "restore-before")
	c.cluster = append(c.cluster, strangers()...)
	c.xr = setIn(c.xr, "theirs-with-our-label", "status", "internal", "previousBackup")
	_, rsp := c.run(t)
	if _, ok := rsp.GetDesired().GetResources()[v1.ResourceRestore]; ok || replicas(rsp) != 0 {
		t.Errorf("another namespace's backup is restored, or the server starts without any:\n%s", yamlOf(t, rsp))
	}
}

// TestNamesStayApart checks claims of both kinds whose names and namespaces could result in equal object names. Their
// objects must all have different names, except for the Deployment and the Service of a MySQL and a Database with the
// same name. They must not use volumes and Secrets that other users create for their instances.
func TestNamesStayApart(t *testing.T) {
	long := strings.Repeat("a", 52)
	names := []string{
		"a", "a-pvc", "a-root", "a-config", "a-connection", "a-connection-pending", "a-job", "restore-a", "restore-a-job",
		"wipe-a", "prune-a-job", "mysql-a", "database-a", "a-b", "b-a",
		"backup-a", "a.database", "x.database", "a.database-pvc", long + "-a", long + "-b", strings.Repeat("a", 63),
		strings.Repeat("a", 252) + "b", strings.Repeat("a", 253), strings.Repeat("a", 300), "a/b", "..", "A", "-a", "a-",
	}
	owner, accepted := map[string]string{}, map[string]bool{}
	for _, namespace := range []string{"team", "team-a", "a", "team-backup"} {
		for _, name := range names {
			for kind, example := range map[string]string{v1.KindMySQL: "fresh-instance", v1.KindDatabase: "database-storage"} {
				c := load(t, example)
				onHostPath(c)
				c.xr = setIn(c.xr, map[string]any{"kind": kind, "namespace": namespace, "name": name}, "spec", "claimRef")
				claim := kind + " " + namespace + "/" + name
				c.xr = setIn(c.xr, claim, "metadata", "uid")
				_, rsp := c.run(t)
				_, second := c.run(t)
				if yamlOf(t, rsp) != yamlOf(t, second) {
					t.Errorf("%s is not composed twice in the same way", claim)
				}
				if fatal(rsp) != "" {
					continue
				}
				accepted[name] = true
				for _, o := range objectsOf(t, c, kind, namespace, name) {
					shared := strings.HasPrefix(o, "Deployment") || strings.HasPrefix(o, "Service")
					if previous, taken := owner[o]; taken && previous != claim && (!shared || strings.HasPrefix(previous, kind+" ")) {
						t.Errorf("%s is of both %s and %s", o, previous, claim)
					}
					owner[o] = claim
				}
			}
		}
	}
	for name, want := range map[string]bool{"a": true, "restore-a-job": true, strings.Repeat("a", 253): true,
		"backup-a": false, "x.database": false, "a/b": false, "..": false} {
		if accepted[name] != want {
			t.Errorf("%.70q is accepted: %t", name, accepted[name])
		}
	}
}

// objectsOf returns the objects that the function and the controller create for a claim.
func objectsOf(t *testing.T, c *caller, kind, namespace, name string) []string {
	t.Helper()
	i := v1.Instance{Kind: kind, Namespace: namespace, Name: name, XR: "uid"}
	_, rsp := c.run(t)
	out := append(make([]string, 0, 10+len(rsp.GetDesired().GetResources())),
		"PersistentVolumeClaim "+namespace+"/"+i.BackupPVCName(), "PersistentVolume /"+i.BackupPVName("uid"),
		"BackupRecord /"+i.RecordName(),
		"Secret "+namespace+"/"+i.ConnectionSecretName(), "Secret "+namespace+"/"+i.PendingSecretName(),
		"Job "+namespace+"/"+i.Jobs().Backup(), "Job "+namespace+"/"+i.Jobs().Wipe(), "Job "+namespace+"/"+i.Jobs().Prune(),
		"Job "+namespace+"/"+i.Jobs().Restore(),
		"Key /"+i.Key(),
	)
	for _, r := range rsp.GetDesired().GetResources() {
		o := r.GetResource().AsMap()
		namespace, _ := at(o, "metadata", "namespace").(string)
		name, _ := o["metadata"].(map[string]any)["name"].(string)
		if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > v1.MaxNameLength {
			t.Errorf("%s %q cannot be a name", kindOf(o), name)
		}
		out = append(out, kindOf(o)+" "+namespace+"/"+name)
	}
	return out
}
