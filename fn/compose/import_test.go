package compose

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func importing(source v1.Import) func(*Input) {
	return func(in *Input) { in.XR.Spec.Restore.Import = &source }
}

func ofVolume(in *Input) {
	importing(v1.Import{Volume: &v1.ImportedVolume{PVCRef: v1.LocalReference{Name: "old"}, Directory: "lib/mysql"}})(in)
	found("old", nil)(in)
}

// ofServer adds an import from a server that the platform allows, and the Secret with the account.
func ofServer(in *Input) {
	importing(v1.Import{Server: &v1.ImportedServer{Host: "db.old.example", SecretRef: v1.LocalReference{Name: "account"}}})(in)
	platform(func(s *v1.PlatformSpec) { s.AllowedImportServers = []string{"*.old.example"} })(in)
	found("account", nil)(in)
}

// found returns a change of an Input that adds an object with the given labels: the PVC to import, or the Secret with
// the account of the imported server.
func found(name string, labels map[string]string) func(*Input) {
	return func(in *Input) {
		in.Required.Import = Required[metav1.PartialObjectMetadata]{Known: true, Items: []metav1.PartialObjectMetadata{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		}}}
	}
}

func ofDump(in *Input) {
	importing(v1.Import{Dump: &v1.ImportedDump{StoreRef: v1.BackupStoreReference{Name: "offsite"}, Name: "shop.sql.gz", SHA256: testSum}})(in)
	platform(func(s *v1.PlatformSpec) { s.AllowedBackupStores = []string{"offsite"} })(in)
}

func labelled(in *Input) {
	platform(func(s *v1.PlatformSpec) { s.RequirePasswordLabel = true })(in)
}

func importChosen(in *Input) {
	in.XR.Status.Restore = &v1.RestoreStatus{Import: &v1.Import{Volume: &v1.ImportedVolume{PVCRef: v1.LocalReference{Name: "old"}}},
		Phase: v1.RestoreRunning}
}

// importJob adds a restore Job with the given value of AnnotationRestore. A user may have changed the annotation.
func importJob(choice string, conditions ...batchv1.JobCondition) func(*Input) {
	return func(in *Input) {
		job(conditions...)(in)
		in.Observed.Restore.Annotations[v1.AnnotationRestore] = choice
	}
}

const volumeChoice = `{"import":{"volume":{"pvcRef":{"name":"old"}}},"phase":"Running"}`

// TestChooseImport specifies when an instance imports a database, and from which source.
func TestChooseImport(t *testing.T) {
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue,
		Message: "failed with exit code 42"}
	type want struct {
		replicas                              int32
		subject, backup, reason, say, refusal string
		job                                   bool
	}
	for name, tc := range map[string]struct {
		reason string
		in     Input
		want   want
	}{
		"Volume": {reason: "The volume must be copied before the server starts.", in: given(ofVolume),
			want: want{subject: "volume/old/lib/mysql", job: true, reason: v1.ReasonRestoring, say: "every row is imported"}},
		"Server": {reason: "The server of the import must be cloned.", in: given(ofServer),
			want: want{subject: "server/db.old.example:3306", job: true, reason: v1.ReasonRestoring}},
		"Dump": {reason: "The dump must be loaded before the server starts.", in: given(ofDump),
			want: want{subject: "dump/offsite/shop.sql.gz", job: true, reason: v1.ReasonRestoring}},
		"Unheard": {reason: "The import must wait until the controller has looked for backups of a previous instance.",
			in:   given(ofVolume, previous("")),
			want: want{reason: v1.ReasonWaiting, say: "controller"}},
		"Unfinished": {reason: "The import must wait until the backup of the previous instance is finished.",
			in: given(ofVolume, record("b1", 1, v1.BackupRunning)), want: want{reason: v1.ReasonWaiting, say: "not finished"}},
		"Beside": {reason: "An explicit import must take precedence over an existing backup.",
			in:   given(ofVolume, previous("b1"), record("b1", 1, v1.BackupVerified)),
			want: want{subject: "volume/old/lib/mysql", job: true, reason: v1.ReasonRestoring}},
		"Once": {reason: "An import is applied once. After that, the newer backup of the instance must be restored.",
			in: given(ofVolume, previous("b1"), record("b1", 1, v1.BackupVerified, began("import/volume/old/lib/mysql"))),
			want: want{backup: "b1", job: true, reason: v1.ReasonRestoring,
				say: "To apply it again, set spec.restore.insteadOf: b1"}},
		"Again": {reason: "With insteadOf, the import must be applied again.",
			in:   given(ofVolume, previous("b2"), record("b2", 1, v1.BackupVerified, began("import/volume/old/lib/mysql")), aside),
			want: want{subject: "volume/old/lib/mysql", job: true, reason: v1.ReasonRestoring}},
		"Held": {reason: "A backup without its BackupRecord must block the import.",
			in:   given(ofVolume, previous(v1.PreviousHeld)),
			want: want{reason: v1.ReasonWaiting, say: "exists, but its BackupRecord is missing"}},
		"OtherHost": {reason: "A Job must not connect to a host that the platform does not allow.",
			in:   given(ofServer, platform(func(s *v1.PlatformSpec) { s.AllowedImportServers = []string{"old.example"} })),
			want: want{refusal: "db.old.example:3306 is not allowed by the platform. Allowed: old.example"}},
		"OtherStore": {reason: "A Job must not read a BackupStore that the platform does not allow.",
			in:   given(ofDump, platform(func(s *v1.PlatformSpec) { s.AllowedBackupStores = nil })),
			want: want{refusal: "offsite is not allowed by the platform"}},
		"DefaultStore": {reason: "Every claim may read the platform's default BackupStore.",
			in: given(ofDump, platform(func(s *v1.PlatformSpec) {
				s.AllowedBackupStores, s.DefaultBackupStore = nil, "offsite"
			})),
			want: want{subject: "dump/offsite/shop.sql.gz", job: true, reason: v1.ReasonRestoring}},
		"OtherPort": {reason: "An allowed host without a port must allow only the port of MySQL.",
			in:   given(ofServer, func(in *Input) { in.XR.Spec.Restore.Import.Server.Port = 443 }),
			want: want{refusal: "db.old.example:443 is not allowed by the platform"}},
		"ThatPort": {reason: "The platform allows the port explicitly.",
			in: given(ofServer, func(in *Input) { in.XR.Spec.Restore.Import.Server.Port = 3307 },
				platform(func(s *v1.PlatformSpec) { s.AllowedImportServers = []string{"*.old.example:3307"} })), want: want{
				subject: "server/db.old.example:3307", job: true, reason: v1.ReasonRestoring}},
		"NoVolume": {reason: "A missing PVC must be refused immediately.",
			in:   given(ofVolume, func(in *Input) { in.Required.Import.Items = nil }),
			want: want{refusal: "PersistentVolumeClaim default/old does not exist"}},
		"OfClaim": {reason: "The pod of the import would delay the deletion of the other claim.",
			in:   given(ofVolume, found("old", map[string]string{v1.LabelInstance: "x"})),
			want: want{refusal: "is the volume of another claim. To copy the data of that claim, set spec.restore.from"}},
		"NoAccount": {reason: "A missing Secret must be refused immediately, instead of a pod that waits for it.",
			in:   given(ofServer, func(in *Input) { in.Required.Import.Items = nil }),
			want: want{refusal: "Create it with the keys username, password and ca.crt"}},
		"NotLooked": {reason: "A Secret that has not been read yet must not be reported as missing.",
			in:   given(ofServer, func(in *Input) { in.Required.Import.Known = false }),
			want: want{reason: v1.ReasonWaiting, say: "Waiting for Crossplane to read the import source"}},
		"NoLabel": {reason: "The platform requires a label on each Secret that claims use.", in: given(ofServer, labelled),
			want: want{refusal: "has no label"}},
		"Label": {reason: "The Secret has the label that the platform requires.",
			in:   given(ofServer, labelled, found("account", map[string]string{v1.LabelPassword: "true"})),
			want: want{subject: "server/db.old.example:3306", job: true, reason: v1.ReasonRestoring}},
		"NoCert": {reason: "The server that loads the dump needs the certificate.",
			in:   given(ofDump, func(in *Input) { in.XR.Status.Authorities = "" }),
			want: want{reason: v1.ReasonWaiting, say: "certificate"}},
		"Kept": {reason: "The chosen source must not change when the spec changes.", in: given(ofServer, importChosen),
			want: want{subject: "volume/old", job: true, reason: v1.ReasonRestoring}},
		"OfJob": {reason: "If the status was not written, the annotation of the Job contains the source.",
			in:   given(importJob(volumeChoice)),
			want: want{subject: "volume/old", job: true, reason: v1.ReasonRestoring}},
		"OfBadJob": {reason: "A changed annotation of the Job must not give access to a server.",
			in:   given(importJob(`{"import":{"server":{"host":"evil","secretRef":{"name":"s"}}},"phase":"Running"}`)),
			want: want{refusal: "evil:3306 is not allowed by the platform"}},
		"OfOddJob": {reason: "A changed annotation of the Job must not name a path in another directory.",
			in:   given(importJob(`{"import":{"dump":{"store":"offsite","name":"../other/a.sql"}},"phase":"Running"}`)),
			want: want{refusal: "must end in .sql"}},
		"OfEmptyJob": {reason: "An import without a source must be refused.",
			in:   given(importJob(`{"import":{},"phase":"Running"}`)),
			want: want{refusal: "must have exactly one of volume, server and dump"}},
		"Done": {reason: "The server must start after the import is complete.",
			in:   given(importChosen, importJob(volumeChoice, complete)),
			want: want{replicas: 1, subject: "volume/old", job: true, reason: v1.ReasonRestored}},
		"Failed": {reason: "The server must not start after the import has failed.",
			in:   given(importChosen, importJob(volumeChoice, failed)),
			want: want{subject: "volume/old", job: true, reason: v1.ReasonRestoreFailed, say: "is truncated"}},
		"Started": {reason: "An instance that has started must not import again.", in: given(ofVolume, server(1)),
			want: want{replicas: 1, reason: v1.ReasonNothingToRestore}},
		"Suspended": {reason: "A suspended instance must finish an import that has begun.",
			in: given(suspended, importChosen, importJob(volumeChoice)),
			want: want{subject: "volume/old", job: true, reason: v1.ReasonSuspended,
				say: "the import of volume/old continues"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decideStart(r, "secret")
			if tc.want.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want.refusal) {
					t.Fatalf("%s\nwant a refusal with %q, got: %v", tc.reason, tc.want.refusal, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			subject, backup := "", ""
			if from := got.restore; from != nil && from.Import != nil {
				subject = from.Import.String()
			} else if from != nil {
				backup = from.Backup
			}
			if made := wantsRestoreJob(r, got); got.replicas != tc.want.replicas || got.reason != tc.want.reason ||
				subject != tc.want.subject || backup != tc.want.backup || made != tc.want.job {
				t.Errorf("%s\nwant %+v, got %+v of %q, Job wanted: %t", tc.reason, tc.want, got, subject, made)
			}
			if !strings.Contains(got.message, tc.want.say) {
				t.Errorf("%s\nwant a message with %q, got %q", tc.reason, tc.want.say, got.message)
			}
		})
	}
}

// TestImportPod checks the containers of the Job and their mounts. The last container is the product's own. A
// container with the tenant's image has access only to the imported data.
func TestImportPod(t *testing.T) {
	for name, tc := range map[string]struct {
		in         Input
		containers []string
		// mounts are the mounts of each container with the tenant's image.
		mounts []string
	}{
		"Volume":         {in: given(ofVolume), containers: []string{"tools", "version", "restore"}},
		"VolumeHostPath": {in: given(ofVolume, onHostPath), containers: []string{"tools", "version", "restore"}},
		"Server": {in: given(ofServer), containers: []string{"tools", "version", "import-server", "restore"},
			mounts: []string{"tools", "data", "account"}},
		"Dump": {in: given(ofDump),
			containers: []string{"tools", "version", "fetch-dump", "import-dump", "restore"},
			mounts:     []string{"tools", "data", "scratch", "config", "tls"}},
		"ServerHostPath": {in: given(ofServer, onHostPath),
			containers: []string{"tools", "version", "own", "import-server", "restore"},
			mounts:     []string{"tools", "data", "account"}},
		"DumpHostPath": {in: given(ofDump, onHostPath),
			containers: []string{"tools", "version", "fetch-dump", "own", "import-dump", "restore"},
			mounts:     []string{"tools", "data", "scratch", "config", "tls"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := tryCompose(t, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			j, ok := out.Resources[v1.ResourceRestore].Object.(*batchv1.Job)
			if !ok {
				t.Fatalf("there is no Job: %v", out.Resources)
			}
			pod := j.Spec.Template.Spec
			var names []string
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				names = append(names, c.Name)
				if c.Image == "agent" || c.Name == "version" {
					continue
				}
				var mounts []string
				for _, m := range c.VolumeMounts {
					mounts = append(mounts, m.Name)
				}
				if got := slices.Compact(mounts); !slices.Equal(got, tc.mounts) || *c.SecurityContext.RunAsUser != agent.ServerUID {
					t.Errorf("%s mounts %v, as user %d, and not %v", c.Name, got, *c.SecurityContext.RunAsUser, tc.mounts)
				}
			}
			if !slices.Equal(names, tc.containers) {
				t.Errorf("want %v, got %v", tc.containers, names)
			}
			groups := pod.SecurityContext.SupplementalGroups
			if (len(groups) > 0) != (name == "Volume") || slices.Contains(groups, 0) {
				t.Errorf("the pod is a member of the groups %v", groups)
			}
			if containerName := j.Spec.PodFailurePolicy.Rules[0].OnExitCodes.ContainerName; containerName != nil {
				t.Errorf("only %s ends the Job", *containerName)
			}
		})
	}
}

func onHostPath(in *Input) { in.Settings.Volumes = v1.VolumesHostPath }

// TestImportPolicy checks that a Job may connect to the imported server until the instance has started.
func TestImportPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		in   Input
		want int
	}{
		"Volume":  {in: given(ofVolume)},
		"Server":  {in: given(ofServer), want: 2},
		"Dump":    {in: given(ofDump), want: 1},
		"Started": {in: given(ofServer, server(1))},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := jobPolicy(r).Spec.Egress; len(got) != tc.want {
				t.Errorf("want %d, got %+v", tc.want, got)
			}
		})
	}
}

// TestImportFailure checks that there is a specific message for each exit code of the job image.
func TestImportFailure(t *testing.T) {
	for code, want := range map[int]string{
		agent.ExitVersion: "from an unknown version", agent.ExitUnclean: "did not shut down cleanly",
		agent.ExitDamaged: "is truncated", agent.ExitMissing: "does not exist",
		agent.ExitSource:   "contains no data directory that can be imported",
		agent.ExitOccupied: "already contains a database", agent.ExitNoSpace: "does not fit", 0: "why",
	} {
		if got := importFailure(code, "volume/old", "why", "default/j", "again"); !strings.Contains(got, want) ||
			!strings.Contains(got, "volume/old") || !strings.Contains(got, "again") {
			t.Errorf("%d: want %q, got %q", code, want, got)
		}
	}
}

// TestImportResources checks the resources of the container that loads a dump, with and without the platform's
// resources for Jobs. The Deployment must not change.
func TestImportResources(t *testing.T) {
	amounts := func(cpu, memory string) *v1.Resources {
		return &v1.Resources{Requests: map[corev1.ResourceName]v1.Amount{"cpu": v1.Amount(cpu), "memory": v1.Amount(memory)},
			Limits: map[corev1.ResourceName]v1.Amount{"cpu": v1.Amount(cpu), "memory": v1.Amount(memory)}}
	}
	for name, tc := range map[string]struct {
		own, jobs           *v1.Resources
		request, limit, cpu string
	}{
		"Nothing": {request: "512Mi", limit: "1Gi", cpu: "250m"},
		"None":    {own: &v1.Resources{}, request: "512Mi", limit: "1Gi", cpu: "50m"},
		"Jobs":    {jobs: amounts("200m", "256Mi"), request: "512Mi", limit: "1Gi", cpu: "200m"},
		"Own":     {own: amounts("1", "2Gi"), request: "2Gi", limit: "2Gi", cpu: "1"},
		"Both":    {own: amounts("1", "2Gi"), jobs: amounts("200m", "256Mi"), request: "2Gi", limit: "4Gi", cpu: "200m"},
		"Small":   {own: amounts("1", "128Mi"), request: "128Mi", limit: "128Mi", cpu: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(ofDump, func(in *Input) { in.XR.Spec.Resources, in.Settings.JobResources = tc.own, tc.jobs })
			alone := given(func(in *Input) { in.XR.Spec.Resources = tc.own })
			out, err := tryCompose(t, in)
			if err != nil {
				t.Fatal(err)
			}
			other, err := tryCompose(t, alone)
			if err != nil {
				t.Fatal(err)
			}
			j := out.Resources[v1.ResourceRestore].Object.(*batchv1.Job)
			n := slices.IndexFunc(j.Spec.Template.Spec.InitContainers,
				func(c corev1.Container) bool { return c.Name == "import-dump" })
			got := j.Spec.Template.Spec.InitContainers[n].Resources
			if got.Requests.Memory().String() != tc.request || got.Limits.Memory().String() != tc.limit ||
				got.Requests.Cpu().String() != tc.cpu && got.Limits.Cpu().String() != tc.cpu {
				t.Errorf("it asks for %v", got)
			}
			server := func(o *Output) corev1.ResourceRequirements {
				return o.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Resources
			}
			if diff := cmp.Diff(server(other), server(out)); diff != "" {
				t.Errorf("the server's: -alone, +beside the Job:\n%s", diff)
			}
		})
	}
}

// TestImportDirectory checks which paths of a data directory are refused.
func TestImportDirectory(t *testing.T) {
	for directory, isValid := range map[string]bool{
		"": true, "data": true, "mysql/data": true, "my sql": true, strings.Repeat("d", 253): true,
		"..": false, "data/..": false, "data/../../etc": false, "./data": false, "/data": false, "data/": false,
		"data//mysql": false, ".hidden": false, "data/.hidden": false, "data\x00": false, "data\n": false,
		strings.Repeat("d", 254): false,
	} {
		t.Run(directory, func(t *testing.T) {
			r, err := resolve(given(ofVolume, func(in *Input) { in.XR.Spec.Restore.Import.Volume.Directory = directory }))
			if err == nil {
				_, err = decideStart(r, "secret")
			}
			if (err == nil) != isValid {
				t.Errorf("valid: %t, but %v", isValid, err)
			}
			if err != nil && !strings.Contains(err.Error(), "must be a path below the root of the volume, such as data or lib/mysql") {
				t.Errorf("it says %v", err)
			}
		})
	}
}
