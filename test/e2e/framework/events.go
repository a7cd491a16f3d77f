package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventSender is the reporting controller in the events that the controller sends.
const eventSender = "crossplane-mysql"

// HasEvent waits for an event of the claim whose message contains the text.
func (s *Server) HasEvent(t *testing.T, text string) {
	t.Helper()
	s.findEvent(t, text, func(e *corev1.Event) bool { return strings.Contains(e.Message, text) })
}

// ControllerSays waits for an event of the product's controller whose message contains the text.
func (s *Server) ControllerSays(t *testing.T, text string) {
	t.Helper()
	s.findEvent(t, text, func(e *corev1.Event) bool {
		return e.ReportingController == eventSender && strings.Contains(e.Message, text)
	})
}

// findEvent waits for an event about the claim for which like returns true.
func (s *Server) findEvent(t *testing.T, subject string, like func(*corev1.Event) bool) {
	t.Helper()
	Eventually(t, "an event", func(ctx context.Context) error {
		list := &corev1.EventList{}
		if err := Suite.Kube.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.Name == s.Name && like(e) {
				return nil
			}
		}
		return fmt.Errorf("none of %d has %q in it", len(list.Items), subject)
	})
}

// eventReasons matches the event reasons that the API package declares.
var eventReasons = regexp.MustCompile(`EventReason = "(\w+)"`)

// documentedEventsOnly checks that the API package declares the reason of every event that the controller has sent.
func documentedEventsOnly(t *testing.T, namespace string) {
	t.Helper()
	api, err := os.ReadFile(filepath.Join(Repository(), "apis", "v1", "events.go"))
	if err != nil {
		t.Error(err)
		return
	}
	documented := map[string]bool{}
	for _, m := range eventReasons.FindAllStringSubmatch(string(api), -1) {
		documented[m[1]] = true
	}
	list := &corev1.EventList{}
	if err := Suite.Kube.List(context.WithoutCancel(t.Context()), list, client.InNamespace(namespace)); err != nil {
		t.Error(err)
		return
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.ReportingController == eventSender && !documented[e.Reason] {
			t.Errorf("%s of %s %q is no event of the API: %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
}

// HasEvents waits until the controller has sent an event about the claim for each of the given reasons.
func (s *Server) HasEvents(t *testing.T, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		s.findEvent(t, reason, func(e *corev1.Event) bool {
			return e.ReportingController == eventSender && e.Reason == reason
		})
	}
}
