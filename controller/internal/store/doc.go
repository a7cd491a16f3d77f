// Package store stores objects in a bucket of any S3 compatible store.
//
// A bucket is untrusted input, because a user with write access can store anything in it. The package limits the size
// of what it reads, and trusts content only with a valid signature.
package store
