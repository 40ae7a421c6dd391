// Package webhook answers the API server's question whether a delete, an
// eviction or an edit of finalizers may go ahead: it turns an AdmissionReview
// into the input of the policies, and their findings into warnings or, where
// that is asked for, a refusal.
//
// It never refuses because something is wrong with itself: then the request is
// allowed, with a warning and a metric.
package webhook
