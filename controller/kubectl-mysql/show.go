package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// listCommand implements `kubectl mysql list`, which prints one line for each instance.
type listCommand struct {
	AllNamespaces bool `help:"List the instances of all namespaces." short:"A"`
}

// Run prints a list of claims.
func (c *listCommand) Run(ctx context.Context, root *cli) error {
	s, err := root.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *listCommand) run(ctx context.Context, s *session) error {
	in := s.namespace
	if c.AllNamespaces {
		in = ""
	}
	claims, err := s.list(ctx, in)
	if err != nil {
		return err
	}
	all := make([]Summary, 0, len(claims))
	for _, claim := range claims {
		all = append(all, summarize(claim))
	}
	switch {
	case s.json:
		return writeJSON(s.out, all)
	case len(all) == 0 && !c.AllNamespaces:
		s.sayf("There is no %s in namespace %s.", s.kind.Kind, s.namespace)
		return nil
	}
	return writeTable(s.out, all, s.now())
}

// statusCommand implements `kubectl mysql status`, which prints the summary of one instance.
type statusCommand struct {
	Name string `arg:"" help:"Name of the instance."`
}

// Run prints the status of a claim.
func (c *statusCommand) Run(ctx context.Context, root *cli) error {
	s, err := root.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *statusCommand) run(ctx context.Context, s *session) error {
	claim, err := s.find(ctx, c.Name)
	if err != nil {
		return err
	}
	return s.show(summarize(claim))
}

// show prints the summary of an instance as text or as JSON.
func (s *session) show(summary Summary) error {
	if s.json {
		return writeJSON(s.out, summary)
	}
	return writeScreen(s.out, summary, s.now())
}

func writeJSON(w io.Writer, payload any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(payload)
}

// writeTable prints summaries as a table, one line each.
func writeTable(w io.Writer, all []Summary, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tNAME\tREADY\tIMAGE\tLAST-BACKUP\tMESSAGE") //nolint:errcheck // Flush returns the error.
	for i := range all {
		s := &all[i]
		last := "none"
		if s.Newest != nil && s.Newest.At != nil {
			last = ago(s.Newest.At.Time, now)
		}
		cells := []string{s.Namespace, s.Name, strconv.FormatBool(s.Ready), printable(s.Image), last, printable(s.Message)}
		fmt.Fprintln(t, strings.Join(cells, "\t")) //nolint:errcheck // Flush returns the error.
	}
	return t.Flush()
}

// writeScreen prints the summary of one instance, with one line for each part.
func writeScreen(w io.Writer, s Summary, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "%s %s/%s\n", s.Kind, s.Namespace, s.Name) //nolint:errcheck // Flush returns the error.
	for _, line := range s.lines(now) {
		fmt.Fprintf(t, "  %s\t%s\n", line[0], printable(line[1])) //nolint:errcheck // Flush returns the error.
	}
	return t.Flush()
}
