//go:build race

package cluster

// raceDetector tells whether the race detector watches, under which everything
// takes many times as long.
const raceDetector = true
