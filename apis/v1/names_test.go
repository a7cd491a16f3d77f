package v1

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

// kindNamespaced is the kind of an instance without a claim.
const kindNamespaced = "MySQL.crossplane-mysql.io"

// names returns the names that are derived from the name of an instance.
func names(i Instance) map[string]string {
	return map[string]string{
		"Deployment": i.DeploymentName(), "Service": i.ServiceName(), "DataPVC": i.DataPVCName(),
		"BackupPVC":  i.BackupPVCName(),
		"RootSecret": i.RootSecretName(), "ConfigMap": i.ConfigMapName(), "ConnectionSecret": i.ConnectionSecretName(),
		"RestoreJob": i.Jobs().Restore(), "BackupJob": i.Jobs().Backup(), "DataPV": i.DataPVName(), "App": i.AppLabel(),
		"Key":     i.Key(),
		"WipeJob": i.Jobs().Wipe(), "PruneJob": i.Jobs().Prune(), "RestoreTestJob": i.Jobs().RestoreTest(),
		"Record": i.RecordName(), "BackupPV": i.BackupPVName("0b7a1d6e"),
		"PendingSecret": i.PendingSecretName(), "Rescue": i.RecoveryName("data"), "EraseJob": RemovalJobName(i.RecordName()),
		"RecordInLife": i.NumberedRecordName(2), "ImageChangeJob": i.Jobs().ImageChange(),
		"SettingsJob": i.Jobs().SettingsCheck(),
		"TLSSecret":   i.TLSSecretName(), "Authority": i.AuthorityName(1), "SecondAuthority": i.AuthorityName(2),
		"CertificateRequest": i.CertificateRequestName(), "MetricsSecret": i.MetricsSecretName(),
	}
}

// TestNames freezes every name, label, annotation and condition, because databases outlive releases. A change would
// orphan the data of every instance.
func TestNames(t *testing.T) {
	short := Instance{Kind: KindMySQL, Namespace: "default", Name: "mysql-instance",
		XR: "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11"}
	long := Instance{Kind: KindMySQL, Namespace: strings.Repeat("n", 63), Name: strings.Repeat("very-", 30) + "long",
		XR: short.XR}
	database := Instance{Kind: KindDatabase, Namespace: short.Namespace, Name: short.Name, XR: short.XR}
	namespaced := Instance{Kind: kindNamespaced, Namespace: short.Namespace, Name: short.Name, XR: short.XR}
	cases := map[string]struct {
		reason string
		got    any
		want   any
	}{
		"Short": {reason: "The names that users of the original operators know must stay the same (row 8).",
			got: names(short),
			want: map[string]string{
				"Deployment": "mysql-instance", "Service": "mysql-instance", "DataPVC": "mysql-instance-pvc",
				"BackupPVC":  "backup-mysql-instance-pvc",
				"RootSecret": "mysql-instance-root", "ConfigMap": "mysql-instance-config",
				"ConnectionSecret": "mysql-instance-connection",
				"RestoreJob":       "restore-mysql-instance-job", "BackupJob": "backup-mysql-instance-job",
				"DataPV": "mysql-default-mysql-instance-507663682d",
				"App":    "mysql-instance", "Key": "a68227f0ee", "RestoreTestJob": "restoretest-mysql-instance-job",
				"WipeJob": "wipe-mysql-instance-job", "PruneJob": "prune-mysql-instance-job",
				"Record": "default-mysql-instance-507663682d", "BackupPV": "backup-default-mysql-instance-7ea0a0cb4b",
				"PendingSecret": "mysql-instance-connection-pending", "Rescue": "data-default-mysql-instance-507663682d",
				"MetricsSecret": "mysql-instance-metrics",
				"EraseJob":      "erase-default-mysql-instance-507663682d",
				"RecordInLife":  "default-mysql-instance-ec5ddec20d", "ImageChangeJob": "imagechange-mysql-instance-job",
				"SettingsJob": "settings-mysql-instance-job",
				"TLSSecret":   "mysql-instance-tls", "Authority": "authority-default-mysql-instance-0b4c3a0e5c",
				"SecondAuthority":    "authority-default-mysql-instance-ec5ddec20d",
				"CertificateRequest": "server-default-mysql-instance-507663682d",
			}},
		"Long": {reason: "Names that are too long must be cut, with a hash.", got: names(long), want: map[string]string{
			"Deployment":       "very-very-very-very-very-very-very-very-very-very-ve-817db935f5",
			"Service":          "very-very-very-very-very-very-very-very-very-very-ve-817db935f5",
			"DataPVC":          "very-very-very-very-very-very-very-very-very-ver-817db935f5-pvc",
			"BackupPVC":        "backup-very-very-very-very-very-very-very-very-v-817db935f5-pvc",
			"RootSecret":       "very-very-very-very-very-very-very-very-very-ve-817db935f5-root",
			"ConfigMap":        "very-very-very-very-very-very-very-very-very-817db935f5-config",
			"ConnectionSecret": "very-very-very-very-very-very-very-very-v-817db935f5-connection",
			"RestoreJob":       "restore-very-very-very-very-very-very-very-very-817db935f5-job",
			"BackupJob":        "backup-very-very-very-very-very-very-very-very-v-817db935f5-job",
			"DataPV":           "mysql-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
			"App":              "very-very-very-very-very-very-very-very-very-very-ve-817db935f5", "Key": "e50da83026",
			"RestoreTestJob":     "restoretest-very-very-very-very-very-very-very-v-817db935f5-job",
			"WipeJob":            "wipe-very-very-very-very-very-very-very-very-ver-817db935f5-job",
			"PruneJob":           "prune-very-very-very-very-very-very-very-very-ve-817db935f5-job",
			"Record":             "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
			"BackupPV":           "backup-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-d8e9fdeaed",
			"PendingSecret":      "very-very-very-very-very-very-very-very-v-817db935f5-connection-pending",
			"MetricsSecret":      "very-very-very-very-very-very-very-very-very-817db935f5-metrics",
			"Rescue":             "data-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
			"EraseJob":           "erase-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843b-a6105a6ca8",
			"RecordInLife":       "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-f3c66f1b4e",
			"ImageChangeJob":     "imagechange-very-very-very-very-very-very-very-v-817db935f5-job",
			"SettingsJob":        "settings-very-very-very-very-very-very-very-very-817db935f5-job",
			"TLSSecret":          "very-very-very-very-very-very-very-very-very-ver-817db935f5-tls",
			"Authority":          "authority-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-c3720b1ad2",
			"SecondAuthority":    "authority-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-f3c66f1b4e",
			"CertificateRequest": "server-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
		}},
		"Database": {reason: "Objects with data or passwords have names of their own (row 14).",
			got: names(database), want: map[string]string{
				"Deployment": "mysql-instance", "Service": "mysql-instance", "DataPVC": "mysql-instance.database-pvc",
				"BackupPVC":  "backup-mysql-instance.database-pvc",
				"RootSecret": "mysql-instance.database-root", "ConfigMap": "mysql-instance.database-config",
				"ConnectionSecret": "mysql-instance.database-connection",
				"RestoreJob":       "restore-mysql-instance.database-job", "BackupJob": "backup-mysql-instance.database-job",
				"DataPV": "database-default-mysql-instance-95f16838b4",
				"App":    "mysql-instance", "Key": "08b363ac79", "RestoreTestJob": "restoretest-mysql-instance.database-job",
				"WipeJob": "wipe-mysql-instance.database-job", "PruneJob": "prune-mysql-instance.database-job",
				"Record": "default-mysql-instance-95f16838b4", "Rescue": "data-default-mysql-instance-95f16838b4",
				"BackupPV":      "backup-default-mysql-instance-79737816bd",
				"PendingSecret": "mysql-instance.database-connection-pending",
				"MetricsSecret": "mysql-instance.database-metrics", "EraseJob": "erase-default-mysql-instance-95f16838b4",
				"RecordInLife": "default-mysql-instance-52fedea2e5", "ImageChangeJob": "imagechange-mysql-instance.database-job",
				"SettingsJob": "settings-mysql-instance.database-job",
				"TLSSecret":   "mysql-instance.database-tls", "Authority": "authority-default-mysql-instance-bef109a39a",
				"SecondAuthority":    "authority-default-mysql-instance-52fedea2e5",
				"CertificateRequest": "server-default-mysql-instance-95f16838b4",
			}},
		"Namespaced": {reason: "Objects with data or passwords have names of their own.",
			got: names(namespaced), want: map[string]string{
				"Deployment": "mysql-instance", "Service": "mysql-instance", "DataPVC": "mysql-instance.mysql-pvc",
				"BackupPVC":  "backup-mysql-instance.mysql-pvc",
				"RootSecret": "mysql-instance.mysql-root", "ConfigMap": "mysql-instance.mysql-config",
				"ConnectionSecret": "mysql-instance-connection",
				"RestoreJob":       "restore-mysql-instance.mysql-job", "BackupJob": "backup-mysql-instance.mysql-job",
				"DataPV": "mysql-default-mysql-instance-9e872154a5",
				"App":    "mysql-instance", "Key": "00df84630c", "RestoreTestJob": "restoretest-mysql-instance.mysql-job",
				"WipeJob": "wipe-mysql-instance.mysql-job", "PruneJob": "prune-mysql-instance.mysql-job",
				"Record": "default-mysql-instance-9e872154a5", "Rescue": "data-default-mysql-instance-9e872154a5",
				"BackupPV":      "backup-default-mysql-instance-8f8e979c66",
				"PendingSecret": "mysql-instance-connection-pending", "EraseJob": "erase-default-mysql-instance-9e872154a5",
				"MetricsSecret": "mysql-instance.mysql-metrics",
				"RecordInLife":  "default-mysql-instance-3ef8ba256e", "ImageChangeJob": "imagechange-mysql-instance.mysql-job",
				"SettingsJob": "settings-mysql-instance.mysql-job",
				"TLSSecret":   "mysql-instance.mysql-tls", "Authority": "authority-default-mysql-instance-3db9c26459",
				"SecondAuthority":    "authority-default-mysql-instance-3ef8ba256e",
				"CertificateRequest": "server-default-mysql-instance-9e872154a5",
			}},
		"NamespacedLabels": {reason: "A label selector must find all objects of an instance.", got: namespaced.Labels(),
			want: map[string]string{
				"app.kubernetes.io/name": "mysql", "app.kubernetes.io/managed-by": "crossplane-mysql",
				"crossplane-mysql.io/instance": "00df84630c", "crossplane-mysql.io/xr": "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11",
			}},
		"NamespacedSelector": {reason: "The selector of a Deployment cannot change.", got: namespaced.ServerSelector(),
			want: map[string]string{"app": "mysql-instance", "app.kubernetes.io/component": "server"}},
		"Generated": {reason: "The names of the Secrets with generated passwords must stay the same.",
			got:  []string{database.GeneratedSecretName(), namespaced.GeneratedSecretName()},
			want: []string{"mysql-instance.database-password", "mysql-instance.mysql-password"}},
		"DatabaseLabels": {reason: "A label selector must find all objects of a Database.", got: database.Labels(),
			want: map[string]string{
				"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "crossplane-mysql",
				"crossplane-mysql.io/instance": "08b363ac79", "crossplane-mysql.io/xr": "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11",
			}},
		"DatabaseSelector": {reason: "The selectors of a MySQL and a Database must not select each other's pods.",
			got:  database.ServerSelector(),
			want: map[string]string{"app": "mysql-instance", "app.kubernetes.io/component": "database"}},
		"Host": {reason: "The address of the server in the cluster must stay the same.",
			got: short.Host(), want: "mysql-instance.default.svc"},
		"Labels": {reason: "A label selector must find all objects of an instance.",
			got: short.Labels(), want: map[string]string{
				"app.kubernetes.io/name": "mysql", "app.kubernetes.io/managed-by": "crossplane-mysql",
				"crossplane-mysql.io/instance": "a68227f0ee", "crossplane-mysql.io/xr": "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11",
			}},
		"Selector": {reason: "A Deployment's selector cannot change.", got: short.ServerSelector(),
			want: map[string]string{"app": "mysql-instance", "app.kubernetes.io/component": "server"}},
		"Resources": {reason: "Crossplane identifies composed resources by these names.",
			want: []string{"data-volume", "data-claim", "root-password", "config", "deployment", "service", "restore"},
			got: []string{ResourceDataPV, ResourceDataPVC, ResourceRootPassword, ResourceConfig, ResourceDeployment,
				ResourceService, ResourceRestore}},
		"Annotations": {reason: "Volumes and other objects have these annotations, so the names must stay the same.",
			got: []string{
				AnnotationClaimKind, AnnotationClaimNamespace, AnnotationClaimName, AnnotationImage, AnnotationVersion,
				AnnotationDeletionPolicy, AnnotationBackupNumber, AnnotationFirstBackupNumber, AnnotationChoice,
				AnnotationRestore, AnnotationConfigHash, AnnotationRevision, AnnotationStarted, AnnotationSkipBackup,
				AnnotationWithoutOutside,
				AnnotationNothingToLose, AnnotationReclaimPolicy, AnnotationNamespaceUID, AnnotationEarlierNamespaces, Finalizer,
				AnnotationPasswordChangedAt, AnnotationPasswordStagedAt, AnnotationPasswordWindow, RecoveryNamespace,
				AnnotationBackupPrefix, AnnotationForgetPrefix, AnnotationMakeRecord, MakeAllRecords, AnnotationDeleteArchive,
				AnnotationRestoreTest, AnnotationRetainedPV, AnnotationRefusedSize, AnnotationPVCs, AnnotationPruned,
				AnnotationRemoves,
				AnnotationMadeFor, AnnotationMarkedUID, AnnotationTakeOver, AnnotationLeaveAlone, AnnotationBackupStore,
				AnnotationAccessTo, AnnotationAnswer, AnnotationAdopt, AnnotationIssuer, AnnotationNodes, AnnotationPublished,
				AnnotationTakeOverPrefix, AnnotationAccessUntil,
				AnnotationSettings, AnnotationConfig, AnnotationPullSecrets,
			}, want: []string{
				"crossplane-mysql.io/claim-kind", "crossplane-mysql.io/claim-namespace", "crossplane-mysql.io/claim-name",
				"crossplane-mysql.io/image",
				"crossplane-mysql.io/version", "crossplane-mysql.io/deletion-policy", "crossplane-mysql.io/backup-number",
				"crossplane-mysql.io/first-backup-number", "crossplane-mysql.io/choice",
				"crossplane-mysql.io/restore", "crossplane-mysql.io/config-hash", "crossplane-mysql.io/revision",
				"crossplane-mysql.io/started",
				"crossplane-mysql.io/skip-backup", "crossplane-mysql.io/without-outside-data",
				"crossplane-mysql.io/nothing-to-lose", "crossplane-mysql.io/reclaim-policy", "crossplane-mysql.io/namespace-uid",
				"crossplane-mysql.io/earlier-namespace-uids", "crossplane-mysql.io/protect-data",
				"crossplane-mysql.io/password-changed-at", "crossplane-mysql.io/password-staged-at",
				"crossplane-mysql.io/password-window",
				"crossplane-mysql-recovery",
				"backup.crossplane-mysql.io/", "forget.crossplane-mysql.io/", "crossplane-mysql.io/make-record", "all",
				"crossplane-mysql.io/delete-archive",
				"crossplane-mysql.io/restore-test", "crossplane-mysql.io/retained-volume", "crossplane-mysql.io/refused-size",
				"crossplane-mysql.io/pvcs",
				"crossplane-mysql.io/pruned", "crossplane-mysql.io/erases",
				"crossplane-mysql.io/made-for", "crossplane-mysql.io/marked-uid", "crossplane-mysql.io/take-over",
				"crossplane-mysql.io/leave-alone",
				"crossplane-mysql.io/backup-store", "crossplane-mysql.io/access-to", "crossplane-mysql.io/answer",
				"crossplane-mysql.io/adopt",
				"crossplane-mysql.io/issuer", "crossplane-mysql.io/nodes", "crossplane-mysql.io/published-archive",
				"crossplane-mysql.io/take-over-prefix",
				"crossplane-mysql.io/access-until",
				"crossplane-mysql.io/settings", "crossplane-mysql.io/config", "crossplane-mysql.io/image-pull-secrets",
			}},
		"StoreFolder": {reason: "The prefixes of objects in a store must stay the same, because objects outlive the cluster.",
			got:  StorePrefix(BackedUpInstance{NamespaceUID: "ns", XR: "xr", Namespace: "a", Name: "b"}, "one"),
			want: "v1/ns/xr/one"},
		"StoreAccess": {reason: "A policy selects these Secrets by the suffixes of their names.",
			got: []string{short.Accesses().Backup(), short.Accesses().Restore(), short.Accesses().RestoreTest(),
				short.Accesses().Clone(), short.Accesses().Recovery(), database.Accesses().Backup()}, want: []string{
				"mysql-instance-backup-access", "mysql-instance-restore-access", "mysql-instance-restoretest-access",
				"mysql-instance-clone-access", "default-mysql-instance-507663682d-backup-access",
				"mysql-instance.database-backup-access"}},
		"Conditions": {reason: "Users and scripts wait for these conditions.",
			got: []string{ConditionAccepted, ConditionRestored, ConditionServing, ConditionBlocked,
				ConditionPendingRestart, ConditionLastBackupSucceeded, ConditionRestorable, ConditionStalled,
				ConditionReconciling, ConditionArchiving, ConditionStorageAutogrow}, want: []string{"Accepted", "Restored", "Serving",
				"Blocked", "PendingRestart",
				"LastBackupSucceeded", "Restorable", "Stalled", "Reconciling", "Archiving", "StorageAutogrow"}},
		"Credentials": {reason: "The controller and the function exchange these states.",
			got:  []string{CredentialsInSync, CredentialsChanging, CredentialsFailed},
			want: []string{"InSync", "Changing", "Failed"}},
		"Places": {reason: "The data on a volume, Secrets and ConfigMaps contain these names.",
			want: []string{"data", "password", "my.cnf", "my.cnf.served", "mysql", "mongo", ".crossplane-mysql-restore-test"},
			got:  []string{DataDirectory, PasswordKey, ConfigKey, ServedConfigKey, PortName, PortNameMongo, RestoreTestDir}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNamesAreAllFrozen checks that TestNames includes all annotations and conditions. It does not check labels,
// which TestNames includes by their values.
func TestNamesAreAllFrozen(t *testing.T) {
	frozen, err := os.ReadFile("names_test.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^(?:\t|const )((?:Annotation|Condition)\w+)(?: \w+)? += `)
	for _, file := range []string{"labels.go", "conditions.go"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constants.FindAllStringSubmatch(string(code), -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).Match(frozen) {
				t.Errorf("%s of %s is not frozen", m[1], file)
			}
		}
	}
}

// TestNamesAreValid checks that the names are valid for claims with names of every length, and differ for different
// claims. Names of a Database, and of an instance without a claim, contain a dot, which is not allowed in the name of
// a Service.
func TestNamesAreValid(t *testing.T) {
	t.Run(KindMySQL, func(t *testing.T) { namesAreValid(t, KindMySQL, validation.IsDNS1123Label) })
	t.Run(KindDatabase, func(t *testing.T) { namesAreValid(t, KindDatabase, validation.IsDNS1123Subdomain) })
	t.Run(kindNamespaced, func(t *testing.T) { namesAreValid(t, kindNamespaced, validation.IsDNS1123Subdomain) })
}

func namesAreValid(t *testing.T, kind string, valid func(string) []string) {
	t.Helper()
	seen := map[string]string{}
	for n := 1; n <= 253; n++ {
		for _, last := range []string{"a", "b"} {
			name := strings.Repeat("x", n-1) + last
			i := Instance{Kind: kind, Namespace: strings.Repeat("n", 63), Name: name, XR: "uid"}
			if len(validation.IsDNS1123Label(i.ServiceName())) > 0 {
				t.Fatalf("%q is no valid name of a Service", i.ServiceName())
			}
			for _, got := range []string{i.ServiceName(), i.DataPVCName(), i.BackupPVCName(), i.RootSecretName(),
				i.ConfigMapName(), i.ConnectionSecretName(), i.Jobs().Restore(), i.Jobs().Backup(), i.Jobs().Wipe(),
				i.Jobs().Prune(), i.Jobs().RestoreTest()} {
				if len(valid(got)) > 0 || len(got) > MaxNameLength {
					t.Fatalf("%q is no valid name", got)
				}
				if other, ok := seen[got]; ok && other != name {
					t.Fatalf("claims %q and %q share the name %q", other, name, got)
				}
				seen[got] = name
			}
			for _, v := range []string{i.DataPVName(), i.RecordName(), i.BackupPVName("uid")} {
				if len(validation.IsDNS1123Label(v)) > 0 {
					t.Fatalf("%q is no valid name", v)
				}
			}
		}
	}
}

// TestInstancesOfName checks that two instances with the same claim name have the same key, but different data volumes.
func TestInstancesOfName(t *testing.T) {
	one, two := Instance{Kind: "MySQL", Namespace: "a", Name: "b", XR: "1"}, Instance{Kind: "MySQL", Namespace: "a",
		Name: "b", XR: "2"}
	if one.DataPVName() == two.DataPVName() {
		t.Error("two lives share a volume")
	}
	if one.Key() != two.Key() {
		t.Error("two lives have different keys")
	}
	if other := (Instance{Kind: "Database", Namespace: "a", Name: "b", XR: "1"}); other.Key() == one.Key() ||
		other.DataPVName() == one.DataPVName() {
		t.Error("two kinds share a key or a volume")
	}
}

// TestKindsShareNothing checks that the names of volumes, Jobs and Secrets contain a suffix for the kind. The suffix
// begins with a dot, which no claim name can contain. Instances of different kinds therefore never share an object.
func TestKindsShareNothing(t *testing.T) {
	for kind, mark := range map[string]string{KindDatabase: ".database-", kindNamespaced: ".mysql-"} {
		for _, name := range []string{"a", "a-database", "a-mysql", "backup-a", strings.Repeat("x", 60)} {
			i := Instance{Kind: kind, Namespace: "n", Name: name}
			own := []string{i.DataPVCName(), i.BackupPVCName(), i.RootSecretName(), i.ConfigMapName(), i.TLSSecretName(),
				i.MetricsSecretName(), i.GeneratedSecretName(), i.Jobs().Restore(), i.Jobs().Backup(), i.Jobs().Wipe(), i.Jobs().Prune(),
				i.Jobs().RestoreTest(), i.Accesses().Backup(), i.Accesses().Restore(), i.Accesses().Clone()}
			if kind == KindDatabase {
				own = append(own, i.ConnectionSecretName(), i.PendingSecretName())
			}
			for _, got := range own {
				if !strings.Contains(got, mark) {
					t.Errorf("%q could be a MySQL's: its claim's name has no dot", got)
				}
			}
		}
	}
}

// TestNamesInCommon checks that an instance without a claim and a claim of the same name share only the names that
// clients use. A server therefore has the same address with and without a claim. The function refuses to start a
// second server with the same name.
func TestNamesInCommon(t *testing.T) {
	claim := names(Instance{Kind: KindMySQL, Namespace: "default", Name: "shop", XR: "uid"})
	var common []string
	for what, name := range names(Instance{Kind: kindNamespaced, Namespace: "default", Name: "shop", XR: "uid"}) {
		if claim[what] == name {
			common = append(common, what)
		}
	}
	slices.Sort(common)
	want := []string{"App", "ConnectionSecret", "Deployment", "PendingSecret", "Service"}
	if diff := cmp.Diff(want, common); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestAPIs checks that each kind of instance and of composite resource belongs to exactly one API.
func TestAPIs(t *testing.T) {
	kinds := map[string]bool{}
	for _, a := range APIs() {
		kinds[a.InstanceKind()] = a.HasClaims()
		if got, ok := APIOf(a.XR.GroupKind()); !ok || got != a {
			t.Errorf("%s is of %v, %t", a.XR, got, ok)
		}
		if got, ok := APIOfInstances(a.InstanceKind()); !ok || got != a {
			t.Errorf("an instance of kind %s is of %v, %t", a.InstanceKind(), got, ok)
		}
	}
	if diff := cmp.Diff(map[string]bool{KindMySQL: true, KindDatabase: true, kindNamespaced: false}, kinds); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, ok := APIOf(GroupVersionClaims.WithKind(KindMySQL).GroupKind()); ok {
		t.Error("a claim is no composite resource")
	}
}

// TestInstanceOfXR checks that an XR without a claim is an instance with its own name.
func TestInstanceOfXR(t *testing.T) {
	x := &XMySQL{}
	x.SetGroupVersionKind(GroupVersion.WithKind(KindMySQL))
	x.Namespace, x.Name, x.UID = "default", "shop", "uid"
	want := Instance{Kind: kindNamespaced, Namespace: "default", Name: "shop", XR: "uid"}
	if got := x.Instance(); got != want || !got.IsNamespaced() {
		t.Errorf("want %+v, got %+v", want, got)
	}
	x.SetGroupVersionKind(GroupVersionClaims.WithKind(KindXMySQL))
	want.Kind = KindXMySQL
	if got := x.Instance(); got != want || got.IsNamespaced() {
		t.Errorf("an XR that should have a claim is no claim's instance: want %+v, got %+v", want, got)
	}
	if (Instance{Kind: KindMySQL}).IsNamespaced() || (Instance{Kind: KindDatabase}).IsNamespaced() {
		t.Error("an instance with a claim is not namespaced")
	}
}

func TestPassword(t *testing.T) {
	cases := map[string]struct {
		reason string
		raw    string
		want   string
		err    string
	}{
		"Plain":   {reason: "A password must stay the same.", raw: "0tusP@ssword", want: "0tusP@ssword"},
		"Newline": {reason: "Editors append a newline, which must be removed.", raw: "secret\n", want: "secret"},
		"Windows": {reason: "Some editors append a carriage return and a newline, which must be removed.",
			raw: "secret\r\n", want: "secret"},
		"Spaces":  {reason: "Spaces belong to the password.", raw: " a b ", want: " a b "},
		"Unicode": {reason: "All characters of Unicode are allowed.", raw: "пароль🔑", want: "пароль🔑"},
		"Empty":   {reason: "root must have a password.", raw: "\n", err: "empty"},
		"Two":     {reason: "A password must not contain a second line.", raw: "a\nb", err: "control character"},
		"NUL":     {reason: "The server would cut the password at the NUL.", raw: "a\x00b", err: "control character"},
		"Binary":  {reason: "A URI can contain only UTF-8.", raw: "\xff", err: "UTF-8"},
		"TooLong": {reason: "MySQL limits the length of a password to 256 bytes.", raw: strings.Repeat("x", 257), err: "256"},
		"JustFits": {reason: "MySQL limits the length of a password to 256 bytes.",
			raw: strings.Repeat("x", 256), want: strings.Repeat("x", 256)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Password(tc.raw)
			if got != tc.want || tc.err == "" && err != nil || tc.err != "" &&
				(err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%s want %q or %q, got %q or %v", tc.reason, tc.want, tc.err, got, err)
			}
			if err != nil && tc.raw != "\n" && strings.Contains(err.Error(), tc.raw) {
				t.Error("the error holds the password")
			}
		})
	}
}

func TestSetting(t *testing.T) {
	cases := map[string]struct {
		reason string
		json   string
		want   Setting
		fails  bool
	}{
		"Text":   {reason: "A string must stay the same.", json: `"1G"`, want: "1G"},
		"Number": {reason: "A number must keep its spelling.", json: `400`, want: "400"},
		"True":   {reason: "YAML reads a bare ON as true.", json: `true`, want: "ON"},
		"False":  {reason: "YAML reads a bare OFF as false.", json: `false`, want: "OFF"},
		"Object": {reason: "An object is not a valid setting.", json: `{"a":1}`, fails: true},
		"List":   {reason: "A list is not a valid setting.", json: `[1]`, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got Setting
			if err := got.UnmarshalJSON([]byte(tc.json)); got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%s want %q, got %q, %v", tc.reason, tc.want, got, err)
			}
		})
	}
}
