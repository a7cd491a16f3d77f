// Package steps contains the parts of a decision about an instance: the actions, the step that describes one action,
// and the changes that several actions share. It contains no decisions.
package steps
