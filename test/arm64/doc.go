// Package arm64 tests that the agent of one architecture restores an archive of the other one. One of the agents runs
// under qemu.
package arm64
