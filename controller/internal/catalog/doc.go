// Package catalog manages existing backups: the index on their volumes, retention, and backups whose instance no
// longer exists.
package catalog
