// Package gateway gives Jobs access to a store without the store's credentials.
//
// A Job has a grant, which is a signed token for one attempt at one backup or for one restore. A backup may write new
// objects below its prefix and read them back. A restore may read one object. The gateway forwards objects as they
// arrive and stores nothing in memory or on disk. It can therefore be stopped at any time, and a new gateway serves
// the remaining requests.
//
//	POST   /v1/objects/KEY?uploads                   begins an upload.
//	PUT    /v1/objects/KEY?upload=ID&part=N          sends a part of it.
//	POST   /v1/objects/KEY?upload=ID                 creates the object from its parts.
//	DELETE /v1/objects/KEY?upload=ID                 cancels it.
//	GET    /v1/objects/KEY                           reads an object from an offset.
//	GET    /v1/keys/KEY                              returns the file key of an encrypted object.
package gateway
