package undo

import (
	"bytes"
	"errors"
)

// A Row contains the key of a row of a table, followed by the values of all its columns. A nil value is NULL.
type Row [][]byte

// Rows are the rows of a table, sorted by their key.
type Rows interface {
	// Next returns the next row, or nil at the end.
	Next() (Row, error)
}

// A Change is the effect of the transaction to undo on one row. Before is nil for a row that the transaction inserted,
// and After for a row that it deleted.
type Change struct{ Before, After Row }

var errOrder = errors.New("the server has not sorted the rows as required: do not use the result, and report this bug")

// findChanges compares the rows of a table before and after the transaction. It keeps only one row of each in memory.
func findChanges(before, after Rows, key []Column, visit func(Change) error) error {
	left, right := &sortedRows{from: before, key: key}, &sortedRows{from: after, key: key}
	if err := errors.Join(left.readNext(), right.readNext()); err != nil {
		return err
	}
	for left.row != nil || right.row != nil {
		var order int
		switch {
		case right.row == nil:
			order = -1
		case left.row == nil:
			order = 1
		default:
			order = compareKeys(key, left.row, right.row)
		}
		var change *Change
		switch {
		case order < 0:
			change = &Change{Before: left.row}
		case order > 0:
			change = &Change{After: right.row}
		case !isEqual(left.row, right.row):
			change = &Change{Before: left.row, After: right.row}
		}
		if change != nil {
			if err := visit(*change); err != nil {
				return err
			}
		}
		var err error
		if order <= 0 {
			err = left.readNext()
		}
		if order >= 0 {
			err = errors.Join(err, right.readNext())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sortedRows reads rows and checks their order. With a wrong order, unchanged rows would be reported as deleted.
type sortedRows struct {
	from Rows
	key  []Column
	row  Row
}

func (s *sortedRows) readNext() error {
	next, err := s.from.Next()
	if err == nil && next != nil && s.row != nil && compareKeys(s.key, s.row, next) > 0 {
		err = errOrder
	}
	s.row = next
	return err
}

// compareKeys compares the keys of two rows: integers as numbers, and everything else as bytes.
func compareKeys(key []Column, a, b Row) int {
	for i, c := range key {
		var order int
		if k, _ := c.kindOf(); k == kindInteger {
			order = compareIntegers(a[i], b[i])
		} else {
			order = bytes.Compare(a[i], b[i])
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// compareIntegers compares decimal integers, which may have a sign and leading zeros.
func compareIntegers(a, b []byte) int {
	negative := func(n []byte) (bool, []byte) {
		digits, isNegative := bytes.CutPrefix(n, []byte("-"))
		return isNegative, bytes.TrimLeft(digits, "0")
	}
	isLeftNegative, left := negative(a)
	isRightNegative, right := negative(b)
	switch {
	case isLeftNegative && !isRightNegative:
		return -1
	case !isLeftNegative && isRightNegative:
		return 1
	case isLeftNegative:
		left, right = right, left
	}
	if len(left) != len(right) {
		return len(left) - len(right)
	}
	return bytes.Compare(left, right)
}

func isEqual(a, b Row) bool {
	for i := range a {
		if !isSame(a[i], b[i]) {
			return false
		}
	}
	return true
}

// isSame compares two values, and distinguishes NULL from an empty text.
func isSame(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
