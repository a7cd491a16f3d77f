// Package undo brings back the rows that one transaction deleted or changed, while the server keeps running.
//
//	before the transaction ─┐
//	                        ├─▶ rows that differ ─▶ compared with the running server ─▶ statements ─▶ one transaction
//	after the transaction ──┘
//
// The difference between two servers shows the effect of every kind of transaction. It includes DROP, TRUNCATE and the
// cascades of foreign keys, which MySQL does not write to the binary log before 9.6.
//
// A row is brought back only if no later transaction has written its key. A column is changed back only if it still has the
// value that the transaction wrote.
package undo
