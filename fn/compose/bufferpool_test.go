package compose

import (
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestPoolConfig checks that my.cnf sets the size of the buffer pool, unless the claim sets it.
func TestPoolConfig(t *testing.T) {
	limit := func(amount v1.Amount) func(*Input) {
		return func(in *Input) { in.XR.Spec.Resources = memoryLimit(amount) }
	}
	setting := func(key string, value v1.Setting) func(*Input) {
		return func(in *Input) { in.XR.Spec.Config = map[string]v1.Setting{key: value} }
	}
	const line = "loose_innodb_buffer_pool_size = "
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"Usual": {"The pool size must follow the default memory limit.",
			given(), line + "128M\nloose_innodb_buffer_pool_instances = 1\n"},
		"Limit": {"The pool size must follow the memory limit of the claim.", given(limit("4Gi")),
			line + "2816M\nloose_innodb_buffer_pool_instances = 2\n"},
		"Most": {"The pool size must follow the memory limit of the platform.",
			given(func(in *Input) { in.XR.Spec.Resources = &v1.Resources{} },
				platform(func(s *v1.PlatformSpec) { s.MaxResources = memoryLimit("2Gi").Limits })), line + "1152M\n"},
		"Other": {"Other settings of the claim must not change the size.",
			given(limit("4Gi"), setting("max_connections", "7")), line + "2816M\n"},
		"NoLimit": {"Without a memory limit, my.cnf must not set the pool size.",
			given(func(in *Input) { in.XR.Spec.Resources = &v1.Resources{} }), ""},
		"Size": {"The claim sets the pool size.", given(limit("4Gi"), setting("innodb-buffer-pool-size", "1G")), ""},
		"Loose": {"The claim sets the pool size, in another spelling.",
			given(limit("4Gi"), setting("LOOSE_innodb_buffer_pool_size", "1G")), ""},
		"Instances": {"The number of instances determines how MySQL rounds the pool size.",
			given(limit("4Gi"), setting("innodb_buffer_pool_instances", "16")), ""},
		"Chunk": {"The size of a chunk determines how MySQL rounds the pool size.",
			given(limit("4Gi"), setting("innodb_buffer_pool_chunk_size", "1G")), ""},
		"Dedicated": {"With innodb_dedicated_server, the server sets the pool size.",
			given(limit("4Gi"), setting("innodb_dedicated_server", "ON")), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, config := containerOf(t, tc.in)
			if found := strings.Contains(config, line); found != (tc.want != "") || !strings.Contains(config, tc.want) {
				t.Errorf("%s Want %q in\n%s", tc.reason, tc.want, config)
			}
		})
	}
}

// TestSharedMemoryConfig checks that the limits for other memory also apply if the claim sets the buffer pool, and that
// the claim's own value of such a limit takes precedence.
func TestSharedMemoryConfig(t *testing.T) {
	const line = "loose_temptable_max_ram = "
	own := func(in *Input) {
		in.XR.Spec.Config = map[string]v1.Setting{"innodb_buffer_pool_size": "1G", "temptable_max_ram": "7M"}
	}
	if _, config := containerOf(t, given(own)); !strings.Contains(config, line+"30M\n") ||
		strings.Index(config, "\ntemptable_max_ram = 7M\n") < strings.Index(config, line) {
		t.Errorf("want the product's value, and then the claim's value in\n%s", config)
	}
	if _, config := containerOf(t, given(func(in *Input) { in.XR.Spec.Resources = &v1.Resources{} })); strings.Contains(config,
		line) {
		t.Errorf("want no limit without a memory limit in\n%s", config)
	}
}
