package undo

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Column is a column of a table, as information_schema describes it.
type Column struct {
	Name string
	// DataType is the type without its parameters, such as varchar. Type includes them, such as varchar(80).
	DataType, Type string
	// Charset and Collation are empty if the column has no text.
	Charset, Collation string
	// IsGenerated is true if the server computes the value from other columns.
	IsGenerated bool
	// IsTouched is true if each UPDATE of the row changes the value (ON UPDATE CURRENT_TIMESTAMP).
	IsTouched bool
	// IsOptional is true if an INSERT does not need a value for the column.
	IsOptional bool
}

// A kind is a group of data types. It determines how the value of a column is read and written without loss.
type kind int

const (
	kindInteger kind = iota
	kindDecimal
	kindFloat
	kindBit
	kindText
	kindBytes
	kindTime
	kindYear
	kindJSON
	kindGeometry
)

// kinds are the kinds of the data types of MySQL. The values of geometry and vector columns are bytes of an internal
// format, which the server also accepts.
var kinds = map[string]kind{
	"tinyint": kindInteger, "smallint": kindInteger, "mediumint": kindInteger, "int": kindInteger, "bigint": kindInteger,
	"decimal": kindDecimal, "float": kindFloat, "double": kindFloat, "bit": kindBit, "year": kindYear,
	"char": kindText, "varchar": kindText, "tinytext": kindText, "text": kindText, "mediumtext": kindText, "longtext": kindText,
	"enum": kindText, "set": kindText,
	"binary": kindBytes, "varbinary": kindBytes, "tinyblob": kindBytes, "blob": kindBytes, "mediumblob": kindBytes,
	"longblob": kindBytes, "vector": kindGeometry,
	"date": kindTime, "datetime": kindTime, "timestamp": kindTime, "time": kindTime, "json": kindJSON,
	"geometry": kindGeometry, "point": kindGeometry, "linestring": kindGeometry, "polygon": kindGeometry,
	"multipoint": kindGeometry, "multilinestring": kindGeometry, "multipolygon": kindGeometry,
	"geomcollection": kindGeometry, "geometrycollection": kindGeometry,
}

// kindOf returns the kind of the column, or false if the type is unknown.
func (c Column) kindOf() (kind, bool) {
	k, ok := kinds[c.DataType]
	return k, ok
}

// isSorted reports whether the server sorts the column in the same order as compareKeys. The server can then read the
// rows from an index.
func (c Column) isSorted() bool {
	return slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint", "binary", "varbinary"}, c.DataType)
}

// numberPattern matches the numbers that a server sends.
var numberPattern = regexp.MustCompile(`^-?[0-9.]+(e[-+]?[0-9]+)?$`)

// quoteName quotes an identifier.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func (c Column) quotedName() string { return quoteName(c.Name) }

// readExpression returns the SQL expression with which a column is read, so that no part of its value is lost. A FLOAT
// is read as a DOUBLE, because the server prints a FLOAT with fewer digits than it has. Texts are read as bytes, so
// that they are not converted.
func (c Column) readExpression() string {
	switch k, _ := c.kindOf(); k {
	case kindFloat:
		return "CAST(" + c.quotedName() + " AS DOUBLE)"
	case kindBit:
		return "CAST(" + c.quotedName() + " AS UNSIGNED)"
	case kindText:
		return "CAST(" + c.quotedName() + " AS BINARY)"
	case kindJSON:
		return "CAST(CAST(" + c.quotedName() + " AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
	case kindGeometry:
		return "UNHEX(HEX(" + c.quotedName() + "))"
	case kindInteger, kindDecimal, kindBytes, kindTime, kindYear:
	}
	return c.quotedName()
}

// sortExpression returns the expression by which the rows of a key are sorted.
func (c Column) sortExpression() string {
	if c.isSorted() {
		return c.quotedName()
	}
	return "CAST(" + c.readExpression() + " AS BINARY)"
}

// valueLiteral returns SQL for a value that was read with readExpression, so that it can be written to the column. A
// nil value is NULL.
func (c Column) valueLiteral(value []byte) string {
	if value == nil {
		return "NULL"
	}
	k, _ := c.kindOf()
	if isNumber := k == kindInteger || k == kindDecimal || k == kindBit || k == kindFloat; isNumber && !numberPattern.Match(value) {
		return bytesLiteral(value) // A correct server never sends such a value. As bytes, it cannot become a part of the statement.
	}
	switch k {
	case kindInteger, kindDecimal, kindBit:
		return string(value)
	case kindFloat:
		if slices.Contains(value, 'e') {
			return string(value)
		}
		return string(value) + "e0" // Without the exponent, the server would read it as a DECIMAL.
	case kindTime:
		return quoteText(value)
	case kindYear: // '0' would be the year 2000.
		return quoteText(append(bytes.Repeat([]byte("0"), max(0, 4-len(value))), value...))
	case kindJSON:
		return textLiteral("utf8mb4", value)
	case kindText:
		return textLiteral(c.Charset, value)
	case kindBytes, kindGeometry:
	}
	return bytesLiteral(value)
}

// isCurrent returns a condition that is true if the column still has exactly the given value.
func (c Column) isCurrent(value []byte) string {
	left := c.readExpression()
	if value == nil {
		return c.quotedName() + " IS NULL"
	}
	switch k, _ := c.kindOf(); k {
	case kindText, kindJSON:
		if (k == kindJSON || c.Charset == "utf8mb4" || c.Charset == "utf8mb3" || c.Charset == "ascii") && isPlain(value) {
			return left + " <=> " + quoteText(value) // The connection has utf8mb4, so the bytes are the same.
		}
		return left + " <=> " + bytesLiteral(value)
	case kindBytes, kindGeometry:
		return left + " <=> " + bytesLiteral(value)
	case kindInteger, kindDecimal, kindFloat, kindBit, kindTime, kindYear:
	}
	return left + " <=> " + c.valueLiteral(value)
}

func bytesLiteral(value []byte) string { return "x'" + hex.EncodeToString(value) + "'" }

// textLiteral returns SQL for a text. It writes texts with unprintable characters, or in other character sets, as
// bytes.
func textLiteral(charset string, value []byte) string {
	switch charset {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		if isPlain(value) {
			return quoteText(value)
		}
	}
	return "_" + charset + " " + bytesLiteral(value)
}

// isPlain reports whether a text is printable, so that it can be shown in a terminal.
func isPlain(value []byte) bool {
	if !utf8.Valid(value) {
		return false
	}
	for _, r := range string(value) {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// quoteText quotes a text for sessions with the mode NO_BACKSLASH_ESCAPES.
func quoteText(value []byte) string { return "'" + strings.ReplaceAll(string(value), "'", "''") + "'" }
