package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
)

// refreshOwnPods marks the webhooks that see the creation of the pods that they
// run in themselves: once all of them are gone, none can come back.
func (w *World) refreshOwnPods() {
	if !w.hooksDirty && len(w.touched) == 0 {
		return
	}
	for key, h := range w.hooks {
		facts, _ := lookup(w.doc, "webhooks", key).(map[string]any)
		if facts == nil {
			continue
		}
		delete(facts, "ownPods")
		if sure := w.seesOwnPods(h); sure != no {
			facts["ownPods"] = map[certainty]string{may: "may", will: "will"}[sure]
		}
	}
}

func (w *World) seesOwnPods(h *hook) certainty {
	service, found := w.services[h.backend.service]
	if !found || len(service.selector) == 0 {
		return no
	}
	namespace := namespaceOf(h.backend.service)
	selected, sure := labels.SelectorFromSet(service.selector), no
	for _, pod := range w.templates[namespace] {
		if !selected.Matches(labels.Set(pod)) || !h.objects.Matches(labels.Set(pod)) {
			continue
		}
		seen, _ := h.sees(admission.Create, corev1.SchemeGroupVersion.WithResource("pods"), "", namespace, w.namespaceLabels[namespace], nil)
		if seen == may && len(h.names) == 0 { // it looks at the object, which is known
			seen = will
		}
		sure = max(sure, seen)
	}
	return sure
}
