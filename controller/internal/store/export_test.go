package store

import "time"

// StallAfter sets a shorter timeout for transfers without progress.
func (b *Bucket) StallAfter(d time.Duration) { b.stall = d }

// MinPart is the minimum size in bytes of all parts except the last.
const MinPart = minPart
