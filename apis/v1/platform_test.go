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
		"AnyImage": {reason: "Without a list, all images are allowed.", got: image(nil, "x"), want: true},
		"NoImage":  {reason: "An empty list allows no image.", got: image(list(), "mysql:8.4")},
		"Image":    {reason: "The image is on the list.", got: image(list("mysql:8.4"), "mysql:8.4"), want: true},
		"OtherTag": {reason: "The list contains only another tag.", got: image(list("mysql:8.4"), "mysql:8.4.6")},
		"EachTag": {reason: "An entry that ends in a colon allows all tags.",
			got: image(list("mysql:"), "mysql:8.4"), want: true},
		"TagAndDigest": {reason: "An entry that ends in a colon allows a tag with a digest.",
			got: image(list("mysql:"), "mysql:8.4@sha256:0"), want: true},
		"NoTag": {reason: "An entry that ends in a colon must not allow an image without a tag.",
			got: image(list("mysql:"), "mysql")},
		"Port": {reason: "An entry that ends in a colon must not allow a registry with a port.",
			got: image(list("mysql:"), "mysql:5000/other")},
		"PortOfARegistry": {reason: "An entry that ends in a colon must not allow all ports of a registry.",
			got: image(list("registry.example:"), "registry.example:5000/mysql")},
		"Digest": {reason: "An entry that ends in @ allows all digests.",
			got: image(list("mysql@"), "mysql@sha256:0"), want: true},
		"TagForDigest": {reason: "An entry that ends in @ must not allow a tag.", got: image(list("mysql@"), "mysql:8.4")},
		"Folder": {reason: "An entry that ends in a slash allows all images in this path.",
			got: image(list("registry.example/db/"), "registry.example/db/a/mysql:8.4"), want: true},
		"OtherFolder": {reason: "An entry that ends in a slash must not allow another path.",
			got: image(list("registry.example/db/"), "registry.example/dbs/mysql:8.4")},
		"LongerRegistry": {reason: "The name of a registry must not match a longer name.",
			got: image(list("registry.example"), "registry.example.org/mysql")},
		"Annotation": {reason: "The default list contains this annotation, which makes a load balancer internal.",
			got: annotation(nil, "service.beta.kubernetes.io/aws-load-balancer-internal"), want: true},
		"OtherAnnotation": {reason: "The default list does not contain this annotation.",
			got: annotation(nil, "service.beta.kubernetes.io/aws-load-balancer-security-groups")},
		"NoAnnotation": {reason: "An empty list allows no annotation.",
			got: annotation(list(), "service.beta.kubernetes.io/aws-load-balancer-internal")},
		"AnnotationDomain": {reason: "An entry that ends in a slash allows all annotations of the domain.",
			got: annotation(list("metallb.io/"), "metallb.io/address-pool"), want: true},
		"LongerDomain": {reason: "The name of a domain must not match a longer name.",
			got: annotation(list("metallb.io"), "metallb.io.evil/x")},
		"AnyType": {reason: "Without a list, all Service types are allowed.",
			got:  (&PlatformSpec{}).AllowsServiceType(ServiceNodePort),
			want: true},
		"OtherType": {reason: "The Service type is not on the list.",
			got: (&PlatformSpec{AllowedServiceTypes: []ServiceType{ServiceClusterIP}}).AllowsServiceType(ServiceNodePort)},
		"NoReuse": {reason: "Without a list, no backups of earlier namespaces are allowed.",
			got: (&PlatformSpec{}).AllowsReuse("a")},
		"Reuse": {reason: "The namespace is on the list.", got: (&PlatformSpec{ReusableNamespaces: []string{"a"}}).
			AllowsReuse("a"), want: true},
		"ReuseOfAll": {reason: "The entry * allows all namespaces.", got: (&PlatformSpec{ReusableNamespaces: []string{"*"}}).
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
