package main

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestOrdersManifest checks that the manifest has fields of both APIs, and a password only if the API requires one.
func TestOrdersManifest(t *testing.T) {
	t.Chdir("../..")
	for name, a := range apis() {
		d := (&demo{api: a, namespace: "team"}).serverOf(ordersName)
		text, err := d.ordersManifest()
		if err != nil {
			t.Fatal(err)
		}
		var c claim
		if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		original, err := a.read()
		if err != nil {
			t.Fatal(err)
		}
		if c.APIVersion != original.APIVersion || c.Kind != original.Kind || (c.Spec.Password != nil) != a.stated {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
