package gateway

import "time"

// GiveUpAfter a shorter time than usual.
func (c *Client) GiveUpAfter(d time.Duration) { c.giveUp = d }

// A ServerError is what a gateway has refused, or could not do.
type ServerError = serverError
