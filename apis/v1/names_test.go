package v1

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TestNames freezes every name, label, annotation and condition: a database
// outlives any release. A change here orphans the data of every instance.
func TestNames(t *testing.T) {
	short := Instance{Kind: KindMySQL, Namespace: "default", Name: "mysql-instance", XR: "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11"}
	long := Instance{Kind: KindMySQL, Namespace: strings.Repeat("n", 63), Name: strings.Repeat("very-", 30) + "long", XR: short.XR}
	database := Instance{Kind: KindDatabase, Namespace: short.Namespace, Name: short.Name, XR: short.XR}
	names := func(i Instance) map[string]string {
		return map[string]string{
			"Deployment": i.DeploymentName(), "Service": i.ServiceName(), "DataPVC": i.DataPVCName(), "BackupPVC": i.BackupPVCName(),
			"RootSecret": i.RootSecretName(), "ConfigMap": i.ConfigMapName(), "ConnectionSecret": i.ConnectionSecretName(),
			"RestoreJob": i.Jobs().Restore(), "BackupJob": i.Jobs().Backup(), "DataPV": i.DataPVName(), "App": i.AppLabel(), "Key": i.Key(),
			"WipeJob": i.Jobs().Wipe(), "PruneJob": i.Jobs().Prune(), "RestoreTestJob": i.Jobs().RestoreTest(), "Record": i.RecordName(), "BackupPV": i.BackupPVName("0b7a1d6e"),
			"PendingSecret": i.PendingSecretName(), "Rescue": i.RescueName("data"), "EraseJob": EraseJobName(i.RecordName()), "RecordInLife": i.RecordNameInLife(2), "ImageChangeJob": i.Jobs().ImageChange(), "SettingsJob": i.Jobs().SettingsCheck(),
			"TLSSecret": i.TLSSecretName(), "Authority": i.AuthorityName(1), "SecondAuthority": i.AuthorityName(2), "CertificateRequest": i.CertificateRequestName(),
		}
	}
	cases := map[string]struct {
		reason string
		got    any
		want   any
	}{
		"Short": {reason: "Row 8: the names that users of the original operators type.", got: names(short), want: map[string]string{
			"Deployment": "mysql-instance", "Service": "mysql-instance", "DataPVC": "mysql-instance-pvc", "BackupPVC": "backup-mysql-instance-pvc",
			"RootSecret": "mysql-instance-root", "ConfigMap": "mysql-instance-config", "ConnectionSecret": "mysql-instance-connection",
			"RestoreJob": "restore-mysql-instance-job", "BackupJob": "backup-mysql-instance-job", "DataPV": "mysql-default-mysql-instance-507663682d",
			"App": "mysql-instance", "Key": "a68227f0ee", "RestoreTestJob": "restoretest-mysql-instance-job", "WipeJob": "wipe-mysql-instance-job", "PruneJob": "prune-mysql-instance-job",
			"Record": "default-mysql-instance-507663682d", "BackupPV": "backup-default-mysql-instance-7ea0a0cb4b",
			"PendingSecret": "mysql-instance-connection-pending", "Rescue": "data-default-mysql-instance-507663682d", "EraseJob": "erase-default-mysql-instance-507663682d",
			"RecordInLife": "default-mysql-instance-ec5ddec20d", "ImageChangeJob": "imagechange-mysql-instance-job", "SettingsJob": "settings-mysql-instance-job",
			"TLSSecret": "mysql-instance-tls", "Authority": "authority-default-mysql-instance-0b4c3a0e5c", "SecondAuthority": "authority-default-mysql-instance-ec5ddec20d", "CertificateRequest": "server-default-mysql-instance-507663682d",
		}},
		"Long": {reason: "Names that are too long are cut and hashed.", got: names(long), want: map[string]string{
			"Deployment": "very-very-very-very-very-very-very-very-very-very-ve-817db935f5", "Service": "very-very-very-very-very-very-very-very-very-very-ve-817db935f5",
			"DataPVC": "very-very-very-very-very-very-very-very-very-ver-817db935f5-pvc", "BackupPVC": "backup-very-very-very-very-very-very-very-very-v-817db935f5-pvc",
			"RootSecret": "very-very-very-very-very-very-very-very-very-ve-817db935f5-root", "ConfigMap": "very-very-very-very-very-very-very-very-very-817db935f5-config",
			"ConnectionSecret": "very-very-very-very-very-very-very-very-v-817db935f5-connection", "RestoreJob": "restore-very-very-very-very-very-very-very-very-817db935f5-job",
			"BackupJob": "backup-very-very-very-very-very-very-very-very-v-817db935f5-job", "DataPV": "mysql-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
			"App": "very-very-very-very-very-very-very-very-very-very-ve-817db935f5", "Key": "e50da83026",
			"RestoreTestJob": "restoretest-very-very-very-very-very-very-very-v-817db935f5-job", "WipeJob": "wipe-very-very-very-very-very-very-very-very-ver-817db935f5-job", "PruneJob": "prune-very-very-very-very-very-very-very-very-ve-817db935f5-job",
			"Record": "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc", "BackupPV": "backup-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-d8e9fdeaed",
			"PendingSecret": "very-very-very-very-very-very-very-very-v-817db935f5-connection-pending", "Rescue": "data-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
			"EraseJob":     "erase-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843b-a6105a6ca8",
			"RecordInLife": "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-f3c66f1b4e", "ImageChangeJob": "imagechange-very-very-very-very-very-very-very-v-817db935f5-job", "SettingsJob": "settings-very-very-very-very-very-very-very-very-817db935f5-job",
			"TLSSecret": "very-very-very-very-very-very-very-very-very-ver-817db935f5-tls", "Authority": "authority-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-c3720b1ad2", "SecondAuthority": "authority-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-f3c66f1b4e", "CertificateRequest": "server-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-843bf9df91-a80288bafc",
		}},
		"Database": {reason: "Row 14: Deployment and Service have the names that users type; what holds data or passwords shares none with a MySQL.", got: names(database), want: map[string]string{
			"Deployment": "mysql-instance", "Service": "mysql-instance", "DataPVC": "mysql-instance.database-pvc", "BackupPVC": "backup-mysql-instance.database-pvc",
			"RootSecret": "mysql-instance.database-root", "ConfigMap": "mysql-instance.database-config", "ConnectionSecret": "mysql-instance.database-connection",
			"RestoreJob": "restore-mysql-instance.database-job", "BackupJob": "backup-mysql-instance.database-job", "DataPV": "database-default-mysql-instance-95f16838b4",
			"App": "mysql-instance", "Key": "08b363ac79", "RestoreTestJob": "restoretest-mysql-instance.database-job", "WipeJob": "wipe-mysql-instance.database-job", "PruneJob": "prune-mysql-instance.database-job",
			"Record": "default-mysql-instance-95f16838b4", "Rescue": "data-default-mysql-instance-95f16838b4", "BackupPV": "backup-default-mysql-instance-79737816bd",
			"PendingSecret": "mysql-instance.database-connection-pending", "EraseJob": "erase-default-mysql-instance-95f16838b4",
			"RecordInLife": "default-mysql-instance-52fedea2e5", "ImageChangeJob": "imagechange-mysql-instance.database-job", "SettingsJob": "settings-mysql-instance.database-job",
			"TLSSecret": "mysql-instance.database-tls", "Authority": "authority-default-mysql-instance-bef109a39a", "SecondAuthority": "authority-default-mysql-instance-52fedea2e5", "CertificateRequest": "server-default-mysql-instance-95f16838b4",
		}},
		"DatabaseLabels": {reason: "What everything of a Database is found by.", got: database.Labels(), want: map[string]string{
			"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "crossplane-mysql",
			"otus.homework/instance": "08b363ac79", "otus.homework/xr": "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11",
		}},
		"DatabaseSelector": {reason: "Neither selector is met by the other's pods.", got: database.ServerSelector(), want: map[string]string{"app": "mysql-instance", "app.kubernetes.io/component": "database"}},
		"Host":             {reason: "The address in the cluster.", got: short.Host(), want: "mysql-instance.default.svc"},
		"Labels": {reason: "What everything of an instance is found by.", got: short.Labels(), want: map[string]string{
			"app.kubernetes.io/name": "mysql", "app.kubernetes.io/managed-by": "crossplane-mysql",
			"otus.homework/instance": "a68227f0ee", "otus.homework/xr": "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11",
		}},
		"Selector": {reason: "A Deployment's selector cannot change.", got: short.ServerSelector(), want: map[string]string{"app": "mysql-instance", "app.kubernetes.io/component": "server"}},
		"Resources": {reason: "Crossplane finds composed resources by these.", want: []string{"data-volume", "data-claim", "root-password", "config", "deployment", "service", "restore"},
			got: []string{ResourceDataPV, ResourceDataPVC, ResourceRootPassword, ResourceConfig, ResourceDeployment, ResourceService, ResourceRestore}},
		"Annotations": {reason: "Volumes carry them for life.", got: []string{
			AnnotationClaimKind, AnnotationClaimNamespace, AnnotationClaimName, AnnotationImage, AnnotationVersion, AnnotationDeletionPolicy, AnnotationBackupNumber, AnnotationFirstBackupNumber, AnnotationChoice,
			AnnotationRestore, AnnotationConfigHash, AnnotationRevision, AnnotationStarted, AnnotationSkipBackup, AnnotationWithoutOutside,
			AnnotationNothingToLose, AnnotationReclaimPolicy, AnnotationNamespaceUID, AnnotationEarlierNamespaces, Finalizer,
			AnnotationPasswordChangedAt, AnnotationPasswordStagedAt, AnnotationPasswordWindow, RescueNamespace,
			AnnotationBackupPrefix, AnnotationForgetPrefix, AnnotationMakeRecord, MakeAllRecords, AnnotationDeleteArchive,
			AnnotationRestoreTest, AnnotationRetainedPV, AnnotationRefusedSize, AnnotationPVCs, AnnotationPruned, AnnotationErases,
			AnnotationMadeFor, AnnotationMarkedUID, AnnotationTakeOver, AnnotationLeaveAlone, AnnotationBackupStore, AnnotationAccessTo, AnnotationAnswer, AnnotationAdopt, AnnotationIssuer, AnnotationNodes, AnnotationPublished, AnnotationTakeOverPrefix, AnnotationAccessUntil,
			AnnotationSettings, AnnotationConfig,
		}, want: []string{
			"otus.homework/claim-kind", "otus.homework/claim-namespace", "otus.homework/claim-name", "otus.homework/image", "otus.homework/version", "otus.homework/deletion-policy", "otus.homework/backup-number", "otus.homework/first-backup-number", "otus.homework/choice",
			"otus.homework/restore", "otus.homework/config-hash", "otus.homework/revision", "otus.homework/started", "otus.homework/skip-backup", "otus.homework/without-outside-data",
			"otus.homework/nothing-to-lose", "otus.homework/reclaim-policy", "otus.homework/namespace-uid", "otus.homework/earlier-namespace-uids", "otus.homework/protect-data",
			"otus.homework/password-changed-at", "otus.homework/password-staged-at", "otus.homework/password-window", "crossplane-mysql-rescue",
			"backup.otus.homework/", "forget.otus.homework/", "otus.homework/make-record", "all", "otus.homework/delete-archive",
			"otus.homework/restore-test", "otus.homework/retained-volume", "otus.homework/refused-size", "otus.homework/pvcs", "otus.homework/pruned", "otus.homework/erases",
			"otus.homework/made-for", "otus.homework/marked-uid", "otus.homework/take-over", "otus.homework/leave-alone", "otus.homework/backup-store", "otus.homework/access-to", "otus.homework/answer", "otus.homework/adopt", "otus.homework/issuer", "otus.homework/nodes", "otus.homework/published-archive", "otus.homework/take-over-prefix", "otus.homework/access-until",
			"otus.homework/settings", "otus.homework/config",
		}},
		"StoreFolder": {reason: "Objects outlive the cluster.", got: StoreFolder(BackedUpInstance{NamespaceUID: "ns", XR: "xr", Namespace: "a", Name: "b"}, "one"), want: "v1/ns/xr/one"},
		"StoreAccess": {reason: "A policy knows them by their ends.", got: []string{short.Accesses().Backup(), short.Accesses().Restore(), short.Accesses().RestoreTest(), short.Accesses().Clone(), short.Accesses().Rescue(), database.Accesses().Backup()}, want: []string{"mysql-instance-backup-access", "mysql-instance-restore-access", "mysql-instance-restoretest-access", "mysql-instance-clone-access", "default-mysql-instance-507663682d-backup-access", "mysql-instance.database-backup-access"}},
		"Conditions":  {reason: "People and scripts wait for them.", got: []string{ConditionAccepted, ConditionRestored, ConditionServing, ConditionBlocked, ConditionUpdated, ConditionBackedUp, ConditionSettingsApplied, ConditionRestorable}, want: []string{"Accepted", "Restored", "Serving", "Blocked", "Updated", "BackedUp", "SettingsApplied", "Restorable"}},
		"Credentials": {reason: "The states that controller and function speak of.", got: []string{CredentialsInSync, CredentialsChanging, CredentialsFailed}, want: []string{"InSync", "Changing", "Failed"}},
		"Places": {reason: "Where the data lies on its volume, and how the Secret and ConfigMap name it.", want: []string{"data", "password", "my.cnf", "my.cnf.served", "mysql", "mongo", ".crossplane-mysql-restore-test"},
			got: []string{DataDirectory, PasswordKey, ConfigKey, ServedConfigKey, PortName, PortNameMongo, RestoreTestFolder}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNamesAreAllFrozen: no annotation or condition is forgotten above. Labels are there by their values.
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

// TestNamesAreValid for claims of every length, and differ where the claims do.
// The names of a Database have a dot in them, which a Service may not have.
func TestNamesAreValid(t *testing.T) {
	t.Run(KindMySQL, func(t *testing.T) { namesAreValid(t, KindMySQL, validation.IsDNS1123Label) })
	t.Run(KindDatabase, func(t *testing.T) { namesAreValid(t, KindDatabase, validation.IsDNS1123Subdomain) })
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
			for _, got := range []string{i.ServiceName(), i.DataPVCName(), i.BackupPVCName(), i.RootSecretName(), i.ConfigMapName(), i.ConnectionSecretName(), i.Jobs().Restore(), i.Jobs().Backup(), i.Jobs().Wipe(), i.Jobs().Prune(), i.Jobs().RestoreTest()} {
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

// TestLives: each life of an instance has a volume of its own, and all share a
// key.
func TestLives(t *testing.T) {
	one, two := Instance{Kind: "MySQL", Namespace: "a", Name: "b", XR: "1"}, Instance{Kind: "MySQL", Namespace: "a", Name: "b", XR: "2"}
	if one.DataPVName() == two.DataPVName() {
		t.Error("two lives share a volume")
	}
	if one.Key() != two.Key() {
		t.Error("two lives have different keys")
	}
	if other := (Instance{Kind: "Database", Namespace: "a", Name: "b", XR: "1"}); other.Key() == one.Key() || other.DataPVName() == one.DataPVName() {
		t.Error("two kinds share a key or a volume")
	}
}

// TestKindsShareNothing: no name of what holds data or passwords can be both a
// MySQL's and a Database's, whatever they are called.
func TestKindsShareNothing(t *testing.T) {
	for _, name := range []string{"a", "a-database", "backup-a", strings.Repeat("x", 60)} {
		i := Instance{Kind: KindDatabase, Namespace: "n", Name: name}
		for _, got := range []string{i.DataPVCName(), i.BackupPVCName(), i.RootSecretName(), i.ConfigMapName(), i.ConnectionSecretName(), i.Jobs().Restore(), i.Jobs().Backup(), i.Jobs().Wipe(), i.Jobs().Prune(), i.Jobs().RestoreTest()} {
			if !strings.Contains(got, ".database-") {
				t.Errorf("%q could be a MySQL's: its claim's name has no dot", got)
			}
		}
	}
}

func TestPassword(t *testing.T) {
	cases := map[string]struct {
		reason string
		raw    string
		want   string
		err    string
	}{
		"Plain":    {reason: "As it is.", raw: "0tusP@ssword", want: "0tusP@ssword"},
		"Newline":  {reason: "Editors add one.", raw: "secret\n", want: "secret"},
		"Windows":  {reason: "Some editors add two characters.", raw: "secret\r\n", want: "secret"},
		"Spaces":   {reason: "Spaces are part of it.", raw: " a b ", want: " a b "},
		"Unicode":  {reason: "So is every letter.", raw: "пароль🔑", want: "пароль🔑"},
		"Empty":    {reason: "root needs one.", raw: "\n", err: "empty"},
		"Two":      {reason: "A second line cannot be meant.", raw: "a\nb", err: "control character"},
		"NUL":      {reason: "The server would cut it there.", raw: "a\x00b", err: "control character"},
		"Binary":   {reason: "A URI could not hold it.", raw: "\xff", err: "UTF-8"},
		"TooLong":  {reason: "MySQL's limit.", raw: strings.Repeat("x", 257), err: "256"},
		"JustFits": {reason: "MySQL's limit.", raw: strings.Repeat("x", 256), want: strings.Repeat("x", 256)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Password(tc.raw)
			if got != tc.want || tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
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
		"Text":   {reason: "As it is.", json: `"1G"`, want: "1G"},
		"Number": {reason: "As it is written.", json: `400`, want: "400"},
		"True":   {reason: "YAML reads a bare ON as true.", json: `true`, want: "ON"},
		"False":  {reason: "YAML reads a bare OFF as false.", json: `false`, want: "OFF"},
		"Object": {reason: "No such setting.", json: `{"a":1}`, fails: true},
		"List":   {reason: "No such setting.", json: `[1]`, fails: true},
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
