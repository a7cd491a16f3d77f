// Package arm64 tests that archives are portable between amd64 and arm64. It builds the agent, which is the backup
// program that runs in Jobs, for both architectures. The foreign one runs under qemu.
package arm64
