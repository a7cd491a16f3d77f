// Package datavolume describes the root of a data volume. It contains the server's data directory. Next to it,
// invisible to the server, are the markers of restored, imported or started data, and directories with incomplete
// data.
package datavolume
