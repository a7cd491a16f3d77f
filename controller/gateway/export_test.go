package gateway

import "time"

// GiveUpAfter a shorter time than usual.
func (c *Client) GiveUpAfter(d time.Duration) { c.giveUp = d }
