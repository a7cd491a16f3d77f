package store

import "time"

// StallAfter a shorter time than usual.
func (b *Bucket) StallAfter(d time.Duration) { b.stall = d }

// MinPart in bytes of all parts but the last.
const MinPart = minPart
