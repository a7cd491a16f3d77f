// Package arm64 has the agent of one architecture restore what that of the other one has archived. Both run here, one
// of them under qemu.
package arm64
