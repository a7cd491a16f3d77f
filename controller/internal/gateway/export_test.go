package gateway

import "time"

// GiveUpAfter sets a shorter giveUp for tests.
func (c *Client) GiveUpAfter(d time.Duration) { c.giveUp = d }

// A ServerError is an exported serverError for tests.
type ServerError = serverError
