// Package catalog keeps the backups that there are: the index on their volumes, how many stay, and what becomes of those whose instance
// is gone.
package catalog
