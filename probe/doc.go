// Package probe looks at one node for what keeps pods from going and the API does
// not show: files that nobody can remove, mounts in the way, processes that cannot be
// killed, a runtime that does not answer, file systems that are full or read-only.
//
// It only looks. It opens no file of a pod and reads none, follows no link, does not
// cross into a mounted file system (a dead network file system would hold it), and is
// bounded in files, in time and in what it reports; what it leaves out, it says.
package probe
