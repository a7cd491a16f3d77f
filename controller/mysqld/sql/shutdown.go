package sql

import "context"

// ShutDown the server. It has stopped when its process ends, not when this
// returns.
func (s *Session) ShutDown(ctx context.Context) error {
	if err := s.execStatement(ctx, "SHUTDOWN"); err != nil && !IsUnreachable(err) { // It may be faster than its answer.
		return s.wrapError(err, "stop the server")
	}
	return nil
}
