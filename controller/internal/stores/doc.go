// Package stores has what BackupStores mean: how one is opened, whether backups can go there and come back, what the gateway
// is told of all of them, and the notes of backups that lie in them.
//
//	PREFIX/v1/NAMESPACE-UID/XR-UID/RECORD/xxxxxxxxxx.tar.zst[.age]   an archive, by a Job
//	PREFIX/v1/NAMESPACE-UID/XR-UID/RECORD/manifest.json              its note, sealed, by the controller, once it is proven
//
// Objects lie by UIDs: a later namespace, or instance, of the same name has another folder, and nothing is in its way.
package stores
