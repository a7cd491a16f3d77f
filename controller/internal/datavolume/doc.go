// Package datavolume knows what lies at the root of a data volume: the data directory of the server, and beside it, where no server sees
// them, marks of what was restored, imported or started there, and folders of what is not complete.
package datavolume
