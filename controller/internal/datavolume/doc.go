// Package datavolume describes the root directory of a data volume, which contains the server's data directory. Next
// to the data directory, invisible to the server, are markers of restored, imported or started data, and directories
// with incomplete data.
package datavolume
