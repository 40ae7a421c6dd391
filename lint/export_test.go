package lint

// PastSince are the API versions and kinds that are served no longer, and since which
// release.
func PastSince() map[string]string {
	since := map[string]string{}
	for old, p := range versions {
		since[old] = p.since
	}
	return since
}
