// Package store stores objects in a bucket of any S3 compatible store.
//
// The content of a bucket is untrusted input, because a user with write access can store anything in it. The package
// limits the size of everything that it reads. It trusts content only if it has a valid signature.
package store
