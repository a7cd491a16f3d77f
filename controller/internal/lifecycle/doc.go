// Package lifecycle decides what happens to an instance that outlives its
// composition: that nothing starts before its data is protected, and that no
// data goes before a proven backup of it exists.
//
// Next is pure: it says what is to be done now, and what is written for it. Each step is
// derived from what is there, so that a crash between any two is harmless.
package lifecycle
