package lint

// PastSince returns the API versions and kinds that are no longer served, with the release that
// removed them.
func PastSince() map[string]string {
	since := map[string]string{}
	for old, p := range versions {
		since[old] = p.since
	}
	return since
}
