// Package bufferpool derives the size of MySQL's buffer pool from the memory limit of the container.
package bufferpool

import "fmt"

// The size of the buffer pool is percent of the memory limit. At least rest MiB must remain for connections,
// temporary tables and the performance schema. All sizes are in MiB.
const (
	percent = 70
	rest    = 512
	// chunk is the default of innodb_buffer_pool_chunk_size. It is also the default size of the pool.
	chunk = 128
	// leastInstance is the minimum size of each buffer pool instance, unless there is only one instance.
	leastInstance = 1024
	mostInstances = 8
)

// Settings returns the options that affect the size of the buffer pool.
func Settings() []string {
	return []string{"innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size",
		"innodb_dedicated_server"}
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
