// Package webhook turns an AdmissionReview into the input of the policies, and their findings into warnings
// or, if configured, a refusal.
//
// It never refuses because of its own failure: then the request is allowed, with a warning and a metric.
package webhook
