// Package webhook turns an AdmissionReview into the input of the policies, and their findings into warnings
// or, if configured, a refusal. Its own failure never refuses: the request is allowed, with a warning and a
// metric.
package webhook
