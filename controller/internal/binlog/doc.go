// Package binlog reads the binary log of a MySQL server over the network, and writes and reads files in its format.
//
// It never decodes rows. It only finds the transactions in the log, and checks that each of them is complete. The
// format is described in libbinlogevents of MySQL and in the manual, 19.1.3 (GTIDs) and 7.4.4 (The Binary Log).
package binlog
