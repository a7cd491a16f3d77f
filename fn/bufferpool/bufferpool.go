// Package bufferpool sizes the buffer pool of MySQL by the memory limit of its container.
package bufferpool

import "fmt"

// Amounts in MiB. The pool leaves the rest of the server at least rest: connections, temporary tables and the performance
// schema.
const (
	percent = 70
	rest    = 512
	// chunk is innodb_buffer_pool_chunk_size by default. It is also the default size of the pool.
	chunk = 128
	// leastInstance is the least memory of each instance of the pool.
	leastInstance = 1024
	mostInstances = 8
)

// Settings are options that decide together how large the pool is.
func Settings() []string {
	return []string{"innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size",
		"innodb_dedicated_server"}
}

// Config returns the lines of my.cnf for a memory limit in bytes. The prefix loose_ tells them from lines of a claim, and
// lets servers ignore what they do not know, such as instances in MariaDB since 10.6.
func Config(limit int64) string {
	size, instances := sizeOf(limit >> 20)
	return fmt.Sprintf("loose_innodb_buffer_pool_size = %dM\nloose_innodb_buffer_pool_instances = %d\n", size, instances)
}

// sizeOf the pool for a memory limit, and the number of its instances. MySQL rounds the size up to whole chunks of each
// instance, and chooses the number by itself: 1408 MiB would become 2 GiB with the 8 instances of 8.0. So the number is
// set, and the size is rounded down.
func sizeOf(limit int64) (size, instances int64) {
	size = max(min(limit*percent/100, limit-rest), chunk)
	for instances = 1; instances < mostInstances && size >= 2*instances*leastInstance; {
		instances *= 2
	}
	return size / (instances * chunk) * instances * chunk, instances
}
