// Package stores implements BackupStores: opening them, probing them, configuring the gateway for all of them, and
// the catalog entries of the backups in them.
//
//	PREFIX/v1/NAMESPACE-UID/XR-UID/RECORD/xxxxxxxxxx.tar.zst[.age]   an archive that a Job has written.
//	PREFIX/v1/NAMESPACE-UID/XR-UID/RECORD/manifest.json              its signed catalog entry, written by the controller.
//
// The paths contain UIDs. A later namespace or instance of the same name therefore has another prefix.
package stores
