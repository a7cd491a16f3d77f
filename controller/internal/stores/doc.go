// Package stores implements BackupStores. It opens and probes them, configures the gateway for them, and manages the
// catalog entries of the backups in them.
//
//	PREFIX/v1/NAMESPACE-UID/XR-UID/RECORD/xxxxxxxxxx.tar.zst[.age]   an archive that a Job has written.
//	PREFIX/v1/NAMESPACE-UID/XR-UID/RECORD/manifest.json              its signed catalog entry, written by the controller.
//
// The paths contain UIDs. A later namespace or instance with the same name therefore has a different prefix.
package stores
