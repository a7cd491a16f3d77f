// Package arm64 tests that the agent for one architecture restores an archive from the other one. One of the agents
// runs under qemu.
package arm64
