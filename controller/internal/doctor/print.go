package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// WriteJSON writes a report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes a report as text: a line for each instance, and its findings below.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	printFindings(&b, "", r.Cluster)
	rows := make([][]string, 0, len(r.Instances))
	for i := range r.Instances {
		rows = append(rows, r.Instances[i].tableColumns())
	}
	widths := columnWidths(rows)
	for i := range r.Instances {
		printLine(&b, rows[i], widths)
		printFindings(&b, "       ", r.Instances[i].Findings)
	}
	if len(r.Rest) > 0 {
		b.WriteString("Not part of an instance:\n")
		printFindings(&b, "", r.Rest)
	}
	fmt.Fprintf(&b, "instances: %d, wrong: %d, notes: %d\n", len(r.Instances), r.Count(Wrong), r.Count(Entry))
	_, err := io.WriteString(w, b.String())
	return err
}

// tableColumns returns the cells of an instance's line.
func (i *Instance) tableColumns() []string {
	return []string{string(i.Severity), i.Kind + " " + i.Namespace + "/" + i.Name, printable(i.State), i.Data.dataText(),
		i.Backups.backupsText()}
}

func (d *Data) dataText() string {
	if d == nil {
		return "no data volume"
	}
	finalizer := "no finalizer"
	if d.Finalizer {
		finalizer = "finalizer"
	}
	return fmt.Sprintf("data %s (%s, %s)", d.Volume, d.ReclaimPolicy, finalizer)
}

func (b Backups) backupsText() string {
	volumes := strings.Join(b.Volumes, " and ")
	if stores := strings.Join(b.Stores, " and "); stores != "" {
		volumes = strings.TrimPrefix(volumes+" and store "+stores, " and ")
	}
	switch {
	case b.Verified == 0 && volumes == "":
		return "backups: none yet"
	case b.Verified == 0:
		return "backups: none yet, volume " + volumes
	case volumes == "":
		volumes = "no volume"
	}
	return fmt.Sprintf("backups: %d verified, newest %s old, on %s", b.Verified, b.Newest, volumes)
}

// columnWidths returns the width of the widest cell of each column. The first column contains the severity.
func columnWidths(rows [][]string) []int {
	widths := []int{len(Wrong)}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	return widths
}

// printLine prints the cells of a line.
func printLine(b *strings.Builder, row []string, widths []int) {
	padded := make([]string, len(row))
	for i, cell := range row {
		padded[i] = fmt.Sprintf("%-*s", widths[i], cell)
	}
	b.WriteString(strings.TrimRight(strings.Join(padded, "  "), " ") + "\n")
}

func printFindings(b *strings.Builder, indent string, all []Finding) {
	for _, f := range all {
		fmt.Fprintf(b, "%s%-5s  %s\n", indent, f.Severity, printable(f.Text))
		if f.Advice != "" {
			fmt.Fprintf(b, "%s       do: %s\n", indent, printable(f.Advice))
		}
	}
}

// maxLine is the maximum length of a printed line in bytes.
const maxLine = 8 << 10

// printable removes control sequences, because users can write these texts, and a terminal would interpret them.
func printable(text string) string { return v1.PrintableText(text, maxLine) }
