// Package bufferpool derives MySQL's memory settings from the memory limit of the container.
package bufferpool

import "fmt"

// The size of the buffer pool is percent of the memory limit. At least rest MiB must remain for connections,
// temporary tables and the performance schema. An idle MySQL 9.7 needs 360 MiB in addition to its buffer pool. The
// connections of TestDefaultsUnderLoad need up to 400 MiB more. All sizes are in MiB.
const (
	percent = 70
	rest    = 896
	// chunk is the default of innodb_buffer_pool_chunk_size. It is also the default size of the pool.
	chunk = 128
	// leastInstance is the minimum size of each buffer pool instance, unless there is only one instance.
	leastInstance = 1024
	mostInstances = 8
)

// Limits of other memory, in MiB.
const (
	// Internal temporary tables of all connections together may use 3 % of the memory limit, and use the disk after
	// that. MySQL 8.4 and newer use 3 % of the node's memory, and all versions at least 1 GiB.
	temporaryPercent = 3
	leastTemporary   = 2
	usualTemporary   = 1024
	// Below 4 GiB of memory, the log buffer has the default size of MySQL 8.0, because MySQL 9 uses 64 MiB. The long
	// history of statements has 1000 rows. MySQL allocates 34 MiB for 10000 rows, although this history is disabled by
	// default.
	smallContainer = 4096
	logBuffer      = 16
	longHistory    = 1000
)

// Settings returns the options that affect the size of the buffer pool.
func Settings() []string {
	return []string{"innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size",
		"innodb_dedicated_server"}
}

// SharedConfig returns the lines of my.cnf that limit other memory than the buffer pool, for a memory limit in bytes.
// The claim's settings follow these lines, so that they take precedence.
func SharedConfig(limit int64) string {
	out, temporary := "", max(limit>>20*temporaryPercent/100, leastTemporary)
	if temporary < usualTemporary {
		out = fmt.Sprintf("loose_temptable_max_ram = %dM\n", temporary)
	}
	if limit>>20 < smallContainer {
		out += fmt.Sprintf("loose_innodb_log_buffer_size = %dM\n"+
			"loose_performance_schema_events_statements_history_long_size = %d\n", logBuffer, longHistory)
	}
	return out
}

// Config returns the lines of my.cnf for a memory limit in bytes. The prefix loose_ distinguishes them from the
// claim's settings. It also makes a server ignore options that it does not support, such as
// innodb_buffer_pool_instances in MariaDB since 10.6.
func Config(limit int64) string {
	size, instances := sizeOf(limit >> 20)
	return fmt.Sprintf("loose_innodb_buffer_pool_size = %dM\nloose_innodb_buffer_pool_instances = %d\n", size, instances)
}

// sizeOf returns the size of the pool for a memory limit, and the number of its instances. MySQL rounds the size up
// to a multiple of the chunk size times the number of instances, and chooses that number if it is not set. MySQL 8.0
// would choose 8 instances and round 1408 MiB up to 2 GiB. This function therefore sets the number, and rounds the
// size down.
func sizeOf(limit int64) (size, instances int64) {
	size = max(min(limit*percent/100, limit-rest), chunk)
	for instances = 1; instances < mostInstances && size >= 2*instances*leastInstance; {
		instances *= 2
	}
	return size / (instances * chunk) * instances * chunk, instances
}
