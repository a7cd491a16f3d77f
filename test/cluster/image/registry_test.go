package image

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/registry"
)

// TestLoad checks that Load adds either the named images or all images to a running registry.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir)
	for n, content := range map[string]string{"docker.io/a/named:1": "one", "docker.io/a/other:1": "two"} {
		if err := s.put([]string{n}, "k", testImage(t, content)); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(registry.Handler(dir, t.TempDir()))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, tc := range []struct {
		names        []string
		named, other bool
	}{
		{[]string{"docker.io/a/none:1"}, false, false},
		{[]string{"docker.io/a/named:1"}, true, false},
		{nil, true, true},
	} {
		if err := registry.Load(t.Context(), dir, address, tc.names...); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]bool{"/a/named:1": tc.named, "/a/other:1": tc.other} {
			ref, err := name.ParseReference(address + path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := remote.Head(ref, remote.WithContext(t.Context())); (err == nil) != want {
				t.Errorf("after loading %q the registry has %s: %t, %v", tc.names, path, !want, err)
			}
		}
	}
}
