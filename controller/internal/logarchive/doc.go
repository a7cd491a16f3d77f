// Package logarchive stores the binary log of a server in a bucket, so that a restore can stop at any transaction.
// The bucket contains these objects:
//
//	PREFIX/v1-log/NAMESPACE/INSTANCE/TIMELINE/NUMBER.json           The manifest of a segment, signed.
//	PREFIX/v1-log/NAMESPACE/INSTANCE/TIMELINE/NUMBER-RANDOM.binlog  Its transactions, compressed and encrypted.
//	PREFIX/v1-log/NAMESPACE/INSTANCE/TIMELINE/head.json             What the archiver knew last, signed.
//	PREFIX/v1-log/NAMESPACE/INSTANCE/TIMELINE/start.json            What the archiver knew when the timeline began, signed.
//	PREFIX/v1-log/NAMESPACE/INSTANCE/TIMELINE/tail/NUMBER/*.tail    Acknowledged transactions after segment NUMBER, signed.
//
// A segment is a complete file in the format of a binary log. It contains whole transactions. Each manifest contains
// the checksum of its segment and of the previous manifest. A reader that trusts one manifest can therefore verify
// all segments before it, and notices a segment that is missing, damaged, replaced or in the wrong order.
//
// A timeline is a sequence of segments without a gap. A new timeline begins if the next transaction is not available:
// the server has deleted it (PURGE), its log was reset, or the server has other data.
package logarchive
