package lint

// RemovedVersions returns the API versions and kinds that are no longer served, with the release that
// removed them.
func RemovedVersions() map[string]string {
	since := map[string]string{}
	for old, p := range removedVersions {
		since[old] = p.release
	}
	return since
}
