// Package probe inspects a node for causes of stuck pods that the API does not show: files that cannot be
// removed, mounts in the way, processes that cannot be killed, a runtime that does not answer, file systems
// that are full or read-only.
//
// It only reads. It opens no file of a pod, follows no link, does not enter mounted file systems (a dead
// network file system would block it), and bounds the files, the time and the size of the report, which lists
// whatever was left out.
package probe
