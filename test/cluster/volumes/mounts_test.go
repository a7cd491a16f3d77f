package volumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 22 7:3 / /vol/pvc-1 rw,relatime - xfs /dev/loop3 rw
41 22 7:3 /data /pods/a\040b/data rw,relatime - xfs /dev/loop3 rw
42 22 254:0 /images/pvc-2.plain /vol/pvc-2 rw,relatime shared:1 master:2 - ext4 /dev/vda rw
43 22 254:0 /images/pvc-22.plain /vol/pvc-22 rw,relatime - ext4 /dev/vda rw
44 22 7:4 / /vol/pvc-2/deeper rw - ext4 /dev/loop4 rw
not a mount
`

func TestMounts(t *testing.T) {
	ms := parseMounts(mountinfo)
	find := func(target string) mount {
		m, _ := at(ms, target)
		return m
	}
	cases := map[string]struct {
		reason    string
		want, got any
	}{
		"At": {"The mount of a volume must have its device and its source.",
			mount{device: "7:3", root: "/", target: "/vol/pvc-1", source: "/dev/loop3"}, find("/vol/pvc-1")},
		"Nothing": {"Nothing is mounted in this directory.", mount{}, find("/vol/pvc-3")},
		"InPods": {"A subPath that is mounted in a pod uses the volume.", []string{"/pods/a b/data"},
			others(ms, find("/vol/pvc-1"))},
		"PlainFree": {"Plain directories share a device, so only mounts of their own contents use the volume.", []string(nil),
			others(ms, find("/vol/pvc-2"))},
		"Below": {"Mounts in subdirectories of a volume are ignored, and the last mount must come first.",
			[]string{"/vol/pvc-22", "/vol/pvc-2", "/vol/pvc-1"}, below(ms, "/vol")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got, cmp.AllowUnexported(mount{})); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
