package v1

import "testing"

// TestAllowed checks which values match the platform's allow-lists. Values that only resemble an entry must not
// match.
func TestAllowed(t *testing.T) {
	list := func(entries ...string) *[]string { return &entries }
	image := func(list *[]string, image string) bool {
		return (&PlatformSpec{AllowedImages: list}).AllowsImage(image)
	}
	annotation := func(list *[]string, key string) bool {
		return (&PlatformSpec{AllowedServiceAnnotations: list}).AllowsServiceAnnotation(key)
	}
	cases := map[string]struct {
		reason string
		got    bool
		want   bool
	}{
		"AnyImage":     {reason: "Nobody has said it.", got: image(nil, "x"), want: true},
		"NoImage":      {reason: "Nothing is on the list.", got: image(list(), "mysql:8.4")},
		"Image":        {reason: "It is on the list.", got: image(list("mysql:8.4"), "mysql:8.4"), want: true},
		"OtherTag":     {reason: "One tag is.", got: image(list("mysql:8.4"), "mysql:8.4.6")},
		"EachTag":      {reason: "Each tag is.", got: image(list("mysql:"), "mysql:8.4"), want: true},
		"TagAndDigest": {reason: "So it is with a digest.", got: image(list("mysql:"), "mysql:8.4@sha256:0"), want: true},
		"NoTag":        {reason: "Not the one that has none.", got: image(list("mysql:"), "mysql")},
		"Port": {reason: "It is of the registry mysql, port 5000.",
			got: image(list("mysql:"), "mysql:5000/other")},
		"PortOfARegistry": {reason: "Nor is an entry that ends with a colon the registry of each port.",
			got: image(list("registry.example:"), "registry.example:5000/mysql")},
		"Digest":       {reason: "Each digest is.", got: image(list("mysql@"), "mysql@sha256:0"), want: true},
		"TagForDigest": {reason: "No tag is.", got: image(list("mysql@"), "mysql:8.4")},
		"Folder": {reason: "Each image of the folder is.",
			got: image(list("registry.example/db/"), "registry.example/db/a/mysql:8.4"), want: true},
		"OtherFolder": {reason: "Not that of another folder.",
			got: image(list("registry.example/db/"), "registry.example/dbs/mysql:8.4")},
		"LongerRegistry": {reason: "Nor that of another registry.",
			got: image(list("registry.example"), "registry.example.org/mysql")},
		"Annotation": {reason: "It keeps a load balancer inside.",
			got: annotation(nil, "service.beta.kubernetes.io/aws-load-balancer-internal"), want: true},
		"OtherAnnotation": {reason: "Nobody has allowed it.",
			got: annotation(nil, "service.beta.kubernetes.io/aws-load-balancer-security-groups")},
		"NoAnnotation": {reason: "None is on the list.",
			got: annotation(list(), "service.beta.kubernetes.io/aws-load-balancer-internal")},
		"AnnotationDomain": {reason: "Each of the domain is.",
			got: annotation(list("metallb.io/"), "metallb.io/address-pool"), want: true},
		"LongerDomain": {reason: "Another domain is.", got: annotation(list("metallb.io"), "metallb.io.evil/x")},
		"AnyType": {reason: "Nobody has said it.", got: (&PlatformSpec{}).AllowsServiceType(ServiceNodePort),
			want: true},
		"OtherType": {reason: "It is not on the list.",
			got: (&PlatformSpec{AllowedServiceTypes: []ServiceType{ServiceClusterIP}}).AllowsServiceType(ServiceNodePort)},
		"NoReuse": {reason: "Nobody has said it.", got: (&PlatformSpec{}).AllowsReuse("a")},
		"Reuse": {reason: "Somebody has.", got: (&PlatformSpec{ReusableNamespaces: []string{"a"}}).
			AllowsReuse("a"), want: true},
		"ReuseOfAll": {reason: "Of each namespace.", got: (&PlatformSpec{ReusableNamespaces: []string{"*"}}).
			AllowsReuse("a"), want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("%s Got %v", tc.reason, tc.got)
			}
		})
	}
}
