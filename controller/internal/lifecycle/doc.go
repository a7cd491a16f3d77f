// Package lifecycle decides what happens to an instance before and after Crossplane composes it. No server starts
// before its data is protected, and no data is deleted before a verified backup of it exists.
//
// Next is pure: it returns the next action and its changes. Each step is derived from the state of the cluster, so
// that a crash between two steps is harmless.
package lifecycle
