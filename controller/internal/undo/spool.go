package undo

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// A Statement is the SQL statement of a plan that restores one row.
type Statement struct {
	// Table is the index of the table in the plan.
	Table int `json:"t"`
	// SQL is an INSERT or an UPDATE.
	SQL      string `json:"s"`
	IsInsert bool   `json:"i,omitempty"`
	// Check is a query that returns 1 if the row already has the values that an UPDATE sets.
	Check string `json:"c,omitempty"`
	// Singles are statements that restore one column each. They run if a later transaction has written another one of
	// the columns after the plan was made.
	Singles []string `json:"u,omitempty"`
	// Failure is the number of the error with which the server refused the statement.
	Failure uint16 `json:"e,omitempty"`
	// Parents are queries for the parents of the row, and Remove deletes the row. Both are set only if the foreign keys
	// of the tables form a cycle.
	Parents []string `json:"p,omitempty"`
	Remove  string   `json:"r,omitempty"`
}

// A spool stores statements in a temporary file, which only the user can read.
type spool struct {
	file  *os.File
	out   *bufio.Writer
	count int64
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "kubectl-mysql-undo-")
	if err != nil {
		return nil, err
	}
	return &spool{file: f, out: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (s *spool) addStatement(one Statement) error {
	raw, err := json.Marshal(one)
	if err != nil {
		return err
	}
	s.count++
	_, err = s.out.Write(append(raw, '\n'))
	return err
}

// readAll calls visit with each statement.
func (s *spool) readAll(visit func(Statement) error) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	decoder := json.NewDecoder(bufio.NewReaderSize(s.file, 1<<16))
	for range s.count {
		var one Statement
		if err := decoder.Decode(&one); err != nil {
			return err
		}
		if err := visit(one); err != nil {
			return err
		}
	}
	return nil
}

// clearAll removes all statements.
func (s *spool) clearAll() error {
	s.count = 0
	s.out.Reset(s.file)
	_, err := s.file.Seek(0, io.SeekStart)
	return errors.Join(err, s.file.Truncate(0))
}

func (s *spool) removeFile() error { return errors.Join(s.file.Close(), os.Remove(s.file.Name())) }
