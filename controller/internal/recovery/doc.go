// Package recovery applies an archived binary log to a restored backup, up to a time or a transaction.
//
//	base restored ─▶ manifests verified ─▶ segments verified and cut ─▶ replayed by a temporary server ─▶ set compared
//
// All transactions are verified before the first of them is applied. A temporary server applies them from its relay
// log, as a replica does, and accepts no connections from the network. At the end, the server must have executed
// exactly the expected transactions.
package recovery
