package apis_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The API server's cost limits for rules do not include the parsing of a quantity, although a quantity of ten bytes
// can take minutes to parse. Each rule must therefore match the quantity against a pattern first.

// TestRulesMatchFirst checks that each rule in a schema matches a quantity against a pattern before it parses it.
func TestRulesMatchFirst(t *testing.T) {
	read := 0
	for file, root := range schemas(t) {
		walk("", root, func(path string, s *extv1.JSONSchemaProps) {
			for _, r := range s.XValidations {
				unmatched, n := readsUnmatched(t, r.Rule)
				for _, operand := range unmatched {
					t.Errorf("%s: a rule of %q reads %s as a quantity and has not matched it before: whoever may write the field "+
						"can stop the API server\n%s", file, path, operand, r.Rule)
				}
				read += n
			}
		})
	}
	if read == 0 {
		t.Error("no rule reads any quantity: this test sees nothing")
	}
}

// TestReadsUnmatched tests the function readsUnmatched, on which TestRulesMatchFirst depends.
func TestReadsUnmatched(t *testing.T) {
	const good, open = `'^[0-9]{1,9}(e[0-9]{1,2})?$'`, `'^[0-9]+(e-?[0-9]+)?$'`
	cases := map[string]struct {
		reason string
		rule   string
		want   []string
	}{
		"Bare": {reason: "isQuantity also parses its operand.", rule: `isQuantity(self)`, want: []string{"self"}},
		"Matched": {reason: "If the pattern does not match, && does not evaluate its right side.",
			rule: `self.matches(` + good + `) && quantity(self).isGreaterThan(quantity('1Mi'))`},
		"Either": {reason: "If the negated pattern is true, || does not evaluate its right side.",
			rule: `!self.matches(` + good + `) || isQuantity(self)`},
		"Choice": {reason: "The second branch is evaluated if the pattern does not match.",
			rule: `self.matches(` + good + `) ? isQuantity(self) : isQuantity(self)`,
			want: []string{"self"}},
		"Late": {reason: "The left side, which parses the operand, is evaluated first.",
			rule: `isQuantity(self) && self.matches(` + good + `)`,
			want: []string{"self"}},
		"WrongWay": {reason: "The right side is evaluated only if the pattern does not match.",
			rule: `self.matches(` + good + `) || isQuantity(self)`,
			want: []string{"self"}},
		"Open": {reason: "The pattern accepts exponents of any length.",
			rule: `self.matches(` + open + `) && isQuantity(self)`,
			want: []string{"self"}},
		"Unanchored": {reason: "A pattern without anchors matches only a part of the text.",
			rule: `self.matches('[0-9]') && isQuantity(self)`,
			want: []string{"self"}},
		"Old": {reason: "A stored value must also be matched before it is parsed.", rule: `!self.a.matches(` + good +
			`) || quantity(self.a).compareTo(quantity(oldSelf.a)) >= 0`, want: []string{"oldSelf.a"}},
		"Chain": {reason: "All earlier operands of a chain must be considered.",
			rule: `!has(self.a) || !self.a.matches(` + good + `) || !oldSelf.a.matches(` + good +
				`) || quantity(self.a).compareTo(quantity(oldSelf.a)) >= 0`},
		"Other": {reason: "The pattern was matched against another operand.",
			rule: `self.b.matches(` + good + `) && isQuantity(self.a)`,
			want: []string{"self.a"}},
		"InAList": {reason: "A parsed operand must be found inside of a list macro.",
			rule: `[self].all(x, isQuantity(x))`, want: []string{"x"}},
		"MatchedList": {reason: "The items of a list may be matched in a list macro.",
			rule: `[self].all(x, x.matches(` + good +
				`) && isQuantity(x))`},
		"Computed": {reason: "An operand may be an expression.", rule: `(has(self.a) ? self.a : self.b).matches(` + good +
			`) && isQuantity(has(self.a) ? self.a : self.b)`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, _ := readsUnmatched(t, tc.rule); !slices.Equal(got, tc.want) {
				t.Errorf("%s\nwant %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// schemas returns the schemas of all installed CRDs and XRDs by file.
func schemas(t *testing.T) map[string]*extv1.JSONSchemaProps {
	t.Helper()
	backup := &extv1.CustomResourceDefinition{}
	read(t, "crd-backuprecords.yaml", backup)
	schemaOf := func(crd *extv1.CustomResourceDefinition) *extv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return map[string]*extv1.JSONSchemaProps{
		xrdMySQL: schemaOf(claimCRD(t, xrdMySQL)), xrdDatabase: schemaOf(claimCRD(t, xrdDatabase)),
		"crd-backuprecords.yaml": schemaOf(backup),
	}
}

// walk calls see for a schema and for all schemas inside it. In a path, [] stands for any key or item.
func walk(path string, s *extv1.JSONSchemaProps, see func(string, *extv1.JSONSchemaProps)) {
	see(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		child := s.Properties[name]
		walk(path+"."+name, &child, see)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", s.Items.Schema, see)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+"[]", s.AdditionalProperties.Schema, see)
	}
}

// operands are the operands of a rule that are known to match a pattern.
type operands map[string]bool

func (o operands) with(extra operands) operands {
	out := maps.Clone(o)
	maps.Copy(out, extra)
	return out
}

// A ruleReader visits a rule in the order of its evaluation.
type ruleReader struct {
	source *ast.SourceInfo
	// unmatched contains the operands that the rule parses without matching them first. reads is the number of all
	// parsed operands.
	unmatched []string
	reads     int
}

// readsUnmatched returns the operands that a rule parses as quantities although they may not match a pattern. It also
// returns the number of all parsed operands.
func readsUnmatched(t *testing.T, rule string) ([]string, int) {
	t.Helper()
	env, err := cel.NewEnv(cel.EnableMacroCallTracking())
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := env.Parse(rule)
	if issues.Err() != nil {
		t.Fatal(rule, issues.Err())
	}
	r := &ruleReader{source: parsed.NativeRep().SourceInfo()}
	r.visit(parsed.NativeRep().Expr(), operands{})
	return r.unmatched, r.reads
}

// visit visits an expression that is evaluated only if all operands in matched have matched a pattern.
func (r *ruleReader) visit(e ast.Expr, matched operands) {
	switch e.Kind() { //nolint:exhaustive // Other kinds contain no expressions.
	case ast.CallKind:
		r.visitCall(e.AsCall(), matched)
	case ast.SelectKind:
		r.visit(e.AsSelect().Operand(), matched)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			r.visit(item, matched)
		}
	case ast.MapKind:
		for _, item := range e.AsMap().Entries() {
			r.visit(item.AsMapEntry().Key(), matched)
			r.visit(item.AsMapEntry().Value(), matched)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.visit(part, matched)
		}
	}
}

func (r *ruleReader) visitCall(c ast.CallExpr, matched operands) {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		r.visit(args[0], matched)
		r.visit(args[1], matched.with(r.matched(args[0], true)))
		return
	case operators.LogicalOr:
		r.visit(args[0], matched)
		r.visit(args[1], matched.with(r.matched(args[0], false)))
		return
	case operators.Conditional:
		r.visit(args[0], matched)
		r.visit(args[1], matched.with(r.matched(args[0], true)))
		r.visit(args[2], matched.with(r.matched(args[0], false)))
		return
	case "isQuantity", "quantity":
		r.reads++
		if operand := r.text(args[0]); args[0].Kind() != ast.LiteralKind && !matched[operand] {
			r.unmatched = append(r.unmatched, operand)
		}
	}
	if c.IsMemberFunction() {
		r.visit(c.Target(), matched)
	}
	for _, a := range args {
		r.visit(a, matched)
	}
}

// matched returns the operands that must have matched a pattern if expression e evaluates to truth.
func (r *ruleReader) matched(e ast.Expr, truth bool) operands {
	if e.Kind() != ast.CallKind {
		return nil
	}
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.LogicalNot:
		return r.matched(c.Args()[0], !truth)
	case operators.LogicalAnd, operators.LogicalOr:
		if truth == (c.FunctionName() == operators.LogicalAnd) {
			return operands{}.with(r.matched(c.Args()[0], truth)).with(r.matched(c.Args()[1], truth))
		}
	case "matches":
		if pattern := c.Args()[0]; truth && pattern.Kind() == ast.LiteralKind &&
			refusesEndless(pattern.AsLiteral().Value().(string)) {
			return operands{r.text(c.Target()): true}
		}
	}
	return nil
}

// text returns the source code of an expression, which identifies an operand.
func (r *ruleReader) text(e ast.Expr) string {
	text, err := parser.Unparse(e, r.source)
	if err != nil {
		return "an operand that cannot be written: " + err.Error()
	}
	return text
}

// refusesEndless reports whether a pattern refuses numbers with an exponent of three or more digits.
func refusesEndless(pattern string) bool {
	p, err := regexp.Compile(pattern)
	return err == nil && !slices.ContainsFunc(endless(), p.MatchString)
}
