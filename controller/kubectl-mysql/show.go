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

// listCommand is `kubectl mysql list`.
type listCommand struct {
	AllNamespaces bool `help:"Of all namespaces." short:"A"`
}

// Run it.
func (c *listCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
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

// statusCommand is `kubectl mysql status`.
type statusCommand struct {
	Name string `arg:"" help:"Name of the claim."`
}

// Run it.
func (c *statusCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
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

// show a summary.
func (s *session) show(of Summary) error {
	if s.json {
		return writeJSON(s.out, of)
	}
	return writeScreen(s.out, of, s.now())
}

func writeJSON(w io.Writer, what any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(what)
}

// writeTable of all, a line for each.
func writeTable(w io.Writer, all []Summary, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tNAME\tREADY\tIMAGE\tLAST-BACKUP\tMESSAGE") //nolint:errcheck // Flush says it.
	for i := range all {
		s := &all[i]
		last := "none"
		if s.Newest != nil && s.Newest.At != nil {
			last = ago(s.Newest.At.Time, now)
		}
		cells := []string{s.Namespace, s.Name, strconv.FormatBool(s.Ready), printable(s.Image), last, printable(s.Message)}
		fmt.Fprintln(t, strings.Join(cells, "\t")) //nolint:errcheck // Flush says it.
	}
	return t.Flush()
}

// writeScreen of one.
func writeScreen(w io.Writer, s Summary, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "%s %s/%s\n", s.Kind, s.Namespace, s.Name) //nolint:errcheck // Flush says it.
	for _, line := range s.lines(now) {
		fmt.Fprintf(t, "  %s\t%s\n", line[0], printable(line[1])) //nolint:errcheck // Flush says it.
	}
	return t.Flush()
}
