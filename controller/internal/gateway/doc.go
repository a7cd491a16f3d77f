// Package gateway lets Jobs at a store without the store's credentials.
//
// A Job has a grant: a signed token for one attempt at one backup, which may write new
// objects into that backup's folder and read them again, or for one restore, which may
// read one object. Objects are sent through as they come; nothing is kept, neither in
// memory nor on a disk, so that a gateway may end at any moment and another goes on.
//
//	POST   /v1/objects/KEY?uploads                   begins an upload
//	PUT    /v1/objects/KEY?upload=ID&part=N          sends a part of it
//	POST   /v1/objects/KEY?upload=ID                 makes the object of its parts
//	DELETE /v1/objects/KEY?upload=ID                 ends it without one
//	GET    /v1/objects/KEY                           reads an object, or the rest from a byte on
//	GET    /v1/keys/KEY                              has the file key of an encrypted object
package gateway
