package compose

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// growsTo returns a change of an Input that sets spec.storageAutogrow with the given maximum size.
func growsTo(size string) func(*Input) {
	return func(in *Input) { in.XR.Spec.StorageAutogrow = &v1.StorageAutogrow{To: size} }
}

// grownTo returns a change of an Input that sets the size to which the controller has grown the data volume.
func grownTo(size string) func(*Input) {
	return func(in *Input) { in.XR.Status.StorageGrowth = &v1.StorageGrowthStatus{Size: size} }
}

// boundPVC returns a change of an Input that adds a bound data PVC, whose StorageClass allows expansion.
func boundPVC(size string) func(*Input) {
	return func(in *Input) {
		in.Required.Class = Required[storagev1.StorageClass]{Known: true,
			Items: []storagev1.StorageClass{{AllowVolumeExpansion: new(true)}}}
		in.Observed.DataPVC = &corev1.PersistentVolumeClaim{
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}, Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("fast"), Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
	}
}

// twoGi is the size of a volume that has grown, or a limit.
const twoGi = "2Gi"

// TestGrownVolume checks the size of the data PVC of a volume that grows by itself. A restored volume is as large as
// that of its backup, although the spec still has the size from before the growth.
func TestGrownVolume(t *testing.T) {
	sized := func(size string) func(*v1.BackupRecord) {
		return func(r *v1.BackupRecord) { r.Spec.StorageSize = size }
	}
	backup := record("b1", 1, v1.BackupVerified, sized("3Gi"))
	begun := func(in *Input) { in.XR.Status.Started = true }
	limited := func(p *v1.PlatformSpec) { p.MaxStorageSize = twoGi }
	unread := func(in *Input) { in.Required.Records = Required[v1.BackupRecord]{} }
	for name, tc := range map[string]struct {
		in   Input
		want string
		err  string
	}{
		"Unset":          {in: given(), want: "1Gi"},
		"Set":            {in: given(growsTo("5Gi")), want: "1Gi"},
		"Grown":          {in: given(growsTo("5Gi"), grownTo(twoGi), boundPVC("1Gi")), want: twoGi},
		"GrownAndUnset":  {in: given(grownTo(twoGi), boundPVC(twoGi)), want: twoGi},
		"GrownAndEdited": {in: given(growsTo("5Gi"), grownTo("512Mi"), boundPVC("1Gi")), want: "1Gi"},
		"GrownUnreadable": {in: given(growsTo("5Gi"), grownTo("1e9999999"), boundPVC("1Gi")),
			want: "1Gi"},
		"StatusIsLost":  {in: given(growsTo("5Gi"), boundPVC("4Gi")), want: "4Gi"},
		"LargerByHand":  {in: given(boundPVC("4Gi")), err: "smaller than the volume"},
		"GrownHostPath": {in: given(growsTo("5Gi"), grownTo(twoGi), inDirectory), want: "1Gi"},

		"Restore":         {in: given(growsTo("5Gi"), previous("b1"), backup), want: "3Gi"},
		"RestoreUnsought": {in: given(growsTo("5Gi"), previous(""), backup), want: "3Gi"},
		"RestoreUnread":   {in: given(growsTo("5Gi"), unread), want: "none"},
		"FixedUnread":     {in: given(unread), want: "1Gi"},
		"RestoreRuns":     {in: given(growsTo("5Gi"), previous("b1"), backup, job()), want: "3Gi"},
		"RestoreFixed": {in: given(previous("b1"), backup),
			err: "Set it to 3Gi or more, or set spec.storageAutogrow"},
		"RestoreTooLarge": {in: given(growsTo(twoGi), previous("b1"), backup),
			err: "Set it to 3Gi or more, or increase spec.storageAutogrow.to"},
		"RestoreOverLimit": {in: given(growsTo(twoGi), previous("b1"), backup, platform(limited)), err: "Set it to 3Gi or more"},
		"RestoreNamed":     {in: given(growsTo("5Gi"), named("b1", sized("3Gi"))), want: "3Gi"},
		"RestoreFrom": {in: given(growsTo("5Gi"), from("neighbour", record("b1", 1, v1.BackupVerified, sized("3Gi")))),
			want: "3Gi"},
		"Never":     {in: given(growsTo("5Gi"), never, previous("b1"), backup), want: "1Gi"},
		"Started":   {in: given(growsTo("5Gi"), begun, backup, boundPVC("1Gi")), want: "1Gi"},
		"Failed":    {in: given(growsTo("5Gi"), record("b1", 1, v1.BackupFailed, sized("3Gi"))), want: "1Gi"},
		"SmallerBy": {in: given(growsTo("5Gi"), previous("b1"), record("b1", 1, v1.BackupVerified, sized("512Mi"))), want: "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := tryCompose(t, tc.in)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("want the error %q, got %v", tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if c, ok := out.Resources[v1.ResourceDataPVC].Object.(*corev1.PersistentVolumeClaim); ok {
				got = c.Spec.Resources.Requests.Storage().String()
			}
			if got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

// inDirectory changes an Input so that the data is in a directory of the node (hostPath).
func inDirectory(in *Input) {
	in.Settings.Volumes, in.Settings.HostPathRoot = v1.VolumesHostPath, v1.DefaultHostPathRoot
}

// TestRestoredVolumeIsKept checks that the PVC does not become smaller after the restore, before the controller has
// recorded its size.
func TestRestoredVolumeIsKept(t *testing.T) {
	in := given(growsTo("5Gi"), boundPVC("3Gi"), func(in *Input) { in.XR.Status.Started = true })
	c, ok := composed(t, in).Resources[v1.ResourceDataPVC].Object.(*corev1.PersistentVolumeClaim)
	if !ok || c.Spec.Resources.Requests.Storage().String() != "3Gi" {
		t.Errorf("got %v", c)
	}
}

// TestMaxStorageSize checks that the platform limits sizes. A running instance keeps its size.
func TestMaxStorageSize(t *testing.T) {
	limit := func(size string) func(*Input) {
		return platform(func(p *v1.PlatformSpec) { p.MaxStorageSize = size })
	}
	begun := func(in *Input) { in.XR.Status.Started = true }
	for name, tc := range map[string]struct {
		in   Input
		err  string
		warn string
	}{
		"Allowed":       {in: given(limit("1Gi"))},
		"Large":         {in: given(limit("512Mi")), err: "spec.storageSize: Forbidden: 1Gi is more than the platform allows"},
		"LargeRuns":     {in: given(limit("512Mi"), begun, boundPVC("1Gi")), warn: "at most 512Mi"},
		"LargeGrows":    {in: given(limit("768Mi"), begun, boundPVC("512Mi")), err: "at most 768Mi"},
		"To":            {in: given(limit(twoGi), growsTo("3Gi")), err: "spec.storageAutogrow.to: Forbidden: 3Gi is more"},
		"ToRuns":        {in: given(limit(twoGi), growsTo("3Gi"), begun, boundPVC("1Gi")), warn: "at most 2Gi"},
		"HostPath":      {in: given(limit("512Mi"), inDirectory)},
		"Unreadable":    {in: given(limit("all")), err: "spec.maxStorageSize of Platform"},
		"WithoutVolume": {in: given(limit("512Mi"), asDatabase, func(in *Input) { in.XR.Spec.StorageSize = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := tryCompose(t, tc.in)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("want the error %q, got %v", tc.err, err)
			}
			if tc.err != "" {
				return
			}
			for _, c := range out.Conditions {
				if c.Type == v1.ConditionAccepted && (c.True != (tc.warn == "") || !strings.Contains(c.Message, tc.warn)) {
					t.Errorf("want the warning %q, got %+v", tc.warn, c)
				}
			}
		})
	}
}

// TestAutogrowCondition checks the condition and the message that result from the controller's report.
func TestAutogrowCondition(t *testing.T) {
	for name, tc := range map[string]struct {
		status  *v1.StorageGrowthStatus
		want    Condition
		warning string
	}{
		"None":      {want: Condition{Unknown: true, Reason: v1.ReasonNotMonitored}},
		"GrownOnly": {status: &v1.StorageGrowthStatus{Size: twoGi}, want: Condition{Unknown: true, Reason: v1.ReasonNotMonitored}},
		"Monitored": {status: &v1.StorageGrowthStatus{Reason: v1.ReasonMonitored}, want: Condition{True: true,
			Reason: v1.ReasonMonitored}},
		"Growing": {status: &v1.StorageGrowthStatus{Reason: v1.ReasonGrowing}, want: Condition{True: true,
			Reason: v1.ReasonGrowing}},
		"Limit": {status: &v1.StorageGrowthStatus{Reason: v1.ReasonLimitReached, Message: "The volume has 5Gi"},
			want: Condition{Reason: v1.ReasonLimitReached}, warning: "The volume has 5Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(growsTo("5Gi"), server(1), boundPVC("1Gi"), func(in *Input) {
				in.XR.Status.StorageGrowth, in.XR.Status.Started = tc.status, true
			})
			r, err := resolve(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := autogrowWarning(r); got != tc.warning {
				t.Errorf("want the warning %q, got %q", tc.warning, got)
			}
			out, found := composed(t, in), false
			for _, c := range out.Conditions {
				if c.Type != v1.ConditionStorageAutogrow {
					continue
				}
				found = true
				if c.True != tc.want.True || c.Unknown != tc.want.Unknown || c.Reason != tc.want.Reason {
					t.Errorf("want %+v, got %+v", tc.want, c)
				}
			}
			if !found {
				t.Error("there is no condition")
			}
		})
	}
	for _, c := range composed(t, given(grownTo(twoGi))).Conditions {
		if c.Type == v1.ConditionStorageAutogrow {
			t.Error("the condition exists without the field")
		}
	}
}
