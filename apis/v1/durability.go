package v1

// CommitTimeout is the value of rpl_semi_sync_source_timeout, in milliseconds, of a server with durability Store. It is the
// maximum value of the variable, because a commit must not be acknowledged before its transaction is in the BackupStore. The
// controller recognizes such a server by it.
const CommitTimeout = "4294967295"
