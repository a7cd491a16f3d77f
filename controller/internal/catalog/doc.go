// Package catalog manages existing backups: the index on their volumes, retention, and backups of deleted instances.
package catalog
