package store

import "time"

// StallAfter sets a shorter stall for tests.
func (b *Bucket) StallAfter(d time.Duration) { b.stall = d }

// MinPart is the minimum size in bytes of all parts but the last.
const MinPart = minPart
