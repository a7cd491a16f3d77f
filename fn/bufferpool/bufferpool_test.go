package bufferpool

import "testing"

// TestSizeOf checks that the pool takes most of the memory, is a multiple of the chunk size times the number of
// instances, and leaves enough for the rest of the server.
func TestSizeOf(t *testing.T) {
	cases := map[string]struct{ limit, size, instances int64 }{
		"LessThanAServer": {64, 128, 1},
		"Half":            {512, 128, 1},
		"Usual":           {1 << 10, 128, 1},
		"TwoGi":           {2 << 10, 1152, 1},
		"ThreeGi":         {3 << 10, 2048, 2},
		"FourGi":          {4 << 10, 2816, 2},
		"EightGi":         {8 << 10, 5632, 4},
		"SixteenGi":       {16 << 10, 11 << 10, 8},
		"Large":           {256 << 10, 179 << 10, 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if size, instances := sizeOf(tc.limit); size != tc.size || instances != tc.instances {
				t.Errorf("of %d MiB: want %d in %d, got %d in %d", tc.limit, tc.size, tc.instances, size, instances)
			}
		})
	}
	// MySQL rounds the size up to whole chunks of all instances (buf_pool_size_align in buf0buf.h). This must not change
	// the sizes that sizeOf returns.
	for limit := int64(1024); limit < 64<<10; limit += 37 {
		size, instances := sizeOf(limit)
		switch whole := instances * 128; {
		case size%whole != 0:
			t.Fatalf("of %d MiB: %d is no multiple of %d", limit, size, whole)
		case size > limit*7/10, limit-size < 896:
			t.Fatalf("of %d MiB: %d leaves too little", limit, size)
		case limit >= 4<<10 && size < limit*6/10:
			t.Fatalf("of %d MiB: %d is too little", limit, size)
		}
	}
}

// TestSharedConfig checks that temporary tables and the log buffer leave room for other memory in a small container,
// and that MySQL's own defaults apply in a large one.
func TestSharedConfig(t *testing.T) {
	const small = "loose_innodb_log_buffer_size = 16M\nloose_performance_schema_events_statements_history_long_size = 1000\n"
	for limit, want := range map[int64]string{
		1 << 20:  "loose_temptable_max_ram = 2M\n" + small,
		1 << 30:  "loose_temptable_max_ram = 30M\n" + small,
		4 << 30:  "loose_temptable_max_ram = 122M\n",
		33 << 30: "loose_temptable_max_ram = 1013M\n",
		35 << 30: "",
	} {
		if got := SharedConfig(limit); got != want {
			t.Errorf("of %d bytes: want %q, got %q", limit, want, got)
		}
	}
}
