// Package steps has what decisions about an instance are made of: the actions, the step that one of them is, and the changes that
// several of them make. It decides nothing.
package steps
