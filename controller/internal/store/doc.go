// Package store keeps objects in a bucket of an S3 store, of any vendor.
//
// A bucket is hostile input: whoever can write to it can put anything there. What
// is read has bounds, and what it says is believed only with a seal.
package store
